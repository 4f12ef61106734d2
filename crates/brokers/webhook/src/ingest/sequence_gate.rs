//! A source whose messages pass the sequence gate: what is next is put into the journal, acknowledged, and run from there;
//! what is known is a duplicate; what is missing is waited for. Not for deciding about messages, which the journal does.

mod judging;
mod numbers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::ingest::AnyIngestJournal;
use semel_core::port::source::{
    Acknowledgement, AnySource, Delivery, DeliveryId, Fetched, Judgement, Progress, Source,
};
use semel_core::producer::ProducerName;
use semel_core::select::Selector;
use semel_core::{Clock, Code, Error, ErrorKind, Fate, Result, Unusable};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::Gate;
use super::options::IngestOptions;
use super::source::{BETWEEN_TRIES, IngestSource, is_passing, until};
use judging::{Arrived, Judged, Word, judge};
use numbers::{Numbers, restore};

/// Settings of a sequence gate before a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct GateOptions {
    /// The id of the producer.
    pub producer: Selector,
    /// The epoch of its opening.
    pub epoch: Selector,
    /// The sequence of the message.
    pub sequence: Selector,
    /// True if messages without an identity are set aside.
    pub is_required: bool,
    /// True if a producer that is not on record may begin with any sequence.
    pub is_any_first: bool,
    /// True if other workers may have the same journal.
    pub is_shared: bool,
    /// True if a gap that lasts ends the source, instead of setting aside what is behind it.
    pub stops_at_gap: bool,
    /// The time for which a message is held for those that are missing before it.
    pub hold: Duration,
    /// The most messages that are held.
    pub most_held: usize,
}

/// A source with a sequence gate before it.
///
/// A message that is the next of its producer is durable in the journal, in one step with the position of the producer,
/// before it is acknowledged; from the journal it is handed over.
pub struct GatedSource {
    options: GateOptions,
    /// The source; not there while it is told something.
    inner: Option<AnySource>,
    telling: Option<JoinHandle<AnySource>>,
    /// The last word of the source.
    progress: Option<Progress>,
    hold: Option<Duration>,
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
    /// They wait for others. A message that came twice is there twice: neither is durable yet, so that neither may be
    /// acknowledged as known.
    held: BTreeMap<(Numbers, DeliveryId), Arrived>,
    /// The time at which all of these are asked about again: other workers may have what is missing.
    again_at: Instant,
    /// True once nothing more can come that would close a gap.
    is_last_look: bool,
    to_tell: Vec<DeliveryId>,
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
            options,
            progress: inner.progress(),
            hold: inner.hold(),
            inner: Some(inner),
            telling: None,
            has_ended: false,
            next_id: 0,
            out: BTreeMap::new(),
            passed: VecDeque::new(),
            arrived: Vec::new(),
            calls: JoinSet::new(),
            asked: BTreeSet::new(),
            revoked: BTreeSet::new(),
            held: BTreeMap::new(),
            again_at: now,
            is_last_look: false,
            to_tell: Vec::new(),
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

    /// Sets a message aside, or ends the source where it is to stop at a gap.
    fn refuse(&mut self, message: Arrived, unusable: Unusable) -> Result<()> {
        let is_gap = matches!(
            unusable,
            Unusable::SequenceGap { .. } | Unusable::ProducerUnknown { .. }
        );
        if is_gap && self.options.stops_at_gap {
            let message = format!(
                "{}: {unusable}; nothing of it is acknowledged. Bring what is missing, or set on_gap = \"quarantine\"",
                message.delivery.coordinates
            );
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(error.with_code(Code::SequenceGap).not_applied());
        }
        let mut delivery = message.delivery;
        delivery.judgement = Some(Judgement::Refused(unusable));
        self.passed.push_back(delivery);
        Ok(())
    }

    fn known(&mut self, mut delivery: Delivery) {
        delivery.judgement = Some(Judgement::Known);
        self.passed.push_back(delivery);
    }

