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
            let mut counts = self.lock();
            let client = client.unwrap_or(NOBODY);
            // Tokens of the admin API come and go, and each name is a label.
            let is_known = counts.contains_key(&(reason.as_str(), client.into()));
            let client = if is_known || counts.len() < MOST_CLIENTS * REASONS.len() {
                client
            } else {
                NOBODY
            };
            if !is_known {
                for reason in REASONS {
                    counts.entry((reason.as_str(), client.into())).or_default();
                }
            }
            *counts.entry((reason.as_str(), client.into())).or_default() += 1;
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
/// The most clients that are told apart, those without a name among them.
const MOST_CLIENTS: usize = 101;
/// The label of clients without a name.
const NOBODY: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_clients_than_a_hundred_are_told_apart() {
        let refusals = Refusals::default();
        refusals.expect(["till-7"].into_iter());
        for at in 0..200 {
            refusals.count("sequence-gap", Some(&format!("c{at}")));
            refusals.count("sequence-gap", Some("till-7"));
        }
        refusals.count("path-unknown", Some("c7"));
        let counts = refusals.counts();
        assert_eq!(counts.len(), MOST_CLIENTS * REASONS.len());
        let of = |client: &str| {
            let of = |it: &&(&str, Box<str>, u64)| it.0 == "sequence-gap" && &*it.1 == client;
            counts.iter().find(of).map(|it| it.2)
        };
        let found = [of("till-7"), of("c0"), of("c98"), of("c99"), of(NOBODY)];
        assert_eq!(found, [Some(200), Some(1), Some(1), None, Some(101)]);
    }
}
