//! A source whose messages pass the sequence gate: what is next is put into the journal, acknowledged, and run from there;
//! what is known is a duplicate; what is missing is waited for. Not for deciding about messages, which the journal does.

mod judging;
mod message_queue;
mod numbers;
mod options;
mod upstream;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::ingest::AnyIngestJournal;
use semel_core::port::source::{
    Acknowledgement, AnySource, Delivery, DeliveryId, Fetched, Judgement, Progress, Source,
};
use semel_core::producer::ProducerName;
use semel_core::{Clock, Error, ErrorKind, Result};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Gate;
use super::options::IngestOptions;
use super::source::{BETWEEN_TRIES, IngestSource, is_passing, until};
use judging::{Arrived, Judged, Word, judge};
use message_queue::Held;
use numbers::{Numbers, restore};
use upstream::{Upstream, acknowledgements};

pub use options::GateOptions;

/// A source with a sequence gate before it.
///
/// A message that is the next of its producer is durable in the journal, in one step with the position of the producer,
/// before it is acknowledged; from the journal it is handed over.
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct GatedSource {
    options: GateOptions,
    upstream: Upstream,
    has_ended: bool,
    /// The messages that the journal took.
    journal: IngestSource,
    next_id: u64,
    /// Handed over, and not settled.
    out: BTreeMap<DeliveryId, Place>,
    /// To be handed over as they are.
    passed: VecDeque<Delivery>,
    /// The journal is asked about them next.
    arrived: Vec<Arrived>,
    calls: JoinSet<Judged>,
    /// The deliveries that it is asked about.
    asked: BTreeSet<DeliveryId>,
    /// Those of them that belong to another consumer since.
    revoked: BTreeSet<DeliveryId>,
    held: Held,
    /// The time at which all that are held are asked about again: other workers may have what is missing.
    again_at: Instant,
    /// The pause before the next look of that kind; shorter while what is missing comes.
    pause: Duration,
    /// True while the broker is not reached.
    is_source_away: bool,
    /// True once nothing more can come that would close a gap.
    is_last_look: bool,
    /// The time since which messages wait here, and none was taken.
    stuck_since: Option<Instant>,
    to_tell: Vec<DeliveryId>,
    /// Those that were revoked before anything was known of them.
    to_give_back: Vec<DeliveryId>,
    extended_at: Instant,
    /// The time before which a journal that failed is not asked again.
    not_before: Option<Instant>,
    is_away: bool,
}

/// The owner of a delivery that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Journal(DeliveryId),
    Broker(DeliveryId),
}

impl GatedSource {
    /// Puts a gate before `inner`: its messages are kept in `journal` under the name of the pipeline, and what is there
    /// already is handed over.
    ///
    /// # Errors
    ///
    /// Those of the journal.
    ///
    /// # Cancel safety
    ///
    /// Safe, but `inner` is dropped.
    pub async fn new(
        inner: AnySource,
        options: GateOptions,
        pipeline: &str,
        journal: AnyIngestJournal,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let opened = IngestSource::without_requests(pipeline, options.is_shared, journal, clock);
        let now = Instant::now();
        Ok(Self {
            journal: opened.await?,
            held: Held::new(options.hold, options.most_held),
            options,
            upstream: Upstream::new(inner),
            has_ended: false,
            next_id: 0,
            out: BTreeMap::new(),
            passed: VecDeque::new(),
            arrived: Vec::new(),
            calls: JoinSet::new(),
            asked: BTreeSet::new(),
            revoked: BTreeSet::new(),
            again_at: now,
            pause: BETWEEN_LOOKS,
            is_source_away: false,
            is_last_look: false,
            stuck_since: None,
            to_tell: Vec::new(),
            to_give_back: Vec::new(),
            extended_at: now,
            not_before: None,
            is_away: false,
        })
    }

    fn gate(&self) -> &Arc<Gate> {
        self.journal.gate()
    }

    /// Hands a delivery over under an id of this source.
    fn give(&mut self, mut delivery: Delivery, place: Place) -> Delivery {
        delivery.id = DeliveryId(self.next_id);
        self.next_id += 1;
        self.out.insert(delivery.id, place);
        delivery
    }

