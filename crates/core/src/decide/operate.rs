//! The changes that operators and the sweep may make to a record.

use std::time::Duration;

use super::settle::entity_after;
use super::{Change, Decision};
use crate::attempt::AttemptEnd;
use crate::entity::EntityRecord;
use crate::error::Error;
use crate::note::Note;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::planted;
use crate::record::{Record, Recovery, State, StateKind};
use crate::time::Timestamp;
use crate::window::Window;

/// An operator's order about one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The operation.
    pub operation: Operation,
    /// The order.
    pub order: Order,
    /// The author of the order and the reason, for the audit trail; a probe's findings leave no entry.
    /// AUD-1.
    pub note: Option<Note>,
}

/// The orders that an operator may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// States what became of an operation in doubt.
    Resolve(Verdict),
    /// Lets the next claim be granted now: it ends the lease or the backoff. A claimant that still works on
    /// the operation is fenced once another has claimed it, no earlier.
    Release,
    /// Lets a dead operation be attempted again, with its attempts counted anew.
    Requeue,
    /// Lets an operation in doubt be attempted again although nobody knows what became of it, where its
    /// class allows that: the provider still recognises the key, or a repeat is accepted. Its attempts are
    /// counted anew; the doubt and its first start stay. DBT-3.
    Retry,
    /// Keeps the record beyond its window (`true`), or no longer (`false`).
    Hold(bool),
    /// Removes the record of a finished or released operation before its time.
    Forget,
    /// Keeps the record of a finished operation at least this long, counted from its end. A record that is
    /// kept as long or longer stays as it is: nothing shortens a window. WIN-1.
    Extend(Duration),
}

/// The result of an operation in doubt, as a person or a probe found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The effect happened.
    Applied {
        /// Its result, as far as it is known.
        outcome: Outcome,
        /// The time for which to remember it.
        window: Window,
    },
    /// The effect did not happen. The store refuses this verdict unless the doubt had been quiet this long
    /// at the time of the evidence, since an old call may still land. DBT-5.
    NotApplied {
        /// The longest life of a call: its time limit plus the time that it may spend in queues.
        quiet: Duration,
        /// The time of the evidence: an instant of the store's clock, taken from one of its answers before
        /// anyone looked for the effect. However late the verdict arrives, it is no younger than its
        /// evidence. `None` is now: for a person, who looks and answers at once.
        asked: Option<Timestamp>,
    },
    /// Nobody will find out; the operation is given up.
    Abandon {
        /// The time for which to keep the record.
        window: Window,
    },
}

/// The reason why an order was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no record.
    Absent,
    /// The order does not fit this state.
    State(StateKind),
    /// The effect could still land until `until`.
    NotQuiet {
        /// The time from which the order is acceptable.
        until: Timestamp,
    },
}

/// The answer to a [`Directive`].
#[derive(Clone, Debug)]
#[must_use = "an order may have been refused"]
pub enum Directed {
    /// The record is in this state now; `None` is absent.
    Now(Option<StateKind>),
    /// The record is unchanged.
    Refused(Refusal),
    /// This item could not be carried out.
    Failed(Error),
}

/// Decides an operator's order.
///
/// `entity` is the record of the entity that the stored record's gate names, if it has one.
///
/// # Guarantee   DBT-5, WIN-3, VER-1
pub fn operate(
    record: Option<&Record>,
    entity: Option<&EntityRecord>,
    order: &Order,
    now: Timestamp,
) -> Decision<Directed> {
    let Some(record) = record.filter(|record| !record.is_forgotten(now)) else {
        return refused(Refusal::Absent);
    };
    let state = match (order, record.state) {
        (Order::Hold(held), _) => return hold(record, *held),
        (Order::Forget, State::Completed { .. } | State::Dead { .. } | State::Released { .. }) => {
            return Decision {
                answer: Directed::Now(None),
                change: Change::Remove,
                entity: None,
            };
        }
        (
            Order::Release,
            State::Claimed { .. } | State::Started { .. } | State::Released { .. },
        ) => {
            return end_wait(record, entity, now);
        }
        (Order::Extend(duration), State::Completed { at, window } | State::Dead { at, window }) => {
            return extend(record, at, window, *duration);
        }
        (Order::Requeue, State::Dead { .. }) => State::Released { not_before: now },
        (Order::Retry, State::InDoubt { .. }) if planted("M40") || !record.must_not_rerun(now) => {
            State::Released { not_before: now }
        }
        (Order::Resolve(Verdict::Applied { window, .. }), State::InDoubt { .. }) => {
            State::Completed {
                at: now,
                window: *window,
            }
        }
        (Order::Resolve(Verdict::NotApplied { quiet, asked }), State::InDoubt { since }) => {
            let until = if planted("M33") {
                since
            } else {
                since.plus(*quiet)
            };
            if until > asked.map_or(now, |asked| asked.min(now)) {
                return refused(Refusal::NotQuiet { until });
            }
            State::Released { not_before: now }
        }
        (Order::Resolve(Verdict::Abandon { window }), State::InDoubt { .. }) => State::Dead {
            at: now,
            window: *window,
        },
        (
            Order::Forget,
            state @ (State::Claimed { .. } | State::Started { .. } | State::InDoubt { .. }),
        )
        | (
            Order::Release,
            state @ (State::Completed { .. } | State::Dead { .. } | State::InDoubt { .. }),
        )
        | (
            Order::Requeue,
            state @ (State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::Completed { .. }
            | State::InDoubt { .. }),
        )
        | (
            Order::Retry,
            state @ (State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::Completed { .. }
            | State::Dead { .. }
            | State::InDoubt { .. }),
        )
        | (
            Order::Extend(_),
            state @ (State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::InDoubt { .. }),
        )
        | (
            Order::Resolve(_),
            state @ (State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::Completed { .. }
            | State::Dead { .. }),
        ) => return refused(Refusal::State(state.kind())),
    };
    now_in(record, entity, order, state)
}

