//! Messages that were set aside: dead letters and quarantine, in lists without their payloads, and one as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use semel_core::{Clock, Code, ParkedId};
use semel_http::{Caller, Problem, Role};
use semel_operate::parked::{Filter, Found, Names, Search, WholeMessage};
use semel_worker::replay::Kind;

use crate::answer::text;
use crate::page::{Cursor, List};
use crate::query::{Query, invalid};
use crate::reading::Readings;
use crate::settings::Settings;

/// The members that a query may have.
pub(crate) const MEMBERS: &[&str] = &[
    "pipeline",
    "tenant",
    "key",
    "older_than",
    "reason_like",
    "limit",
    "cursor",
];

/// The members that a query about one message may have.
pub(crate) const NAMED: &[&str] = &["id", "pipeline", "tenant"];

/// Lists messages of a kind: a page of `semel dead-letters list` or `semel quarantine list`.
pub(crate) async fn list<E: From<Found>>(
    readings: &Readings,
    clock: &dyn Clock,
    query: &Query,
    kind: Kind,
) -> Result<List<E>, Problem> {
    let (older_than, like) = (
        query.duration("older_than")?,
        query.short_text("reason_like")?,
    );
    let key = query.key("key")?;
    let search = Search {
        kind,
        within: query.within()?,
        names: Arc::new(key.map_or_else(Names::default, |key| Names::keys(vec![key]))),
        filter: Filter::new(older_than, like, clock.now()),
    };
    let name = match kind {
        Kind::DeadLetters => "dead-letters",
        Kind::InDoubt => "in-doubt",
        Kind::Quarantined => "quarantine",
    };
    let cursor = Cursor::read(name, query)?;
    let reading = readings.begin().await?;
    let fetch = |after, limit| {
        let (store, search) = (reading.store.clone(), search.clone());
        async move { search.page(&store, after, limit).await }
    };
    cursor
        .fill(&reading, fetch, |found| Some(E::from(found)))
        .await
}

/// Shows one message of a kind as a whole: that of `semel dead-letters show` or `semel quarantine show`, without what
/// the caller may not see.
pub(crate) async fn show(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
    kind: Kind,
) -> Result<Vec<u8>, Problem> {
    let id = query.text("id").unwrap_or_default();
    let id = message_id(id)
        .ok_or_else(|| invalid("id", "name the id of a message, as lists show it"))?;
    let search = Search {
        kind,
        within: query.within()?,
        names: Arc::new(Names::ids(BTreeSet::from([id]))),
        filter: Filter::default(),
    };
    let reading = readings.begin().await?;
    let mut after = None;
    loop {
        let page = search.page(&reading.store, after, usize::MAX);
        let page = reading.within(page).await?;
        if let Some(found) = page.items.first() {
            let message = WholeMessage::of(found, kind).masked(&settings.console.mask);
            return if sees_payloads(&query.caller, settings) {
                text(&message)
            } else {
                text(&message.without_payload())
            };
        }
        after = page.next;
        if after.is_none() {
            break;
        }
        // Whatever else waits for the store comes first.
        tokio::task::yield_now().await;
    }
    let detail = "no message of this kind has this id; perhaps it was let go meanwhile";
    let code = Code::MessageUnknown.as_str();
    Err(Problem::new(StatusCode::NOT_FOUND, code, detail))
}

/// Tells whether a caller sees the payloads of messages, and the bytes of outcomes.
pub(crate) fn sees_payloads(caller: &Caller, settings: &Settings) -> bool {
    settings.console.viewers_see_payloads || caller.may(Role::Operator).is_ok()
}

/// Reads the id of a message.
pub(crate) fn message_id(text: &str) -> Option<ParkedId> {
    let is_id =
        text.len() == 2 * size_of::<u128>() && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_id);
    number.map(|it| ParkedId::from_bytes(it.to_be_bytes()))
}