    /// Hands over what passes as it is.
    fn pass(&mut self, max: usize) -> Option<Fetched> {
        let count = max.min(self.passed.len());
        let passed: Vec<_> = self.passed.drain(..count).collect();
        let given = passed.into_iter().map(|delivery| {
            let place = Place::Broker(delivery.id);
            self.give(delivery, place)
        });
        let given: Vec<_> = given.collect();
        (!given.is_empty()).then_some(Fetched::Deliveries(given))
    }

    /// Looks at what the source has handed over.
    fn read(&mut self, deliveries: Vec<Delivery>) {
        let read_at = self.held.clock();
        for mut delivery in deliveries {
            match Numbers::of(&delivery, &self.options) {
                Ok(Some(numbers)) => self.arrived.push(Arrived {
                    numbers,
                    delivery,
                    read_at,
                }),
                Ok(None) => self.passed.push_back(delivery),
                // Its length is reason enough: its beginning alone is here.
                Err(_) if delivery.oversize_bytes.is_some() => self.passed.push_back(delivery),
                Err(unusable) => {
                    delivery.judgement = Some(Judgement::Refused(unusable));
                    self.passed.push_back(delivery);
                }
            }
        }
    }

    /// Acts on what the source has said. Returns what is to be handed on.
    fn heard(&mut self, fetched: Fetched) -> Option<Fetched> {
        match fetched {
            Fetched::Deliveries(deliveries) => {
                self.is_source_away = false;
                self.read(deliveries);
            }
            Fetched::Revoked(revoked) => {
                let gone: BTreeSet<_> = revoked.into_iter().collect();
                self.arrived.retain(|it| !gone.contains(&it.delivery.id));
                self.held.drop_all(&gone);
                self.passed.retain(|it| !gone.contains(&it.id));
                self.revoked.extend(self.asked.intersection(&gone));
                let out = self.out.iter();
                let out = out.filter_map(|(id, place)| match place {
                    Place::Broker(delivery) => gone.contains(delivery).then_some(*id),
                    Place::Journal(_) => None,
                });
                let out: Vec<_> = out.collect();
                let mut with_engine = BTreeSet::new();
                for place in self.out.values() {
                    if let Place::Broker(id) = place {
                        with_engine.insert(*id);
                    }
                }
                let is_here =
                    |id: &DeliveryId| !self.asked.contains(id) && !with_engine.contains(id);
                self.to_give_back
                    .extend(gone.iter().copied().filter(is_here));
                return (!out.is_empty()).then_some(Fetched::Revoked(out));
            }
            Fetched::Ended => self.has_ended = true,
            Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. } => {
                self.is_source_away = matches!(fetched, Fetched::Away(_));
                return Some(fetched);
            }
        }
        None
    }

    /// Asks the journal about what has arrived, one call a producer.
    fn ask(&mut self, now: Instant) {
        let may_ask = self.not_before.is_none_or(|at| at <= now);
        if !self.calls.is_empty() || !may_ask {
            return;
        }
        if self.again_at <= now {
            self.arrived.extend(self.held.take_due());
            self.again_at = now + self.pause;
            self.pause = (self.pause * 2).min(BETWEEN_LOOKS);
        }
        if self.has_ended && self.arrived.is_empty() && !self.held.is_empty() {
            self.is_last_look = true;
            self.arrived.extend(self.held.take());
        }
        let mut groups = BTreeMap::<ProducerName, Vec<Arrived>>::new();
        for message in self.arrived.drain(..) {
            self.asked.insert(message.delivery.id);
            let group = groups.entry(message.numbers.producer.clone()).or_default();
            group.push(message);
        }
        for (producer, group) in groups {
            let gate = Arc::clone(self.journal.gate());
            let call = judge(gate, self.options.is_any_first, producer, group);
            self.calls.spawn(call);
        }
    }

    /// Tells whether messages wait here, also for an answer of the journal.
    fn waits(&self) -> bool {
        !self.held.is_empty() || !self.arrived.is_empty() || !self.asked.is_empty()
    }

    /// Tells whether messages wait here, and none was taken for so long that what is next may not come before one of them is
    /// settled: a queue hands over in any order what a worker had that was killed.
    fn is_stuck(&mut self, now: Instant) -> bool {
        if !self.waits() {
            self.stuck_since = None;
            return false;
        }
        now >= *self.stuck_since.get_or_insert(now) + UNTIL_STUCK
    }

    /// Returns the number of deliveries of the source that it was not told of.
    fn unsettled(&self) -> usize {
        let out = self.out.values();
        let out = out.filter(|place| matches!(place, Place::Broker(_)));
        self.waiting().len() + out.count()
    }

    /// Has the source told what is durable, and, in time, that what waits here is still worked on.
    fn tell(&mut self, now: Instant) {
        let is_due = self.waits() && self.extend_at().is_some_and(|at| at <= now);
        let is_stuck = self.is_stuck(now);
        let is_empty = self.to_tell.is_empty() && self.to_give_back.is_empty();
        if self.upstream.is_being_told() || is_empty && !is_due && !is_stuck {
            return;
        }
        let mut worked_on = Vec::new();
        if is_due {
            worked_on = self.waiting();
            self.extended_at = now;
        }
        let durable = acknowledgements(&mut self.to_tell);
        let stuck = is_stuck.then(|| self.unsettled());
        let given_back = std::mem::take(&mut self.to_give_back);
        self.upstream.tell(durable, given_back, worked_on, stuck);
        if is_stuck {
            self.stuck_since = Some(now);
        }
    }

    /// The time at which the source is to be told that what waits here is still worked on.
    fn extend_at(&self) -> Option<Instant> {
        let hold = self.upstream.hold;
        hold.map(|hold| self.extended_at + hold / 3)
    }

    /// Returns the deliveries of the source that nobody has outside of this one.
    fn waiting(&self) -> Vec<DeliveryId> {
        let arrived = self.arrived.iter().map(|it| it.delivery.id);
        let passed = self.passed.iter().map(|it| it.id);
        let asked = self.asked.iter().copied();
        let waiting = arrived.chain(self.held.deliveries());
        waiting.chain(passed).chain(asked).collect()
    }

    /// Tells whether the source is to be read: not while much waits to be run.
    fn wants_more(&self, max: usize) -> bool {
        let lanes = self.gate().lanes();
        let waiting = lanes.waiting();
        let may_run = waiting.saturating_sub(lanes.parked());
        let most = u64::try_from(max).unwrap_or(u64::MAX).saturating_mul(4);
        !self.has_ended
            && self.arrived.is_empty()
            && waiting < IngestOptions::MAX_WAITING
            && may_run < most
    }

    /// Tells whether there will never be another delivery.
    fn is_done(&self) -> bool {
        let is_quiet = self.calls.is_empty() && self.arrived.is_empty() && self.held.is_empty();
        let is_told = !self.upstream.is_being_told() && self.to_tell.is_empty();
        self.has_ended && is_quiet && is_told && self.gate().lanes().is_done()
    }

    /// The time at which there may be something to do although nothing arrives.
    fn next_look(&self) -> Option<Instant> {
        if self.calls.is_empty() && !self.arrived.is_empty() {
            return self.not_before;
        }
        if !self.waits() {
            return None;
        }
        let again = (self.calls.is_empty() && !self.held.is_empty()).then_some(self.again_at);
        let extend = self.extend_at().filter(|_| !self.upstream.is_being_told());
        again.into_iter().chain(extend).min()
    }

    /// Splits deliveries by their owners: those of the journal, and those of the source.
    fn owners(&self, batch: &[DeliveryId]) -> (Vec<DeliveryId>, Vec<DeliveryId>) {
        let (mut journal, mut broker) = (Vec::new(), Vec::new());
        for place in batch.iter().filter_map(|id| self.out.get(id)) {
            match place {
                Place::Journal(id) => journal.push(*id),
                Place::Broker(id) => broker.push(*id),
            }
        }
        (journal, broker)
    }
}