/// The record in another state, as a person or a probe decided.
fn now_in(
    record: &Record,
    entity: Option<&EntityRecord>,
    order: &Order,
    state: State,
) -> Decision<Directed> {
    let outcome = match order {
        Order::Resolve(Verdict::Applied { outcome, .. }) => Some(outcome.clone()),
        Order::Resolve(Verdict::NotApplied { .. } | Verdict::Abandon { .. })
        | Order::Release
        | Order::Requeue
        | Order::Retry
        | Order::Hold(_)
        | Order::Forget
        | Order::Extend(_) => None,
    };
    // A person has said what became of it, so no doubt is left.
    let doubt = match order {
        Order::Retry if !planted("M41") => record.doubt,
        Order::Retry
        | Order::Resolve(_)
        | Order::Release
        | Order::Requeue
        | Order::Hold(_)
        | Order::Forget
        | Order::Extend(_) => None,
    };
    // Attempts are counted anew.
    let (attempts, vanished) = match state {
        State::Released { .. } => (0, 0),
        State::Claimed { .. }
        | State::Started { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => (record.attempts, record.vanished),
    };
    let record = Record {
        state,
        attempts,
        vanished,
        doubt,
        outcome,
        ..record.clone()
    };
    let kind = state.kind();
    let entity = entity_after(&record, entity, kind);
    Decision {
        answer: Directed::Now(Some(kind)),
        change: Change::Put(record),
        entity,
    }
}

/// Sets or clears the hold, and changes nothing else; writes nothing if the record already says so.
fn hold(record: &Record, held: bool) -> Decision<Directed> {
    let answer = Directed::Now(Some(record.state.kind()));
    if held == record.held {
        return Decision::keep(answer);
    }
    let record = record.clone();
    Decision::put(answer, Record { held, ..record })
}

/// Extends the window, and changes nothing else; writes nothing if that would make it no longer.
fn extend(record: &Record, at: Timestamp, window: Window, to: Duration) -> Decision<Directed> {
    let answer = Directed::Now(Some(record.state.kind()));
    let window = match window.resized(to) {
        longer if longer.expires_at(at) > window.expires_at(at) => longer,
        _ => return Decision::keep(answer),
    };
    let mut record = record.clone();
    match &mut record.state {
        State::Completed { window: kept, .. } | State::Dead { window: kept, .. } => *kept = window,
        State::Claimed { .. }
        | State::Started { .. }
        | State::Released { .. }
        | State::InDoubt { .. } => {}
    }
    Decision::put(answer, record)
}

/// Ends now what the next claim would wait for, in the record and in the entity that it holds.
fn end_wait(record: &Record, entity: Option<&EntityRecord>, now: Timestamp) -> Decision<Directed> {
    let mut record = record.clone();
    match &mut record.state {
        State::Claimed { lease_until: until }
        | State::Started {
            lease_until: until, ..
        }
        | State::Released { not_before: until } => *until = now.min(*until),
        State::Completed { .. } | State::Dead { .. } | State::InDoubt { .. } => {}
    }
    let held = entity.filter(|entity| {
        let holder = entity.holder.map(|(holder, _)| holder);
        record.gate.is_some() && holder == Some(record.claim_id)
    });
    let entity = held.map(|entity| EntityRecord {
        holder: entity
            .holder
            .map(|(holder, until)| (holder, until.min(now))),
        ..entity.clone()
    });
    Decision {
        entity,
        ..Decision::put(Directed::Now(Some(record.state.kind())), record)
    }
}

/// Decides what a sweep does with a record that it visits. It removes a record that has passed its window,
/// and marks as in doubt a started effect whose worker vanished and whose class is to park, so that
/// operators see it without another delivery. All other records stay. WIN-1, WIN-3.
pub fn sweep(record: &Record, now: Timestamp) -> Change {
    if record
        .expires_at()
        .is_some_and(|expires_at| expires_at <= now)
    {
        return Change::Remove;
    }
    match record.state {
        State::Started { .. } | State::InDoubt { .. } if planted("M32") => Change::Remove,
        State::Started {
            lease_until,
            recovery: Recovery::Park,
        } if lease_until <= now => {
            let mut record = record.clone();
            record.remember(lease_until, AttemptEnd::Vanished, None);
            Change::Put(Record {
                state: State::InDoubt { since: now },
                doubt: Some(Recovery::Park),
                vanished: record.vanished.saturating_add(1),
                ..record
            })
        }
        State::Claimed { .. }
        | State::Started { .. }
        | State::Released { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => Change::Keep,
    }
}

/// Returns whether the operation looks abandoned: claimed or released, and quiet for the default window. A
/// possible loss, which a sweep counts and never removes. WIN-3.
pub fn is_abandoned(record: &Record, now: Timestamp) -> bool {
    match record.state {
        State::Claimed {
            lease_until: quiet_since,
        }
        | State::Released {
            not_before: quiet_since,
        } => quiet_since.plus(Window::DEFAULT.duration()) <= now,
        State::Started { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => false,
    }
}

/// The time before which a quiet operation counts as abandoned at `now`, for stores that count by it; see
/// [`is_abandoned`].
pub fn quiet_before(now: Timestamp) -> Timestamp {
    now.minus(Window::DEFAULT.duration())
}

const fn refused(refusal: Refusal) -> Decision<Directed> {
    Decision::keep(Directed::Refused(refusal))
}
