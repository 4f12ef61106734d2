//! The fates that messages have met: parked first where that is due, then counted, then told to the source. Not for
//! how a message meets its fate.

mod dead_letters;

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::port::source::{Acknowledgement, DeliveryId, Progress};
use semel_core::{Parked, Result, Store};

use super::context::Context;
use super::in_hand::{InHand, LaneId};
use super::outstanding::Outstanding;
use super::reader::ReaderHandle;
use super::store_calls::{Asked, StoreCalls};
use super::timing::Timing;
use crate::event::{Event, Origin};
use crate::pipeline::{Rejected, is_sent_again};
use crate::summary::{Fate, Summary};
use crate::surroundings::OnProgress;
use dead_letters::Letters;

/// The fates of a run's messages, and their counts; see the module.
pub(super) struct Outcomes {
    context: Arc<Context>,
    /// Fates that count once their messages are parked.
    to_park: Vec<(Parked, Met)>,
    /// The same, in a batch that was to be parked while the store was away.
    unparked: Option<ToPark>,
    /// Fates that count now.
    settled: Vec<Met>,
    /// Dead letters that wait for the broker they go to.
    letters: Letters,
    summary: Summary,
    on_progress: Option<OnProgress>,
    progress: Option<Progress>,
    reported_at: Duration,
    started_at: Duration,
}

/// A fate that a delivery has met.
struct Met {
    delivery: DeliveryId,
    held: Option<Held>,
    fate: Fate,
    /// The message carried a replay id.
    is_sent_again: bool,
    timing: Option<Timing>,
}

/// Messages to park in one call, and their fates.
struct ToPark {
    messages: Arc<[Parked]>,
    met: Vec<Met>,
}

/// The lane and memory that a message in hand occupies until its fate is counted.
struct Held {
    lane: LaneId,
    payload_bytes: usize,
}

impl Met {
    fn new(incoming: &InHand, fate: Fate) -> Self {
        let held = Held {
            lane: incoming.lane(),
            payload_bytes: incoming.payload.len(),
        };
        Self {
            delivery: incoming.delivery,
            held: Some(held),
            fate,
            is_sent_again: incoming.is_sent_again,
            timing: Some(incoming.timing()),
        }
    }
}

impl Outcomes {
    pub(super) fn new(
        context: Arc<Context>,
        dead_letters: Option<AnySink>,
        on_progress: Option<OnProgress>,
    ) -> Self {
        let started_at = context.now();
        Self {
            context,
            to_park: Vec::new(),
            unparked: None,
            settled: Vec::new(),
            letters: Letters::new(dead_letters),
            summary: Summary::default(),
            on_progress,
            progress: None,
            reported_at: started_at,
            started_at,
        }
    }

    /// Returns the counts so far.
    pub(super) fn summary(&self) -> Summary {
        let mut summary = self.summary;
        summary.elapsed = self.context.now().saturating_sub(self.started_at);
        summary
    }

    /// Returns the counts of what is not a fate.
    pub(super) const fn counts(&mut self) -> &mut Summary {
        &mut self.summary
    }

    /// Notes how far the source has been read.
    pub(super) const fn note_progress(&mut self, progress: Option<Progress>) {
        self.progress = progress;
    }

    /// Counts the messages that wait for the store to keep them.
    pub(super) const fn parking(&self) -> usize {
        let unparked = match &self.unparked {
            Some(unparked) => unparked.met.len(),
            None => 0,
        };
        unparked + self.to_park.len()
    }

    /// Tells whether fates are to be counted and told to the source now.
    pub(super) const fn has_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Notes messages that a gate before the source knows: duplicates, which count now.
    pub(super) fn known(&mut self, deliveries: Vec<DeliveryId>) {
        let met = deliveries.into_iter().map(|delivery| Met {
            delivery,
            held: None,
            fate: Fate::Replayed,
            is_sent_again: false,
            timing: None,
        });
        self.settled.extend(met);
    }

