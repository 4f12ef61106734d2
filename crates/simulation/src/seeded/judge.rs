//! The judge: compares the effects at the far side with the store's records, operation by operation. It trusts only
//! the ledger of the far side.

use semel_core::port::checkpoint::CheckpointStore;
use semel_core::port::store::ListQuery;
use semel_core::{Parked, Record, StateKind, Store};
use semel_store_memory::MemoryStore;

use crate::seeded::file::mark_name;
use crate::seeded::kind::Kind;
use crate::seeded::once::kept;
use crate::seeded::payload::number_in;
use crate::seeded::scenario::Told;
use crate::seeded::world::World;

/// Judges the result of the scenario.
pub(crate) async fn judge(world: &World) -> Told {
    let mut told = Told::default();
    let store = world.store();
    let all = ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    };
    let parked = store
        .list_parked(&all)
        .await
        .map(|page| page.items)
        .unwrap_or_default();
    if world.kind == Kind::Output {
        cut_back(world, &store).await;
    }
    for number in 0..world.plan.operations {
        Case {
            world,
            number,
            effects: effects(world, number),
            record: world.record(number).await,
            parked: &parked,
        }
        .judge(&mut told);
    }
    let mut tally = world.tally();
    told.log = std::mem::take(&mut tally.log);
    told.dealt = std::mem::take(&mut tally.dealt);
    told.faults = std::mem::take(&mut tally.faults);
    told.seen = std::mem::take(&mut tally.seen);
    told.fenced = tally.fenced;
    told.takeovers = tally.takeovers;
    told.violations = std::mem::take(&mut tally.violations);
    told
}

/// Does what the next start would do: a worker that ran out of patience leaves behind lines that were not recorded.
async fn cut_back(world: &World, store: &MemoryStore) {
    for (worker, disk) in world.disks.iter().enumerate() {
        let mark = store.mark(&mark_name(worker)).await.ok().flatten();
        if !disk.cut_back(mark.unwrap_or_default()) {
            world.violation(format!(
                "the file of worker {worker} is shorter than its mark"
            ));
        }
        if !disk.is_whole() {
            world.violation(format!(
                "half a line is left in the file of worker {worker}"
            ));
        }
    }
}

/// The number of effects at the far side.
fn effects(world: &World, number: usize) -> u64 {
    match world.kind {
        Kind::Output => world.disks.iter().map(|disk| disk.lines_of(number)).sum(),
        Kind::Transaction
        | Kind::Keyed
        | Kind::Repeat
        | Kind::Stream
        | Kind::Park
        | Kind::Gated
        | Kind::Streamed
        | Kind::Once
        | Kind::OnceParked
        | Kind::Http
        | Kind::HttpParked
        | Kind::Claims => world.provider().applied(number),
    }
}

/// One operation.
struct Case<'a> {
    world: &'a World,
    number: usize,
    effects: u64,
    record: Option<Record>,
    parked: &'a [Parked],
}

