//! The source: reads the journal, and records there what is settled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::ingest::UNNUMBERED;
use semel_core::port::ingest::{Accepted, AnyIngestJournal, IngestJournal, Settled, Silence};
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::producer::{
    MessageIds, ProducerEntry, ProducerMessage, ProducerName, decode, headers,
};
use semel_core::{ByteString, Clock, Error, ErrorKind, Result};
use tokio::time::{Instant, sleep_until};

use super::gate::Gate;
use super::lanes::FROZEN;
use super::options::IngestOptions;
use crate::arrivals::Arrivals;
use crate::listeners::Listeners;

/// The messages that others send to one path, each kept in the journal until it is acknowledged.
pub struct IngestSource {
    gate: Arc<Gate>,
    /// The listener, if no other source shares it.
    own: Option<Listeners>,
    next_id: u64,
    /// Read, and not handed over yet.
    ready: VecDeque<InHand>,
    /// Given back, and the time at which they are handed over again.
    again: VecDeque<(Instant, InHand)>,
    out: BTreeMap<DeliveryId, InHand>,
    /// Settled since the last record of it, and the time of that.
    settled_count: u64,
    recorded_at: Instant,
    /// The time before which a journal that failed is not asked again.
    not_before: Option<Instant>,
    is_away: bool,
    /// The time of the last look at what producers with messages in memory may run.
    looked_at: Instant,
    /// The time of the next look at what other workers took, if there may be any.
    list_at: Option<Instant>,
    /// The time of the next look at who was silent for long, and the producer that it begins behind.
    forget_at: Option<(Instant, Option<ProducerName>)>,
}

/// A message and its place.
#[derive(Debug)]
struct InHand {
    producer: ProducerName,
    /// The life of the stream.
    begun: u64,
    sequence: u64,
    delivery: Delivery,
}

impl InHand {
    fn place(&self) -> (&ProducerName, u64, u64) {
        (&self.producer, self.begun, self.sequence)
    }
}

