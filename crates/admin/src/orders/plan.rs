//! A plan: what an order would change, what it leaves as it is and why, and a digest that tells whether the same would
//! still happen.

use std::borrow::Cow;
use std::collections::BTreeMap;

use semel_core::port::outbox::operations::DeadOrder;
use semel_core::{AnyStore, Key, Operation, Parked, ParkedId, Record, State, StateKind, Timestamp};
use semel_operate::action::Advice;
use semel_operate::in_doubt::{Case, Resolved};
use semel_operate::keys::{Changed, Planned, since};
use semel_operate::order::Left;
use semel_operate::parked::{DeadLetter, Foretold, Found, Quarantined};
use semel_operate::pipelines::{PipelineChange, PlannedPipeline};
use semel_operate::producers::{PlannedProducer, ProducerChange, Producers};
use semel_operate::relays::RelayDeadLetter;
use semel_operate::store::SweepResult;
use semel_worker::replay::Kind;
use serde::Serialize;
use serde_json::{Map, Value};

use super::extension::{Extension, PlannedExtension};
use super::letter::Letter;

/// A plan.
#[derive(Debug)]
pub(super) struct Plan {
    /// The time that it was made at.
    pub(super) at: Timestamp,
    /// The latest time at which something that is planned began, where all of a kind are meant.
    pub(super) until: Option<Timestamp>,
    /// The changes that would be made, in the order of `work`.
    pub(super) changes: Vec<Change>,
    /// The keys and messages that are left as they are.
    pub(super) left: Vec<Left>,
    /// False if there is more than fits into one plan.
    pub(super) is_whole: bool,
    /// A digest of what would change, as it stands.
    pub(super) digest: [u8; 32],
    /// The work itself.
    pub(super) work: Work,
}

impl Plan {
    /// The plan of an order about what it names, which fits into one.
    pub(super) const fn of_names(
        at: Timestamp,
        changes: Vec<Change>,
        left: Vec<Left>,
        digest: [u8; 32],
        work: Work,
    ) -> Self {
        Self {
            at,
            until: None,
            changes,
            left,
            is_whole: true,
            digest,
            work,
        }
    }
}

/// The work of a plan.
#[derive(Debug)]
pub(super) enum Work {
    /// Doubts are resolved.
    Cases(Vec<Case>),
    /// Records are changed, each of which stands so.
    Orders(Vec<(Planned, String)>),
    /// Messages are dropped.
    Messages(Vec<Discard>),
    /// Dead letters of relays are tried again or dropped.
    Letters(DeadOrder, Vec<Letter>),
    /// The store is swept, in which about so many records are past their window.
    Sweep(Option<u64>),
    /// Pipelines and relays are paused, drained or resumed, each by an order in this store.
    Pipelines(Vec<(PlannedPipeline, AnyStore)>),
    /// Producers are frozen, thawed or released.
    Producers(Producers, Vec<PlannedProducer>),
    /// Messages are run again.
    Rerun(Rerun),
    /// The finished keys of a pipeline are remembered for longer.
    Extension(Extension),
}

/// Messages and doubts that are to be run again.
#[derive(Debug)]
pub(super) struct Rerun {
    pub(super) kind: Kind,
    /// The key under which a message runs as an operation of its own.
    pub(super) key: Option<Key>,
    /// Doubts without a message, which wait for the next one; the first of the changes.
    pub(super) alone: Vec<(Planned, String)>,
    /// The messages, in the order of the changes that follow.
    pub(super) messages: Vec<(ParkedId, Standing)>,
    /// The pipelines that run them, each with the number and the bytes of its messages.
    pub(super) pipelines: BTreeMap<Box<str>, (usize, u64)>,
}

/// A message as it was planned. What is set aside under the same id later, or after something else happened to its
/// operation, is another matter.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// The time at which it was set aside.
    pub(super) since: Timestamp,
    /// The record of its operation, if there was one.
    pub(super) record: Option<String>,
    /// True if the message is in quarantine. The record is that of others of its key then, which the run may run, too.
    pub(super) is_quarantined: bool,
}

impl Standing {
    /// Tells whether a message and its record are as they were planned.
    pub(super) fn is(&self, message: &Parked, record: Option<&Record>) -> bool {
        self.since == message.since && (self.is_quarantined || self.record == record.map(snapshot))
    }
}