    /// Parks a message without a usable key.
    pub(super) fn quarantine(&mut self, rejected: Rejected) {
        let span = self.context.trace_rejected(&rejected);
        let Rejected {
            delivery,
            unusable,
            parked,
        } = rejected;
        let coordinates = &parked.coordinates;
        let event = Event::Unusable {
            coordinates,
            unusable: &unusable,
        };
        let origin = Origin::new(coordinates, &parked.headers).in_span(span);
        let observer = &self.context.surroundings.observer;
        observer.observe_message(&self.context.pipeline.name, &event, origin);
        let met = Met {
            delivery,
            held: None,
            fate: Fate::Quarantined,
            is_sent_again: is_sent_again(&parked.headers),
            timing: None,
        };
        self.to_park.push((parked, met));
    }

    /// Parks a message; its fate counts once the store keeps it.
    pub(super) fn park(
        &mut self,
        incoming: &InHand,
        reason: &'static str,
        detail: &str,
        fate: Fate,
    ) {
        let parked = incoming.parked(reason, detail);
        self.to_park.push((parked, Met::new(incoming, fate)));
    }

    /// Notes the fate of a message, which counts now.
    pub(super) fn settle(&mut self, incoming: &InHand, fate: Fate) {
        self.settled.push(Met::new(incoming, fate));
    }

    /// Counts a fate of which the source is told in another way.
    pub(super) fn count(&mut self, fate: Fate) {
        self.summary.count(fate);
    }

    /// Makes parked messages durable, then counts and acknowledges everything that met its fate: a dead
    /// letter that has a broker to go to, once that has confirmed it. What cannot be parked because the
    /// store is away waits, where the pipeline fails open.
    pub(super) async fn flush<S: Store + Clone>(
        &mut self,
        store: &StoreCalls<S>,
        outstanding: &mut Outstanding,
        reader: &ReaderHandle,
    ) -> Result<()> {
        while let Some(to_park) = self.next_to_park() {
            match store.try_park(outstanding, &to_park.messages).await? {
                Asked::Answered(()) => self.kept(store, outstanding, to_park).await?,
                Asked::NotNow { .. } => {
                    self.unparked = Some(to_park);
                    break;
                }
            }
        }
        self.post();
        let settled = std::mem::take(&mut self.settled);
        let now = if settled.is_empty() {
            Duration::ZERO
        } else {
            self.context.now()
        };
        // In a loop of its own: each looks somewhere else, and so they are waited for together.
        for held in settled.iter().filter_map(|met| met.held.as_ref()) {
            outstanding.finish(held.lane, held.payload_bytes, now);
        }
        let mut acknowledge = Vec::with_capacity(settled.len());
        for met in settled {
            let Met {
                delivery,
                fate,
                is_sent_again,
                timing,
                ..
            } = met;
            self.summary.count(fate);
            self.summary.sent_again += u64::from(is_sent_again);
            let overhead = timing.map(|it| it.overhead(now));
            self.context.observe(&Event::Settled {
                delivery,
                fate,
                overhead,
                sent_again: is_sent_again,
            });
            acknowledge.push(Acknowledgement::new(delivery, fate));
        }
        outstanding.acknowledge(reader, acknowledge).await;
        outstanding.extend_if_due().await;
        outstanding.tell_in_hand();
        self.report(false);
        Ok(())
    }

    /// Returns the messages to park next: first those that were to be parked while the store was away.
    fn next_to_park(&mut self) -> Option<ToPark> {
        if self.unparked.is_some() {
            return self.unparked.take();
        }
        if self.to_park.is_empty() {
            return None;
        }
        let (messages, met): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.to_park).into_iter().unzip();
        let messages = messages.into();
        Some(ToPark { messages, met })
    }

    /// Reports the progress of the run, but not every time.
    pub(super) fn report(&mut self, last: bool) {
        let Some(on_progress) = &self.on_progress else {
            return;
        };
        let now = self.context.now();
        if last || now.saturating_sub(self.reported_at) >= REPORT_EVERY {
            self.reported_at = now;
            on_progress(self.progress, &self.summary);
        }
    }
}

/// The time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);
