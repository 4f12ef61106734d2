//! The broker's actions in class E: ends of transactions, their markers, and the position of the partition.

use super::Streamed;
use super::law::{Case, Law};
use super::world::{Assignment, Member, Restore, Stands, Work, World};
use crate::model::numbers::NONE;

impl Streamed {
    /// The coordinator decides that a transaction is committed.
    pub(super) fn commits(&self, world: &mut World, at: u8) {
        let transaction = &mut world.log[usize::from(at)];
        transaction.stands = Stands::Committed {
            offsets: transaction.behind == NONE,
            changelog: false,
        };
        let by = transaction.assignment;
        if by < world.group.generation {
            self.meets(Case::CommittedAfterRebalance);
        }
        let told = |own: &Assignment| own.id > by && own.restore != Restore::Position;
        let mut owners = world.members.iter().filter_map(|it| it.assignment.as_ref());
        if owners.any(told) {
            world.broken |= Law::FencedCommitsNothing.bit();
        }
    }

    /// The coordinator ends a transaction that is open.
    pub(super) fn aborts(&self, world: &mut World, at: u8, why: Case) {
        self.meets(why);
        self.waited(world, at, true, true);
        world.log[usize::from(at)].stands = Stands::Aborted;
        if world.late == Some(at) {
            // It will be refused, whenever it arrives.
            self.meets(Case::CommitUnknownNot);
            world.late = None;
        }
        self.forgets(world);
    }

    /// Removes aborted transactions at the end of the log that no member holds any more: they leave no
    /// trace.
    pub(super) fn forgets(&self, world: &mut World) {
        while let Some(last) = world.len.checked_sub(1) {
            let is_named = |member: &Member| {
                let mut works = member.works().filter_map(Work::transaction);
                let read = member.assignment.is_some_and(|own| {
                    let until = matches!(own.restore, Restore::Until { end } if end > last);
                    until || own.next > last || own.image & (1 << last) != 0
                });
                works.any(|it| it == last) || read
            };
            let is_aborted = world.log[usize::from(last)].stands == Stands::Aborted;
            if !is_aborted || world.members.iter().any(is_named) {
                return;
            }
            let fresh = World::new(&self.setup).log;
            world.log[usize::from(last)] = fresh[usize::from(last)];
            world.len = last;
        }
    }

    /// A marker is written: at the offsets or in the changelog.
    pub(super) fn marks(&self, world: &mut World, at: u8, of_changelog: bool) {
        self.waited(world, at, !of_changelog, of_changelog);
        let transaction = &mut world.log[usize::from(at)];
        let Stands::Committed { offsets, changelog } = &mut transaction.stands else {
            return;
        };
        if of_changelog {
            *changelog = true;
            return;
        }
        *offsets = true;
        if transaction.is_older {
            self.meets(Case::OlderOffsets);
            return;
        }
        let behind = transaction.behind;
        // Earlier offers no longer count, however late their markers come.
        for before in &mut world.log[..usize::from(at)] {
            before.is_older |= before.holds_offsets();
        }
        Self::moves(world, behind);
    }

    /// Counts the readers that waited for this transaction.
    pub(super) fn waited(&self, world: &World, at: u8, offsets: bool, changelog: bool) {
        let transaction = world.log[usize::from(at)];
        for own in world.members.iter().filter_map(|it| it.assignment) {
            match own.restore {
                Restore::Position | Restore::Offsets if offsets && transaction.holds_offsets() => {
                    self.meets(Case::WaitedForOffsets);
                }
                Restore::Until { end } if changelog && transaction.is_pending() && at < end => {
                    self.meets(Case::WaitedForChangelog);
                }
                Restore::Position
                | Restore::Offsets
                | Restore::End
                | Restore::Until { .. }
                | Restore::Done => {}
            }
        }
    }

    pub(super) fn lands(&self, world: &mut World) {
        if let Some(at) = world.late.take() {
            self.commits(world, at);
            self.meets(Case::LateCommitLanded);
        }
    }

    pub(super) fn moves(world: &mut World, behind: u8) {
        if behind < world.group.committed {
            world.broken |= Law::OffsetsRise.bit();
        }
        world.group.committed = behind;
    }
}
