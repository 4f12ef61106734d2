//! The faults of the calls of one life of a worker: drawn at the place of each call, by the weights of its scenario.

use std::time::Duration;

use crate::seeded::dice::Dice;
use crate::seeded::kind::{CALL_LIFE, Kind, LEASE};
use crate::seeded::life::Life;
use crate::seeded::plan::secs;

/// A method of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Claim,
    Settle,
    Renew,
    Park,
    Get,
    Operate,
    SettleWith,
    Apply,
    Admit,
    Commit,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Settle => "settle",
            Self::Renew => "renew",
            Self::Park => "park",
            Self::Get => "get",
            Self::Operate => "operate",
            Self::SettleWith => "settle with",
            Self::Apply => "apply",
            Self::Admit => "admit",
            Self::Commit => "commit",
        }
    }

    /// Returns whether it reports an effect's end to the store.
    const fn reports(self) -> bool {
        match self {
            Self::Settle | Self::SettleWith | Self::Apply | Self::Commit => true,
            Self::Claim | Self::Renew | Self::Park | Self::Get | Self::Operate | Self::Admit => {
                false
            }
        }
    }

    /// Returns whether the engine waits for its end, however long that takes.
    const fn is_in_turn(self) -> bool {
        matches!(self, Self::SettleWith | Self::Operate)
    }
}

/// The fault of one call of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreFault {
    LostRequest,
    LostAnswer,
    Slow { there: Duration, back: Duration },
    Refused,
    Items,
    CrashBefore,
    CrashAfter,
    PauseBefore(Duration),
    PauseAfter(Duration),
    Silent { arrives: bool },
}

/// The fault of one call of the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallFault {
    Refused,
    /// Refused for good on the way to the provider, by a party that knows of no earlier call.
    TurnedAway,
    LostRequest,
    LostAnswer,
    Slow {
        there: Duration,
        back: Duration,
    },
    CrashBefore,
    CrashInFlight(Duration),
    CrashApplied,
    Panic {
        applied: bool,
    },
    PauseBefore(Duration),
    PauseAfter(Duration),
}

/// The fault of one append to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Append {
    FailHalf,
    FailWhole,
    CrashBefore,
    CrashHalf,
    CrashWhole,
    Pause(Duration),
}

impl Life {
    pub(crate) fn store_fault(&self, method: Method, operations: &[usize]) -> Option<StoreFault> {
        if self.world.is_calm() {
            return None;
        }
        let nth = self.next(method.name());
        let site = self.site(&[12, method as u64, nth]);
        let mut dice = self.dice(site);
        let plan = &self.world.plan;
        if !dice.one_in(plan.one_call_in) {
            return None;
        }
        let weights = plan.weights;
        let is_impatient = plan.workers[self.worker].is_impatient && !method.is_in_turn();
        let fault = dice.weighted(&[
            (weights.lost_request, 0),
            (weights.lost_answer, 1),
            (weights.slow, 2),
            (weights.refused, 3),
            (weights.items, 4),
            (weights.crash, 5),
            (weights.crash, 6),
            (weights.pause, 7),
            (weights.pause, 8),
            (if is_impatient { weights.silent } else { 0 }, 9),
        ])?;
        let (fault, kind) = match fault {
            0 => (StoreFault::LostRequest, "lost request"),
            1 => (StoreFault::LostAnswer, "lost answer"),
            2 => {
                let (there, back) = (slow(&mut dice), slow(&mut dice));
                (StoreFault::Slow { there, back }, "delay")
            }
            3 => (StoreFault::Refused, "refused"),
            4 => (StoreFault::Items, "items fail"),
            5 => (StoreFault::CrashBefore, "crash"),
            6 => (StoreFault::CrashAfter, "crash"),
            7 => (StoreFault::PauseBefore(pause(&mut dice)), "pause"),
            8 => (StoreFault::PauseAfter(pause(&mut dice)), "pause"),
            _ => (
                StoreFault::Silent {
                    arrives: dice.one_in(2),
                },
                "no answer",
            ),
        };
        let name = method.name();
        if !self.world.deal(
            site,
            kind,
            format_args!("{self}: {name} {operations:?}: {fault:?}"),
        ) {
            return None;
        }
        self.disturb();
        self.world.touch(operations);
        // Its other work waits for the answer, and so may claims that it is granted until then; their leases run.
        let takes = match fault {
            StoreFault::Slow { there, back } => Some(there + back),
            StoreFault::Silent { .. } => Some(LEASE),
            StoreFault::LostRequest
            | StoreFault::LostAnswer
            | StoreFault::Refused
            | StoreFault::Items
            | StoreFault::CrashBefore
            | StoreFault::CrashAfter
            | StoreFault::PauseBefore(_)
            | StoreFault::PauseAfter(_) => None,
        };
        if let Some(takes) = takes {
            let in_hand = self.in_hand();
            self.world.touch(&in_hand);
            self.hold_up(takes);
        }
        if method.reports()
            && matches!(
                fault,
                StoreFault::LostAnswer | StoreFault::Silent { arrives: true }
            )
        {
            self.world.saw("lost answer of a report");
        }
        if method == Method::Claim && matches!(fault, StoreFault::LostAnswer) {
            self.world.saw("lost answer of a claim");
        }
        Some(fault)
    }

