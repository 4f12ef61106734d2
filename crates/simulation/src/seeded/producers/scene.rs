//! The world of a story: the journal, the broker or the gate, and what the seed has in store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{ProducerName, ProducerOrder, StreamEntry};
use semel_store_memory::{MemoryIngest, MemoryProducers};

use crate::seeded::course::{Course, secs};
use crate::seeded::dice::{Dice, Site};

/// The world.
pub(super) struct Scene {
    pub(super) plan: Plan,
    pub(super) course: Arc<Course>,
    /// The content of the journal's server.
    pub(super) journal: Arc<MemoryProducers>,
    /// The content of the store behind the gate.
    pub(super) gate: Arc<MemoryIngest>,
    state: Mutex<State>,
}

/// The decisions of the seed that come first.
pub(super) struct Plan {
    pub(super) processes: u64,
    /// The number of messages of the input.
    pub(super) rows: u64,
    /// True if the sink is the gate of an ingest source.
    pub(super) has_gate: bool,
    /// True if the sink may leave out a message and take a later one.
    pub(super) is_in_waves: bool,
    /// The orders of an operator, and their times.
    pub(super) orders: Vec<(Duration, ProducerOrder)>,
    /// The time for which things go wrong.
    pub(super) safety: Duration,
    is_calm: bool,
}

/// The part of the world that changes.
#[derive(Default)]
pub(super) struct State {
    /// Messages that the broker took, in its order.
    pub(super) topic: Vec<Published>,
    /// The time of each opening, by its epoch.
    openings: BTreeMap<u64, Duration>,
    /// The time since which the producer is frozen, and the sequence up to which it was not when it was ordered last.
    frozen: Option<(Duration, u64)>,
    /// The highest sequence that the lives of processes were told to be with the sink.
    pub(super) answered: BTreeMap<(u64, u64), u64>,
    /// The highest epoch that the gate has taken messages of.
    pub(super) gate_epoch: u64,
    is_finished: bool,
}

/// A message as the broker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) id: Box<str>,
    pub(super) row: u64,
    pub(super) sequence: u64,
}

