//! The consequences of each action in the output class.

use super::Output;
use super::law::{Case, Law};
use super::setup::{Conduct, Keeping};
use super::steps::{Action, Came, Net};
use super::store::{Report, Told};
use super::world::{Batch, HALF, Item, Phase, STARTED, World};
use crate::model::numbers::NONE;
use crate::model::steps::index;

impl Output {
    pub(crate) fn happens(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Tick => next.now += 1,
            Action::Redeliver { worker, place } => {
                next.left.redelivered -= 1;
                let item = &mut next.workers[usize::from(worker)].hand[usize::from(place)];
                let item = item.as_mut()?;
                item.stale = true;
                next.queued[usize::from(item.post)] += 1;
            }
            Action::Take { worker, post } => {
                let claim = next.fresh_claim();
                next.queued[usize::from(post)] -= 1;
                let hand = &mut next.workers[usize::from(worker)].hand;
                let place = hand.iter_mut().find(|place| place.is_none())?;
                *place = Some(Item {
                    post,
                    claim,
                    granted: false,
                    stale: false,
                });
            }
            Action::Append { worker, came } => {
                self.appended(&mut next, usize::from(worker), came)?;
            }
            Action::Go { worker, net } => {
                next.left.lost -= u8::from(net == Net::AnswerLost);
                next.left.refused -= u8::from(net == Net::Refused);
                self.goes(&mut next, usize::from(worker), net);
            }
            Action::Crash { worker } => {
                next.left.crashes -= 1;
                self.crash(&mut next, usize::from(worker));
            }
            Action::CrashAsking { worker } => {
                next.left.crashes -= 1;
                let at = usize::from(worker);
                if let Phase::Recording { value, .. } = next.workers[at].phase {
                    next.late = Some(self.batch(&next, at, value));
                }
                if let Some(open) = &mut next.open[at] {
                    open.is_left = true;
                }
                self.crash(&mut next, at);
            }
            Action::Land => {
                let batch = next.late.take()?;
                self.settle_with(&mut next, batch);
            }
            Action::LandCommit { worker } => {
                Self::commits(&mut next, worker.into())?;
                self.meets(Case::CommittedAfterCrash);
            }
            Action::Sweep { operation } => {
                if !self.sweep(&mut next, operation) {
                    return None;
                }
            }
            Action::Reopen => {
                next.left.reopened -= 1;
                self.reopen(&mut next);
            }
        }
        if let Some(fault) = action.fault() {
            self.tally.deals(fault as usize);
        }
        self.look(&mut next);
        Some(next)
    }

    /// The worker makes its next request to the store.
    fn goes(&self, world: &mut World, worker: usize, net: Net) {
        let answered = net == Net::Answered;
        match world.workers[worker].phase {
            Phase::Opening => self.opens(world, worker, answered),
            Phase::Ready if self.is_admitting(worker) => self.admits(world, worker),
            Phase::Ready => self.claims(world, worker, answered),
            Phase::Undoing => self.undoes(world, worker, answered),
            Phase::Recording { value, asked } => {
                self.records(world, worker, value, asked, answered);
            }
            Phase::Marking { value } => {
                world.marks[self.file_of(worker)] = value;
                if answered {
                    self.is_recorded(world, worker, value);
                }
            }
            Phase::Committing => self.concludes(world, worker, net),
            Phase::Writing => {}
        }
    }

    /// Brings file and mark into agreement.
    fn opens(&self, world: &mut World, worker: usize, answered: bool) {
        let file = self.file_of(worker);
        let len = world.files[file].len;
        let conduct = self.setup.conduct;
        let mark = world.marks[file];
        let recorded = if mark == NONE {
            let keep = if conduct == Conduct::CutsUnmarked {
                0
            } else {
                len
            };
            world.files[file].cut_back(keep);
            if keep > 0 {
                self.meets(Case::FirstMark);
            }
            world.marks[file] = keep;
            keep
        } else if conduct == Conduct::AdoptsTail {
            world.marks[file] = len;
            len
        } else {
            if answered && conduct != Conduct::KeepsTail {
                if len > mark {
                    self.meets(Case::TailCut);
                }
                self.cut_back(world, file, mark);
            }
            mark
        };
        if answered {
            let worker = &mut world.workers[worker];
            worker.recorded = recorded;
            worker.phase = Phase::Ready;
        }
    }

    fn claims(&self, world: &mut World, worker: usize, answered: bool) {
        for place in 0..world.workers[worker].hand.len() {
            let Some(item) = world.workers[worker].hand[place] else {
                continue;
            };
            let told = self.claim(world, worker, item);
            if !answered {
                continue;
            }
            match told {
                Told::Granted => {
                    let granted = true;
                    world.workers[worker].hand[place] = Some(Item { granted, ..item });
                }
                Told::Busy => {}
                Told::Replay => self.acknowledge(world, worker, place),
                Told::SetAside => {
                    world.listed |= 1 << self.operation_of(item.post);
                    self.acknowledge(world, worker, place);
                }
            }
        }
        let worker = &mut world.workers[worker];
        if worker.granted().next().is_some() {
            worker.phase = Phase::Writing;
        }
    }

    /// Appends the granted lines.
    fn appended(&self, world: &mut World, worker: usize, came: Came) -> Option<()> {
        let file = self.file_of(worker);
        let mut granted: Vec<_> = world.workers[worker].granted().collect();
        let conduct = self.setup.conduct;
        if conduct == Conduct::RecordsFirst {
            let value = world.files[file].len + index(granted.len());
            if self.is_admitting(worker) {
                world.open[worker].as_mut()?.value = value;
                Self::commits(world, worker)?;
            } else {
                let batch = self.batch(world, worker, value);
                self.settle_with(world, batch);
            }
            return Some(());
        }
        let is_half = matches!(came, Came::FailsHalf | Came::CrashesHalf);
        if self.setup.keeping == Keeping::WritesTwice {
            granted.extend_from_within(..);
        }
        for (number, item) in granted.iter().enumerate() {
            let is_last = number + 1 == granted.len();
            let line = index(self.operation_of(item.post)) + 1;
            let line = if is_half && is_last { HALF } else { line };
            if !world.files[file].push(line) {
                return None;
            }
        }
        match came {
            Came::Whole => {
                let value = world.files[file].len;
                world.workers[worker].phase = if let Some(open) = &mut world.open[worker] {
                    open.value = value;
                    Phase::Committing
                } else {
                    Phase::Recording {
                        value,
                        asked: false,
                    }
                };
                if conduct == Conduct::AcksFirst {
                    for place in 0..granted.len() {
                        self.acknowledge(world, worker, place);
                    }
                }
            }
            Came::FailsWhole | Came::FailsHalf => {
                world.left.failures -= 1;
                if self.is_admitting(worker) {
                    self.gives_up(world, worker);
                } else {
                    world.workers[worker].phase = Phase::Undoing;
                }
            }
            Came::CrashesHalf => {
                world.left.torn -= 1;
                self.crash(world, worker);
            }
        }
        Some(())
    }

    /// Cuts off the bytes that a failed append has left, and gives the claims back.
    fn undoes(&self, world: &mut World, worker: usize, answered: bool) {
        let at = world.workers[worker];
        if self.setup.conduct != Conduct::KeepsHalf {
            self.cut_back(world, self.file_of(worker), at.recorded);
        }
        for item in at.granted() {
            let told = self.settle(world, item, Report::GiveBack);
            if told.is_none() {
                self.meets(Case::FencedRelease);
            } else if answered {
                self.meets(Case::GaveBack);
            }
        }
        if answered {
            for place in 0..at.hand.len() {
                Self::anew(world, worker, place);
            }
            world.workers[worker].phase = Phase::Ready;
        }
    }

    /// Records completions and the length of the file, together.
    fn records(&self, world: &mut World, worker: usize, value: u8, asked: bool, answered: bool) {
        let conduct = self.setup.conduct;
        let file = self.file_of(worker);
        let batch = self.batch(world, worker, value);
        if conduct == Conduct::RecordsApart {
            for item in batch.items.into_iter().flatten() {
                self.settle(world, item, Report::Complete);
            }
            if answered {
                world.workers[worker].phase = Phase::Marking { value };
            }
            return;
        }
        let refused = self.settle_with(world, batch);
        if !answered && conduct != Conduct::TrustsSilence {
            let asked = true;
            world.workers[worker].phase = Phase::Recording { value, asked };
            return;
        }
        let Some(mine) = refused.filter(|_| answered) else {
            if asked {
                self.meets(Case::RecordedAgain);
            } else if batch.items.iter().flatten().count() > 1 {
                self.meets(Case::RecordedTwo);
            }
            return self.is_recorded(world, worker, value);
        };
        // An earlier try may have been carried out and its answer lost: the mark shows that.
        if world.marks[file] == value && conduct != Conduct::CutsUnasked {
            self.meets(Case::KnownByMark);
            return self.is_recorded(world, worker, value);
        }
        if conduct == Conduct::KeepsRefused {
            world.workers[worker].recorded = value;
        } else {
            self.cut_back(world, file, world.workers[worker].recorded);
        }
        for (place, is_mine) in mine.into_iter().enumerate() {
            if !is_mine {
                Self::anew(world, worker, place);
            }
        }
        let is_left = world.workers[worker].granted().next().is_some();
        self.meets(if is_left {
            Case::RefusedPartly
        } else {
            Case::RefusedWhole
        });
        world.workers[worker].phase = if is_left {
            Phase::Writing
        } else {
            Phase::Ready
        };
    }

    fn is_recorded(&self, world: &mut World, worker: usize, value: u8) {
        for place in 0..world.workers[worker].hand.len() {
            if world.workers[worker].hand[place].is_some_and(|item| item.granted) {
                self.acknowledge(world, worker, place);
            }
        }
        let worker = &mut world.workers[worker];
        worker.recorded = value;
        worker.phase = Phase::Ready;
    }

    pub(crate) fn cut_back(&self, world: &mut World, file: usize, len: u8) {
        if world.files[file].len < len {
            return world.breaks(Law::CoversMark);
        }
        if world.files[file].cut_back(len) {
            self.meets(Case::HalfCut);
        }
    }

    /// The granted lines of a worker, and the length of its file with them.
    fn batch(&self, world: &World, worker: usize, value: u8) -> Batch {
        let granted = |item: Option<Item>| item.filter(|item| item.granted);
        Batch {
            file: index(self.file_of(worker)),
            items: world.workers[worker].hand.map(granted),
            value,
        }
    }

    /// An item is claimed with a new claim id.
    fn anew(world: &mut World, worker: usize, place: usize) {
        let claim = world.fresh_claim();
        if let Some(item) = &mut world.workers[worker].hand[place] {
            item.claim = claim;
            item.granted = false;
        }
    }

    pub(crate) fn crash(&self, world: &mut World, worker: usize) {
        let at = world.workers[worker];
        let mark = world.marks[self.file_of(worker)];
        if matches!(at.phase, Phase::Recording { value, .. } if value == mark) {
            self.meets(Case::RecordedThenCrashed);
        }
        for place in 0..at.hand.len() {
            Self::hand_back(world, worker, place);
        }
        world.workers[worker] = STARTED;
        // Its connection ends, and with it a batch that was not to be committed.
        if world.open[worker].is_some_and(|open| !open.is_left) {
            world.open[worker] = None;
        }
    }

    fn hand_back(world: &mut World, worker: usize, place: usize) {
        if let Some(item) = world.workers[worker].hand[place].take() {
            // A message that was delivered to another worker is that one's.
            world.queued[usize::from(item.post)] += u8::from(!item.stale);
        }
    }

    /// The broker gets an acknowledgement, which must rest on durable records.
    pub(crate) fn acknowledge(&self, world: &mut World, worker: usize, place: usize) {
        let Some(item) = world.workers[worker].hand[place].take() else {
            return;
        };
        let at = self.operation_of(item.post);
        let is_recorded = world.ended & 1 << at != 0 && world.lines_of(at) > 0;
        if !is_recorded && world.listed & 1 << at == 0 {
            world.breaks(Law::AcknowledgedRecorded);
        }
        if item.stale {
            self.meets(Case::StaleAck);
        }
        world.acknowledged |= 1 << at;
    }
}

impl Phase {
    /// Returns whether lines of this batch are in the file.
    pub(crate) fn has_appended(self) -> bool {
        match self {
            Self::Recording { .. } | Self::Marking { .. } | Self::Committing => true,
            Self::Opening | Self::Ready | Self::Writing | Self::Undoing => false,
        }
    }
}
