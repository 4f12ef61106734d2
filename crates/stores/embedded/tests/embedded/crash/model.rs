//! Model of what must be on disk after each step.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use semel_core::decide::Order;
use semel_core::{StateKind, Timestamp};

use super::life::Act;
use super::values::told;

/// State that must be on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) records: BTreeMap<String, Kept>,
    pub(crate) applied: Option<u64>,
    pub(crate) marks: BTreeMap<&'static str, u64>,
    pub(crate) parked: BTreeSet<u64>,
    pub(crate) audit: Vec<String>,
    /// Contents of the output, up to its mark.
    pub(crate) output: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) kind: StateKind,
    pub(crate) outcome: Option<Bytes>,
    pub(crate) at: Timestamp,
    pub(crate) held: bool,
}

impl Model {
    /// Returns the model after a step at this time.
    pub(crate) fn after(&self, act: &Act, at: Timestamp) -> Self {
        let mut model = self.clone();
        match act {
            Act::Claim(keys, true) => {
                for key in keys {
                    model.put(key, StateKind::Started, None, at);
                }
            }
            Act::Start(key) => model.put(key, StateKind::Started, None, at),
            Act::Complete(pairs) => {
                for (key, bytes) in pairs {
                    model.put(key, StateKind::Completed, Some(bytes.clone()), at);
                    let round = key.strip_suffix('v').and_then(|it| it.parse::<u64>().ok());
                    model.applied = round.map_or(model.applied, |round| Some(round + 1));
                }
            }
            Act::Fail(key) => model.put(key, StateKind::Dead, None, at),
            Act::Release(key) => model.put(key, StateKind::Released, None, at),
            Act::SettleWith(keys, value) => {
                let outcome = Bytes::from_static(b"t");
                for key in keys {
                    model.put(key, StateKind::Completed, Some(outcome.clone()), at);
                }
                model.marks.insert("out", *value);
            }
            Act::Admit(keys) => {
                for key in self.admitted(keys) {
                    model.put(&key, StateKind::Completed, Some(Bytes::new()), at);
                    model.output.push_str(&key);
                    model.output.push('\n');
                }
                model.marks.insert("output", model.output.len() as u64);
            }
            Act::Park(numbers) => model.parked.extend(numbers),
            Act::Drop(numbers) => {
                for number in numbers {
                    if model.parked.remove(number) {
                        model.audit.push(told("drop", None, "message dropped"));
                    }
                }
            }
            Act::Order(key, order) => model.order(key, order),
            Act::MoveRecords(round) => {
                let outcome = Some(Bytes::from_static(b"moved"));
                model.put(&format!("{round}i"), StateKind::Completed, outcome, at);
                model.put(&format!("{round}j"), StateKind::Started, None, at);
                model.marks.entry("moved").or_insert(*round);
            }
            Act::MoveParked(round, number) => {
                model.parked.insert(*number);
                model.audit.push(told("import", None, &round.to_string()));
            }
            Act::Claim(_, false)
            | Act::ClaimGated(..)
            | Act::MoveToken(_)
            | Act::Advance(_)
            | Act::Sweep
            | Act::Reopen => {}
        }
        model
    }

    /// Returns those of `keys` that are new, each once.
    pub(crate) fn admitted(&self, keys: &[String]) -> Vec<String> {
        let mut new: Vec<String> = Vec::new();
        for key in keys {
            if !self.records.contains_key(key) && !new.contains(key) {
                new.push(key.clone());
            }
        }
        new
    }

    fn put(&mut self, key: &str, kind: StateKind, outcome: Option<Bytes>, at: Timestamp) {
        let kept = Kept {
            kind,
            outcome,
            at,
            held: false,
        };
        self.records.insert(key.to_owned(), kept);
    }

    fn order(&mut self, key: &str, order: &Order) {
        let after = match order {
            Order::Forget => {
                self.records.remove(key);
                "absent".to_owned()
            }
            Order::Hold(_)
            | Order::Requeue
            | Order::Retry
            | Order::Release
            | Order::Extend(_)
            | Order::Resolve(_) => {
                let Some(kept) = self.records.get_mut(key) else {
                    return;
                };
                match order {
                    Order::Hold(held) => kept.held = *held,
                    Order::Requeue => kept.kind = StateKind::Released,
                    Order::Release
                    | Order::Retry
                    | Order::Extend(_)
                    | Order::Resolve(_)
                    | Order::Forget => {}
                }
                let held = if kept.held { ", held" } else { "" };
                format!("{}{held}", kept.kind)
            }
        };
        self.audit.push(told(order.action(), Some(key), &after));
    }
}
