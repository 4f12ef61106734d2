//! What every way of running an effect shares: messages in hand, their fates, parking and
//! acknowledging.

mod asking;
mod away;
mod begun;
mod calls;
mod deliveries;
mod fates;
mod keyless;
mod letters;
mod target;

pub(super) use asking::{Asked, is_final};
pub(super) use away::past_provider;
pub(super) use begun::Begun;
pub(super) use calls::renewals;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::port::source::{Acknowledgement, DeliveryId, Progress};
use semel_core::{Error, Parked, Result, Store};

use super::intake::{Chunk, Intake, Teller, Told};
use super::lanes::{LaneId, Lanes};
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
    /// How many batches are in hand at most: one that is under way and one that is gathered, unless whoever runs
    /// them has more under way.
    pub(super) batches: usize,
    /// What is known of the target of the effects.
    circuit: Circuit,
    /// What waits for a store that is away.
    pub(super) away: Away,
    /// What waits for the broker that dead letters go to.
    pub(super) letters: Letters,
    source: Teller,
    on_progress: Option<OnProgress>,
    progress: Option<Progress>,
    /// Deliveries that the source has handed over and was not yet told the fate of.
    in_hand: Deliveries,
    /// When to tell the source next that these are still worked on, in milliseconds.
    extend_at: AtomicU64,
    /// How long the broker leaves a delivery here that is not extended.
    hold: Option<Duration>,
    reported_at: Duration,
    started_at: Duration,
    ended: bool,
    /// When the source said first that its broker is away, while it is.
    source_away_since: Option<Duration>,
    /// Why the source is of no more use: what runs is finished, then the run ends with this.
    failure: Option<Error>,
    summary: Summary,
    /// The first messages, as long as none of them had a usable key.
    keyless: Keyless,
    /// Fates that count once their messages are parked.
    to_park: Vec<(Parked, Met)>,
    /// Fates that count now.
    settled: Vec<Met>,
    /// Deliveries to be given back, since somebody else is about to have them.
    revoked: Vec<DeliveryId>,
}

/// A fate that a delivery has met.
struct Met {
    delivery: DeliveryId,
    held: Option<Held>,
    fate: Fate,
    /// Whether it carried a replay id.
    is_sent_again: bool,
}

/// What a message in hand occupies until its fate is counted.
struct Held {
    lane: LaneId,
    payload_bytes: usize,
}

/// What a desk is given besides its pipeline and its store.
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
        let circuit = Circuit::new(pipeline.pause_after);
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

    /// Whether all that ever comes has met its fate, or shutdown wants no more begun.
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

    /// Whether more messages may be taken in hand: back-pressure holds the rest in the source.
    pub(super) fn has_room(&self) -> bool {
        let most = self.pipeline.batch.max(self.pipeline.concurrency) * self.batches;
        // What is finished and waits for a store that is away is not in the way of what needs no store.
        let unsettled = self.away.unsettled.len().min(most);
        !self.ended
            && self.lanes.len() < most + unsettled + self.room_to_try()
            && self.lanes.bytes() < MOST_HELD_BYTES
            && self.to_park.len() < most
    }

    /// Takes in hand whatever is there, and waits for something to do if nothing is.
    pub(super) async fn gather(&mut self, intake: &mut Intake) {
        self.gather_where(intake, true).await;
    }

    /// The same; what is ready is something to do only where it may begin.
    pub(super) async fn gather_where(&mut self, intake: &mut Intake, may_begin: bool) {
        loop {
            self.take_in(intake);
            self.post();
            let now = self.now();
            self.end_hold(now);
            // What has ended is reported whether or not the target may be tried.
            let may_try = self.circuit.may_try(now);
            let may_ask =
                self.waits_for_store(may_try) && self.retry_at().is_none_or(|at| at <= now);
            let is_to_begin = may_begin && (may_ask || (may_try && self.lanes.has_ready()));
            let has_fates = !self.settled.is_empty() || !self.revoked.is_empty();
            if is_to_begin || self.is_done() || has_fates {
                return;
            }
            self.wait(intake).await;
            self.extend_if_due().await;
        }
    }

    /// Takes in hand whatever is there, and makes ready what is due.
    pub(super) fn take_in(&mut self, intake: &mut Intake) {
        while self.has_room() {
            let Some(chunk) = intake.try_next() else {
                break;
            };
            self.receive(chunk);
        }
        self.lanes.wake(self.now());
    }

    /// Tells the source at a [`third`](Self::third) of the lease what is still worked on.
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
        // A source that has stopped is met when it is told of a fate.
        if let Some(source) = self.source.upgrade() {
            let in_hand = self.in_hand.in_order();
            let _ = source.send(Told::Extend(in_hand)).await;
        }
    }

    /// When the source is next to be told, if there is anything to tell it.
    pub(super) fn extend_due(&self) -> Option<Duration> {
        Some(self.extend_at()).filter(|_| !self.in_hand.is_empty())
    }

    /// A third of the lease, or of what the broker bears with where that is shorter.
    fn third(&self) -> Duration {
        let lease = self.pipeline.lease;
        let held = self.hold.map_or(lease, |hold| hold.min(lease));
        (held / 3).max(Duration::from_millis(1))
    }

    /// Takes note of how long the broker leaves a delivery here.
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

    /// Waits until a chunk is here, a message or an extension is due, or shutdown is requested.
    async fn wait(&mut self, intake: &mut Intake) {
        let extend_at = self.extend_due();
        let may_try = self.circuit.may_try(self.now());
        let retry_at = self.retry_at().filter(|_| self.waits_for_store(may_try));
        let post_at = self.letters.next_due();
        let due = [
            self.lanes.next_due(),
            extend_at,
            retry_at,
            post_at,
            self.next_try(),
            self.keyless.ends_at(),
        ];
        let due = due.into_iter().flatten().min();
        let due = due.map(|due| due.saturating_sub(self.now()));
        let has_room = self.has_room();
        let awaits_letters = self.letters.are_under_way();
        let chunk = tokio::select! {
            biased;
            () = self.shutdown.request() => return,
            () = self.letters.answers(), if awaits_letters => return,
            chunk = intake.next(), if has_room => chunk,
            () = sleep_for(due), if due.is_some() => return,
        };
        self.receive(chunk);
    }

    /// Takes a chunk in hand.
    pub(super) fn receive(&mut self, chunk: Chunk) {
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

    /// Tells, once, that the source is not away any more.
    fn source_is_there(&mut self) {
        if let Some(since) = self.source_away_since.take() {
            let lasted = self.now().saturating_sub(since);
            self.observe(&Event::SourceBack { lasted });
        }
    }

    /// Lets go of those that have not begun. What runs runs on: its record decides.
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
        // No more is begun: from here on the store is waited for.
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

async fn sleep_for(wait: Option<Duration>) {
    tokio::time::sleep(wait.unwrap_or_default()).await;
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The longest that a message is held back before its key is looked at again.
pub(super) const RECHECK: Duration = Duration::from_secs(1);
/// The longest that an effect may wish to wait before it is tried again: thirty days.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// Payloads in hand beyond which nothing more is taken in: 64 MiB.
const MOST_HELD_BYTES: usize = 64 << 20;
/// How often progress is told.
const REPORT_EVERY: Duration = Duration::from_millis(100);
