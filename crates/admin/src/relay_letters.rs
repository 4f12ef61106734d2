//! Dead letters of relays: in lists without their payloads, and one as a whole. They are in the outboxes, and go by the ids
//! of their messages there.

use axum::http::StatusCode;
use bytes::Bytes;
use semel_config::suggestion;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::outbox::operations::{
    DeadMessage, DeadPosition, MOST_ORDERED, OutboxOperations,
};
use semel_core::port::store::Page;
use semel_core::{Clock, Code, Error, Result as StoreResult};
use semel_http::Problem;
use semel_operate::parked::Filter;
use semel_operate::relays::{RelayDeadLetter, WholeRelayDeadLetter};
use serde::{Deserialize, Serialize};

use crate::answer::text;
use crate::page::{Cursor, List};
use crate::parked::sees_payloads;
use crate::query::{Query, invalid};
use crate::reading::{Readings, Subject};
use crate::settings::{RelayPlace, Settings};

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &[
    "relay",
    "id",
    "older_than",
    "reason_like",
    "limit",
    "cursor",
];

/// The members that a query about one message may have.
pub(crate) const NAMED: &[&str] = &["id", "relay"];

/// Lists dead letters: a page of `semel dead-letters list --relay NAME`, or of those of all relays, one after the other.
pub(crate) async fn list(
    readings: &Readings,
    settings: &Settings,
    clock: &dyn Clock,
    query: &Query,
) -> Result<List<RelayDeadLetter>, Problem> {
    // They have messages of every tenant.
    query.sees_everything()?;
    let relays = chosen(settings, query.text("relay"))?;
    let id = query.text("id").map(|id| read_id(id, "id")).transpose()?;
    let (older_than, like) = (
        query.duration("older_than")?,
        query.short_text("reason_like")?,
    );
    let filter = Filter::new(older_than, like, clock.now());
    let cursor = Cursor::read("relay-dead-letters", query)?;
    let reading = readings.begin().await?.of(Subject::Outboxes);
    let fetch = |after: Option<Bytes>, limit| page(&relays, id, after, limit);
    let entry = |(relay, message): (&RelayPlace, DeadMessage)| {
        let is_meant = filter.fits(message.dead_at, &[&message.error]);
        is_meant.then(|| RelayDeadLetter::of(&relay.name, &relay.stream, message))
    };
    cursor.fill(&reading, fetch, entry).await
}