impl Scene {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let plan = Plan::new(seed);
        Arc::new(Self {
            course: Arc::new(Course::new(seed, plan.is_calm)),
            plan,
            journal: Arc::default(),
            gate: Arc::default(),
            state: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream as the journal has it.
    pub(super) async fn stream(&self) -> Option<StreamEntry> {
        let producers = self.journal.list().await.unwrap_or_default();
        let mut streams = producers.into_iter().flat_map(|it| it.streams);
        streams.find(|it| &*it.stream == STREAM)
    }

    /// Notes an opening that its process knows of.
    pub(super) fn opened(&self, epoch: u64) {
        let now = self.course.now();
        self.state().openings.insert(epoch, now);
        self.course.log(format_args!("epoch {epoch}"));
    }

    /// Holds a call of the sink against what its process must have heard by now.
    pub(super) fn sends(&self, epoch: u64, last: u64) {
        let now = self.course.now();
        let state = self.state();
        let mut later = state.openings.range(epoch + 1..);
        let fenced_at = later.next().map(|(_, at)| *at);
        let frozen = state.frozen;
        drop(state);
        if let Some(at) = fenced_at {
            self.course.fenced();
            self.course.saw(FENCED);
            if now > at + HEARD {
                let what = format!("epoch {epoch} sends long after a later one was opened");
                self.course.violation(what);
            }
        }
        if let Some((since, limit)) = frozen
            && now > since + HEARD
            && last > limit
        {
            let what = format!("message {last} is sent, and was to be kept");
            self.course.violation(what);
        }
    }

    /// Carries out an order of an operator.
    pub(super) async fn order(&self, order: ProducerOrder) {
        self.course.log(format_args!("{order:?}"));
        let is_known = self.journal.order(&name(), order).await;
        let next = self.stream().await.map_or(1, |it| it.next);
        let now = self.course.now();
        let frozen = &mut self.state().frozen;
        match order {
            _ if !matches!(is_known, Ok(true)) => {}
            ProducerOrder::Freeze if frozen.is_some() => {}
            ProducerOrder::Freeze | ProducerOrder::Release => *frozen = Some((now, next - 1)),
            ProducerOrder::Thaw => *frozen = None,
        }
    }

    /// Returns whether the journal has all of the input and knows it to be with the sink.
    pub(super) async fn is_done(&self) -> bool {
        let stream = self.stream().await;
        stream.is_some_and(|it| it.next == self.plan.rows + 1 && it.waiting() == 0)
    }

    /// Lets the processes end.
    pub(super) fn finish(&self) {
        self.state().is_finished = true;
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state().is_finished
    }

    /// The time until a process is killed, if it is.
    pub(super) fn next_kill(&self, process: u64, life: u64) -> Option<Duration> {
        let mut dice = self.course.dice(&[KILL, process, life]);
        let after = dice.between(secs(1), secs(60));
        let is_early = self.course.now() + after < self.plan.safety;
        (!self.plan.is_calm && is_early).then_some(after)
    }

    pub(super) fn rest(&self, process: u64, life: u64) -> Duration {
        let mut dice = self.course.dice(&[REST, process, life]);
        dice.between(Duration::from_millis(1), secs(20))
    }

    pub(super) async fn killed(&self, process: u64, life: u64) {
        let confirmed = self.stream().await.map_or(0, |it| it.confirmed);
        let answered = self.state().answered.get(&(process, life)).copied();
        if answered.is_some_and(|sequence| sequence > confirmed) {
            self.course.saw(UNCONFIRMED);
        }
        self.course
            .log(format_args!("process {process}, life {life}"));
        self.course.blow("producer killed");
    }
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, Site::at(&[PLAN]));
        let is_calm = dice.one_in(6);
        let has_gate = dice.one_in(2);
        let safety = secs(150);
        let mut orders = Vec::new();
        if dice.one_in(3) {
            let mut at = dice.between(secs(5), secs(60));
            orders.push((at, ProducerOrder::Freeze));
            if dice.one_in(2) {
                at += dice.between(secs(1), secs(40));
                orders.push((at, ProducerOrder::Release));
            }
            at += dice.between(secs(1), secs(80));
            orders.push((at, ProducerOrder::Thaw));
        }
        Self {
            processes: if is_calm { 1 } else { 1 + dice.roll(2) },
            rows: 20 + dice.roll(300),
            has_gate,
            is_in_waves: !has_gate && dice.one_in(2),
            orders,
            safety,
            is_calm,
        }
    }
}

/// The name of the producer.
pub(super) fn name() -> ProducerName {
    // A name of plain letters is one.
    #[expect(clippy::unwrap_used, reason = "a constant")]
    "billing".parse().unwrap()
}

/// The stream that is published.
pub(super) const STREAM: &str = "invoices";
/// The hash of the input.
pub(super) const DIGEST: [u8; 32] = [1; 32];
/// The number of order keys.
pub(super) const KEYS: u64 = 5;
/// The time within which a process has heard of a later opening, or of an order: it believes the journal for four
/// seconds after an answer, which may be as late as the longest call of these stories.
const HEARD: Duration = Duration::from_secs(4 + 20);
// The places that draws are made for.
const PLAN: u64 = 101;
const KILL: u64 = 102;
const REST: u64 = 103;
pub(super) const PACE: u64 = 104;
pub(super) const CALL: u64 = 105;
pub(super) const PUBLICATION: u64 = 106;
// The hard cases.
pub(super) const FENCED: &str = "sent after a later opening";
pub(super) const UNCONFIRMED: &str = "killed between publication and confirmation";
pub(super) const KEPT: &str = "a message kept of a frozen producer";
pub(super) const GAP: &str = "a gap at the gate";
pub(super) const KNOWN: &str = "a message that the gate knows";
