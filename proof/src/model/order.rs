//! Orders: what a person or a probe may say, and what the store makes of it.

use semel_core::decide::{self, Directed, Order, Refusal, Verdict};

use super::Protocol;
use super::judge::Cause;
use super::law::Case;
use super::numbers::{instant, outcome, ticks, window};
use super::setup::{QUIET, Wish};
use super::world::World;
use super::wrong::Keeping;

impl Protocol {
    /// A person or a probe tells the truth as far as it can be seen.
    pub(crate) fn may_order(&self, world: &World, operation: u8, wish: Wish) -> bool {
        let at = usize::from(operation);
        let life = &world.lives[at];
        let Some(record) = world.standing(at, &self.setup) else {
            return false;
        };
        match wish {
            Wish::Applied => record.is_in_doubt() && life.effects > 0,
            Wish::NotApplied => record.is_in_doubt() && life.effects == 0,
            Wish::Abandon => record.is_in_doubt(),
            Wish::Release => record.finished().is_none() && !record.is_in_doubt(),
            Wish::Requeue => record.is_dead() && !life.abandoned,
            Wish::Hold => !record.held && record.finished().is_some(),
            Wish::Unhold => record.held,
            // People ask for it whatever the record is.
            Wish::Forget => true,
        }
    }

    /// Carries out an order; whether it was accepted.
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
            Wish::Hold => Order::Hold(true),
            Wish::Unhold => Order::Hold(false),
            Wish::Forget => Order::Forget,
        };
        let found = world.records[at];
        let record = found.map(|record| record.to_core(setup, &self.entity));
        let entity = self.entity_record(world);
        let decision =
            decide::operate(record.as_ref(), entity.as_ref(), &order, instant(world.now));
        let any = setup.keeping == Keeping::ForgetsAny && wish == Wish::Forget;
        let after = Self::after(&decision.change, found).filter(|_| !any);
        self.write(
            world,
            at,
            after,
            decision.entity.as_ref(),
            Cause::Order(wish),
        );
        if any {
            return true;
        }
        match decision.answer {
            Directed::Now(_) => {
                match wish {
                    Wish::Applied => self.meets(Case::ResolvedApplied),
                    Wish::Abandon => {
                        world.lives[at].abandoned = true;
                        self.meets(Case::Abandoned);
                    }
                    Wish::Release => self.meets(Case::EndedByOperator),
                    Wish::Requeue => self.meets(Case::Requeued),
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
                if wish == Wish::Forget {
                    self.meets(Case::ForgetRefused);
                }
                false
            }
        }
    }
}
