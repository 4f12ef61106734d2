//! One fault of one worker, at one step.

use std::time::Duration;

use semel_simulation::on_cue::broker::{OnAcknowledge, OnFetch};
use semel_simulation::on_cue::fault::{Fault, Method};
use semel_simulation::on_cue::file::Append;
use semel_simulation::on_cue::scripted::{Act, dead, dead_for_all, maybe_applied, not_applied};
use semel_simulation::on_cue::stage::{Cue, Kind, Stage};
use semel_simulation::on_cue::worker::Worker;
use semel_simulation::on_cue::{LEASE, WINDOW};

/// A fault of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deal {
    /// It dies with deliveries in its hands.
    Fetch,
    Claim(Fault),
    Renewal(Fault),
    Settle(Fault),
    /// It fails while it sets aside a message that it cannot use.
    Park(Fault),
    ClaimOutage(Fault),
    SettleOutage(Fault),
    Effect(Moment),
    Acknowledge(OnAcknowledge),
}

/// See [`Deal::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Broker,
    Store,
    Effect,
    Settle,
}

/// A moment of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nothing was sent; crash.
    Before,
    /// Refused; the worker knows that the effect did not happen.
    Refused,
    /// Refused for good, as the worker knows: this attempt did nothing, and no other would.
    Dead,
    /// The same, from behind the provider's own look-up of the key: no earlier attempt did anything either.
    DeadForAll,
    /// Stands still, and is then refused for good: this attempt did nothing.
    LateDead,
    /// The same, and no earlier attempt did anything either.
    LateDeadForAll,
    /// Sent and lost on the way; nobody knows.
    Lost,
    /// Nothing was sent; the code of the effect panics.
    Panic,
    /// On its way, lands this much later; crash.
    InFlight(Duration),
    /// Applied, the answer was lost.
    Cut,
    /// Applied, nobody knows; crash.
    Applied,
    /// Applied and known; crash.
    Known,
    /// Stands still before it is sent.
    SlowBefore,
    /// Stands still after it was applied.
    SlowAfter,
    /// Runs for so long that a renewal is refused.
    Long,
    /// Takes its time, and its lease is renewed: a late step of another worker meets a live claim.
    Meanwhile,
}

impl Deal {
    /// Checks that it can hit this kind of effect; if not, returns the reason.
    pub(crate) fn can_befall(self, kind: Kind) -> Result<(), &'static str> {
        let one_step = "claim, effect and completion are one transaction";
        let calls = "nothing is called";
        match (kind, self) {
            (
                Kind::Transaction,
                Self::Claim(Fault::LoseAnswer | Fault::CrashAfter | Fault::DelayAfter(_))
                | Self::SettleOutage(_)
                | Self::Effect(
                    Moment::Refused
                    | Moment::Dead
                    | Moment::DeadForAll
                    | Moment::LateDead
                    | Moment::LateDeadForAll
                    | Moment::Lost
                    | Moment::Known
                    | Moment::SlowAfter
                    | Moment::Meanwhile,
                ),
            ) => Err(one_step),
            (
                Kind::Transaction | Kind::Output,
                Self::Renewal(_) | Self::Effect(Moment::Long | Moment::Panic),
            )
            | (
                Kind::Output,
                Self::Effect(
                    Moment::Dead
                    | Moment::DeadForAll
                    | Moment::LateDead
                    | Moment::LateDeadForAll
                    | Moment::Lost,
                ),
            ) => Err(calls),
            (Kind::Stream, Self::Effect(Moment::Panic)) => Err("the worker ends with it"),
            (Kind::Output, Self::Effect(Moment::SlowAfter)) => {
                Err("a write that has ended is not waited for")
            }
            (Kind::Transaction | Kind::Output, Self::Effect(Moment::InFlight(after)))
                if after > LEASE =>
            {
                Err("nothing is on its way")
            }
            _ => Ok(()),
        }
    }

    /// Returns whether it is a refusal for good by the called side.
    pub(crate) fn is_refused_for_good(self) -> bool {
        matches!(self, Self::Effect(Moment::Dead | Moment::DeadForAll))
    }

    /// The place where a worker meets it. Of two faults at one place, the worker meets the second when it
    /// comes there again.
    pub(crate) fn place(self, kind: Kind) -> Place {
        match self {
            Self::Claim(_) | Self::Settle(_) | Self::Effect(_) if kind == Kind::Transaction => {
                Place::Store
            }
            Self::Claim(_) | Self::ClaimOutage(_) => Place::Store,
            Self::Settle(_) | Self::SettleOutage(_) => Place::Settle,
            Self::Effect(_) | Self::Renewal(_) => Place::Effect,
            Self::Fetch | Self::Acknowledge(_) | Self::Park(_) => Place::Broker,
        }
    }

    /// Deals it to `worker`, which had `before` faults of the same kind already.
    pub(crate) fn befall(self, stage: &Stage, worker: &mut Worker, cue: &mut Cue, before: u32) {
        let (claim, settle) = stage.methods();
        let minute = Duration::from_secs(60);
        let nth = before + 1;
        match self {
            Self::Fetch => worker.feed.on_fetch = Some(OnFetch::Crash),
            Self::Claim(fault) => drop(worker.plan.nth(claim, nth, fault)),
            Self::Settle(fault) => drop(worker.plan.nth(settle, nth, fault)),
            Self::Park(fault) => drop(worker.plan.nth(Method::Park, nth, fault)),
            Self::ClaimOutage(fault) => drop(worker.plan.outage(claim, minute, fault)),
            Self::SettleOutage(fault) => drop(worker.plan.outage(settle, minute, fault)),
            Self::Acknowledge(fault) => worker.feed.on_acknowledge = Some(fault),
            Self::Renewal(fault) => {
                worker.plan.nth(Method::Renew, nth, fault);
                cue.acts.push(Act::Slow(LEASE, Duration::ZERO));
            }
            Self::Effect(moment) if stage.kind == Kind::Transaction => {
                if let Some(fault) = moment.of_transaction() {
                    worker.plan.nth(Method::Apply, nth, fault);
                }
            }
            Self::Effect(moment) => {
                if let Some(append) = moment.append() {
                    cue.appends.push(append);
                }
                let stands_still = matches!(
                    moment,
                    Moment::SlowBefore
                        | Moment::SlowAfter
                        | Moment::Long
                        | Moment::LateDead
                        | Moment::LateDeadForAll
                );
                if stands_still && stage.kind != Kind::Output {
                    let delay = Fault::DelayBefore(LONG);
                    worker.plan.nth(Method::Renew, nth, delay);
                }
                cue.acts.push(moment.act());
            }
        }
    }

    /// Returns whether nothing is claimed when it begins to stand still.
    pub(crate) fn is_unclaimed(self, kind: Kind) -> bool {
        match self {
            Self::Claim(Fault::DelayBefore(_)) | Self::Park(_) => true,
            Self::Effect(_) | Self::Settle(Fault::DelayBefore(_)) => kind == Kind::Transaction,
            _ => false,
        }
    }
}

