//! Decides what release, forget, hold and extend would do with a record, and what they refuse.

use std::time::Duration;

use semel_core::decide::Order;
use semel_core::{Operation, Record, Recovery, State, Timestamp};
use serde::{Serialize, Serializer};

use crate::action::{Action, ActionKind, Advice};
use crate::keys::Arrival;

/// A change that an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Ends a lease or a backoff, or gives a dead operation another chance.
    Release,
    /// Removes a finished or released record.
    Forget,
    /// Keeps a record (`true`), or ends that.
    Hold(bool),
    /// Remembers a finished record for longer.
    Extend(Duration),
}

/// A decision about one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "proposal", rename_all = "snake_case")]
pub enum Proposal {
    /// This order would be given.
    Do {
        /// The order; in JSON, its name in the audit trail.
        #[serde(serialize_with = "action_of")]
        order: Order,
        /// A remark for the person who is to consent.
        remark: Option<Advice>,
    },
    /// The record already is as it should be.
    Already {
        /// The fact.
        why: &'static str,
    },
    /// The change does not fit the record.
    Refuse {
        /// The reason, and what to do instead.
        advice: Advice,
    },
}

/// A record as an operator sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The operation of the record.
    pub operation: &'a Operation,
    /// The record.
    pub record: &'a Record,
    /// The time at which it was read.
    pub now: Timestamp,
    /// True if only files were read and no process seems to have the store open: then its leases end when it is
    /// opened.
    pub is_left_alone: bool,
    /// The way in which the key comes.
    pub arrival: Arrival,
}

impl KeyChange {
    /// Decides what the change would do with a record.
    pub fn propose(self, seen: Seen<'_>) -> Proposal {
        match self {
            Self::Release => release(seen),
            Self::Forget => forget(seen),
            Self::Hold(is_held) => hold(is_held, seen.record),
            Self::Extend(window) => extend(window, seen),
        }
    }
}

fn release(seen: Seen<'_>) -> Proposal {
    let fenced = format!(
        "a {} that is still at it loses its claim when somebody else takes it, but what it already sent stays sent",
        seen.arrival.kind()
    );
    // The lease of a client is on the disk, and is not ended by whoever opens the store.
    let is_left_alone = seen.is_left_alone && !seen.arrival.is_of_clients();
    match seen.record.state {
        State::Claimed { lease_until } | State::Started { lease_until, .. }
            if lease_until <= seen.now =>
        {
            already("its lease is over, so that nothing waits for it")
        }
        State::Claimed { .. } | State::Started { .. } if is_left_alone => already(
            "nobody has the store open, so that its lease ends as soon as somebody opens it",
        ),
        State::Claimed { .. } => order(Order::Release, Some(Advice::text(fenced))),
        State::Started { recovery, .. } => {
            let then = match recovery {
                Recovery::Park => "or sweep finds it in doubt and does not run it",
                Recovery::Rerun => "runs the effect, maybe for the second time",
                Recovery::RerunWithin(_) => {
                    "runs the effect with the same idempotency key, as long as the target remembers it"
                }
            };
            let next = seen.arrival.next();
            let remark = Advice::text(format!("{next} {then}; {fenced}"));
            order(Order::Release, Some(remark))
        }
        State::Released { not_before } if not_before <= seen.now => already(seen.arrival.of(
            "it waits for nothing but a delivery",
            "it waits for nothing but a claim",
            "it waits for nothing but a request",
        )),
        State::Released { .. } => order(Order::Release, None),
        State::Dead { .. } => {
            let remark = if seen.arrival.is_of_clients() {
                Advice::text(seen.arrival.of(
                    "",
                    "nothing is kept of its request: a client has to claim the key again",
                    "nothing is kept of its request: its caller has to send it again",
                ))
            } else {
                Advice::with(
                    "its message was acknowledged and is not delivered again by itself; to run the one \
                     that was kept",
                    Action::new(ActionKind::Replay, seen.operation.clone()),
                )
            };
            order(Order::Requeue, Some(remark))
        }
        State::Completed { .. } => refuse(Advice::with(
            "the effect happened; if it must happen again, forget the key",
            Action::new(ActionKind::Forget, seen.operation.clone()),
        )),
        State::InDoubt { .. } => refuse(in_doubt(seen)),
    }
}

fn forget(seen: Seen<'_>) -> Proposal {
    match seen.record.state {
        State::Completed { .. } => {
            let remark = format!(
                "{} that still comes runs the effect again",
                seen.arrival.bearer()
            );
            order(Order::Forget, Some(Advice::text(remark)))
        }
        State::Dead { .. } | State::Released { .. } => order(Order::Forget, None),
        State::Claimed { lease_until } | State::Started { lease_until, .. }
            if lease_until > seen.now =>
        {
            refuse(Advice::with(
                "somebody is at it; wait for its end, or end its lease first",
                Action::new(ActionKind::Release, seen.operation.clone()),
            ))
        }
        State::Claimed { .. } | State::Started { .. } => refuse(Advice::with(
            format!(
                "its {} vanished, and what it did is judged by {}; see",
                seen.arrival.kind(),
                seen.arrival.next()
            ),
            Action::new(ActionKind::Explain, seen.operation.clone()),
        )),
        State::InDoubt { .. } => refuse(in_doubt(seen)),
    }
}

const fn hold(is_wanted: bool, record: &Record) -> Proposal {
    match (is_wanted, record.held) {
        (true, true) => already("it is held already"),
        (false, false) => already("nobody holds it"),
        (is_held, _) => order(Order::Hold(is_held), None),
    }
}

fn extend(wanted: Duration, seen: Seen<'_>) -> Proposal {
    match seen.record.state {
        State::Completed { at, window } | State::Dead { at, window } => {
            if window.resized(wanted).expires_at(at) > window.expires_at(at) {
                order(Order::Extend(wanted), None)
            } else {
                already("it is remembered as long already")
            }
        }
        State::Claimed { .. } | State::Started { .. } | State::Released { .. } => {
            refuse(Advice::text(
                seen.arrival.of(
                    "it has not finished, and its window begins when it does; it will be that of its pipeline",
                    "it has not finished, and its window begins when it does; it will be that of its claim",
                    "it has not finished, and its window begins when it does; it will be that of its route",
                ),
            ))
        }
        State::InDoubt { .. } => refuse(Advice::with(
            "it is kept until somebody resolves it, as this tells",
            Action::new(ActionKind::Explain, seen.operation.clone()),
        )),
    }
}

fn in_doubt(seen: Seen<'_>) -> Advice {
    Advice::with(
        "nobody knows whether the effect happened; find out and resolve it, as this tells",
        Action::new(ActionKind::Explain, seen.operation.clone()),
    )
}

const fn order(order: Order, remark: Option<Advice>) -> Proposal {
    Proposal::Do { order, remark }
}

const fn already(why: &'static str) -> Proposal {
    Proposal::Already { why }
}

const fn refuse(advice: Advice) -> Proposal {
    Proposal::Refuse { advice }
}

fn action_of<S: Serializer>(order: &Order, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(order.action())
}

#[cfg(test)]
mod tests;
