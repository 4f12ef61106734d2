//! The result of a call that has one.

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

/// How a call was answered.
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
    /// It had happened before; this is what was recorded then.
    Replayed {
        /// How this duplicate came about, as far as transport ids tell.
        duplicate: Duplicate,
    },
}

impl<T> Receipt<T> {
    /// The outcome.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// The outcome.
    pub fn into_value(self) -> T {
        self.value
    }

    /// How the call was answered.
    pub const fn answered(&self) -> Answered {
        self.answered
    }

    /// Whether the outcome comes from the record.
    pub const fn is_replay(&self) -> bool {
        matches!(self.answered, Answered::Replayed { .. })
    }

    /// The number of the attempt, if this call ran one.
    pub const fn attempt(&self) -> Option<u32> {
        match self.answered {
            Answered::Ran { attempt, .. } => Some(attempt),
            Answered::Replayed { .. } => None,
        }
    }

    /// The operation. Its hexadecimal form is the idempotency key.
    pub const fn operation_id(&self) -> OpId {
        self.operation_id
    }

    /// Whether duplicates will get this outcome. `false` where it was over the limit: they will be
    /// told that the effect happened, and that its outcome was not kept.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// The same receipt of another value.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Receipt<U> {
        Receipt {
            value: map(self.value),
            answered: self.answered,
            operation_id: self.operation_id,
            kept: self.kept,
        }
    }
}
