//! Messages that go out to a broker: a message as it came and an id that is the same at every try; a dead letter also
//! has headers that name its origin. Not for sending them.

use std::fmt::Write;

use bytes::Bytes;
use semel_core::port::sink::Publication;
use semel_core::trace_context::{TRACEPARENT, TRACESTATE};
use semel_core::{ByteString, Carried, Operation, Parked, Record, State, Timestamp, TraceContext};

use crate::effect::Call;

/// Of a dead letter: the operation name, which is the pipeline's.
pub const OPERATION: &str = "semel-operation";
/// Of a dead letter: the tenant, if the operation has one.
pub const TENANT: &str = "semel-tenant";
/// Of a dead letter: the id of the operation, 64 hexadecimal digits.
pub const OPERATION_ID: &str = "semel-operation-id";
/// Of a dead letter: the place where the message was read.
pub const ORIGIN: &str = "semel-origin";
/// Of a dead letter: the key.
pub const KEY: &str = "semel-key";
/// Of a dead letter: the end of the last attempt, as named by [`AttemptEnd::as_str`](semel_core::AttemptEnd::as_str);
/// `dead` if it is no longer known.
pub const REASON: &str = "semel-reason";
/// Of a dead letter: the error of the last attempt.
pub const ERROR: &str = "semel-error";
/// Of a dead letter: the count of its attempts.
pub const ATTEMPTS: &str = "semel-attempts";
/// Of a dead letter: the time of the first claim of its key, in milliseconds since 1970.
pub const FIRST_SEEN: &str = "semel-first-seen";
/// Of a dead letter: the time at which it was given up, in milliseconds since 1970.
pub const FAILED_AT: &str = "semel-failed-at";

/// Of a message that was set aside: the key that a person gave it. It is heeded where the message is kept under this very
/// key, and in no other: what a producer writes into it changes nothing.
pub const GIVEN_KEY: &str = "semel-given-key";

/// Returns the message of a call, as its effect publishes it.
///
/// Its id is the operation's idempotency key, or empty if it is not sent, and its order is the key: every copy, of
/// whichever attempt, has the same id and order. The record of the key tells everything else about it.
pub fn of_call(call: &Call, sends_id: bool) -> Publication {
    let operation = &call.claim.operation;
    let carried = call.headers.iter();
    let carried = carried.filter(|(name, _)| !ADDED.contains(&&**name) && !is_ours(name));
    let carried = carried.cloned().collect();
    Publication {
        id: if sends_id {
            call.idempotency_key().into()
        } else {
            Box::default()
        },
        order: Some(operation.key.clone().into_bytes()),
        payload: call.payload.clone(),
        headers: match call.span {
            Some(span) => in_span(carried, span),
            None => carried,
        },
    }
}

/// Returns the headers of a message that is published in this span: the state of the trace goes along if the message
/// belonged to it.
pub(crate) fn in_span(
    mut headers: Vec<(ByteString, Bytes)>,
    span: TraceContext,
) -> Vec<(ByteString, Bytes)> {
    let is_continued = Carried::of(&headers).is_some();
    headers.retain(|(name, _)| {
        let is_state = name.eq_ignore_ascii_case(TRACESTATE);
        !name.eq_ignore_ascii_case(TRACEPARENT) && (is_continued || !is_state)
    });
    headers.push((TRACEPARENT.into(), span.to_string().into()));
    headers
}

/// Returns the copy of a message whose operation is dead; `record` is that operation's, if it is still there.
pub(crate) fn of_dead(
    operation: &Operation,
    parked: &Parked,
    record: Option<&Record>,
) -> Publication {
    let record_key = parked.headers.iter().find(|(name, _)| &**name == ADDED[0]);
    let order = record_key.map_or_else(
        || operation.key.clone().into_bytes(),
        |(_, key)| key.clone(),
    );
    let mut headers = foreign(&parked.headers);
    headers.extend(dead(operation, parked, record));
    Publication {
        id: format!("dead-{}", operation.id()).into(),
        order: Some(order),
        payload: parked.payload.clone(),
        headers,
    }
}

