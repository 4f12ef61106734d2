//! The decisions about a key: the whole protocol as pure functions of (record, request, now).
//!
//! One function per port step, one branch per row of the guard table in `docs/spec/protocol.md`.
//! A store loads the record and the entity, calls the function, writes the change and gives the
//! answer, all in one atomic step on *its* clock. A backend that decides in SQL or Lua must agree
//! with these functions on every random history.

mod claim;
mod operate;
mod settle;

pub use claim::claim;
pub use operate::{
    Directed, Directive, Order, Refusal, Verdict, is_abandoned, operate, quiet_before, sweep,
};
pub use settle::{renew, settle};

use crate::entity::EntityRecord;
use crate::record::Record;

/// The change to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived; boxing would cost more than the copy"
)]
pub enum Change {
    /// Nothing.
    Keep,
    /// It is written.
    Put(Record),
    /// It is removed.
    Remove,
}

/// An answer, and the change to write before giving it.
#[derive(Clone, Debug)]
#[must_use = "an answer given without its change being written is a lie"]
pub struct Decision<A> {
    /// The answer.
    pub answer: A,
    /// The change to the record.
    pub change: Change,
    /// The new entity record, if it changes.
    pub entity: Option<EntityRecord>,
}

impl<A> Decision<A> {
    const fn keep(answer: A) -> Self {
        Self {
            answer,
            change: Change::Keep,
            entity: None,
        }
    }

    const fn put(answer: A, record: Record) -> Self {
        Self {
            answer,
            change: Change::Put(record),
            entity: None,
        }
    }
}

#[cfg(test)]
mod tests;