    pub(crate) fn call_fault(&self, operation: usize) -> Option<CallFault> {
        if self.world.is_calm() {
            return None;
        }
        let site = self.site(&[13, self.next("call")]);
        let mut dice = self.dice(site);
        let plan = &self.world.plan;
        if !dice.one_in(plan.one_call_in.div_ceil(2)) {
            return None;
        }
        let weights = plan.weights;
        // A stream runs on the worker's own task, and its panic would end the worker.
        let panic = if self.world.kind == Kind::Stream {
            0
        } else {
            weights.items
        };
        let fault = dice.weighted(&[
            (weights.refused, 0),
            (weights.refused, 10),
            (weights.lost_request, 1),
            (weights.lost_answer, 2),
            (weights.slow * 2, 3),
            (weights.crash, 4),
            (weights.crash, 5),
            (weights.crash, 6),
            (panic, 7),
            (weights.pause, 8),
            (weights.pause, 9),
        ])?;
        let (fault, kind) = match fault {
            0 => (CallFault::Refused, "effect refused"),
            1 => (CallFault::LostRequest, "effect: lost request"),
            2 => (CallFault::LostAnswer, "effect: lost answer"),
            3 => {
                let (there, back) = (far(&mut dice), slow(&mut dice));
                (CallFault::Slow { there, back }, "effect: delay")
            }
            4 => (CallFault::CrashBefore, "crash"),
            5 => (CallFault::CrashInFlight(far(&mut dice)), "crash"),
            6 => (CallFault::CrashApplied, "crash"),
            7 => (
                CallFault::Panic {
                    applied: dice.one_in(2),
                },
                "effect: panic",
            ),
            10 => (CallFault::TurnedAway, "effect: turned away"),
            8 => (CallFault::PauseBefore(pause(&mut dice)), "pause"),
            _ => (CallFault::PauseAfter(pause(&mut dice)), "pause"),
        };
        if !self.world.deal(
            site,
            kind,
            format_args!("{self}: the effect of k{operation}: {fault:?}"),
        ) {
            return None;
        }
        self.world.touch(&[operation]);
        Some(fault)
    }

    pub(crate) fn append_fault(&self, operations: &[usize]) -> Option<Append> {
        if self.world.is_calm() {
            return None;
        }
        let site = self.site(&[14, self.next("append")]);
        let mut dice = self.dice(site);
        if !dice.one_in(self.world.plan.one_call_in) {
            return None;
        }
        let weights = self.world.plan.weights;
        let fault = dice.weighted(&[
            (weights.refused, 0),
            (weights.lost_answer, 1),
            (weights.crash, 2),
            (weights.crash, 3),
            (weights.crash, 4),
            (weights.pause, 5),
        ])?;
        let (fault, kind) = match fault {
            0 => (Append::FailHalf, "append fails"),
            1 => (Append::FailWhole, "append fails"),
            2 => (Append::CrashBefore, "crash"),
            3 => (Append::CrashHalf, "crash"),
            4 => (Append::CrashWhole, "crash"),
            _ => (Append::Pause(pause(&mut dice)), "pause"),
        };
        let is_dealt = self.world.deal(
            site,
            kind,
            format_args!("{self}: append {operations:?}: {fault:?}"),
        );
        is_dealt.then_some(fault)
    }

    /// Returns whether a statement of a transaction fails.
    pub(crate) fn statement_fails(&self, operation: usize) -> bool {
        let site = self.site(&[15, self.next("statement")]);
        let mut dice = self.dice(site);
        let is_drawn = dice.one_in(self.world.plan.one_call_in * 2);
        is_drawn
            && self.world.deal(
                site,
                "statement fails",
                format_args!("{self}: the statement of k{operation} fails"),
            )
    }

    pub(crate) fn loses_acknowledgement(&self) -> bool {
        let site = self.site(&[16, self.next("acknowledge")]);
        let is_drawn = self.dice(site).one_in(self.world.plan.one_call_in);
        is_drawn
            && self.world.deal(
                site,
                "lost acknowledgement",
                format_args!("{self}: its acknowledgement is lost"),
            )
    }

    /// The time that a probe takes there and back, and whether it finds anything.
    pub(crate) fn probe(&self) -> (Duration, Duration, bool) {
        let site = self.site(&[17, self.next("probe")]);
        let mut dice = self.dice(site);
        let is_drawn = dice.one_in(2);
        let (there, back, is_known) = (slow(&mut dice), far(&mut dice), !dice.one_in(4));
        if is_drawn
            && self.world.deal(
                site,
                "probe: delay",
                format_args!("{self}: a probe takes {there:?} and {back:?}"),
            )
        {
            return (there, back, is_known);
        }
        (Duration::ZERO, Duration::ZERO, true)
    }
}

fn slow(dice: &mut Dice) -> Duration {
    match dice.roll(4) {
        0 => Duration::ZERO,
        1 => dice.between(Duration::ZERO, LEASE),
        _ => dice.between(LEASE, secs(20)),
    }
}

/// A time nearly as long as a call may live.
fn far(dice: &mut Dice) -> Duration {
    if dice.one_in(3) {
        return slow(dice);
    }
    dice.between(LEASE, CALL_LIFE)
}

fn pause(dice: &mut Dice) -> Duration {
    if dice.one_in(3) {
        return dice.between(Duration::ZERO, LEASE);
    }
    dice.between(LEASE, secs(25))
}