impl IngestSource {
    /// Begins to take the messages of one path of `listeners`, which other sources share, into a journal; reads what is
    /// in it already.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the path was not named when they were bound, or another source has it; those of the journal.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn on(
        listeners: &Listeners,
        options: IngestOptions,
        journal: AnyIngestJournal,
    ) -> Result<Self> {
        let entries = journal.list().await?;
        let gate = listeners.open_gate(options, journal)?;
        Ok(Self::of(gate, &entries))
    }

    /// Reads a stream of a journal into which no request puts messages: somebody here does, and tells the gate.
    ///
    /// # Errors   those of the journal
    /// # Cancel safety   safe
    pub(super) async fn without_requests(
        stream: &str,
        is_shared: bool,
        journal: AnyIngestJournal,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let entries = journal.list().await?;
        let options = IngestOptions {
            is_shared,
            ..IngestOptions::new(([127, 0, 0, 1], 0).into(), "", stream)
        };
        let nobody = Arrivals::new(options.max_body_bytes, 0, 1);
        let gate = Gate::new(options, journal, clock, nobody, Arc::default());
        Ok(Self::of(Arc::new(gate), &entries))
    }

    /// Begins with what the journal has.
    fn of(gate: Arc<Gate>, entries: &[ProducerEntry]) -> Self {
        begin(&gate, entries);
        let is_shared = gate.options().is_shared;
        let forgets = gate.options().forget_producers.is_some();
        Self {
            gate,
            own: None,
            next_id: 0,
            ready: VecDeque::new(),
            again: VecDeque::new(),
            out: BTreeMap::new(),
            settled_count: 0,
            recorded_at: Instant::now(),
            not_before: None,
            is_away: false,
            looked_at: Instant::now(),
            list_at: is_shared.then(|| Instant::now() + BETWEEN_LISTS),
            forget_at: forgets.then(|| (Instant::now(), None)),
        }
    }

    /// The gate, for whoever puts messages into the journal without a request.
    pub(super) const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Listens in plain HTTP at an address that no other source shares; see [`Listeners`] for several, and for TLS.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the address cannot be listened at; those of the journal.
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn open(
        options: IngestOptions,
        journal: AnyIngestJournal,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let place = (options.entrance, options.path.clone());
        let listeners = Listeners::bind([place], &BTreeMap::new(), clock, None).await?;
        let mut source = Self::on(&listeners, options, journal).await?;
        source.own = Some(listeners);
        Ok(source)
    }

    /// The address, with the port that the system chose if none was asked for; nothing if others share the listener, which
    /// knows it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.own.as_ref()?.address(self.gate.options().entrance)
    }

    /// Returns what is there to be handed over now.
    fn hand_over(&mut self, max: usize, now: Instant) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < max {
            let is_due = self.again.front().is_some_and(|(at, _)| *at <= now);
            let next = if is_due {
                self.again.pop_front().map(|(_, it)| it)
            } else {
                self.ready.pop_front()
            };
            let Some(mut in_hand) = next else {
                break;
            };
            let id = DeliveryId(self.next_id);
            self.next_id += 1;
            in_hand.delivery.id = id;
            deliveries.push(in_hand.delivery.clone());
            if semel_core::planted("X28") {
                let settled = [in_hand.place()];
                self.gate.lanes().settled(settled.into_iter());
            }
            self.out.insert(id, in_hand);
        }
        deliveries
    }

    /// Takes what was read of a producer.
    fn take(&mut self, producer: &ProducerName, read: &Accepted) -> Result<()> {
        let range = self.gate.lanes().read(producer, read, Instant::now());
        let Some((after, through)) = range else {
            return Ok(());
        };
        let stream = self.gate.options().stream.clone();
        let ids = MessageIds::of(producer.as_str(), &stream);
        let before = self.ready.len();
        for batch in &read.batches {
            let messages = decode(&batch.body).ok_or_else(|| damaged(producer, batch.first))?;
            for (sequence, message) in (batch.first..).zip(messages) {
                if sequence <= after || sequence > through {
                    continue;
                }
                let mut delivery = delivery(&stream, producer, sequence, message, &ids);
                delivery.appended_at = Some(batch.at);
                self.ready.push_back(InHand {
                    producer: producer.clone(),
                    begun: read.begun,
                    sequence,
                    delivery,
                });
            }
        }
        let found = u64::try_from(self.ready.len() - before).unwrap_or(u64::MAX);
        if found < through - after || (read.batches.is_empty() && is_lost(read, after)) {
            return Err(damaged(producer, after + 1));
        }
        Ok(())
    }

    /// Records what is settled, if there is anything. A producer whose messages are damaged keeps no other from it.
    async fn record(&mut self) -> Result<()> {
        let mut damage = None;
        for (producer, begun, through) in self.gate.lanes().unrecorded() {
            let stream = &self.gate.options().stream;
            let journal = self.gate.journal();
            let settled = Settled {
                begun,
                through,
                at: self.gate.now(),
            };
            match journal.settle(&producer, stream, settled).await {
                Ok(()) => self.gate.lanes().recorded(&producer, begun, through),
                Err(error) if error.kind() == ErrorKind::Corrupt => damage = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = damage {
            return Err(error);
        }
        self.settled_count = 0;
        self.recorded_at = Instant::now();
        Ok(())
    }

    /// Records what is settled if there is much of it, or it is a while ago. What is not on record is handed over again
    /// after a crash, and meets its own record.
    async fn record_if_due(&mut self) -> Result<()> {
        let is_due = self.settled_count >= RECORDED_TOGETHER
            || self.settled_count > 0 && self.recorded_at.elapsed() >= RECORDED_WITHIN;
        if is_due { self.record().await } else { Ok(()) }
    }

    /// Takes out of memory what may not run any more, since its producer was frozen after it was read: it is read again.
    /// What was given back waits instead.
    async fn hold_frozen(&mut self, now: Instant) -> Result<()> {
        let is_empty = self.ready.is_empty() && self.again.is_empty();
        if is_empty || now.duration_since(self.looked_at) < FROZEN {
            return Ok(());
        }
        let again = self.again.iter().map(|(_, it)| it);
        let producers = self.ready.iter().chain(again).map(|it| &it.producer);
        let producers: BTreeSet<_> = producers.cloned().collect();
        for producer in &producers {
            let stream = &self.gate.options().stream;
            let end = self.gate.lanes().end(producer);
            let journal = self.gate.journal();
            let read = journal.accepted(producer, stream, end, 1).await?;
            let limit = read.and_then(|it| it.standing.limit);
            let Some(limit) = limit.filter(|_| !semel_core::planted("X31")) else {
                continue;
            };
            let is_held = |it: &InHand| it.producer == *producer && it.sequence > limit;
            let first = self.ready.iter().find(|it| is_held(it));
            if let Some(first) = first.map(|it| it.sequence) {
                self.ready.retain(|it| !is_held(it));
                self.gate.lanes().give_back(producer, first, limit, now);
            }
            let (held, mut rest): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.again)
                .into_iter()
                .partition(|(_, it)| is_held(it));
            rest.extend(held.into_iter().map(|(at, it)| (at.max(now + FROZEN), it)));
            self.again = rest;
        }
        self.again.make_contiguous().sort_by_key(|(at, _)| *at);
        self.looked_at = now;
        Ok(())
    }

    /// Looks for what other workers took, some of which may be gone.
    async fn list_if_due(&mut self, now: Instant) -> Result<()> {
        if self.list_at.is_some_and(|at| at <= now) {
            let idle = self.gate.lanes().idle();
            let entries = self.gate.journal().list().await?;
            begin(&self.gate, &entries);
            // Others may have forgotten some.
            let stream = &self.gate.options().stream;
            let is_of = |it: &&ProducerEntry| it.streams.iter().any(|it| it.stream == *stream);
            let listed: BTreeSet<_> = entries.iter().filter(is_of).map(|it| &it.name).collect();
            self.gate.lanes().retain(&idle, |it| listed.contains(it));
            let is_shared = self.gate.options().is_shared;
            self.list_at = is_shared.then(|| now + BETWEEN_LISTS);
        }
        Ok(())
    }

    /// Forgets a page of producers that were silent for long, if it is time to.
    async fn forget_if_due(&mut self, now: Instant) -> Result<()> {
        let Some((at, after)) = &mut self.forget_at else {
            return Ok(());
        };
        let Some(longest) = self.gate.options().forget_producers.filter(|_| *at <= now) else {
            return Ok(());
        };
        let silence = Silence {
            stream: self.gate.options().stream.clone(),
            longest,
            now: self.gate.now(),
            after: after.clone(),
            most: PAGE_TO_FORGET,
        };
        let forgotten = match self.gate.journal().forget(&silence).await {
            Ok(forgotten) => forgotten,
            // Somebody holds a row for long, or the journal is away: nobody waits for this.
            Err(error) if is_passing(&error) => {
                *at = now + BETWEEN_FAILED_PAGES;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for producer in &forgotten.producers {
            self.gate.lanes().forget(producer);
        }
        *at = match forgotten.last {
            Some(_) => now + BETWEEN_PAGES,
            None => now + (longest / 8).clamp(BETWEEN_PAGES, BETWEEN_ROUNDS),
        };
        if forgotten.last.is_none() {
            // Whoever is gone without an answer of this call is not in the list.
            self.list_at = Some(now);
        }
        *after = forgotten.last;
        Ok(())
    }

    /// The time at which there may be something to do although nothing arrives.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let again = self.again.front().map(|(at, _)| *at);
        if let Some(not_before) = self.not_before {
            return Some(not_before);
        }
        let record = (self.settled_count > 0).then(|| self.recorded_at + RECORDED_WITHIN);
        let frozen = self.gate.lanes().has_frozen().then(|| now + FROZEN);
        let forget = self.forget_at.as_ref().map(|(at, _)| *at);
        let all = [again, record, frozen, self.list_at, forget];
        all.into_iter().flatten().min()
    }

    /// A journal that may be there later is away; any other error ends the source.
    fn failed(&mut self, error: Error) -> Result<Fetched> {
        if !is_passing(&error) {
            return Err(error);
        }
        self.not_before = Some(Instant::now() + BETWEEN_TRIES);
        self.is_away = true;
        Ok(Fetched::Away(error))
    }
}

impl Source for IngestSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let max = max.max(1);
        loop {
            if self.gate.is_closed() {
                return Ok(Fetched::Ended);
            }
            let now = Instant::now();
            let may_ask = self.not_before.is_none_or(|at| at <= now);
            if may_ask && let Err(error) = self.hold_frozen(now).await {
                return self.failed(error);
            }
            // While the journal is away, nobody knows whether a producer was frozen since.
            let deliveries = if may_ask {
                self.hand_over(max, now)
            } else {
                Vec::new()
            };
            if !deliveries.is_empty() {
                return Ok(Fetched::Deliveries(deliveries));
            }
            if may_ask {
                self.not_before = None;
                if let Err(error) = self.record_if_due().await {
                    return self.failed(error);
                }
                if let Err(error) = self.list_if_due(now).await {
                    return self.failed(error);
                }
                if let Err(error) = self.forget_if_due(now).await {
                    return self.failed(error);
                }
                if let Some((producer, after)) = self.gate.lanes().turn(now) {
                    let most = u32::try_from(max).unwrap_or(u32::MAX);
                    let stream = &self.gate.options().stream;
                    let journal = self.gate.journal();
                    let heard = self.gate.lanes().heard(&producer);
                    let read = journal.accepted(&producer, stream, after, most).await;
                    match read {
                        Ok(Some(read)) => self.take(&producer, &read)?,
                        // Another worker has forgotten it, after all of it was settled.
                        Ok(None) if self.gate.options().may_lose_producers() => {
                            self.gate.lanes().drop_lane(&producer, heard);
                        }
                        Ok(None) => return Err(damaged(&producer, after + 1)),
                        Err(error) => return self.failed(error),
                    }
                    if std::mem::take(&mut self.is_away) && self.ready.is_empty() {
                        return Ok(Fetched::Back);
                    }
                    continue;
                }
                // What failed was done since, or nobody needs it any more.
                if std::mem::take(&mut self.is_away) {
                    return Ok(Fetched::Back);
                }
            }
            let look_at = self.next_look(now);
            tokio::select! {
                biased;
                () = self.gate.lanes().arrival() => {}
                () = until(look_at) => {}
            }
        }
    }

    /// Notes that these are settled: on record at once if there are many, else within half a second and at the close.
    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let told = batch.iter().map(|it| it.delivery).collect::<BTreeSet<_>>();
        let settled: Vec<_> = told.iter().filter_map(|id| self.out.remove(id)).collect();
        self.settled_count += u64::try_from(settled.len()).unwrap_or(u64::MAX);
        let places = settled.iter().map(InHand::place);
        self.gate.lanes().settled(places);
        self.record_if_due().await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let at = Instant::now() + PAUSE;
        let given_back = batch.iter().filter_map(|id| self.out.remove(id));
        self.again.extend(given_back.map(|it| (at, it)));
        Ok(())
    }

    /// Does nothing: nobody else takes them.
    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    /// Takes no more messages, and records what is settled.
    async fn close(&mut self) -> Result<()> {
        self.gate.close().await;
        let recorded = self.record().await;
        if let Some(listeners) = &self.own {
            listeners.close().await;
        }
        recorded
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// Nobody would run what comes from now on: it is sent away.
impl Drop for IngestSource {
    fn drop(&mut self) {
        self.gate.lanes().close();
    }
}

impl fmt::Debug for IngestSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IngestSource")
            .field("options", self.gate.options())
            .finish_non_exhaustive()
    }
}

