//! State that every way of running an effect shares: messages in hand, their fates, parking and acknowledging.

mod asking;
mod away;
mod begun;
mod calls;
mod deliveries;
mod fates;
mod keyless;
mod letters;
mod target;
mod wake;

pub(super) use asking::Asked;
pub(super) use away::past_provider;
pub(super) use begun::Begun;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::port::source::{Acknowledgement, DeliveryId, Progress};
use semel_core::{Error, Parked, Result, Store};

use super::in_hand::LaneId;
use super::intake::{Chunk, Intake, Teller, Told};
use super::lanes::Lanes;
use super::pause::Circuit;
use crate::effect::Class;
use crate::event::{Event, Origin};
use crate::layer::outage::Policy;
use crate::pipeline::{Fail, Incoming, Pipeline};
use crate::summary::{Fate, Summary};
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use away::Away;
use deliveries::Deliveries;
use keyless::Keyless;
use letters::Letters;

pub(super) struct Desk<S> {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) store: S,
    pub(super) surroundings: Surroundings,
    pub(super) shutdown: Shutdown,
    pub(super) lanes: Lanes,
    outage: Policy,
    class: Class,
    /// The most batches in hand: one under way and one being gathered, unless the runner has more under way.
    pub(super) batches: usize,
    /// The state of the effects' target.
    circuit: Circuit,
    /// Messages and settlements that wait for a store that is away.
    pub(super) away: Away,
    /// Dead letters that wait for the broker they go to.
    pub(super) letters: Letters,
    source: Teller,
    on_progress: Option<OnProgress>,
    progress: Option<Progress>,
    /// Deliveries that the source has handed over and whose fate it has not been told.
    in_hand: Deliveries,
    /// The time of the next extension that is sent to the source for these, in milliseconds.
    extend_at: AtomicU64,
    /// The time for which the broker leaves an unextended delivery here.
    hold: Option<Duration>,
    reported_at: Duration,
    started_at: Duration,
    ended: bool,
    /// The time of the source's first report that its broker is away, while it is.
    source_away_since: Option<Duration>,
    /// The reason why the source is of no more use: what runs is finished, then the run ends with this error.
    failure: Option<Error>,
    summary: Summary,
    /// The first messages, as long as none of them has a usable key.
    keyless: Keyless,
    /// Fates that count once their messages are parked.
    to_park: Vec<(Parked, Met)>,
    /// Fates that count now.
    settled: Vec<Met>,
    /// Deliveries to be given back because another consumer is about to get them.
    revoked: Vec<DeliveryId>,
}

/// A fate that a delivery has met.
struct Met {
    delivery: DeliveryId,
    held: Option<Held>,
    fate: Fate,
    /// The message carried a replay id.
    is_sent_again: bool,
}

/// The lane and memory that a message in hand occupies until its fate is counted.
struct Held {
    lane: LaneId,
    payload_bytes: usize,
}

/// Everything that a desk needs besides its pipeline and its store.
pub(super) struct Around {
    pub(super) surroundings: Surroundings,
    pub(super) shutdown: Shutdown,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) outage: Policy,
    pub(super) dead_letters: Option<AnySink>,
    pub(super) source: Teller,
    pub(super) class: Class,
}

