//! Dead letters of relays: messages that were given up before they left their outbox. They go by their ids, and are
//! reached while relays run.

mod order;
mod selection;

pub(super) use order::Order;
pub(crate) use order::{OrderedLetters, consequence, line, plan_of};
pub(crate) use selection::ids;
pub(super) use selection::{Meant, meant, search};

use std::collections::BTreeSet;

use semel_backends::{outbox, store};
use semel_config::RelaySettings;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::outbox::operations::OutboxOperations;
use semel_core::{Clock, Result, Timestamp};
use semel_engine::system::SystemClock;
use semel_operate::relative_time::when;
use semel_operate::relays::{RelayDeadLetter, Search, WholeRelayDeadLetter};
use serde::Serialize;

use super::listing::Listed;
use crate::Exit;
use crate::args::{Format, Listing};
use crate::command::keys::describe_bytes;
use crate::command::operate::{self, usage};
use crate::output::{self, Answer, Answers, Block, Go, List, Stream};

/// Lists the dead letters of these relays.
pub(super) fn list(relays: &[RelaySettings], listing: &Listing) -> Result<Exit> {
    operate::alone(async || {
        let mut list = List::new(listing);
        let listed = push_all(relays, &mut list).await;
        list.end()?;
        listed.map(|()| Exit::Done)
    })
}

/// Adds the dead letters of these relays to a list.
pub(super) async fn push_all(relays: &[RelaySettings], list: &mut List<Listed>) -> Result<()> {
    for relay in relays {
        let mut is_over = false;
        pages(relay, &Search::default(), async |found| {
            for it in found {
                let letter = RelayDeadLetter::of(&relay.name, &relay.stream, it);
                if list.push(&Listed::OfRelay(letter))?.is_break() {
                    is_over = true;
                    return Ok(Go::Break(()));
                }
            }
            let go = list.pause()?;
            is_over = go.is_break();
            Ok(go)
        })
        .await?;
        if is_over {
            break;
        }
    }
    Ok(())
}

/// Shows dead letters with their headers and payloads; with `payload` only the bytes of the one.
pub(super) fn show(
    relays: &[RelaySettings],
    ids: &BTreeSet<OutboxId>,
    format: Format,
    payload: bool,
) -> Result<Exit> {
    operate::alone(async || {
        let mut answers = Answers::new(format);
        let now = SystemClock::new().now();
        let mut unknown = ids.clone();
        for relay in relays {
            let outbox = open(relay)?;
            for id in ids {
                let whole = outbox.dead_whole(&relay.stream, *id).await;
                let Some(whole) = whole.map_err(|error| at(relay, error))? else {
                    continue;
                };
                unknown.remove(id);
                let go = if payload {
                    let mut stdout = Stream::stdout();
                    let _ = stdout.write(&whole.message.payload)?;
                    stdout.flush()?
                } else {
                    let whole = WholeRelayDeadLetter::of(&relay.name, &relay.stream, &whole);
                    answers.print(&ToldLetter::of(whole, now))?
                };
                if go.is_break() {
                    return Ok(Exit::Done);
                }
            }
        }
        Ok(if tell_unknown(relays, &unknown) {
            Exit::No
        } else {
            Exit::Done
        })
    })
}

/// Reports ids that no relay has a dead letter of; returns whether there are any.
fn tell_unknown(relays: &[RelaySettings], unknown: &BTreeSet<OutboxId>) -> bool {
    let of = match relays {
        [one] => format!(" of relay {}", one.name),
        _ => " of a relay".to_owned(),
    };
    for id in unknown {
        output::note(format_args!("{id}: no dead letter{of} has this id"));
    }
    !unknown.is_empty()
}

/// Passes the selected dead letters of a relay to `visit`.
async fn pages(
    relay: &RelaySettings,
    search: &Search,
    visit: impl AsyncFnMut(Vec<semel_core::port::outbox::operations::DeadMessage>) -> Result<Go>,
) -> Result<()> {
    let outbox = open(relay)?;
    let passed = search.pages(&outbox, &relay.stream, visit).await;
    passed.map_err(|error| at(relay, error))
}

fn open(relay: &RelaySettings) -> Result<AnyOutbox> {
    outbox::open(&relay.store).map_err(|error| at(relay, error))
}

/// Returns the error with the place of the relay's outbox.
fn at(relay: &RelaySettings, error: semel_core::Error) -> semel_core::Error {
    store::at_store(&relay.store, error)
}

/// A dead letter as it is printed.
#[derive(Serialize)]
pub(crate) struct ToldLetter<'a> {
    #[serde(flatten)]
    whole: WholeRelayDeadLetter<'a>,
    #[serde(skip)]
    since_text: String,
}

impl<'a> ToldLetter<'a> {
    /// Lays out a dead letter as it is at the time `now`.
    pub(crate) fn of(whole: WholeRelayDeadLetter<'a>, now: Timestamp) -> Self {
        let since_text = when(whole.letter.since.0, now).to_string();
        Self { whole, since_text }
    }
}

impl Answer for ToldLetter<'_> {
    fn describe(&self, block: &mut Block) {
        let WholeRelayDeadLetter {
            letter,
            headers,
            headers_error,
            ..
        } = &self.whole;
        block
            .field("id", &letter.id)
            .field("relay", &letter.relay)
            .field("stream", &letter.stream)
            .some("order key", letter.order_key.as_ref())
            .field("state", &letter.state)
            .field("since", &self.since_text)
            .field("written", letter.created_at.0)
            .field("attempts", letter.attempts)
            .field("error", &letter.error)
            .some("headers", headers_error.as_ref())
            .field("size", format_args!("{} bytes", letter.size_bytes));
        let (payload, withheld) = (self.whole.payload(), self.whole.withheld);
        describe_bytes("payload", payload, withheld, block);
        if !headers.is_empty() {
            block.heading("Headers");
            for header in headers {
                match (&header.value, &header.value_base64) {
                    (Some(value), _) => block.field(&header.name, value),
                    (None, Some(value)) => block.field(&header.name, value),
                    (None, None) => block,
                };
            }
        }
    }
}

/// Refuses what a person who means relays cannot mean.
fn one_relay_each(id: OutboxId) -> semel_core::Error {
    usage(format!(
        "{id}: several relays have a dead letter of this id; name one with --relay"
    ))
}
