//! The explanation of one key in plain words, for a person whom it woke up.
//!
//! The answer for a duplicate comes from the same function that decides it in the stores
//! ([`semel_core::decide`]); this module only puts it into words.

mod history;
mod present;
mod prospect;

pub use history::Event;
pub use prospect::Prospect;

use std::borrow::Cow;

use semel_config::PipelineSettings;
use semel_core::{Audited, Operation, Parked, Record, Timestamp};
use serde::{Deserialize, Serialize};

use self::present::Present;
use crate::action::Action;
use crate::keys::Arrival;
use crate::value::{Time, tenant};

/// The known facts about a key.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The operation of the key.
    pub operation: &'a Operation,
    /// Its record, if there is one.
    pub record: Option<&'a Record>,
    /// The settings of its pipeline.
    pub pipeline: Option<&'a PipelineSettings>,
    /// The way in which the key comes.
    pub arrival: Arrival,
    /// The first of the messages that were set aside under this key.
    pub messages: &'a [Parked],
    /// The number of all these messages.
    pub message_count: usize,
    /// The entries of the audit trail about this key, oldest first.
    pub audit: &'a [Audited],
    /// The time at which the facts were read.
    pub now: Timestamp,
    /// The process that may be at work, if only files were read.
    pub beside: Option<Beside>,
}

/// The process that may be at work while the files of a store are read.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The process that has the store open, as far as can be seen. The state that it has only in memory is
    /// invisible: renewed leases, and claims of transactional effects.
    pub process: Option<u32>,
    /// True if it takes orders, as far as can be seen.
    pub takes_orders: bool,
}

/// The explanation; in JSON an object whose texts may be reworded and whose other members are stable.
///
/// `C` is the form of the choices at its end: data, or the form that a door gives them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explanation<'a, C = Choice> {
    /// The key.
    pub key: Cow<'a, str>,
    /// The id of its operation.
    pub operation_id: String,
    /// The way in which the key comes.
    pub arrival: Arrival,
    /// The name of its pipeline.
    pub pipeline: Cow<'a, str>,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Cow<'a, str>>,
    /// The state of its record, or `absent`.
    pub state: Cow<'static, str>,
    /// The reason for the state, if there is more to say than the state does.
    pub reason: Option<String>,
    /// The time since which it is in this state.
    pub since: Option<Time>,
    /// The time of the explanation.
    pub now: Time,
    /// The state in words.
    pub text: String,
    /// The digest of the request that first claimed the key.
    pub fingerprint: Option<String>,
    /// The message that first claimed the key.
    pub transport: Option<String>,
    /// The digest of the outcome.
    pub outcome_blake3: Option<String>,
    /// The time until which the record is kept.
    pub remembered_until: Option<Time>,
    /// The events on record, oldest first.
    pub history: Vec<Event>,
    /// The answer that a duplicate would get.
    pub duplicate: Prospect,
    /// The number of messages that were set aside under this key.
    pub message_count: usize,
    /// The first of these messages.
    pub messages: Vec<KeptMessage<'a>>,
    /// The orders about this key.
    pub audit: Vec<AuditEntry<'a>>,
    /// The next event if nobody acts.
    pub next: String,
    /// The choices of an operator.
    pub can: Vec<C>,
}

/// A message that was set aside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptMessage<'a> {
    /// The code of the reason.
    pub reason: Cow<'a, str>,
    /// The time at which it was set aside.
    pub since: Time,
    /// The place from which it came.
    pub coordinates: Cow<'a, str>,
    /// One line about the reason.
    pub detail: Cow<'a, str>,
}

/// An entry of the audit trail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditEntry<'a> {
    /// The time of the order.
    pub at: Time,
    /// The person who gave it.
    pub by: Cow<'a, str>,
    /// The name of the order.
    pub action: Cow<'a, str>,
    /// The reason that the person gave.
    pub reason: Cow<'a, str>,
    /// The state before the order.
    pub before: Cow<'a, str>,
    /// The state after the order.
    pub after: Cow<'a, str>,
}

/// A step that an operator can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The case for which the step is meant, or its use.
    pub text: Cow<'static, str>,
    /// The action.
    pub action: Action,
}

impl<'a> Explanation<'a> {
    /// Explains a key from the known facts.
    pub fn of(facts: &Facts<'a>) -> Self {
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
            key: operation.key.as_str().into(),
            operation_id: operation.id().to_string(),
            arrival: facts.arrival,
            pipeline: operation.scope.operation().into(),
            tenant: tenant(&operation.scope).map(Into::into),
            state: state.into(),
            reason: record.and_then(super::summary::reason),
            since: record.map(|record| Time(super::summary::since(record))),
            now: Time(now),
            text,
            fingerprint: record
                .and_then(|record| record.fingerprint)
                .map(|fingerprint| fingerprint.to_string()),
            transport: record
                .and_then(|record| record.transport.as_deref())
                .map(|id| String::from_utf8_lossy(id).into_owned()),
            outcome_blake3: outcome.and_then(super::summary::signature),
            remembered_until: record.and_then(Record::expires_at).map(Time),
            history: history::of(facts),
            duplicate: Prospect::of(facts),
            message_count: facts.message_count,
            messages: facts.messages.iter().map(KeptMessage::of).collect(),
            audit: facts.audit.iter().map(AuditEntry::of).collect(),
            next,
            can: can
                .into_iter()
                .map(|(text, kind)| Choice {
                    text: text.into(),
                    action: Action::new(kind, operation.clone()),
                })
                .collect(),
        }
    }
}

impl<'a, C> Explanation<'a, C> {
    /// Converts each choice into the form of a door.
    pub fn with_choices<D>(self, make: impl FnMut(C) -> D) -> Explanation<'a, D> {
        Explanation {
            key: self.key,
            operation_id: self.operation_id,
            arrival: self.arrival,
            pipeline: self.pipeline,
            tenant: self.tenant,
            state: self.state,
            reason: self.reason,
            since: self.since,
            now: self.now,
            text: self.text,
            fingerprint: self.fingerprint,
            transport: self.transport,
            outcome_blake3: self.outcome_blake3,
            remembered_until: self.remembered_until,
            history: self.history,
            duplicate: self.duplicate,
            message_count: self.message_count,
            messages: self.messages,
            audit: self.audit,
            next: self.next,
            can: self.can.into_iter().map(make).collect(),
        }
    }
}

impl<'a> KeptMessage<'a> {
    fn of(parked: &'a Parked) -> Self {
        Self {
            reason: (&*parked.reason).into(),
            since: Time(parked.since),
            coordinates: (&*parked.coordinates).into(),
            detail: (&*parked.detail).into(),
        }
    }
}

impl<'a> AuditEntry<'a> {
    fn of(entry: &'a Audited) -> Self {
        Self {
            at: Time(entry.at),
            by: (&*entry.note.by).into(),
            action: (&*entry.action).into(),
            reason: (&*entry.note.reason).into(),
            before: (&*entry.before).into(),
            after: (&*entry.after).into(),
        }
    }
}

#[cfg(test)]
mod tests;
