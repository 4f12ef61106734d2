//! Orders: what a person or a probe may state, and the store's answer.

use semel_core::decide::{self, Directed, Order, Refusal, Verdict};

use super::judge::Cause;
use super::law::Case;
use super::numbers::{instant, outcome, ticks, window};
use super::record::Stands;
use super::setup::{QUIET, Wish};
use super::steps::Net;
use super::subject::Protocol;
use super::world::{Phase, World};
use super::wrong::{Conduct, Keeping};

impl Protocol {
    /// Checks that a person or a probe may give this order: they tell the truth as far as it can be
    /// seen.
    pub(crate) fn may_order(&self, world: &World, operation: u8, wish: Wish) -> bool {
        let at = usize::from(operation);
        let life = &world.lives[at];
        let Some(record) = world.standing(at, &self.setup) else {
            return false;
        };
        match wish {
            Wish::Applied => record.is_in_doubt() && life.effects > 0,
            Wish::NotApplied => record.is_in_doubt() && life.effects == 0,
            Wish::Release => record.finished().is_none() && !record.is_in_doubt(),
            Wish::Requeue => record.is_dead() && !life.abandoned,
            // A retry for any class, however late.
            Wish::Abandon | Wish::Retry => record.is_in_doubt(),
            Wish::Hold => !record.held && record.finished().is_some(),
            Wish::Unhold => record.held,
            // People ask for it whatever the record is.
            Wish::Forget => true,
        }
    }

    /// Carries out an order. Returns whether it was accepted.
    pub(crate) fn order(&self, world: &mut World, operation: u8, wish: Wish) -> bool {
        let setup = &self.setup;
        let at = usize::from(operation);
        let window = window(setup);
        let hasty = setup.keeping == Keeping::TrustsHaste;
        let quiet = ticks(if hasty { 0 } else { QUIET });
        let order = match wish {
            Wish::Applied => Order::Resolve(Verdict::Applied {
                outcome: outcome(world.lives[at].answer),
                window,
            }),
            Wish::NotApplied => Order::Resolve(Verdict::NotApplied { quiet, asked: None }),
            Wish::Abandon => Order::Resolve(Verdict::Abandon { window }),
            Wish::Release => Order::Release,
            Wish::Requeue => Order::Requeue,
            Wish::Retry => Order::Retry,
            Wish::Hold => Order::Hold(true),
            Wish::Unhold => Order::Hold(false),
            Wish::Forget => Order::Forget,
        };
        let directed = self.directs(world, at, &order, Cause::Order(wish));
        let any = setup.keeping == Keeping::ForgetsAny && wish == Wish::Forget;
        if any {
            let entity = world.entity.to_core();
            self.write(world, at, None, Some(&entity), Cause::Order(wish));
            return true;
        }
        match directed {
            Directed::Now(_) => {
                match wish {
                    Wish::Applied => self.meets(Case::ResolvedApplied),
                    Wish::Abandon => {
                        world.lives[at].abandoned = true;
                        self.meets(Case::Abandoned);
                    }
                    Wish::Release => self.meets(Case::EndedByOperator),
                    Wish::Requeue => self.meets(Case::Requeued),
                    Wish::Retry => self.meets(Case::Retried),
                    Wish::Forget => {
                        let life = &mut world.lives[at];
                        life.forgotten = true;
                        life.before = life.effects;
                        self.meets(Case::ForgottenByOrder);
                    }
                    Wish::NotApplied => self.meets(Case::NotAppliedThenRerun),
                    Wish::Hold | Wish::Unhold => {}
                }
                true
            }
            Directed::Refused(Refusal::NotQuiet { .. }) => {
                self.meets(Case::NotQuiet);
                false
            }
            Directed::Refused(Refusal::Absent | Refusal::State(_)) | Directed::Failed(_) => {
                match wish {
                    Wish::Forget => self.meets(Case::ForgetRefused),
                    Wish::Retry => self.meets(Case::RetryRefused),
                    Wish::Applied
                    | Wish::NotApplied
                    | Wish::Abandon
                    | Wish::Release
                    | Wish::Requeue
                    | Wish::Hold
                    | Wish::Unhold => {}
                }
                false
            }
        }
    }

    /// A worker reports the finding of its probe, which it looked for after it learned of the
    /// doubt.
    pub(crate) fn finds(
        &self,
        world: &mut World,
        worker: usize,
        told_at: u8,
        applied: bool,
        net: Net,
    ) {
        let setup = &self.setup;
        let at = self.operation_of(world.workers[worker]);
        let undated =
            setup.conduct == Conduct::DatesLate || setup.keeping == Keeping::OverlooksAsked;
        let verdict = if applied {
            Verdict::Applied {
                outcome: outcome(world.lives[at].answer),
                window: window(setup),
            }
        } else {
            Verdict::NotApplied {
                quiet: ticks(QUIET),
                asked: (!undated).then(|| instant(told_at)),
            }
        };
        let was_quiet = world.records[at].is_some_and(|record| match record.state {
            Stands::InDoubt { since } => world.now >= since + QUIET,
            Stands::Claimed { .. }
            | Stands::Started { .. }
            | Stands::Released { .. }
            | Stands::Completed { .. }
            | Stands::Dead { .. } => false,
        });
        let life = world.lives[at];
        if !applied && life.effects > life.before {
            self.meets(Case::LandedAfterLook);
        }
        let cause = Cause::Found { applied, told_at };
        let directed = self.directs(world, at, &Order::Resolve(verdict), cause);
        match directed {
            Directed::Now(_) if applied => self.meets(Case::ProbedApplied),
            Directed::Now(_) => self.meets(Case::ProbedNotApplied),
            Directed::Refused(Refusal::NotQuiet { .. }) if was_quiet => {
                self.meets(Case::ProbeTooEarly);
            }
            Directed::Refused(Refusal::NotQuiet { .. }) | Directed::Failed(_) => {}
            Directed::Refused(Refusal::Absent | Refusal::State(_)) => {
                self.meets(Case::ProbeOvertaken);
            }
        }
        if net != Net::Answered {
            self.meets(Case::ProbeAgain);
            return;
        }
        match directed {
            // The worker asks again, with a new claim.
            Directed::Now(_) | Directed::Refused(Refusal::State(_) | Refusal::Absent) => {
                let claim = world.fresh_claim();
                let worker = &mut world.workers[worker];
                worker.claim = claim;
                worker.phase = Phase::Asking { asked: false };
            }
            Directed::Refused(Refusal::NotQuiet { .. }) | Directed::Failed(_) => {
                world.workers[worker].phase = Phase::Acknowledging { lists: true };
            }
        }
    }

    fn directs(&self, world: &mut World, at: usize, order: &Order, cause: Cause) -> Directed {
        let found = world.records[at];
        let record = found.map(|record| record.to_core(&self.setup, &self.entity));
        let entity = self.entity_record(world);
        let now = instant(world.now);
        let decision = decide::operate(record.as_ref(), entity.as_ref(), order, now);
        let after = Self::after(&decision.change, found);
        self.write(world, at, after, decision.entity.as_ref(), cause);
        decision.answer
    }
}