/// Returns the same with Semel's own headers alone, for a broker that cannot carry the others.
pub(crate) fn bare(publication: &Publication) -> Publication {
    let ours = |(name, _): &&(ByteString, Bytes)| is_ours(name);
    Publication {
        headers: publication.headers.iter().filter(ours).cloned().collect(),
        ..publication.clone()
    }
}

fn dead(
    operation: &Operation,
    parked: &Parked,
    record: Option<&Record>,
) -> Vec<(ByteString, Bytes)> {
    let mut headers = Vec::new();
    let mut add = |name: &str, text: &str| headers.push((name.into(), one_line(text)));
    add(OPERATION, operation.scope.operation());
    if !operation.scope.tenant().is_empty() {
        add(TENANT, operation.scope.tenant());
    }
    add(OPERATION_ID, &operation.id().to_string());
    add(ORIGIN, &parked.coordinates);
    add(KEY, operation.key.as_str());
    let end = record.and_then(|record| record.past.last());
    add(
        REASON,
        end.map_or(&*parked.reason, |past| past.end.as_str()),
    );
    let error = record.and_then(|record| record.last_error.as_deref());
    add(ERROR, error.unwrap_or(&parked.detail));
    let Some(record) = record else {
        return headers;
    };
    add(ATTEMPTS, &record.attempts.to_string());
    add(FIRST_SEEN, &millis(record.created_at));
    if let State::Dead { at, .. } = record.state {
        add(FAILED_AT, &millis(at));
    }
    headers
}

/// Returns the headers that a message came with, without those of an earlier stage that have the names of Semel's
/// own.
pub(crate) fn foreign(headers: &[(ByteString, Bytes)]) -> Vec<(ByteString, Bytes)> {
    let foreign = headers.iter().filter(|(name, _)| !is_ours(name));
    foreign.cloned().collect()
}

/// Does the same for headers that are not needed any more: it moves all of them if none is to be left out.
pub(crate) fn into_foreign(headers: &mut Vec<(ByteString, Bytes)>) -> Vec<(ByteString, Bytes)> {
    if headers.iter().any(|(name, _)| is_ours(name)) {
        return foreign(headers);
    }
    std::mem::take(headers)
}

fn is_ours(name: &str) -> bool {
    let prefix: Option<&[u8; 6]> = name.as_bytes().first_chunk();
    // Next to no name has the prefix.
    prefix.is_some_and(|prefix| PREFIX.eq_ignore_ascii_case(prefix))
        && OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// Makes text fit for a header of every broker: some allow no line breaks.
fn one_line(text: &str) -> Bytes {
    if !text.contains(char::is_control) {
        return Bytes::copy_from_slice(text.as_bytes());
    }
    let mut line = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            // Writing to a string cannot fail.
            let _ = write!(line, "{}", character.escape_default());
        } else {
            line.push(character);
        }
    }
    Bytes::from(line)
}

fn millis(time: Timestamp) -> String {
    time.as_millis().to_string()
}

/// The prefix of all headers that Semel sets.
const PREFIX: [u8; 6] = *b"semel-";
/// Every header that only Semel sets, and the one in which the Kafka sink puts the id.
const OURS: &[&str] = &[
    "semel-id",
    OPERATION,
    TENANT,
    OPERATION_ID,
    ORIGIN,
    KEY,
    REASON,
    ERROR,
    ATTEMPTS,
    FIRST_SEEN,
    FAILED_AT,
    GIVEN_KEY,
];
/// The headers that the Kafka source adds to those of a record: its key and its time. A record that is published has
/// its own.
const ADDED: [&str; 2] = ["kafka-key", "kafka-create-time"];

#[cfg(test)]
mod tests;
