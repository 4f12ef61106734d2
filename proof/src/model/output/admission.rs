//! A batch that is decided, written and completed in one step of the store (MRK-2): while its lines are appended, the
//! store answers no other call.

use super::Output;
use super::law::Case;
use super::setup::{Conduct, Keeping};
use super::steps::Net;
use super::store::{Report, Told};
use super::world::{HAND, Open, Phase, World};
use crate::model::steps::index;

impl Output {
    /// Returns whether a worker works without claims of its own.
    pub(crate) fn is_admitting(&self, worker: usize) -> bool {
        worker < self.setup.admitting.into()
    }

    /// Returns whether the store keeps a worker waiting.
    pub(crate) fn waits(&self, world: &World, worker: usize) -> bool {
        if world.workers[worker].phase == Phase::Opening {
            if self.setup.keeping == Keeping::MarkAtOnce {
                return false;
            }
            let file = index(self.file_of(worker));
            if world.late.is_some_and(|batch| batch.file == file) {
                return true;
            }
        }
        let serves_others = self.setup.keeping == Keeping::ServesOthers;
        let holds = |(at, open): (usize, &Option<Open>)| {
            open.as_ref()
                .is_some_and(|open| open.is_left || (at != worker && !serves_others))
        };
        world.open.iter().enumerate().any(holds)
    }

    /// The store decides a batch, and leaves it to the worker to append the granted lines.
    pub(crate) fn admits(&self, world: &mut World, worker: usize) {
        let mut decided = world.clone();
        let mut told = [None; HAND];
        for (place, told) in told.iter_mut().enumerate() {
            let Some(item) = world.workers[worker].hand[place] else {
                continue;
            };
            let mut seen = if self.setup.keeping == Keeping::DecidesApart {
                world.clone()
            } else {
                decided.clone()
            };
            let answer = self.claim(&mut seen, worker, item);
            if answer == Told::Granted {
                self.settle(&mut seen, item, Report::Complete);
            }
            let at = self.operation_of(item.post);
            decided.records[at] = seen.records[at];
            *told = Some(answer);
        }
        // A batch that meets a key that another claim holds waits whole.
        if told.contains(&Some(Told::Busy)) {
            return self.meets(Case::WaitsWhole);
        }
        let of = |wanted: Told| {
            let places = (0..HAND).filter(|&place| told[place] == Some(wanted));
            places.fold(0, |bits, place| bits | 1 << place)
        };
        let open = Open {
            is_left: false,
            file: index(self.file_of(worker)),
            records: decided.records,
            aside: of(Told::SetAside),
            value: world.workers[worker].recorded,
        };
        let granted: u8 = of(Told::Granted);
        // If nothing is new, nothing is written.
        if granted == 0 {
            return self.answers(world, worker, open.aside);
        }
        for (place, item) in world.workers[worker].hand.iter_mut().enumerate() {
            if let Some(item) = item {
                item.granted = granted & 1 << place != 0;
            }
        }
        world.open[worker] = Some(open);
        world.workers[worker].phase = Phase::Writing;
    }

    /// The append failed: the store takes all of it back, and the worker ends. The bytes that it left in its file are
    /// for its next life.
    pub(crate) fn gives_up(&self, world: &mut World, worker: usize) {
        if self.setup.keeping == Keeping::CommitsFailed {
            // Its value is still that of the mark.
            Self::commits(world, worker);
        }
        self.meets(Case::AdmissionUndone);
        self.crash(world, worker);
    }

    /// The store is asked to commit.
    pub(crate) fn concludes(&self, world: &mut World, worker: usize, net: Net) {
        let before = world.workers[worker].recorded;
        let committed = match net {
            Net::Answered | Net::AnswerLost => Self::commits(world, worker),
            Net::Refused => {
                world.open[worker] = None;
                self.meets(Case::CommitRefused);
                None
            }
        };
        match (net, committed) {
            (Net::Answered, Some(open)) => {
                world.workers[worker].recorded = open.value;
                self.answers(world, worker, open.aside);
            }
            (Net::Refused, _) => {
                self.cut_back(world, self.file_of(worker), before);
                self.crash(world, worker);
            }
            // Lines that may be recorded stay, and the next life finds out.
            (Net::AnswerLost | Net::Answered, _) => {
                if self.setup.conduct == Conduct::UndoesUnknown {
                    self.cut_back(world, self.file_of(worker), before);
                }
                self.meets(Case::CommittedUnheard);
                self.crash(world, worker);
            }
        }
    }

    /// Records and mark are written together.
    pub(crate) fn commits(world: &mut World, worker: usize) -> Option<Open> {
        let open = world.open[worker].take()?;
        for (at, record) in open.records.into_iter().enumerate() {
            Self::write(world, at, record);
        }
        world.marks[usize::from(open.file)] = open.value;
        Some(open)
    }

    /// Gives everything in hand its answer.
    fn answers(&self, world: &mut World, worker: usize, aside: u8) {
        let hand = world.workers[worker].hand;
        if hand.iter().flatten().filter(|item| item.granted).count() > 1 {
            self.meets(Case::AdmittedTwo);
        }
        for (place, item) in hand.iter().enumerate() {
            let Some(item) = item else { continue };
            if aside & 1 << place != 0 {
                world.listed |= 1 << self.operation_of(item.post);
            }
            self.acknowledge(world, worker, place);
        }
        world.workers[worker].phase = Phase::Ready;
    }
}
