//! The laws that a state by itself can break.

use super::law::{Case, Law};
use super::numbers::NONE;
use super::record::Rec;
use super::setup::Class;
use super::subject::Protocol;
use super::world::World;

impl Protocol {
    /// Checks all of them.
    pub(crate) fn look(&self, world: &mut World) {
        let mut broken = 0;
        let mut leased = 0;
        for at in 0..usize::from(self.operations()) {
            let life = &world.lives[at];
            let record = world.records[at];
            let is = |of: fn(&Rec) -> bool| record.as_ref().is_some_and(of);
            let repeats = self.setup.class == Class::Repeat;
            let effects = life.effects - life.before;
            let most = 1 + life.untold + if repeats { life.repeats } else { 0 };
            let unstarted = record.is_some_and(|record| record.first_start == NONE);
            let accounted = life.effects > 0 || life.listed || life.superseded;
            for (law, is_broken) in [
                (Law::RepeatsCounted, repeats && effects > most),
                (Law::SingleEffect, !repeats && effects > most),
                (Law::NoLoss, life.acknowledged && !accounted),
                (
                    Law::CompletedHappened,
                    is(Rec::is_completed) && effects == 0 && !life.superseded,
                ),
                (
                    Law::DeadDidNotHappen,
                    is(Rec::is_dead) && effects > life.untold && !life.abandoned,
                ),
                (
                    Law::DoubtHasACause,
                    is(Rec::is_in_doubt) && (unstarted || self.setup.class.is_atomic()),
                ),
            ] {
                if is_broken {
                    broken |= law.bit();
                }
            }
            let until = record.and_then(|record| record.lease());
            leased += u8::from(until.is_some_and(|until| until > world.now));
            if record.is_some_and(|record| record.held)
                && record
                    .and_then(|record| record.finished())
                    .is_some_and(|at| world.now >= at + self.setup.window)
            {
                self.meets(Case::HeldBeyondWindow);
            }
        }
        if self.setup.is_gated && leased > 1 {
            broken |= Law::OneHolder.bit();
        }
        world.broken |= broken;
    }
}