impl Source for GatedSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let max = max.max(1);
        loop {
            if let Some(passed) = self.pass(max) {
                return Ok(passed);
            }
            let now = Instant::now();
            let is_read = self.wants_more(max) && !self.is_source_away;
            self.held.passes(now, is_read);
            self.ask(now);
            self.tell(now);
            if self.is_done() {
                return Ok(Fetched::Ended);
            }
            let look_at = self.next_look();
            let wants_more = self.wants_more(max);
            let Self {
                upstream,
                journal,
                calls,
                ..
            } = self;
            tokio::select! {
                biased;
                Some(judged) = calls.join_next() => {
                    let judged = judged.map_err(|_| gone())?;
                    if let Some(said) = self.judged(judged)? {
                        return Ok(said);
                    }
                }
                fetched = journal.fetch(max) => match fetched? {
                    Fetched::Deliveries(mut deliveries) => {
                        for delivery in &mut deliveries {
                            restore(delivery);
                            let place = Place::Journal(delivery.id);
                            *delivery = self.give(delivery.clone(), place);
                        }
                        return Ok(Fetched::Deliveries(deliveries));
                    }
                    said => return Ok(said),
                },
                fetched = upstream.fetch(max, wants_more) => {
                    if let Some(said) = fetched?.and_then(|it| self.heard(it)) {
                        return Ok(said);
                    }
                }
                () = until(look_at) => {}
            }
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let (mut of_journal, mut of_broker) = (Vec::new(), Vec::new());
        for told in batch {
            match self.out.remove(&told.delivery) {
                Some(Place::Journal(id)) => of_journal.push(Acknowledgement::new(id, told.fate)),
                Some(Place::Broker(id)) => of_broker.push(Acknowledgement::new(id, told.fate)),
                None => {}
            }
        }
        let recorded = self.journal.acknowledge(&of_journal).await;
        if !of_broker.is_empty() {
            self.upstream
                .source()
                .await?
                .acknowledge(&of_broker)
                .await?;
        }
        recorded
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let (of_journal, of_broker) = self.owners(batch);
        for id in batch {
            self.out.remove(id);
        }
        let given_back = self.journal.requeue(&of_journal).await;
        if !of_broker.is_empty() {
            self.upstream.source().await?.requeue(&of_broker).await?;
        }
        given_back
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let (_, mut of_broker) = self.owners(batch);
        // Nobody fetches while the engine has all that it can take.
        of_broker.extend(self.waiting());
        if of_broker.is_empty() {
            return Ok(());
        }
        self.extended_at = Instant::now();
        self.upstream.source().await?.extend(&of_broker).await
    }

    /// Waits until the journal has answered, has the source told what is durable, and gives back what is not.
    async fn close(&mut self) -> Result<()> {
        while let Some(judged) = self.calls.join_next().await {
            let judged = judged.map_err(|_| gone())?;
            let words = judged.words.into_iter();
            let (taken, other): (Vec<_>, Vec<_>) = words.partition(|(_, it)| *it == Word::Taken);
            self.to_tell
                .extend(taken.iter().map(|(it, _)| it.delivery.id));
            self.arrived.extend(other.into_iter().map(|(it, _)| it));
            self.arrived.extend(judged.open);
        }
        self.asked.clear();
        let recorded = self.journal.close().await;
        let told = acknowledgements(&mut self.to_tell);
        let mut given_back = self.waiting();
        given_back.append(&mut self.to_give_back);
        let inner = self.upstream.source().await?;
        let heard = inner.acknowledge(&told).await;
        let returned = inner.requeue(&given_back).await;
        let closed = inner.close().await;
        recorded.and(heard).and(returned).and(closed)
    }

    fn progress(&self) -> Option<Progress> {
        self.upstream.progress
    }

    fn hold(&self) -> Option<Duration> {
        self.upstream.hold
    }
}

impl fmt::Debug for GatedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedSource")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a task of the sequence gate has panicked",
    )
}

/// The time between two looks whether other workers have taken what is missing here.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// The same behind one that found something.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
/// The time in which nothing was taken before the source is asked for more: another worker may take what is missing.
const UNTIL_STUCK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
