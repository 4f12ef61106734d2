//! The laws of the output class that a state by itself can break.

use super::Output;
use super::law::Law;
use super::world::{FOREIGN, HALF, WORKERS, World};
use crate::model::numbers::NONE;

impl Output {
    /// Checks all of them.
    pub(crate) fn look(&self, world: &mut World) {
        for at in 0..world.records.len() {
            let lines = world.lines_of(at);
            let is_completed = world.records[at].is_some_and(|record| record.is_completed());
            let has = |bits: u8| bits & 1 << at != 0;
            for (law, is_broken) in [
                (Law::SingleLine, lines > 1),
                (Law::LineForRecord, is_completed && lines == 0),
                (Law::RecordForLine, lines > 0 && !has(world.ended)),
                (
                    Law::NothingLost,
                    has(world.acknowledged) && lines == 0 && !has(world.listed),
                ),
            ] {
                if is_broken {
                    world.breaks(law);
                }
            }
        }
        for file in 0..WORKERS {
            let mark = world.marks[file];
            if mark != NONE && world.files[file].len < mark {
                world.breaks(Law::CoversMark);
            }
            if world.recorded(file).contains(&HALF) {
                world.breaks(Law::WholeLines);
            }
            let before = world.files[file].first(self.setup.before);
            let stays = before.len() == usize::from(self.setup.before);
            if !stays || before.iter().any(|&line| line != FOREIGN) {
                world.breaks(Law::BeforeStays);
            }
        }
    }
}

impl World {
    pub(crate) fn breaks(&mut self, law: Law) {
        self.broken |= law.bit();
    }
}
