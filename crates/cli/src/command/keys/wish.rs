//! What `semel keys release`, `forget`, `hold` and `extend` want done with a record, and what they refuse.

use std::time::Duration;

use semel_core::decide::Order;
use semel_core::{Operation, Record, Recovery, State, Timestamp};

use crate::assemble::Beside;
use crate::command::operate::Ground;

/// What a verb wants done with a record.
pub(super) enum Wish {
    /// This, with what is good to know about it before one says yes.
    Do(Order, Option<String>),
    /// It is so already.
    Already(&'static str),
    /// It does not fit; what to do instead.
    Refuse(String),
}

/// Decides what a verb wants done.
pub(super) trait Verb: Sync {
    fn wish(&self, record: &Record, now: Timestamp, key: &Wording<'_>) -> Wish;
}

/// Puts what there is to say about one key into words.
pub(super) struct Wording<'a> {
    pub(super) ground: &'a Ground,
    pub(super) operation: &'a Operation,
}

impl Wording<'_> {
    fn command(&self, verb: &str) -> String {
        self.ground.command(verb, self.operation)
    }

    /// Whether only files were read, and nobody is seen to have the store open: then its leases end
    /// when it is opened.
    fn is_left_alone(&self) -> bool {
        matches!(self.ground.beside, Some(Beside { process: None, .. }))
    }
}

/// Ends a lease or a backoff, gives the dead another chance.
pub(super) struct Release;

/// Removes a finished or released record.
pub(super) struct Forget;

/// Keeps a record, or lets go of it.
pub(super) struct Holding(pub(super) bool);

/// Remembers a finished record longer.
pub(super) struct Extending(pub(super) Duration);

impl Verb for Release {
    fn wish(&self, record: &Record, now: Timestamp, key: &Wording<'_>) -> Wish {
        let fenced = "a worker that is still at it loses its claim when somebody else takes it, but \
                      what it already sent stays sent";
        match record.state {
            State::Claimed { lease_until } | State::Started { lease_until, .. }
                if lease_until <= now =>
            {
                Wish::Already("its lease is over, so that nothing waits for it")
            }
            State::Claimed { .. } | State::Started { .. } if key.is_left_alone() => Wish::Already(
                "nobody has the store open, so that its lease ends as soon as somebody opens it",
            ),
            State::Claimed { .. } => Wish::Do(Order::Release, Some(fenced.to_owned())),
            State::Started { recovery, .. } => {
                let then = match recovery {
                    Recovery::Park => {
                        "the next delivery or sweep finds it in doubt and does not run it"
                    }
                    Recovery::Rerun => {
                        "the next delivery runs the effect, maybe for the second time"
                    }
                    Recovery::RerunWithin(_) => {
                        "the next delivery runs the effect with the same idempotency key, as long as \
                         the target remembers it"
                    }
                };
                Wish::Do(Order::Release, Some(format!("{then}; {fenced}")))
            }
            State::Released { not_before } if not_before <= now => {
                Wish::Already("it waits for nothing but a delivery")
            }
            State::Released { .. } => Wish::Do(Order::Release, None),
            State::Dead { .. } => {
                let replay = key.command("dead-letters replay");
                let remark = format!(
                    "its message was acknowledged and is not delivered again by itself; to run the one \
                     that was kept: {replay}"
                );
                Wish::Do(Order::Requeue, Some(remark))
            }
            State::Completed { .. } => Wish::Refuse(format!(
                "the effect happened; if it must happen again, forget the key: {}",
                key.command("keys forget")
            )),
            State::InDoubt { .. } => Wish::Refuse(format!(
                "nobody knows whether the effect happened; find out and resolve it, as this tells: {}",
                key.command("keys explain")
            )),
        }
    }
}

impl Verb for Forget {
    fn wish(&self, record: &Record, now: Timestamp, key: &Wording<'_>) -> Wish {
        match record.state {
            State::Completed { .. } => {
                let remark = "a message with this key that still comes runs the effect again";
                Wish::Do(Order::Forget, Some(remark.to_owned()))
            }
            State::Dead { .. } | State::Released { .. } => Wish::Do(Order::Forget, None),
            State::Claimed { lease_until } | State::Started { lease_until, .. } => {
                let at_it = if lease_until > now {
                    "somebody is at it; wait for its end, or end its lease first"
                } else {
                    "its worker vanished, and what it did is judged by the next delivery; see"
                };
                let verb = if lease_until > now {
                    "keys release"
                } else {
                    "keys explain"
                };
                Wish::Refuse(format!("{at_it}: {}", key.command(verb)))
            }
            State::InDoubt { .. } => Wish::Refuse(format!(
                "nobody knows whether the effect happened; find out and resolve it, as this tells: {}",
                key.command("keys explain")
            )),
        }
    }
}

impl Verb for Holding {
    fn wish(&self, record: &Record, _: Timestamp, _: &Wording<'_>) -> Wish {
        match (self.0, record.held) {
            (true, true) => Wish::Already("it is held already"),
            (false, false) => Wish::Already("nobody holds it"),
            (held, _) => Wish::Do(Order::Hold(held), None),
        }
    }
}

impl Verb for Extending {
    fn wish(&self, record: &Record, _: Timestamp, key: &Wording<'_>) -> Wish {
        match record.state {
            State::Completed { at, window } | State::Dead { at, window } => {
                if window.resized(self.0).expires_at(at) > window.expires_at(at) {
                    Wish::Do(Order::Extend(self.0), None)
                } else {
                    Wish::Already("it is remembered as long already")
                }
            }
            State::Claimed { .. } | State::Started { .. } | State::Released { .. } => Wish::Refuse(
                "it has not finished, and its window begins when it does; it will be that of its pipeline"
                    .to_owned(),
            ),
            State::InDoubt { .. } => Wish::Refuse(format!(
                "it is kept until somebody resolves it, as this tells: {}",
                key.command("keys explain")
            )),
        }
    }
}