impl Case<'_> {
    fn judge(&self, told: &mut Told) {
        self.duplicates(told);
        self.losses(told);
        self.doubts(told);
        self.records();
        self.attempts();
    }

    fn state(&self) -> Option<StateKind> {
        self.record.as_ref().map(|record| record.state.kind())
    }

    fn against(&self, what: &str) {
        let Self {
            number,
            effects,
            record,
            ..
        } = self;
        self.world
            .violation(format!("k{number}: {what}; {effects} effects, {record:?}"));
    }

    /// Returns whether a message of it was set aside for this reason.
    fn is_listed(&self, reason: &str) -> bool {
        if self.world.kind.is_direct() {
            return self.was_answered(reason);
        }
        self.parked
            .iter()
            .any(|it| &*it.reason == reason && number_in(&it.payload) == self.number)
    }

    /// Returns the same for scenarios with only callers, from the record and from the answers that the callers had.
    fn was_answered(&self, reason: &str) -> bool {
        match reason {
            // Its record may be forgotten by now.
            "dead" => self.world.tally().told_dead.contains(&self.number),
            "in-doubt" => self.state() == Some(StateKind::InDoubt),
            "too-old" => self.world.tally().told_too_old.contains(&self.number),
            _ => false,
        }
    }

    fn duplicates(&self, told: &mut Told) {
        if self.effects < 2 {
            return;
        }
        if self.world.kind.is_at_most_once() {
            told.duplicates += self.effects - 1;
            self.against("a duplicate");
            return;
        }
        let repeats = if self.world.kind == Kind::Claims {
            self.untold()
        } else {
            self.world.saw("repeated effect, listed");
            let record = self.record.as_ref();
            record.map_or(0, |record| record.possible_repeats)
        };
        if u64::from(repeats) + 1 < self.effects {
            told.duplicates += self.effects - 1 - u64::from(repeats);
            self.against("a repeat that is not listed");
        }
    }

    /// The number of clients that may have begun its effect, and were gone before they said so.
    fn untold(&self) -> u32 {
        let tally = self.world.tally();
        tally.untold.get(&self.number).copied().unwrap_or_default()
    }

    /// Checks that the effect is there, or that an operator can see why it is not.
    fn losses(&self, told: &mut Told) {
        let is_there = self.effects > 0 || self.is_superseded() || self.is_refused();
        if is_there {
            return;
        }
        let is_told = match self.state() {
            // Kept as in doubt, and given up after a probe by a worker that is gone: it is kept all the same.
            Some(StateKind::Dead) => self.is_listed("dead") || self.is_listed("in-doubt"),
            // Also if a probe found that it did not happen and its worker is gone: it is kept.
            Some(StateKind::InDoubt | StateKind::Released) => self.is_listed("in-doubt"),
            Some(StateKind::Claimed | StateKind::Started | StateKind::Completed) => false,
            // A worker that commits with its broker keeps no record of operations that it gave up; and a message that
            // came long after its record was forgotten was set aside.
            // The doubt of a client may have ended with a late refusal, whose record was forgotten.
            None => {
                self.is_listed("dead")
                    || self.is_listed("in-doubt")
                    || self.is_too_old()
                    || self.world.tally().told_in_doubt.contains(&self.number)
            }
        };
        // Once the store forgot, a late claim of a worker that is gone may have come before those of all others.
        let has_forgotten = self.world.tally().faults.contains_key("store forgets");
        let is_told_to_callers =
            has_forgotten && self.world.tally().told_conflict.contains(&self.number);
        let is_elsewhere = is_told_to_callers
            || self.world.queue().gave_up(self.number)
            || self.world.tally().remembered.contains(&self.number)
            || self.is_listed("fingerprint-conflict") && self.state().is_none();
        if is_told || is_elsewhere {
            return;
        }
        told.lost += 1;
        self.against("lost");
    }

    fn is_superseded(&self) -> bool {
        self.world.is_gated() && self.world.provider().is_superseded(self.number)
    }

    /// Returns whether a client was told that it is refused for good, or will be.
    fn is_refused(&self) -> bool {
        if !self.world.kind.is_http() {
            return false;
        }
        let answer = self.record.clone().and_then(kept);
        let is_on_record = answer.is_some_and(|it| {
            it.windows(12)
                .any(|it| it == b"HTTP/1.1 402" || it == b"HTTP/1.1 404")
        });
        is_on_record || self.world.tally().told_refused.contains(&self.number)
    }

    /// Returns whether it was set aside as too old, and rightly.
    fn is_too_old(&self) -> bool {
        if !self.is_listed("too-old") {
            return false;
        }
        let is_jump = !self.world.plan.turns.is_empty();
        if !is_jump && self.world.now() < self.world.plan.window / 2 {
            self.against("too old, but it was not");
        }
        true
    }

    fn doubts(&self, told: &mut Told) {
        if self.state() != Some(StateKind::InDoubt) {
            return;
        }
        if !self.is_listed("in-doubt") && !self.world.queue().gave_up(self.number) {
            self.against("a doubt that is not listed");
        }
        if self.world.tally().touched.contains(&self.number) {
            told.doubts_explained += 1;
        } else {
            told.doubts_unexplained += 1;
            self.against("a doubt without a cause");
        }
    }

    /// Checks that the store's records are true.
    fn records(&self) {
        let has_forgotten = self.world.tally().faults.contains_key("store forgets");
        if self.effects > 0 && self.is_refused() && !has_forgotten {
            self.against("refused, and it happened");
        }
        match self.state() {
            Some(StateKind::Completed)
                if self.effects == 0 && !self.is_superseded() && !self.is_refused() =>
            {
                self.against("completed, and it did not happen");
            }
            // A store that forgot may have had a dead letter made up for, and versions leave no doubt.
            Some(StateKind::Dead)
                if self.effects > u64::from(self.untold())
                    && !has_forgotten
                    && self.world.kind != Kind::Gated =>
            {
                self.against("dead, and it happened");
            }
            Some(StateKind::Claimed | StateKind::Started | StateKind::Released)
                if !self.world.queue().gave_up(self.number)
                    && !has_forgotten
                    && !self.is_superseded()
                    && !self.is_listed("in-doubt") =>
            {
                self.against("it came to no end");
            }
            Some(_) | None => {}
        }
    }

    /// Checks that no operation is given up before its attempts are spent, unless the effect was refused for good.
    fn attempts(&self) {
        let Some(record) = &self.record else {
            return;
        };
        let is_given_up = match (record.state.kind(), self.world.kind) {
            (StateKind::Dead, _) | (StateKind::InDoubt, Kind::Repeat | Kind::Stream) => true,
            // In doubt after one attempt already, or never.
            (
                StateKind::InDoubt,
                Kind::Output
                | Kind::Transaction
                | Kind::Keyed
                | Kind::Park
                | Kind::Gated
                | Kind::Streamed
                | Kind::Once
                | Kind::OnceParked
                | Kind::Http
                | Kind::HttpParked
                | Kind::Claims,
            )
            | (
                StateKind::Claimed
                | StateKind::Started
                | StateKind::Released
                | StateKind::Completed,
                _,
            ) => false,
        };
        let plan = &self.world.plan;
        let is_spent = record.failed_attempts() >= plan.failed || record.vanished >= plan.vanished;
        if is_given_up && !is_spent && !self.world.provider().may_be_given_up(self.number) {
            self.against("given up too early");
        }
    }
}
