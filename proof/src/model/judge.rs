//! Checks of the store's answers and changes.

use semel_core::{Admission, StateKind};

use super::answers::Told;
use super::law::{Case, Law};
use super::named::Breakable;
use super::numbers::{NONE, outcome_number, tick};
use super::record::{Ent, Rec, Recover, Stands};
use super::setup::{Class, QUIET, Wish};
use super::subject::Protocol;
use super::world::World;

/// The reason why a record may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Claim {
        granted: bool,
    },
    Settle {
        claim: u8,
        given_back: bool,
        /// True of a failure that speaks for every attempt.
        decisive: bool,
    },
    Renew {
        claim: u8,
    },
    Order(Wish),
    /// The finding of a probe, and the earliest time at which it looked.
    Found {
        applied: bool,
        told_at: u8,
    },
    Sweep,
}

impl Protocol {
    /// Notes the answer to a claim, and checks it against the laws.
    pub(crate) fn told(
        &self,
        world: &mut World,
        at: usize,
        before: Option<Rec>,
        answer: &Admission,
        claim: u8,
    ) -> Told {
        let after = world.records[at];
        match answer {
            Admission::Granted(granted) => {
                let token = u8::try_from(granted.token.get()).unwrap_or(NONE);
                if granted.resumed {
                    self.resumed(world, before, after, token, claim);
                } else {
                    if token <= world.top_token {
                        world.breaks(Law::TokensRise);
                    }
                    world.top_token = world.top_token.max(token);
                    world.next_token = token + 1;
                    self.granted(world, at, before, after);
                }
                Told::Granted { token }
            }
            Admission::Replay { outcome, .. } => {
                let kept = before
                    .filter(Rec::is_completed)
                    .map(|record| record.outcome);
                let said = outcome.as_ref().map_or(0, outcome_number);
                if kept != Some(said) {
                    world.breaks(Law::FirstOutcome);
                }
                let own = before.is_some_and(|record| record.claim == claim);
                self.meets(if own {
                    Case::ReplayOfOwn
                } else {
                    Case::ReplayToAnother
                });
                Told::Replay
            }
            Admission::Busy { .. } => {
                let released = |record: Rec| matches!(record.state, Stands::Released { .. });
                self.meets(match before {
                    Some(record) if record.lease().is_some_and(|until| until > world.now) => {
                        Case::BusyThenHandedBack
                    }
                    Some(record) if released(record) && self.setup.backoff > 0 => Case::BackoffBusy,
                    Some(_) | None => Case::EntityBusy,
                });
                Told::Busy
            }
            Admission::Conflict { .. } => {
                self.meets(Case::Conflict);
                Told::Conflict
            }
            Admission::Stale { .. } => {
                self.meets(Case::StaleVersion);
                Told::Stale
            }
            Admission::Parked { state, now, .. } => {
                self.parked(world, before, after, *state);
                let in_doubt_at = (*state == StateKind::InDoubt).then(|| tick(*now));
                Told::Parked { in_doubt_at }
            }
            Admission::TooOld => {
                self.meets(Case::TooOld);
                Told::TooOld
            }
            Admission::Failed(_) => Told::Busy,
        }
    }

    fn resumed(
        &self,
        world: &mut World,
        before: Option<Rec>,
        after: Option<Rec>,
        token: u8,
        claim: u8,
    ) {
        let same = before.is_some_and(|record| {
            record.claim == claim && record.token == token && record.lease().is_some()
        });
        if !same || before != after {
            world.breaks(Law::ResumedIsTheSame);
        }
        self.meets(Case::ResumedAfterLostAnswer);
        let lease = before.and_then(|record| record.lease());
        if lease.is_some_and(|until| until <= world.now) {
            self.meets(Case::ResumedAfterLease);
        }
    }

