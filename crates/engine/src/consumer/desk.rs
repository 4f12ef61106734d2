//! State that every way of running an effect shares: messages in hand, their fates, parking and acknowledging.

mod away;
mod fates;
mod keyless;
mod letters;
mod target;
mod wake;

pub(super) use away::past_provider;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::port::source::{Acknowledgement, DeliveryId, Progress};
use semel_core::{Parked, Result, Store};

use super::context::Context;
use super::in_hand::LaneId;
use super::intake::{Chunk, Intake, Teller};
use super::outstanding::Outstanding;
use super::pause::Circuit;
use super::store_calls::{Asked, StoreCalls};
use crate::effect::Class;
use crate::event::Event;
use crate::layer::outage::Policy;
use crate::pipeline::Pipeline;
use crate::summary::{Fate, Summary};
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use away::Away;
use keyless::Keyless;
use letters::Letters;

pub(super) struct Desk<S> {
    pub(super) context: Arc<Context>,
    pub(super) outstanding: Outstanding,
    pub(super) store: StoreCalls<S>,
    class: Class,
    /// The state of the effects' target.
    circuit: Circuit,
    /// Messages and settlements that wait for a store that is away.
    pub(super) away: Away,
    /// Dead letters that wait for the broker they go to.
    pub(super) letters: Letters,
    on_progress: Option<OnProgress>,
    progress: Option<Progress>,
    reported_at: Duration,
    started_at: Duration,
    summary: Summary,
    /// The first messages, as long as none of them has a usable key.
    keyless: Keyless,
    /// Fates that count once their messages are parked.
    to_park: Vec<(Parked, Met)>,
    /// Fates that count now.
    settled: Vec<Met>,
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
        let is_lenient = pipeline.pause_after == 0;
        let width = pipeline.batch.max(pipeline.concurrency);
        let circuit = Circuit::new(pipeline.pause_after, width);
        let context = Arc::new(Context {
            pipeline,
            surroundings,
            shutdown,
        });
        let started_at = context.now();
        Self {
            outstanding: Outstanding::new(Arc::clone(&context), source, every_lane),
            store: StoreCalls::new(Arc::clone(&context), store, outage),
            context,
            class,
            circuit,
            away: Away::default(),
            letters: Letters::new(dead_letters),
            on_progress,
            progress: None,
            reported_at: started_at,
            started_at,
            summary: Summary::default(),
            keyless: Keyless::new(is_lenient),
            to_park: Vec::new(),
            settled: Vec::new(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = self.summary;
        summary.elapsed = self.now().saturating_sub(self.started_at);
        summary
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.context.now()
    }

    /// Tells whether more messages may be taken in hand: back-pressure holds the rest in the source.
    fn has_room(&self) -> bool {
        let most = self.outstanding.most();
        // Finished messages that wait for a store that is away must not block those that need no store.
        let unsettled = self.away.unsettled.len().min(most);
        self.to_park.len() < most && self.outstanding.has_room(unsettled + self.room_to_try())
    }

    /// Takes in hand every message that is there, and makes ready those that are due.
    pub(super) fn take_in(&mut self, intake: &mut Intake) {
        while self.has_room() {
            let Some(chunk) = intake.try_next() else {
                break;
            };
            self.receive(chunk);
        }
        self.outstanding.wake();
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
                self.outstanding.arrive(&incoming, &rejected, hold);
                self.rejected(rejected, incoming.first().map(|first| first.delivery));
                self.outstanding.queue(incoming);
            }
            Chunk::Revoked(deliveries) => self.revoked(&deliveries),
            Chunk::Away(error) => self.outstanding.source_is_away(&error),
            Chunk::Back => self.outstanding.source_is_there(),
            Chunk::Elsewhere(deliveries, within) => {
                self.context
                    .observe(&Event::Elsewhere { deliveries, within });
            }
            Chunk::Ended => {
                self.quarantine_held();
                self.outstanding.end();
            }
            Chunk::Failed(error) => self.outstanding.fail(error),
        }
    }

    /// Lets go of the deliveries that have not begun. Those that run go on: their records decide.
    fn revoked(&mut self, deliveries: &[DeliveryId]) {
        let deliveries: BTreeSet<_> = deliveries.iter().copied().collect();
        let mut withdrawn = self.outstanding.withdraw(&deliveries);
        withdrawn.extend(self.keyless.withdraw(&deliveries));
        self.context.observe(&Event::Revoked {
            deliveries: deliveries.len(),
            given_back: withdrawn.len(),
        });
        for delivery in withdrawn {
            self.away.forget(delivery);
            self.circuit.forget(delivery);
            self.summary.count(Fate::Released);
            self.outstanding.revoke(delivery);
        }
    }

    /// Makes parked messages durable, then counts and acknowledges everything that met its fate: a dead
    /// letter that has a broker to go to, once that has confirmed it. What cannot be parked because the
    /// store is away waits, where the pipeline fails open.
    pub(super) async fn flush(&mut self, intake: &Intake) -> Result<()> {
        if !self.to_park.is_empty() {
            let (to_park, met): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.to_park).into_iter().unzip();
            match self.store.try_park(&self.outstanding, &to_park).await? {
                Asked::Answered(()) => self.kept(to_park.into_iter().zip(met).collect()).await?,
                Asked::NotNow { .. } => self.to_park = to_park.into_iter().zip(met).collect(),
            }
        }
        self.post();
        let settled = std::mem::take(&mut self.settled);
        // In a loop of its own: each looks somewhere else, and so they are waited for together.
        for held in settled.iter().filter_map(|met| met.held.as_ref()) {
            self.outstanding.finish(held.lane, held.payload_bytes);
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
            self.context.observe(&Event::Settled { delivery, fate });
            acknowledge.push(Acknowledgement::new(delivery, fate));
        }
        self.outstanding.acknowledge(intake, acknowledge).await;
        self.outstanding.extend_if_due().await;
        self.report(false);
        Ok(())
    }

    fn report(&mut self, last: bool) {
        let Some(on_progress) = &self.on_progress else {
            return;
        };
        let now = self.context.surroundings.clock.monotonic();
        if last || now.saturating_sub(self.reported_at) >= REPORT_EVERY {
            self.reported_at = now;
            on_progress(self.progress, &self.summary);
        }
    }

    /// Gives back what is in hand and not running, and closes the source.
    pub(super) async fn close(&mut self, intake: Intake) -> Result<()> {
        self.end_pause();
        // No more messages begin: from here on the consumer waits for the store.
        self.store.fail_closed();
        self.flush(&intake).await?;
        let unconfirmed = self.last_letters().await;
        self.flush(&intake).await?;
        self.outstanding.give_back(&intake).await;
        let held = self.keyless.abandon();
        for _ in 0..self.outstanding.abandon() + held + unconfirmed + intake.close().await {
            self.summary.count(Fate::Released);
        }
        self.report(true);
        self.outstanding.failure()
    }
}

/// The time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
