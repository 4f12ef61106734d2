//! Counts of the messages that a gate refused, by reason and client. Not for what is wrong with a request as such.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_core::Code;
use semel_core::ingest::GateAnswer;

/// The refused requests of one path. A client is named by its token, and `""` if that has no name.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<(&'static str, Box<str>), u64>>);

impl Refusals {
    /// Begins to count for clients, from zero if they are new.
    pub(crate) fn expect<'c>(&self, clients: impl Iterator<Item = &'c str>) {
        let mut counts = self.lock();
        for client in clients.chain([NOBODY]) {
            for reason in REASONS {
                counts.entry((reason.as_str(), client.into())).or_default();
            }
        }
    }

    /// Counts a request that was refused for this reason, if it is one that is counted.
    pub(crate) fn count(&self, reason: &str, client: Option<&str>) {
        let reason = REASONS.iter().find(|it| it.as_str() == reason);
        if let Some(reason) = reason {
            let client = client.unwrap_or(NOBODY);
            *self
                .lock()
                .entry((reason.as_str(), client.into()))
                .or_default() += 1;
        }
    }

    /// Lists reasons, clients and counts.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Box<str>, u64)> {
        let counts = self.lock();
        let each = |((reason, client), count): (&(&'static str, Box<str>), &u64)| {
            (*reason, client.clone(), *count)
        };
        counts.iter().map(each).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, Box<str>), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the reason of a refusal.
pub(crate) fn reason(answer: &GateAnswer) -> Option<Code> {
    match answer {
        GateAnswer::Taken { .. } => None,
        GateAnswer::Fenced { .. } => Some(Code::ProducerFenced),
        GateAnswer::Gap { .. } => Some(Code::SequenceGap),
        GateAnswer::Unknown { .. } => Some(Code::ProducerUnknown),
    }
}

const REASONS: [Code; 4] = [
    Code::ProducerFenced,
    Code::ProducerMissing,
    Code::ProducerUnknown,
    Code::SequenceGap,
];
/// The label of clients without a name.
const NOBODY: &str = "";