    fn granted(&self, world: &mut World, at: usize, before: Option<Rec>, after: Option<Rec>) {
        let setup = &self.setup;
        let Some(after) = after else {
            return world.breaks(Law::UnresolvedStays);
        };
        let failed = after.attempts.saturating_sub(1 + after.vanished);
        if failed >= setup.failed || after.vanished >= setup.vanished {
            world.breaks(Law::AttemptsCapped);
        }
        if self.gate(0).is_some() && after.version <= world.entity.applied {
            world.breaks(Law::VersionsRise);
        }
        let Some(before) = before else {
            // The message was born at the first tick.
            if setup.age_gate && world.now >= setup.window {
                world.breaks(Law::TooOldIsNotNew);
            }
            return;
        };
        if before.other_request != after.other_request {
            world.breaks(Law::ReuseIsConflict);
        }
        if let Stands::Released { not_before } = before.state
            && not_before > world.now
        {
            world.breaks(Law::BackoffKept);
        }
        if before.lease().is_some() {
            self.meets(Case::Takeover);
            let at_it = world
                .workers
                .iter()
                .any(|worker| worker.claim == before.claim);
            if at_it {
                self.meets(Case::TakenWhileAtIt);
            }
        }
        let doubt = match before.state {
            Stands::Started { recover, .. } => Some(recover),
            Stands::Claimed { .. }
            | Stands::Released { .. }
            | Stands::Completed { .. }
            | Stands::Dead { .. }
            | Stands::InDoubt { .. } => before.doubt,
        };
        match doubt {
            Some(Recover::Park) => world.breaks(Law::ParkedIsNotRerun),
            Some(Recover::Rerun) => {
                self.meets(Case::RepeatListed);
                if after.repeats != before.repeats + 1 {
                    world.breaks(Law::RepeatsCounted);
                }
            }
            Some(Recover::Within) if world.now >= before.first_start + setup.provider => {
                world.breaks(Law::KeyInsideWindow);
            }
            Some(Recover::Within) | None => {}
        }
        self.granted_again(world, at, before);
        world.lives[at].repeats = world.lives[at].repeats.max(after.repeats);
    }

    fn parked(&self, world: &World, before: Option<Rec>, after: Option<Rec>, state: StateKind) {
        if before == after {
            return;
        }
        let vanished = before.is_some_and(|record| record.lease().is_some());
        let capped = after.is_some_and(|record| record.vanished >= self.setup.vanished);
        let over = before.is_some_and(|record| {
            self.setup.class == Class::Keyed
                && world.now >= record.first_start.saturating_add(self.setup.provider)
        });
        self.meets(match (state, vanished) {
            (StateKind::Dead, true) => Case::DeadByVanished,
            (StateKind::Dead, false) => Case::DeadByFailed,
            (_, true) if over => Case::DoubtByWindow,
            (_, true) if capped => Case::DoubtByCap,
            (_, true) => Case::DoubtByVanished,
            (_, false) => Case::DoubtByCap,
        });
    }

    /// Checks which laws the change of a standing record breaks.
    pub(crate) fn judge(
        &self,
        world: &mut World,
        before: Rec,
        after: Option<Rec>,
        entity: Ent,
        cause: Cause,
    ) {
        let now = world.now;
        let foreign = match cause {
            Cause::Settle { claim, .. } | Cause::Renew { claim } => claim != before.claim,
            Cause::Claim { .. } | Cause::Order(_) | Cause::Found { .. } | Cause::Sweep => false,
        };
        if foreign && (after != Some(before) || entity != world.entity) {
            world.breaks(Law::FencedLeavesNoTrace);
        }
        let Some(after) = after else {
            let is_released = matches!(before.state, Stands::Released { .. });
            let is_told = cause == Cause::Order(Wish::Forget);
            if before.finished().is_none() && !(is_told && is_released) {
                world.breaks(Law::UnresolvedStays);
            } else if is_told {
                // A later record is a new one.
            } else if !before.is_expired(now, &self.setup) {
                world.breaks(Law::KeptItsWindow);
            }
            return;
        };
        let held = Rec {
            held: after.held,
            ..before
        };
        let is_hold = matches!(cause, Cause::Order(Wish::Hold | Wish::Unhold));
        let is_same = after == before || (is_hold && after == held);
        let requeued = cause == Cause::Order(Wish::Requeue) && before.is_dead();
        if before.finished().is_some() && !is_same && !requeued {
            world.breaks(Law::CompletedStays);
        }
        if before.is_in_doubt() && !is_same {
            Self::judge_verdict(world, before, after, cause);
        }
        if before.first_start != NONE && after.first_start != before.first_start {
            world.breaks(Law::FirstStartStays);
        }
        self.judge_claim(world, before, after, cause);
    }