impl Moment {
    fn act(self) -> Act {
        match self {
            Self::Before => Act::DieBefore,
            Self::Refused => Act::Say(not_applied()),
            Self::Dead => Act::Say(dead()),
            Self::DeadForAll => Act::Say(dead_for_all()),
            Self::LateDead => Act::SaySlowly(PAST, dead()),
            Self::LateDeadForAll => Act::SaySlowly(PAST, dead_for_all()),
            Self::Lost => Act::Say(maybe_applied()),
            Self::Panic => Act::Panic,
            Self::InFlight(after) => Act::DieInFlight(after),
            Self::Cut => Act::DoAndSay(maybe_applied()),
            Self::Applied => Act::DieApplied,
            Self::Known => Act::DieKnowing,
            Self::SlowBefore => Act::Slow(PAST, Duration::ZERO),
            Self::SlowAfter => Act::Slow(Duration::ZERO, PAST),
            Self::Long => Act::Slow(LEASE * 3, Duration::ZERO),
            Self::Meanwhile => Act::Slow(LONG, Duration::ZERO),
        }
    }

    fn append(self) -> Option<Append> {
        match self {
            Self::Before => Some(Append::DieBefore),
            Self::Refused => Some(Append::FailHalf),
            Self::InFlight(_) => Some(Append::DieHalf),
            Self::Cut => Some(Append::FailWhole),
            Self::Applied => Some(Append::DieWhole),
            Self::Known => Some(Append::DieKnowing),
            Self::SlowBefore => Some(Append::Slow(LONG)),
            Self::Meanwhile => Some(Append::Slow(ALMOST)),
            Self::Dead
            | Self::DeadForAll
            | Self::LateDead
            | Self::LateDeadForAll
            | Self::Lost
            | Self::Panic
            | Self::SlowAfter
            | Self::Long => None,
        }
    }

    fn of_transaction(self) -> Option<Fault> {
        match self {
            Self::Before | Self::InFlight(_) => Some(Fault::CrashBefore),
            Self::Cut => Some(Fault::LoseAnswer),
            Self::Applied => Some(Fault::CrashAfter),
            Self::SlowBefore => Some(Fault::DelayBefore(LONG)),
            Self::Refused
            | Self::Dead
            | Self::DeadForAll
            | Self::LateDead
            | Self::LateDeadForAll
            | Self::Lost
            | Self::Panic
            | Self::Known
            | Self::SlowAfter
            | Self::Long
            | Self::Meanwhile => None,
        }
    }
}

/// Twice a lease.
pub(crate) const LONG: Duration = Duration::from_secs(LEASE.as_secs() * 2);
/// A little longer than a lease.
const PAST: Duration = Duration::from_secs(LEASE.as_secs() + LEASE.as_secs() / 3);
/// A little shorter: nothing is renewed while a file is written.
const ALMOST: Duration = Duration::from_millis(LEASE.as_secs() * 1_000 - 500);
/// Past the window of a record and its removal.
pub(crate) const EVICTION: Duration = Duration::from_secs(WINDOW_SECONDS * 3);
const WINDOW_SECONDS: u64 = WINDOW.duration().as_secs();