/// Takes note of what the journal has for a path.
fn begin(gate: &Gate, entries: &[ProducerEntry]) {
    for entry in entries {
        let streams = entry.streams.iter();
        for found in streams.filter(|it| it.stream == gate.options().stream) {
            gate.lanes().begin(&entry.name, found);
        }
    }
}

/// Makes a delivery of a message, with the headers of its identity.
fn delivery(
    stream: &str,
    producer: &ProducerName,
    sequence: u64,
    message: ProducerMessage,
    ids: &MessageIds,
) -> Delivery {
    let coordinates = format!("ingest:{stream}:{producer}:{sequence}");
    let mut delivery = Delivery::new(DeliveryId(0), message.payload, coordinates);
    delivery.headers = message.headers;
    let mut add = |name, value: String| {
        let name = ByteString::from_static(name);
        delivery.headers.push((name, Bytes::from(value)));
    };
    let is_numbered = producer.as_str() != UNNUMBERED;
    if is_numbered {
        add(headers::PRODUCER, producer.to_string());
        add(headers::SEQUENCE, sequence.to_string());
    }
    // Of what nobody numbers, another store would make the same ids.
    match message.id {
        Some(id) => add(headers::ID, id.to_string()),
        None if is_numbered => add(headers::ID, ids.id(sequence)),
        None => {}
    }
    delivery
}