    /// Checks that a doubt ends rightly.
    fn judge_verdict(world: &mut World, before: Rec, after: Rec, cause: Cause) {
        let is_quiet = |at: u8| match before.state {
            Stands::InDoubt { since } => at >= since + QUIET,
            Stands::Claimed { .. }
            | Stands::Started { .. }
            | Stands::Released { .. }
            | Stands::Completed { .. }
            | Stands::Dead { .. } => false,
        };
        let resolved = match (cause, after.state) {
            (Cause::Settle { claim, .. }, Stands::Completed { .. })
            | (
                Cause::Settle {
                    claim,
                    decisive: true,
                    ..
                },
                Stands::Dead { .. },
            ) => claim == before.claim,
            (Cause::Order(Wish::Applied), Stands::Completed { .. })
            | (Cause::Found { applied: true, .. }, Stands::Completed { .. })
            | (Cause::Order(Wish::Abandon), Stands::Dead { .. }) => true,
            (Cause::Order(Wish::NotApplied), Stands::Released { .. }) => is_quiet(world.now),
            (Cause::Order(Wish::Retry), Stands::Released { .. }) => {
                before.doubt.is_some() && after.doubt == before.doubt
            }
            (
                Cause::Found {
                    applied: false,
                    told_at,
                },
                Stands::Released { .. },
            ) => {
                if !is_quiet(told_at) {
                    world.breaks(Law::EvidenceIsQuiet);
                }
                is_quiet(world.now)
            }
            (
                Cause::Claim { .. }
                | Cause::Settle { .. }
                | Cause::Renew { .. }
                | Cause::Order(_)
                | Cause::Found { .. }
                | Cause::Sweep,
                _,
            ) => false,
        };
        if !resolved {
            world.breaks(Law::DoubtStays);
        }
    }

    fn judge_claim(&self, world: &mut World, before: Rec, after: Rec, cause: Cause) {
        let granted = cause == Cause::Claim { granted: true };
        if granted && before.lease().is_some_and(|until| until > world.now) {
            world.breaks(Law::OneLiveClaim);
        }
        if !granted && after.claim != before.claim {
            world.breaks(Law::OneLiveClaim);
        }
        let longer = after.lease() > before.lease() && after.lease().is_some();
        let own = matches!(cause, Cause::Renew { claim } if claim == before.claim);
        if longer && !granted && !own {
            world.breaks(Law::LeaseIsItsOwn);
        }
        let attempts = match cause {
            Cause::Claim { granted: true } => before.attempts + 1,
            Cause::Settle {
                given_back: true, ..
            } => before.attempts.saturating_sub(1),
            Cause::Order(Wish::NotApplied | Wish::Requeue | Wish::Retry)
            | Cause::Found { applied: false, .. } => 0,
            Cause::Claim { granted: false }
            | Cause::Settle { .. }
            | Cause::Renew { .. }
            | Cause::Order(_)
            | Cause::Found { .. }
            | Cause::Sweep => before.attempts,
        };
        if after.attempts != attempts {
            world.breaks(Law::OnlyAttemptsCount);
        }
        if after.vanished > self.setup.vanished {
            world.breaks(Law::AttemptsCapped);
        }
    }
}

impl Breakable for World {
    fn broken(&self) -> u32 {
        self.broken
    }
}

impl World {
    pub(crate) fn breaks(&mut self, law: Law) {
        self.broken |= law.bit();
    }
}