/// Shows one dead letter as a whole: that of `semel dead-letters show --relay NAME`, without what the caller may not see.
pub(crate) async fn show(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<Vec<u8>, Problem> {
    query.sees_everything()?;
    let id = query.text("id").unwrap_or_default();
    let id = read_id(id, "id")?;
    let relays = chosen(settings, query.text("relay"))?;
    let reading = readings.begin().await?.of(Subject::Outboxes);
    let mut found = None;
    for relay in relays {
        let outbox = outbox_of(relay)?;
        let whole = outbox.dead_whole(&relay.stream, id);
        let whole = reading.within(async { whole.await.map_err(|it| at(relay, it)) });
        if let Some(whole) = whole.await? {
            if found.is_some() {
                return Err(several(id));
            }
            found = Some((relay, whole));
        }
    }
    let Some((relay, whole)) = found else {
        let detail = "no dead letter of a relay has this id; perhaps it was let go meanwhile";
        let code = Code::MessageUnknown.as_str();
        return Err(Problem::new(StatusCode::NOT_FOUND, code, detail));
    };
    let letter = WholeRelayDeadLetter::of(&relay.name, &relay.stream, &whole);
    let letter = letter.masked(&settings.console.mask);
    if sees_payloads(&query.caller, settings) {
        text(&letter)
    } else {
        text(&letter.without_payload())
    }
}

/// The place behind which a page begins.
#[derive(Serialize, Deserialize)]
struct Behind {
    relay: Box<str>,
    /// A position in the list of the relay; none at its beginning.
    position: Option<Position>,
}

#[derive(Serialize, Deserialize)]
struct Position {
    order_key: Option<String>,
    place: i64,
    id: String,
}

impl Position {
    fn of(position: &DeadPosition) -> Self {
        Self {
            order_key: position.order_key.as_ref().map(|it| (**it).to_owned()),
            place: position.place,
            id: position.id.to_string(),
        }
    }

    fn read(self) -> Option<DeadPosition> {
        Some(DeadPosition {
            order_key: self.order_key.map(Into::into),
            place: self.place,
            id: self.id.parse().ok()?,
        })
    }
}

/// Returns a page of the dead letters of these relays, or those with an id. It ends with its relay.
async fn page<'r>(
    relays: &[&'r RelayPlace],
    id: Option<OutboxId>,
    after: Option<Bytes>,
    limit: usize,
) -> StoreResult<Page<(&'r RelayPlace, DeadMessage)>> {
    let mut items = Vec::new();
    if let Some(id) = id {
        for relay in relays {
            let found = outbox(relay)?.dead_whole(&relay.stream, id).await;
            let found = found.map_err(|it| at(relay, it))?;
            items.extend(found.map(|it| (*relay, it.facts)));
        }
        return Ok(Page { items, next: None });
    }
    let behind = after.and_then(|it| serde_json::from_slice::<Behind>(&it).ok());
    let begin = behind.as_ref().map(|it| it.relay.clone());
    let begin = begin.unwrap_or_default();
    let mut rest = relays.iter().skip_while(|it| it.name < begin);
    let Some(relay) = rest.next() else {
        return Ok(Page { items, next: None });
    };
    // Another configuration has perhaps no relay of this name.
    let there = behind.filter(|it| it.relay == relay.name);
    let after = there.and_then(|it| it.position?.read());
    let most = u32::try_from(limit.min(MOST_ORDERED)).unwrap_or(u32::MAX);
    let dead = outbox(relay)?
        .dead(&relay.stream, after.as_ref(), most)
        .await;
    let dead = dead.map_err(|it| at(relay, it))?;
    let last = dead.last().map(DeadMessage::position);
    items.extend(dead.into_iter().map(|it| (*relay, it)));
    // An order key that is no text has a position that is not its own.
    let next = match last.filter(|it| after.as_ref() != Some(it)) {
        Some(last) => Some(Behind {
            relay: relay.name.clone(),
            position: Some(Position::of(&last)),
        }),
        None => rest.next().map(|next| Behind {
            relay: next.name.clone(),
            position: None,
        }),
    };
    let next = next.and_then(|it| serde_json::to_vec(&it).ok());
    Ok(Page {
        items,
        next: next.map(Bytes::from),
    })
}

/// Returns the relay that is named, else all.
///
/// # Errors
///
/// 400: the worker has none of this name
pub(crate) fn chosen<'s>(
    settings: &'s Settings,
    name: Option<&str>,
) -> Result<Vec<&'s RelayPlace>, Problem> {
    let relays = settings.relays.iter();
    let Some(name) = name else {
        return Ok(relays.collect());
    };
    let found: Vec<_> = relays.filter(|it| *it.name == *name).collect();
    if found.is_empty() {
        let known: Vec<&str> = settings.relays.iter().map(|it| &*it.name).collect();
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            suggestion(name, &known)
        };
        return Err(invalid(
            "relay",
            format!("the worker has no relay `{name}`; {known}"),
        ));
    }
    Ok(found)
}

/// Returns the outbox of a relay.
///
/// # Errors
///
/// 501: this program knows none of that kind
pub(crate) fn outbox_of(relay: &RelayPlace) -> Result<&AnyOutbox, Problem> {
    outbox(relay).map_err(|error| Problem::from(&error))
}

fn outbox(relay: &RelayPlace) -> StoreResult<&AnyOutbox> {
    relay.outbox.as_ref().ok_or_else(|| {
        let message = format!(
            "relay {}: this program knows no outbox of that kind",
            relay.name
        );
        Error::new(semel_core::ErrorKind::Unsupported, message).not_applied()
    })
}

/// Returns the failure of an outbox with the name of its relay.
pub(crate) fn at(relay: &RelayPlace, error: Error) -> Error {
    let is_applied = error.certainty() == semel_core::Certainty::MaybeApplied;
    let message = format!("relay {}: {error}", relay.name);
    let told = Error::new(error.kind(), message)
        .with_code(error.code())
        .with_source(error);
    if is_applied {
        told.maybe_applied()
    } else {
        told.not_applied()
    }
}

/// Reads the id of a message in an outbox.
pub(crate) fn read_id(text: &str, member: &'static str) -> Result<OutboxId, Problem> {
    text.parse().map_err(|why| {
        let detail =
            format!("a dead letter of a relay goes by the id of its message, and this is {why}");
        invalid(member, detail)
    })
}

/// The problem of an id that several relays have.
pub(crate) fn several(id: OutboxId) -> Problem {
    let detail = format!("several relays have a dead letter of the id {id}; name one");
    invalid("relay", detail)
}
