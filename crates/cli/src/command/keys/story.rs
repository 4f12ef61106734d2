//! The whole story of one key in plain words, for somebody who was woken up by it.
//!
//! What a duplicate would meet is asked of the same function that decides it in the stores
//! ([`semel_core::decide`]); here it is only put into words.

mod history;
mod present;
mod prospect;

use semel_config::PipelineSettings;
use semel_core::{Audited, Operation, Parked, Record, Timestamp};
use semel_operate::value::Time;
use serde::Serialize;

use self::history::Event;
use self::present::Present;
use self::prospect::Prospect;
use crate::assemble::Beside;
use crate::command::when::when;
use crate::output::{Answer, Block, key_text};

/// What is known of a key.
pub(super) struct Facts<'a> {
    pub(super) operation: &'a Operation,
    pub(super) record: Option<&'a Record>,
    /// What the configuration says of its pipeline.
    pub(super) pipeline: Option<&'a PipelineSettings>,
    /// Messages set aside under this key, and how many there are in all.
    pub(super) messages: &'a [Parked],
    pub(super) message_count: usize,
    /// The entries of the audit trail about this key, oldest first.
    pub(super) audit: &'a [Audited],
    pub(super) now: Timestamp,
    /// What may go on beside, where only files were read.
    pub(super) beside: Option<Beside>,
}

/// The story; in JSON an object whose texts may be reworded and whose other members are stable.
#[derive(Debug, Serialize)]
pub(super) struct Story<'a> {
    key: &'a str,
    operation_id: String,
    pipeline: &'a str,
    /// Also `absent`.
    state: &'static str,
    reason: Option<String>,
    since: Option<Time>,
    now: Time,
    text: String,
    fingerprint: Option<String>,
    /// Which message first claimed the key.
    transport: Option<String>,
    outcome_blake3: Option<String>,
    remembered_until: Option<Time>,
    history: Vec<Event>,
    duplicate: Prospect,
    message_count: usize,
    messages: Vec<Message<'a>>,
    audit: Vec<Order<'a>>,
    next: String,
    can: Vec<Can>,
}

/// A message that was set aside.
#[derive(Debug, Serialize)]
struct Message<'a> {
    reason: &'a str,
    since: Time,
    coordinates: &'a str,
    detail: &'a str,
}

/// An entry of the audit trail.
#[derive(Debug, Serialize)]
struct Order<'a> {
    at: Time,
    by: &'a str,
    action: &'a str,
    reason: &'a str,
    before: &'a str,
    after: &'a str,
}

/// Something that an operator can do.
#[derive(Debug, Serialize)]
struct Can {
    text: &'static str,
    command: String,
}

impl<'a> Story<'a> {
    /// Tells it. `command` completes a verb to what one would type about this key.
    pub(super) fn of(facts: &Facts<'a>, command: impl Fn(&str) -> String) -> Self {
        let Facts {
            operation,
            record,
            now,
            ..
        } = *facts;
        let Present {
            state,
            text,
            next,
            can,
        } = Present::of(facts);
        let outcome = record.and_then(|record| record.outcome.as_ref());
        Self {
            key: operation.key.as_str(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation(),
            state,
            reason: record.and_then(super::entry::reason),
            since: record.map(|record| Time(super::entry::since(record))),
            now: Time(now),
            text,
            fingerprint: record
                .and_then(|record| record.fingerprint)
                .map(|fingerprint| fingerprint.to_string()),
            transport: record
                .and_then(|record| record.transport.as_deref())
                .map(|id| String::from_utf8_lossy(id).into_owned()),
            outcome_blake3: outcome.and_then(super::detail::signature),
            remembered_until: record.and_then(Record::expires_at).map(Time),
            history: history::of(facts),
            duplicate: Prospect::of(facts),
            message_count: facts.message_count,
            messages: facts.messages.iter().map(Message::of).collect(),
            audit: facts.audit.iter().map(Order::of).collect(),
            next,
            can: can
                .into_iter()
                .map(|(text, verb)| Can {
                    text,
                    command: command(verb),
                })
                .collect(),
        }
    }
}

impl Answer for Story<'_> {
    fn describe(&self, block: &mut Block) {
        let now = self.now.0;
        block.field("key", key_text(self.key));
        block.field("pipeline", self.pipeline);
        block.field("operation id", &self.operation_id);
        block.field("state", self.state.replace('_', " "));
        block.some("since", self.since.map(|since| when(since.0, now)));
        block.some("transport id", self.transport.as_ref());
        block.heading("How it stands");
        block.prose(&self.text);
        if !self.history.is_empty() {
            block.heading("What happened");
        }
        for event in &self.history {
            block.prose(&format!("{}: {}", when(event.at.0, now), event.text));
        }
        block.heading("What a message with this key meets now");
        for text in &self.duplicate.texts {
            block.prose(text);
        }
        if self.message_count > 0 {
            block.heading("Messages kept under this key");
        }
        for message in &self.messages {
            let detail = match message.detail {
                "" => String::new(),
                detail => format!(": {detail}"),
            };
            block.prose(&format!(
                "{} since {}, from {}{detail}",
                message.reason,
                when(message.since.0, now),
                message.coordinates,
            ));
        }
        let more = self.message_count - self.messages.len();
        if more > 0 {
            block.prose(&format!("and {more} more"));
        }
        block.heading("What happens next without anybody's doing");
        block.prose(&self.next);
        if !self.can.is_empty() {
            block.heading("What you can do");
        }
        for can in &self.can {
            // A body of its own line is never broken.
            block.bytes(can.text, format!("{}\n", can.command).as_bytes());
        }
    }
}

impl<'a> Message<'a> {
    fn of(parked: &'a Parked) -> Self {
        Self {
            reason: &parked.reason,
            since: Time(parked.since),
            coordinates: &parked.coordinates,
            detail: &parked.detail,
        }
    }
}

impl<'a> Order<'a> {
    fn of(entry: &'a Audited) -> Self {
        Self {
            at: Time(entry.at),
            by: &entry.note.by,
            action: &entry.action,
            reason: &entry.note.reason,
            before: &entry.before,
            after: &entry.after,
        }
    }
}

#[cfg(test)]
mod tests;
