//! Dead letters of relays: messages that were given up before they left their outbox. They go by their ids, and are
//! reached while relays run.

mod order;
mod selection;

pub(super) use order::Order;
pub(crate) use order::{OrderedLetters, consequence, line, plan_of};
pub(super) use selection::{Meant, meant, search};
pub(crate) use selection::{NamedIds, ids};

use std::collections::BTreeSet;

use semel_backends::{outbox, store};
use semel_config::RelaySettings;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::outbox::operations::OutboxOperations;
use semel_core::{Clock, Result};
use semel_engine::system::SystemClock;
use semel_operate::relays::{RelayDeadLetter, Search, WholeRelayDeadLetter};
use semel_render::reports::parked::Listed;
use semel_render::reports::relays::ShownDeadLetter;

use crate::Exit;
use crate::args::{Format, Listing};
use crate::command::operate::{self, usage};
use crate::output::{self, Answers, Go, List, Stream};

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
                    answers.print(&ShownDeadLetter::of(whole, now))?
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

/// Refuses what a person who means relays cannot mean.
fn one_relay_each(id: OutboxId) -> semel_core::Error {
    usage(format!(
        "{id}: several relays have a dead letter of this id; name one with --relay"
    ))
}