/// Tells whether a page without a batch should have had one.
fn is_lost(read: &Accepted, after: u64) -> bool {
    let has_more = after + 1 < read.next;
    has_more && read.standing.limit.is_none_or(|limit| after < limit)
}

/// Tells whether a journal that answered so may be there later.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Throttled
    )
}

fn damaged(producer: &ProducerName, sequence: u64) -> Error {
    let message = format!(
        "the message {sequence} of producer {producer} was taken and is not in the journal"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// Waits until this time; for ever, without one.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The number of settled messages of which the record is not put off.
const RECORDED_TOGETHER: u64 = 1_000;
/// The time for which it is put off.
const RECORDED_WITHIN: Duration = Duration::from_millis(500);
/// The pause before a delivery that was given back is handed over again.
const PAUSE: Duration = Duration::from_millis(300);
/// The time between two looks at what other workers took.
const BETWEEN_LISTS: Duration = Duration::from_secs(5);
/// The producers that are looked at together, whether they were silent for long.
const PAGE_TO_FORGET: u32 = 200;
/// The least pause between two such looks, and the longest from the end of all to the beginning.
const BETWEEN_PAGES: Duration = Duration::from_secs(1);
const BETWEEN_ROUNDS: Duration = Duration::from_secs(3_600);
/// The pause behind a look that failed.
const BETWEEN_FAILED_PAGES: Duration = Duration::from_secs(30);
/// The pause before a journal that is away is asked again.
pub(super) const BETWEEN_TRIES: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