impl<S: Store + Clone> Desk<S> {
    pub(super) fn new(pipeline: Arc<Pipeline>, store: S, around: Around, every_lane: bool) -> Self {
        let Around {
            surroundings,
            shutdown,
            on_progress,
            outage,
            dead_letters,
            source,
            class,
        } = around;
        let started_at = surroundings.clock.monotonic();
        let lanes = Lanes::new(every_lane);
        let is_lenient = pipeline.pause_after == 0;
        let width = pipeline.batch.max(pipeline.concurrency);
        let circuit = Circuit::new(pipeline.pause_after, width);
        let extend_at = started_at + pipeline.lease / 3;
        Self {
            pipeline,
            store,
            surroundings,
            shutdown,
            lanes,
            outage,
            class,
            batches: 2,
            circuit,
            away: Away::default(),
            letters: Letters::new(dead_letters),
            source,
            on_progress,
            progress: None,
            in_hand: Deliveries::default(),
            extend_at: AtomicU64::new(millis(extend_at)),
            hold: None,
            reported_at: started_at,
            started_at,
            ended: false,
            source_away_since: None,
            failure: None,
            summary: Summary::default(),
            keyless: Keyless::new(is_lenient),
            to_park: Vec::new(),
            settled: Vec::new(),
            revoked: Vec::new(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = self.summary;
        summary.elapsed = self.now().saturating_sub(self.started_at);
        summary
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.surroundings.clock.monotonic()
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        self.surroundings
            .observer
            .observe(&self.pipeline.name, event);
    }

    pub(super) fn observe_message(&self, incoming: &Incoming, event: &Event<'_>) {
        let origin = Origin::new(&incoming.coordinates, &incoming.headers);
        self.surroundings
            .observer
            .observe_message(&self.pipeline.name, event, origin);
    }

    /// Tells whether every message that will ever come has met its fate, or a shutdown lets no more begin.
    pub(super) fn is_done(&self) -> bool {
        self.is_stopping() || (self.ended && self.lanes.is_empty())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.failure.is_some() || self.shutdown.is_requested()
    }

    /// Waits until a shutdown was requested and its patience has run out.
    pub(super) async fn patience_is_over(&self) {
        self.shutdown.clone().request().await;
        tokio::time::sleep(self.shutdown.patience).await;
    }

    /// Tells whether more messages may be taken in hand: back-pressure holds the rest in the source.
    pub(super) fn has_room(&self) -> bool {
        let most = self.pipeline.batch.max(self.pipeline.concurrency) * self.batches;
        // Finished messages that wait for a store that is away must not block those that need no store.
        let unsettled = self.away.unsettled.len().min(most);
        !self.ended
            && self.lanes.len() < most + unsettled + self.room_to_try()
            && self.lanes.bytes() < MOST_HELD_BYTES
            && self.to_park.len() < most
    }

    /// Takes in hand every message that is there, and makes ready those that are due.
    pub(super) fn take_in(&mut self, intake: &mut Intake) {
        while self.has_room() {
            let Some(chunk) = intake.try_next() else {
                break;
            };
            self.receive(chunk);
        }
        self.lanes.wake(self.now());
    }

    /// Extends the deliveries in hand at the source, at a [`third`](Self::third) of the lease.
    async fn extend_if_due(&self) {
        let now = self.now();
        if now < self.extend_at() {
            return;
        }
        let next = millis(now + self.third());
        self.extend_at.store(next, Ordering::Relaxed);
        if self.in_hand.is_empty() {
            return;
        }
        // A source that has stopped is noticed when it is told of a fate.
        if let Some(source) = self.source.upgrade() {
            let in_hand = self.in_hand.in_order();
            let _ = source.send(Told::Extend(in_hand)).await;
        }
    }

    /// Returns the time of the next extension, if anything is in hand.
    pub(super) fn extend_due(&self) -> Option<Duration> {
        Some(self.extend_at()).filter(|_| !self.in_hand.is_empty())
    }

    /// Returns a third of the lease, or of the time that the broker waits if that is shorter.
    fn third(&self) -> Duration {
        let lease = self.pipeline.lease;
        let held = self.hold.map_or(lease, |hold| hold.min(lease));
        (held / 3).max(Duration::from_millis(1))
    }

    /// Notes the time for which the broker leaves a delivery here.
    fn hold(&mut self, hold: Option<Duration>) {
        if self.hold != hold {
            self.hold = hold;
            let soon = millis(self.now() + self.third());
            self.extend_at.fetch_min(soon, Ordering::Relaxed);
        }
    }

    fn extend_at(&self) -> Duration {
        Duration::from_millis(self.extend_at.load(Ordering::Relaxed))
    }

    async fn tell(&mut self, intake: &Intake, told: Told) {
        if let Err(error) = intake.tell(told).await {
            self.failure.get_or_insert(error);
        }
    }

    /// Takes a chunk in hand.
    fn receive(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Messages {
                incoming,
                rejected,
                progress,
                hold,
            } => {
                self.progress = progress;
                self.hold(hold);
                self.source_is_there();
                let readable = incoming.iter().map(|incoming| incoming.delivery);
                let unreadable = rejected.iter().map(|rejected| rejected.delivery);
                self.in_hand.extend(readable.chain(unreadable));
                self.rejected(rejected, incoming.first().map(|first| first.delivery));
                for incoming in incoming {
                    self.lanes.admit(incoming);
                }
            }
            Chunk::Revoked(deliveries) => self.revoked(&deliveries),
            Chunk::Away(error) => {
                let now = self.now();
                self.source_away_since.get_or_insert(now);
                self.observe(&Event::SourceAway { error: &error });
            }
            Chunk::Back => self.source_is_there(),
            Chunk::Elsewhere(deliveries, within) => {
                self.observe(&Event::Elsewhere { deliveries, within });
            }
            Chunk::Ended => {
                self.quarantine_held();
                self.ended = true;
            }
            Chunk::Failed(error) => self.failure = Some(error),
        }
    }

    /// Emits, once, that the source is no longer away.
    fn source_is_there(&mut self) {
        if let Some(since) = self.source_away_since.take() {
            let lasted = self.now().saturating_sub(since);
            self.observe(&Event::SourceBack { lasted });
        }
    }

    /// Lets go of the deliveries that have not begun. Those that run go on: their records decide.
    fn revoked(&mut self, deliveries: &[DeliveryId]) {
        let deliveries: BTreeSet<_> = deliveries.iter().copied().collect();
        let mut withdrawn = self.lanes.withdraw(&deliveries);
        withdrawn.extend(self.keyless.withdraw(&deliveries));
        self.observe(&Event::Revoked {
            deliveries: deliveries.len(),
            given_back: withdrawn.len(),
        });
        for delivery in withdrawn {
            self.away.forget(delivery);
            self.circuit.forget(delivery);
            self.in_hand.remove([delivery]);
            self.summary.count(Fate::Released);
            self.revoked.push(delivery);
        }
    }

    /// Makes parked messages durable, then counts and acknowledges everything that met its fate: a dead
    /// letter that has a broker to go to, once that has confirmed it. What cannot be parked because the
    /// store is away waits, where the pipeline fails open.
    pub(super) async fn flush(&mut self, intake: &Intake) -> Result<()> {
        if !self.to_park.is_empty() {
            let (to_park, met): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.to_park).into_iter().unzip();
            match self.try_ask(|| self.store.park(&to_park)).await? {
                Asked::Answered(_) => self.kept(to_park.into_iter().zip(met).collect()).await?,
                Asked::NotNow { .. } => self.to_park = to_park.into_iter().zip(met).collect(),
            }
        }
        self.post();
        let settled = std::mem::take(&mut self.settled);
        // In a loop of its own: each looks somewhere else, and so they are waited for together.
        for held in settled.iter().filter_map(|met| met.held.as_ref()) {
            self.lanes.finish(held.lane, held.payload_bytes);
        }
        let mut acknowledge = Vec::with_capacity(settled.len());
        for met in settled {
            let Met {
                delivery,
                fate,
                is_sent_again,
                ..
            } = met;
            self.summary.count(fate);
            self.summary.sent_again += u64::from(is_sent_again);
            self.observe(&Event::Settled { delivery, fate });
            acknowledge.push(Acknowledgement::new(delivery, fate));
        }
        self.in_hand
            .remove(acknowledge.iter().map(|told| told.delivery));
        if !acknowledge.is_empty() {
            self.tell(intake, Told::Acknowledge(acknowledge)).await;
        }
        let revoked = std::mem::take(&mut self.revoked);
        if !revoked.is_empty() {
            self.tell(intake, Told::Requeue(revoked)).await;
        }
        self.extend_if_due().await;
        self.report(false);
        Ok(())
    }