    /// Looks at what the source has handed over.
    fn read(&mut self, deliveries: Vec<Delivery>) {
        let read_at = Instant::now();
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
            Fetched::Deliveries(deliveries) => self.read(deliveries),
            Fetched::Revoked(revoked) => {
                let gone: BTreeSet<_> = revoked.into_iter().collect();
                self.arrived.retain(|it| !gone.contains(&it.delivery.id));
                self.held.retain(|_, it| !gone.contains(&it.delivery.id));
                self.passed.retain(|it| !gone.contains(&it.id));
                self.revoked.extend(self.asked.intersection(&gone));
                let out = self.out.iter();
                let out = out.filter_map(|(id, place)| match place {
                    Place::Broker(delivery) => gone.contains(delivery).then_some(*id),
                    Place::Journal(_) => None,
                });
                return Some(Fetched::Revoked(out.collect()));
            }
            Fetched::Ended => self.has_ended = true,
            Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. } => return Some(fetched),
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
            self.arrived
                .extend(std::mem::take(&mut self.held).into_values());
            self.again_at = now + BETWEEN_LOOKS;
        }
        if self.has_ended && self.arrived.is_empty() && !self.held.is_empty() {
            self.is_last_look = true;
            self.arrived
                .extend(std::mem::take(&mut self.held).into_values());
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

    /// Acts on the words of the journal.
    fn judged(&mut self, judged: Judged) -> Result<Option<Fetched>> {
        let now = Instant::now();
        let mut has_more = false;
        for (message, word) in judged.words {
            let id = message.delivery.id;
            self.asked.remove(&id);
            if word == Word::Taken {
                has_more = true;
                self.to_tell.push(id);
            }
            // Another consumer has it now.
            if self.revoked.remove(&id) {
                continue;
            }
            let told = message.numbers.told();
            match word {
                Word::Taken => {}
                Word::Known => self.known(message.delivery),
                Word::Fenced { epoch } => {
                    let at = format!("{told}, and epoch {epoch} was heard of").into();
                    self.refuse(message, Unusable::ProducerFenced { at })?;
                }
                Word::Gap { expected } => {
                    let at = format!("{told}, and {expected} was expected").into();
                    self.wait(message, Unusable::SequenceGap { at }, now)?;
                }
                Word::Unknown { expected } => {
                    let at = format!("{told}, and {expected} was expected").into();
                    self.wait(message, Unusable::ProducerUnknown { at }, now)?;
                }
            }
        }
        for message in &judged.open {
            self.asked.remove(&message.delivery.id);
        }
        let open = judged.open.into_iter();
        let open = open.filter(|it| !self.revoked.remove(&it.delivery.id));
        self.arrived.extend(open);
        if has_more {
            // One of these may be next now.
            let held = std::mem::take(&mut self.held).into_iter();
            let (following, others) = held
                .partition::<BTreeMap<_, _>, _>(|(_, it)| it.numbers.producer == judged.producer);
            self.held = others;
            self.arrived.extend(following.into_values());
        }
        match judged.error {
            Some(error) if is_passing(&error) => {
                self.not_before = Some(now + BETWEEN_TRIES);
                self.is_away = true;
                Ok(Some(Fetched::Away(error)))
            }
            Some(error) => Err(error),
            None if self.not_before.take().is_some() && std::mem::take(&mut self.is_away) => {
                Ok(Some(Fetched::Back))
            }
            None => Ok(None),
        }
    }

    /// Holds a message for those that are missing before it, unless it was held for long enough.
    fn wait(&mut self, mut message: Arrived, why: Unusable, now: Instant) -> Result<()> {
        if self.is_last_look || message.read_at + self.options.hold <= now {
            return self.refuse(message, why);
        }
        let id = message.delivery.id;
        let earlier = (message.numbers.clone(), DeliveryId(0))..=(message.numbers.clone(), id);
        if let Some((_, other)) = self.held.range(earlier).next() {
            message.read_at = message.read_at.min(other.read_at);
        }
        self.held.insert((message.numbers.clone(), id), message);
        if self.held.len() > self.options.most_held {
            let oldest = self.held.iter().min_by_key(|(_, it)| it.read_at);
            let oldest = oldest.map(|(place, _)| place.clone());
            if let Some(oldest) = oldest.and_then(|it| self.held.remove(&it)) {
                let at = format!("{}, and too many wait", oldest.numbers.told()).into();
                return self.refuse(oldest, Unusable::SequenceGap { at });
            }
        }
        Ok(())
    }

    /// Has the source told what is durable, and that what waits here is still worked on, apart from the fetch, which may be
    /// cancelled.
    fn tell(&mut self, now: Instant) {
        let waits = !self.held.is_empty() || !self.arrived.is_empty() || !self.asked.is_empty();
        let is_due = waits && self.extend_at().is_some_and(|at| at <= now);
        if self.to_tell.is_empty() && !is_due {
            return;
        }
        let Some(mut inner) = self.inner.take() else {
            return;
        };
        let told = durable(&mut self.to_tell);
        let kept = if is_due { self.waiting() } else { Vec::new() };
        self.extended_at = now;
        self.telling = Some(tokio::spawn(async move {
            // What is not heard is delivered again, and known.
            let _ = inner.acknowledge(&told).await;
            if !kept.is_empty() {
                let _ = inner.extend(&kept).await;
            }
            inner
        }));
    }

    /// The time at which the source is to be told that what waits here is still worked on.
    fn extend_at(&self) -> Option<Instant> {
        self.hold.map(|hold| self.extended_at + hold / 3)
    }

    /// Returns the deliveries of the source that nobody has outside of this one.
    fn waiting(&self) -> Vec<DeliveryId> {
        let arrived = self.arrived.iter().chain(self.held.values());
        let arrived = arrived.map(|it| it.delivery.id);
        let passed = self.passed.iter().map(|it| it.id);
        let asked = self.asked.iter().copied();
        arrived.chain(passed).chain(asked).collect()
    }

    /// Returns the source, once it is told what it is told now.
    async fn inner(&mut self) -> Result<&mut AnySource> {
        if let Some(telling) = &mut self.telling {
            let inner = telling.await.map_err(|_| gone())?;
            self.telling = None;
            self.inner = Some(inner);
        }
        self.inner.as_mut().ok_or_else(gone)
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
        let is_told = self.telling.is_none() && self.to_tell.is_empty();
        self.has_ended && is_quiet && is_told && self.gate().lanes().is_done()
    }

    /// The time at which there may be something to do although nothing arrives.
    fn next_look(&self) -> Option<Instant> {
        if self.calls.is_empty() && !self.arrived.is_empty() {
            return self.not_before;
        }
        let is_idle = self.held.is_empty() && self.asked.is_empty() && self.arrived.is_empty();
        if is_idle {
            return None;
        }
        let again = (self.calls.is_empty() && !self.held.is_empty()).then_some(self.again_at);
        let extend = self.extend_at().filter(|_| self.telling.is_none());
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
            self.ask(now);
            self.tell(now);
            if self.is_done() {
                return Ok(Fetched::Ended);
            }
            let look_at = self.next_look();
            let wants_more = self.wants_more(max);
            let Self {
                inner,
                telling,
                journal,
                calls,
                ..
            } = self;
            let is_here = inner.is_some();
            tokio::select! {
                biased;
                Some(judged) = calls.join_next() => {
                    let judged = judged.map_err(|_| gone())?;
                    if let Some(said) = self.judged(judged)? {
                        return Ok(said);
                    }
                }
                told = joined(telling) => {
                    self.telling = None;
                    self.inner = Some(told?);
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
                fetched = fetch(inner, max), if wants_more && is_here => {
                    let fetched = fetched?;
                    if let Some(inner) = &self.inner {
                        (self.progress, self.hold) = (inner.progress(), inner.hold());
                    }
                    if let Some(said) = self.heard(fetched) {
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
            self.inner().await?.acknowledge(&of_broker).await?;
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
            self.inner().await?.requeue(&of_broker).await?;
        }
        given_back
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let (_, of_broker) = self.owners(batch);
        if of_broker.is_empty() {
            return Ok(());
        }
        self.inner().await?.extend(&of_broker).await
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
        let told = durable(&mut self.to_tell);
        let given_back = self.waiting();
        let inner = self.inner().await?;
        let heard = inner.acknowledge(&told).await;
        let returned = inner.requeue(&given_back).await;
        let closed = inner.close().await;
        recorded.and(heard).and(returned).and(closed)
    }

    fn progress(&self) -> Option<Progress> {
        self.progress
    }

    fn hold(&self) -> Option<Duration> {
        self.hold
    }
}

impl fmt::Debug for GatedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedSource")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Takes what is durable in the journal, to be acknowledged.
fn durable(to_tell: &mut Vec<DeliveryId>) -> Vec<Acknowledgement> {
    let told = std::mem::take(to_tell).into_iter();
    told.map(|id| Acknowledgement::new(id, Fate::Applied))
        .collect()
}

/// Fetches from a source that is there; waits for ever without one.
async fn fetch(inner: &mut Option<AnySource>, max: usize) -> Result<Fetched> {
    match inner {
        Some(inner) => inner.fetch(max).await,
        None => std::future::pending().await,
    }
}

/// Waits until the source is told, if it is told something.
async fn joined(telling: &mut Option<JoinHandle<AnySource>>) -> Result<AnySource> {
    match telling {
        Some(telling) => telling.await.map_err(|_| gone()),
        None => std::future::pending().await,
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

#[cfg(test)]
mod tests;
