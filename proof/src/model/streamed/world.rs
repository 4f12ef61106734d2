//! The whole state at one instant: the group, the changelog, and two members.

use super::setup::{Budget, MOST_TRANSACTIONS, Names, Setup};
use crate::model::named::Breakable;
use crate::model::numbers::NONE;

pub(crate) const MEMBERS: usize = 2;
/// Producers of a member.
const PRODUCERS: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) group: Group,
    /// The transactions, in the order in which their blocks are in the changelog.
    pub(crate) log: [Transaction; MOST_TRANSACTIONS],
    pub(crate) len: u8,
    pub(crate) members: [Member; MEMBERS],
    /// The owner of the newest producer of each transactional id.
    pub(crate) newest: [u8; MEMBERS * PRODUCERS],
    /// Records that were set aside, a bit each.
    pub(crate) listed: u8,
    /// A transaction whose commit is on its way.
    pub(crate) late: Option<u8>,
    pub(crate) left: Budget,
    pub(crate) broken: u32,
}

/// The knowledge of the group coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) generation: u8,
    pub(crate) owner: u8,
    /// The position of the partition.
    pub(crate) committed: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    /// Its transactional id.
    pub(crate) name: u8,
    /// The records that it puts out, a bit each.
    pub(crate) records: u8,
    pub(crate) at: u8,
    /// The assignment that it is for.
    pub(crate) assignment: u8,
    /// The position of the input with it, once its offsets were accepted.
    pub(crate) behind: u8,
    /// Offsets were committed after its own.
    pub(crate) is_older: bool,
    pub(crate) stands: Stands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stands {
    Open,
    Aborted,
    /// It is committed; says where its markers are already.
    Committed {
        offsets: bool,
        changelog: bool,
    },
}

impl Transaction {
    pub(crate) const fn is_committed(self) -> bool {
        matches!(self.stands, Stands::Committed { .. })
    }

    /// Returns whether readers of the changelog still wait for it.
    pub(crate) const fn is_pending(self) -> bool {
        match self.stands {
            Stands::Open => true,
            Stands::Aborted => false,
            Stands::Committed { changelog, .. } => !changelog,
        }
    }

    /// Returns whether readers of the committed offsets wait for it.
    pub(crate) const fn holds_offsets(self) -> bool {
        match self.stands {
            Stands::Open => self.behind != NONE,
            Stands::Aborted => false,
            Stands::Committed { offsets, .. } => !offsets && self.behind != NONE,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    /// The generation that its client is in; `NONE` is thrown out, or not in yet.
    pub(crate) generation: u8,
    pub(crate) assignment: Option<Assignment>,
    /// The producers that are made, a bit each.
    pub(crate) producers: u8,
    /// The batch that is committed next.
    pub(crate) work: Option<Work>,
    /// The batch that is written meanwhile.
    pub(crate) ahead: Option<Work>,
}

/// A member's knowledge of the partition that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Assignment {
    /// The generation in which it was given.
    pub(crate) id: u8,
    pub(crate) restore: Restore,
    /// The offset at which reading began.
    pub(crate) from: u8,
    /// Records that are finished, a bit each.
    pub(crate) finished: u8,
    /// The offset that was committed last.
    pub(crate) acked: u8,
    /// The transactions that the image has taken in, a bit each.
    pub(crate) image: u8,
    /// The position to which the changelog was read.
    pub(crate) next: u8,
}

/// The progress of restoring an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Restore {
    /// Asks for the position at which reading begins.
    Position,
    /// The committed offsets are awaited.
    Offsets,
    /// The end of the changelog is looked up.
    End,
    /// Everything before that end is awaited, and read.
    Until {
        end: u8,
    },
    Done,
}

/// A batch on its way into a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Work {
    pub(crate) assignment: u8,
    /// A bit for each record.
    pub(crate) batch: u8,
    /// The time at which a transaction over it began whose result is unknown.
    pub(crate) tried: u8,
    /// The producer whose transaction it is.
    pub(crate) producer: u8,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// About to begin, or to begin again.
    Ready,
    /// Outputs and block are written.
    Wrote { at: u8 },
    /// The group's metadata were read.
    Knows { at: u8, generation: u8 },
    /// The partition was seen to be its own.
    Looked { at: u8, generation: u8, behind: u8 },
    /// The offsets were taken.
    Offered { at: u8 },
}

/// The distance between the names of a member's producers.
const OWN: u8 = 2;

pub(crate) const RESTARTED: Member = Member {
    generation: NONE,
    assignment: None,
    producers: 0,
    work: None,
    ahead: None,
};

const NOTHING: Transaction = Transaction {
    name: NONE,
    records: 0,
    at: 0,
    assignment: NONE,
    behind: NONE,
    is_older: false,
    stands: Stands::Aborted,
};

impl World {
    /// The first member has the partition, the second has none.
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut members = [RESTARTED; MEMBERS];
        for member in &mut members {
            member.generation = 1;
        }
        members[0].assignment = Some(Assignment::new(1));
        Self {
            now: 0,
            group: Group {
                generation: 1,
                owner: 0,
                committed: 0,
            },
            log: [NOTHING; MOST_TRANSACTIONS],
            len: 0,
            members,
            newest: [NONE; MEMBERS * PRODUCERS],
            listed: 0,
            late: None,
            left: setup.budget,
            broken: 0,
        }
    }

    pub(crate) fn transactions(&self) -> &[Transaction] {
        self.log.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns whether a transaction of this name, or its markers, are still being written.
    pub(crate) fn is_busy(&self, name: u8) -> bool {
        let mut all = self.transactions().iter();
        all.any(|it| {
            it.name == name && it.is_committed() && (it.is_pending() || it.holds_offsets())
        })
    }

    /// The end of the part of the changelog that readers of committed records see.
    pub(crate) fn stable_end(&self) -> u8 {
        let pending = self.transactions().iter().position(|it| it.is_pending());
        pending.map_or(self.len, |at| u8::try_from(at).unwrap_or(self.len))
    }

    pub(crate) fn offsets_are_stable(&self) -> bool {
        !self.transactions().iter().any(|it| it.holds_offsets())
    }
}

impl Assignment {
    pub(crate) const fn new(id: u8) -> Self {
        Self {
            id,
            restore: Restore::Position,
            from: 0,
            finished: 0,
            acked: 0,
            image: 0,
            next: 0,
        }
    }
}

impl Member {
    /// The transactional id of a member's producer.
    pub(crate) const fn name(names: Names, member: u8, producer: u8) -> u8 {
        let own = match names {
            Names::Kept | Names::Fresh => member,
            Names::Shared => 0,
        };
        own + producer * OWN
    }

    /// Returns whether two transactional ids are of one member.
    pub(crate) const fn are_one_s(one: u8, other: u8) -> bool {
        one != NONE && other != NONE && one % OWN == other % OWN
    }

    /// Notes the next state of one of the two. The batch that is written meanwhile comes next.
    pub(crate) fn goes_on(&mut self, is_ahead: bool, work: Option<Work>) {
        if is_ahead {
            self.ahead = work;
            return;
        }
        self.work = work.or_else(|| self.ahead.take());
    }

    /// The batches that it has under way, in their order.
    pub(crate) fn works(&self) -> impl Iterator<Item = Work> + use<> {
        self.work.into_iter().chain(self.ahead)
    }
}

impl Breakable for World {
    fn broken(&self) -> u32 {
        self.broken
    }
}