    fn report(&mut self, last: bool) {
        let Some(on_progress) = &self.on_progress else {
            return;
        };
        let now = self.surroundings.clock.monotonic();
        if last || now.saturating_sub(self.reported_at) >= REPORT_EVERY {
            self.reported_at = now;
            on_progress(self.progress, &self.summary);
        }
    }

    /// Gives back what is in hand and not running, and closes the source.
    pub(super) async fn close(&mut self, intake: Intake) -> Result<()> {
        self.end_pause();
        // No more messages begin: from here on the consumer waits for the store.
        self.outage.fail = Fail::Closed;
        self.flush(&intake).await?;
        let unconfirmed = self.last_letters().await;
        self.flush(&intake).await?;
        if !self.in_hand.is_empty() {
            let in_hand = std::mem::take(&mut self.in_hand).in_order();
            self.tell(&intake, Told::Requeue(in_hand)).await;
        }
        let held = self.keyless.abandon();
        for _ in 0..self.lanes.abandon() + held + unconfirmed + intake.close().await {
            self.summary.count(Fate::Released);
        }
        self.report(true);
        self.failure.take().map_or(Ok(()), Err)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The longest time for which a message is held back before its key is looked at again.
pub(super) const RECHECK: Duration = Duration::from_secs(1);
/// Payloads in hand beyond which no more messages are taken in: 64 MiB.
const MOST_HELD_BYTES: usize = 64 << 20;
/// The time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
