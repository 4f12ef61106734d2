//! The store: each item is decided by `semel_core::decide`, and a batch with its mark is whole or not at all.

use std::num::NonZeroU32;

use semel_core::claim::{AttemptLimits, ClaimRequest, Start};
use semel_core::decide;
use semel_core::{
    Admission, Certainty, Change, FencingToken, Outcome, Settled, Settlement, StateKind, Step,
};

use super::Output;
use super::law::{Case, Law};
use super::setup::Keeping;
use super::world::{Batch, HAND, Item, World};
use crate::model::numbers::{NONE, claim_id, fingerprint, instant, ticks, window};
use crate::model::record::{Rec, Stands};
use crate::model::steps::index;

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Granted,
    Replay,
    Busy,
    SetAside,
}

/// The result of a batch: for each item whether it was its own. Nothing, if all of it was recorded.
pub(crate) type Refused = Option<[bool; HAND]>;

impl Output {
    /// Asks for the claim of an item.
    pub(crate) fn claim(&self, world: &mut World, worker: usize, item: Item) -> Told {
        let at = self.operation_of(item.post);
        let found = world.records[at];
        let request = ClaimRequest {
            operation: self.operations[at].clone(),
            claim_id: claim_id(item.claim),
            fingerprint: Some(fingerprint(false)),
            members: None,
            transport: None,
            birth: self.setup.age_gate.then(|| instant(0)),
            window: window(&self.records),
            lease: ticks(self.setup.lease),
            limits: limits(),
            start: Start::Unmarked,
            gate: None,
            wants_outcome: false,
        };
        let record = found.map(|record| record.to_core(&self.records, &self.entity));
        // Nothing here is fenced by tokens; that they rise is checked elsewhere.
        let token = FencingToken::new(1);
        let now = instant(world.now);
        let decision = decide::claim(record.as_ref(), None, &request, now, token);
        Self::write(world, at, after(&decision.change, found));
        match &decision.answer {
            Admission::Granted(claim) => {
                if claim.resumed {
                    self.meets(Case::Resumed);
                }
                if claim.takeover {
                    self.meets(Case::Takeover);
                    let before = found.map_or(NONE, |record| record.claim);
                    let is_writing = |it: &Item| it.claim == before;
                    let mut others = world.workers.iter();
                    let has_appended = others.any(|it| {
                        it.phase.has_appended() && it.granted().any(|item| is_writing(&item))
                    });
                    if has_appended {
                        self.meets(Case::TakenWhileWriting);
                    }
                }
                Told::Granted
            }
            Admission::Replay { .. } => {
                let line = index(at) + 1;
                let is_own = world.recorded(self.file_of(worker)).contains(&line);
                self.meets(if is_own {
                    Case::ReplayOfOwn
                } else {
                    Case::ReplayToAnother
                });
                Told::Replay
            }
            Admission::Busy { .. } | Admission::Failed(_) => {
                self.meets(Case::Busy);
                Told::Busy
            }
            Admission::TooOld => {
                self.meets(Case::TooOld);
                Told::SetAside
            }
            Admission::Conflict { .. } | Admission::Stale { .. } | Admission::Parked { .. } => {
                Told::SetAside
            }
        }
    }

    /// Records a batch: completions and the mark of their file.
    pub(crate) fn settle_with(&self, world: &mut World, batch: Batch) -> Refused {
        let before = (world.records, world.marks);
        let mut records = world.records;
        let mut mine = [true; HAND];
        for (mine, item) in mine.iter_mut().zip(batch.items) {
            let Some(item) = item else { continue };
            let at = self.operation_of(item.post);
            let step = Step::Complete {
                outcome: Outcome::empty(),
                window: window(&self.records),
            };
            let (after, settled) = self.decided(world, item, step);
            *mine = settled.is_some();
            if *mine {
                records[at] = after;
            }
        }
        let is_whole = mine == [true; HAND];
        let keeping = self.setup.keeping;
        if is_whole || keeping == Keeping::SettlesSome {
            for (at, record) in records.into_iter().enumerate() {
                Self::write(world, at, record);
            }
        }
        if is_whole || keeping == Keeping::MarksAnyway {
            world.marks[usize::from(batch.file)] = batch.value;
        }
        if is_whole {
            return None;
        }
        if (world.records, world.marks) != before {
            world.breaks(Law::RefusedLeavesNoTrace);
        }
        Some(mine)
    }

    /// Settles one item by itself. Returns the state that the claim gets, or nothing if it is fenced.
    pub(crate) fn settle(
        &self,
        world: &mut World,
        item: Item,
        report: Report,
    ) -> Option<StateKind> {
        let step = match report {
            Report::Complete => Step::Complete {
                outcome: Outcome::empty(),
                window: window(&self.records),
            },
            Report::GiveBack => Step::Release {
                error: "".into(),
                certainty: Certainty::NotApplied,
                after: ticks(0),
                counted: false,
                limits: limits(),
                window: window(&self.records),
            },
        };
        let (after, settled) = self.decided(world, item, step);
        Self::write(world, self.operation_of(item.post), after);
        settled
    }

    /// Sweeps one record. Returns whether that changed it.
    pub(crate) fn sweep(&self, world: &mut World, operation: u8) -> bool {
        let at = usize::from(operation);
        let Some(found) = world.records[at] else {
            return false;
        };
        let record = found.to_core(&self.records, &self.entity);
        let change = decide::sweep(&record, instant(world.now));
        if change == Change::Keep {
            return false;
        }
        let mut hands = world.workers.iter().flat_map(|worker| &worker.hand);
        if hands.any(|item| item.is_some_and(|item| self.operation_of(item.post) == at)) {
            self.meets(Case::EvictedWhileHeld);
        }
        Self::write(world, at, after(&change, Some(found)));
        true
    }

    /// The store is opened anew: claims need not have been durable (DUR-1).
    pub(crate) fn reopen(&self, world: &mut World) {
        for record in &mut world.records {
            let is_claim = |record: &Rec| matches!(record.state, Stands::Claimed { .. });
            if record.as_ref().is_some_and(is_claim) {
                *record = None;
                self.meets(Case::ClaimsForgotten);
            }
        }
        if self.setup.keeping == Keeping::ForgetsMarks {
            world.marks.fill(NONE);
        }
    }

    fn decided(&self, world: &World, item: Item, step: Step) -> (Option<Rec>, Option<StateKind>) {
        let at = self.operation_of(item.post);
        let found = world.records[at];
        let settlement = Settlement {
            operation: self.operations[at].clone(),
            claim_id: claim_id(item.claim),
            step,
        };
        let record = found.map(|record| record.to_core(&self.records, &self.entity));
        let decision = decide::settle(record.as_ref(), None, &settlement, instant(world.now));
        let settled = match decision.answer {
            Settled::Now(state) => Some(state),
            Settled::Fenced { .. } | Settled::Failed(_) => None,
        };
        (after(&decision.change, found), settled)
    }

    pub(crate) fn write(world: &mut World, at: usize, record: Option<Rec>) {
        world.records[at] = record;
        if record.is_some_and(|record| record.is_completed()) {
            world.ended |= 1 << at;
        }
    }
}

/// A report of a claim by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Complete,
    GiveBack,
}

fn after(change: &Change, found: Option<Rec>) -> Option<Rec> {
    match change {
        Change::Keep => found,
        Change::Put(record) => Some(Rec::of(record)),
        Change::Remove => None,
    }
}

fn limits() -> AttemptLimits {
    const CAP: NonZeroU32 = NonZeroU32::new(9).expect("not zero");
    AttemptLimits {
        failed: CAP,
        vanished: CAP,
    }
}