/// A message that is to be dropped.
#[derive(Debug)]
pub(super) struct Discard {
    pub(super) id: ParkedId,
    /// The operation of a dead letter, if its key is known, and the state of its record.
    pub(super) operation: Option<(Operation, Option<StateKind>)>,
}

impl Discard {
    pub(super) fn of(found: &Found, is_dead: bool) -> Self {
        let operation = found.operation().filter(|_| is_dead);
        Self {
            id: found.message.id(),
            operation: operation.map(|it| (it, found.state)),
        }
    }
}

/// A change: the object that the verb prints.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Change {
    Resolved(Resolved),
    Key {
        #[serde(flatten)]
        changed: Changed,
        /// A remark for the person who is to consent.
        #[serde(skip_serializing_if = "Option::is_none")]
        remark: Option<Advice>,
    },
    DeadLetter(Box<DeadLetter>),
    Quarantined(Box<Quarantined>),
    RelayDeadLetter(Box<RelayDeadLetter>),
    Foretold(Box<Foretold>),
    Extension(PlannedExtension),
    Forecast {
        /// About as many; none if the store cannot tell.
        removed: Option<u64>,
    },
    Swept(SweepResult),
    Pipeline(PipelineChange),
    Producer(ProducerChange),
}

/// A plan as it is answered.
#[derive(Debug, Serialize)]
pub(super) struct PlanAnswer<'p> {
    /// The version of the format.
    semel: u32,
    /// The token to show with the order.
    token: String,
    changes: &'p [Change],
    left: &'p [Left],
    /// The number of messages that would have each fate, of those that are run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    foretold: BTreeMap<Cow<'static, str>, usize>,
    /// False if there is more: plan again after this.
    complete: bool,
}

impl<'p> PlanAnswer<'p> {
    pub(super) fn of(plan: &'p Plan, token: String) -> Self {
        Self {
            semel: VERSION,
            token,
            changes: &plan.changes,
            left: &plan.left,
            foretold: sums(&plan.changes),
            complete: plan.is_whole,
        }
    }

    /// Its members, for a problem that has them.
    pub(super) fn members(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members,
            Ok(_) | Err(_) => Map::new(),
        }
    }
}

/// Sums up the fates that are foretold.
pub(super) fn sums(changes: &[Change]) -> BTreeMap<Cow<'static, str>, usize> {
    let mut sums = BTreeMap::new();
    for change in changes {
        if let Change::Foretold(it) = change {
            *sums.entry(it.predicted.clone()).or_default() += 1;
        }
    }
    sums
}

/// The digest of a plan, whatever the order in which its parts are met.
#[derive(Debug, Default)]
pub(super) struct Digest(Vec<[u8; 32]>);

impl Digest {
    /// Adds a record as it stands, and the word for what would be done with it. A record that somebody changed meanwhile,
    /// even if it came back to the same state, makes another digest.
    pub(super) fn record(&mut self, operation: &Operation, record: &Record, word: &str) {
        self.text(&format!("{} {word} {}", operation.id(), snapshot(record)));
    }

    /// Adds a part.
    pub(super) fn text(&mut self, text: &str) {
        self.0.push(*blake3::hash(text.as_bytes()).as_bytes());
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.0.sort_unstable();
        *blake3::hash(self.0.as_flattened()).as_bytes()
    }
}

/// Describes a record as it stands. The end of a lease is no part of it, since each renewal changes that.
pub(super) fn snapshot(record: &Record) -> String {
    let expires_at = record.expires_at().map(Timestamp::as_millis);
    let not_before = match record.state {
        State::Released { not_before } => Some(not_before.as_millis()),
        State::Claimed { .. }
        | State::Started { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => None,
    };
    format!(
        "{} {} {expires_at:?} {not_before:?} {} {} {} {}",
        record.state.kind(),
        since(record).as_millis(),
        record.token,
        record.attempts,
        record.vanished,
        record.held,
    )
}

/// The version of the format of plans.
pub(super) const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_no_order_and_every_part() {
        let digest = |parts: &[&str]| {
            let mut digest = Digest::default();
            for part in parts {
                digest.text(part);
            }
            digest.finish()
        };
        assert_eq!(digest(&["a", "b"]), digest(&["b", "a"]));
        for other in [&["a"][..], &["a", "b", "b"], &["ab"], &[]] {
            assert_ne!(digest(&["a", "b"]), digest(other), "{other:?}");
        }
    }
}
