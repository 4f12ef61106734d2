//! The receipt of a call that has a value.

use semel_core::{Duplicate, OpId};

/// The effect's outcome, from this run or from the record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a receipt holds the outcome"]
pub struct Receipt<T> {
    pub(super) value: T,
    pub(super) answered: Answered,
    pub(super) operation_id: OpId,
    pub(super) kept: bool,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// This call ran the effect.
    Ran {
        /// The number of the attempt over all calls and processes, from 1.
        attempt: u32,
        /// The lease of an earlier attempt had run out, and this one took its place.
        takeover: bool,
        /// An earlier attempt may have applied the effect as well.
        possible_repeat: bool,
    },
    /// It had happened before; this is the outcome recorded then.
    Replayed {
        /// The way in which this duplicate came about, as far as transport ids tell.
        duplicate: Duplicate,
    },
}

impl<T> Receipt<T> {
    /// Returns the outcome.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Returns the outcome.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Returns the source of the answer.
    pub const fn answered(&self) -> Answered {
        self.answered
    }

    /// Tells whether the outcome comes from the record.
    pub const fn is_replay(&self) -> bool {
        matches!(self.answered, Answered::Replayed { .. })
    }

    /// Returns the number of the attempt, if this call ran one.
    pub const fn attempt(&self) -> Option<u32> {
        match self.answered {
            Answered::Ran { attempt, .. } => Some(attempt),
            Answered::Replayed { .. } => None,
        }
    }

    /// Returns the operation. Its hexadecimal form is the idempotency key.
    pub const fn operation_id(&self) -> OpId {
        self.operation_id
    }

    /// Tells whether duplicates will get this outcome. `false` if it was over the limit: they will
    /// learn that the effect happened, and that its outcome was not kept.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns the same receipt with another value.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Receipt<U> {
        Receipt {
            value: map(self.value),
            answered: self.answered,
            operation_id: self.operation_id,
            kept: self.kept,
        }
    }
}
