//! The laws of class E that a state by itself can break.

use super::Streamed;
use super::law::Law;
use super::world::{MEMBERS, Restore, World};

impl Streamed {
    /// Checks all of them.
    pub(crate) fn look(&self, world: &mut World) {
        let mut broken = 0;
        let committed = world.transactions().iter().enumerate();
        let committed = committed.filter(|(_, it)| it.is_committed());
        let (mut bits, mut outputs, mut put_out) = (0_u8, 0_u8, [0_u8; 2]);
        for (at, transaction) in committed {
            bits |= 1 << at;
            for record in self.records_of(transaction.records) {
                outputs |= 1 << record;
                put_out[usize::from(self.setup.records[record].operation)] += 1;
            }
        }
        if put_out.iter().any(|count| *count > 1) {
            broken |= Law::SingleOutput.bit();
        }
        for offset in 0..usize::from(world.group.committed) {
            let post = self.setup.records[offset];
            let same = self
                .records_of(outputs)
                .any(|it| self.setup.records[it] == post);
            if !same && world.listed & (1 << offset) == 0 {
                broken |= Law::NothingLost.bit();
            }
        }
        for own in world.members[..MEMBERS]
            .iter()
            .filter_map(|it| it.assignment)
        {
            if own.image & !bits != 0 {
                broken |= Law::OnlyCommitted.bit();
            }
            let decides = own.restore == Restore::Done && own.id == world.group.generation;
            if decides && bits & !own.image != 0 {
                broken |= Law::OwnerKnows.bit();
            }
        }
        world.broken |= broken;
    }
}
