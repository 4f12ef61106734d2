//! Plans of orders about dead letters of relays: they are tried again in their places, or dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::Timestamp;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::operations::{
    DeadMessage, DeadOrder, DeadPosition, OutboxOperations,
};
use semel_http::Problem;
use semel_operate::order::Left;
use semel_operate::parked::Filter;
use semel_operate::relays::RelayDeadLetter;

use super::letter::Letter;
use super::plan::{Change, Digest, Plan, Work};
use super::selection::{LetterSelection, WhichLetters};
use super::{Bounds, MOST_CHANGES};
use crate::reading::Reading;
use crate::relay_letters::{at, chosen, outbox_of, several};
use crate::settings::{RelayPlace, Settings};

/// The dead letters of a plan, the oldest of all relays.
#[derive(Default)]
struct Oldest {
    /// By their times, the places of their relays, and their ids.
    found: BTreeMap<(Timestamp, usize, OutboxId), (RelayDeadLetter, Letter)>,
    has_more: bool,
}

impl Oldest {
    fn keep(&mut self, place: usize, relay: &RelayPlace, message: DeadMessage) {
        let letter = Letter::of(relay, &message);
        let key = (message.dead_at, place, message.id);
        let entry = RelayDeadLetter::of(&relay.name, &relay.stream, message);
        self.found.insert(key, (entry, letter));
        if self.found.len() > MOST_CHANGES {
            self.found.pop_last();
            self.has_more = true;
        }
    }

    /// Goes through the dead letters of a relay, page by page.
    async fn keep_all(
        &mut self,
        reading: &Reading,
        (place, relay): (usize, &RelayPlace),
        filter: &Filter,
    ) -> Result<(), Problem> {
        let outbox = outbox_of(relay)?;
        // MySQL reads all of them for each page.
        let most = u32::try_from(MOST_CHANGES).unwrap_or(u32::MAX);
        let mut after: Option<DeadPosition> = None;
        loop {
            let page = async {
                let page = outbox.dead(&relay.stream, after.as_ref(), most).await;
                page.map_err(|it| at(relay, it))
            };
            let page = reading.within(page).await?;
            let last = page.last().map(DeadMessage::position);
            // An order key that is no text has a position that is not its own.
            if last.is_none() || last == after {
                return Ok(());
            }
            after = last;
            for message in page {
                if filter.fits(message.dead_at, &[&message.error]) {
                    self.keep(place, relay, message);
                }
            }
            // Whatever else waits comes first.
            tokio::task::yield_now().await;
        }
    }
}

/// Makes the plan of an order about dead letters of relays.
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    order: DeadOrder,
    selection: &LetterSelection,
    bounds: Bounds,
) -> Result<Plan, Problem> {
    let relays = chosen(settings, selection.relay.as_deref())?;
    let (mut oldest, mut left, mut until) = (Oldest::default(), Vec::new(), None);
    match &selection.which {
        WhichLetters::Ids(ids) => {
            for id in ids {
                let mut is_met = false;
                for (place, relay) in relays.iter().enumerate() {
                    let outbox = outbox_of(relay)?;
                    let whole = async {
                        let whole = outbox.dead_whole(&relay.stream, *id).await;
                        whole.map_err(|it| at(relay, it))
                    };
                    let Some(whole) = reading.within(whole).await? else {
                        continue;
                    };
                    if is_met {
                        return Err(several(*id));
                    }
                    is_met = true;
                    oldest.keep(place, relay, whole.facts);
                }
                if !is_met {
                    left.push(Left::id(&id.to_string(), UNKNOWN));
                }
            }
        }
        WhichLetters::All {
            older_than,
            reason_like,
        } => {
            let before = bounds.until.or(older_than.map(|age| bounds.at.minus(age)));
            let age = before.map(|_| Duration::ZERO);
            let now = before.unwrap_or(bounds.at);
            let filter = Filter::new(age, reason_like.as_deref(), now);
            for (place, relay) in relays.iter().enumerate() {
                oldest.keep_all(reading, (place, relay), &filter).await?;
            }
            until = oldest.found.last_key_value().map(|((at, ..), _)| *at);
        }
    }
    let Oldest { found, has_more } = oldest;
    let mut digest = Digest::default();
    let mut planned: Vec<_> = found.into_iter().collect();
    planned.sort_by_key(|((at, place, id), _)| (*place, *at, *id));
    let planned = planned.into_iter().map(|(_, (entry, letter))| {
        let Letter {
            relay,
            id,
            dead_at,
            attempts,
        } = &letter;
        digest.text(&format!(
            "{} {id} {} {attempts} {order:?}",
            relay.name,
            dead_at.as_millis()
        ));
        (Change::RelayDeadLetter(Box::new(entry)), letter)
    });
    let (changes, letters): (Vec<_>, Vec<_>) = planned.unzip();
    Ok(Plan {
        at: bounds.at,
        until,
        changes,
        left,
        is_whole: !has_more,
        digest: digest.finish(),
        work: Work::Letters(order, letters),
    })
}

const UNKNOWN: &str = "no dead letter of a relay has this id";
