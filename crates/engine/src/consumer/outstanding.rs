//! Messages that the source has handed over and not been told the fate of: in which order they are tried, and until
//! when the source leaves them here. Not for what becomes of them.

mod deliveries;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, DeliveryId};
use semel_core::{Error, Result};

use super::context::Context;
use super::in_hand::{InHand, LaneId};
use super::lanes::Lanes;
use super::patience::source_out_of_time;
use super::reader::{Disposition, DispositionSender, ReaderHandle};
use crate::event::{Event, Wait};
use crate::pipeline::Rejected;
use crate::trace::End;
use deliveries::Deliveries;

/// The outstanding messages of a run, and the state of their source; see the module.
pub(super) struct Outstanding {
    context: Arc<Context>,
    lanes: Lanes,
    /// The most messages in hand.
    most: usize,
    /// Deliveries that the source has handed over and whose fate it has not been told.
    deliveries: Deliveries,
    /// Deliveries to be given back because another consumer is about to get them.
    revoked: Vec<DeliveryId>,
    source: DispositionSender,
    /// The time of the next extension that is sent to the source, in milliseconds.
    extend_at: AtomicU64,
    /// The time for which the broker leaves an unextended delivery here.
    hold: Option<Duration>,
    has_ended: bool,
    /// The time of the source's first report that its broker is away, while it is.
    away_since: Option<Duration>,
    /// The reason why the source is of no more use: what runs is finished, then the run ends with this error.
    failure: Option<Error>,
}

/// The stage of a run. It only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Messages are taken in hand.
    Running,
    /// Nothing more begins, and what runs has all the time that it needs.
    Recalled,
    /// Nothing more begins, and what runs has a limit of time.
    Ending,
}

impl Outstanding {
    pub(super) fn new(context: Arc<Context>, source: DispositionSender, every_lane: bool) -> Self {
        let extend_at = context.now() + context.pipeline.lease / 3;
        let mut outstanding = Self {
            context,
            lanes: Lanes::new(every_lane),
            most: 0,
            deliveries: Deliveries::default(),
            revoked: Vec::new(),
            source,
            extend_at: AtomicU64::new(millis(extend_at)),
            hold: None,
            has_ended: false,
            away_since: None,
            failure: None,
        };
        // One batch under way and one being gathered, unless the strategy has more under way.
        outstanding.limit(2);
        outstanding
    }

    /// Sets how many batches are in hand at most.
    pub(super) fn limit(&mut self, batches: usize) {
        let pipeline = &self.context.pipeline;
        self.most = pipeline.batch.max(pipeline.concurrency) * batches;
    }

    /// Returns the most messages in hand.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Tells whether every message that will ever come has met its fate, or a shutdown lets no more begin.
    pub(super) fn is_done(&self) -> bool {
        self.is_stopping() || (self.has_ended && self.lanes.is_empty())
    }

    /// Tells whether nothing more begins: a shutdown is requested, or the source has failed.
    pub(super) fn is_stopping(&self) -> bool {
        self.failure.is_some() || self.context.shutdown.is_requested()
    }

    /// Returns how far the run is at this moment; another thread may ask for a stop a moment later.
    pub(super) fn stage(&self) -> Stage {
        if self.is_pressed() {
            Stage::Ending
        } else if self.is_stopping() {
            Stage::Recalled
        } else {
            Stage::Running
        }
    }

    /// Tells whether the source has failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Tells whether what runs has a limit of time by now: the run ends for a stop or a failure, and not for being recalled.
    pub(super) fn is_pressed(&self) -> bool {
        self.failure.is_some() || self.context.shutdown.is_stop()
    }

    /// Tells whether more messages may be taken in hand, `further` of them in addition to the most.
    pub(super) fn has_room(&self, further: usize) -> bool {
        !self.has_ended
            && self.lanes.len() < self.most + further
            && self.lanes.bytes() < MOST_HELD_BYTES
    }

    /// Notes deliveries that have come, and the time for which the broker leaves them here.
    pub(super) fn arrive(
        &mut self,
        incoming: &[InHand],
        rejected: &[Rejected],
        known: &[DeliveryId],
        hold: Option<Duration>,
    ) {
        self.hold(hold);
        self.source_is_there();
        let readable = incoming.iter().map(|incoming| incoming.delivery);
        let unreadable = rejected.iter().map(|rejected| rejected.delivery);
        let all = readable.chain(unreadable).chain(known.iter().copied());
        self.deliveries.extend(all);
    }

    /// Queues messages behind those of their order key.
    pub(super) fn queue(&mut self, incoming: Vec<InHand>) {
        let now = self.context.now();
        for incoming in incoming {
            if self.lanes.admit(incoming, now) {
                self.context.observe(&Event::Waits { why: Wait::Order });
            }
        }
    }

    /// Notes that no more messages will ever come.
    pub(super) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Ends the run with this error, unless there is an earlier one, once what runs is finished.
    pub(super) fn fail(&mut self, error: Error) {
        self.context.note_ending();
        self.failure.get_or_insert(error);
    }

    /// Returns the error with which the run ends.
    pub(super) fn failure(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Emits that the source is away.
    pub(super) fn source_is_away(&mut self, error: &Error) {
        self.away_since.get_or_insert(self.context.now());
        self.context.observe(&Event::SourceAway { error });
    }

    /// Emits, once, that the source is no longer away.
    pub(super) fn source_is_there(&mut self) {
        if let Some(since) = self.away_since.take() {
            let lasted = self.context.now().saturating_sub(since);
            self.context.observe(&Event::SourceBack { lasted });
        }
    }

    /// Tells whether no message is in hand.
    pub(super) const fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Tells whether a message may be tried now.
    pub(super) fn has_ready(&self) -> bool {
        self.lanes.has_ready()
    }

    /// Tells whether a wanted message is ready, or held back until later.
    pub(super) fn has(&self, is_wanted: impl Fn(DeliveryId) -> bool) -> bool {
        self.lanes.has(is_wanted)
    }

    /// Makes ready the messages that are due, and returns the time.
    pub(super) fn wake(&mut self) -> Duration {
        let now = self.context.now();
        self.lanes.wake(now);
        now
    }

    /// Returns the time at which the next message is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.lanes.next_due()
    }

    /// Takes out at most `max` messages to be tried now.
    pub(super) fn take(&mut self, max: usize) -> Vec<InHand> {
        self.lanes.take(max)
    }

    /// Takes out one message: the first preferred one, or the first of all.
    pub(super) fn take_one(&mut self, is_preferred: impl Fn(DeliveryId) -> bool) -> Vec<InHand> {
        self.lanes.take_one(is_preferred)
    }

    /// Puts messages back to be tried first, in their order.
    pub(super) fn put_back(&mut self, batch: Vec<InHand>) {
        self.lanes.put_back(batch);
    }

    /// Holds a message back for `wait`, which may be for ever; those of its order key wait behind it.
    pub(super) fn delay(&mut self, incoming: InHand, wait: Duration) {
        let due = self.context.now().saturating_add(wait);
        self.lanes.delay(incoming, due);
    }

    /// Lets go of a message that met its fate by `now`; the next one of its order key becomes ready.
    pub(super) fn finish(&mut self, lane: LaneId, payload_bytes: usize, now: Duration) {
        self.lanes.finish(lane, payload_bytes, now);
    }

    /// Emits how many messages are in hand.
    pub(super) fn tell_in_hand(&self) {
        self.context.observe(&Event::InHand {
            running: self.lanes.running(),
            held: self.lanes.held(),
        });
    }

    /// Lets go of those of `deliveries` that are not running, and returns them.
    pub(super) fn withdraw(&mut self, deliveries: &BTreeSet<DeliveryId>) -> Vec<DeliveryId> {
        self.lanes.each_held(|incoming| {
            if deliveries.contains(&incoming.delivery) {
                self.context.end_trace(incoming, End::GivenBack, None);
            }
        });
        self.lanes.withdraw(deliveries, self.context.now())
    }

    /// Lets go of every message that is not running, and counts them.
    pub(super) fn abandon(&mut self) -> usize {
        self.lanes.each_held(|incoming| {
            self.context.end_trace(incoming, End::GivenBack, None);
        });
        self.lanes.abandon()
    }

    /// Notes a delivery to be given back, since another consumer has it by now or is about to.
    pub(super) fn revoke(&mut self, delivery: DeliveryId) {
        self.deliveries.remove([delivery]);
        self.revoked.push(delivery);
    }

    /// Tells whether deliveries are to be given back.
    pub(super) const fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Tells the source the fates of deliveries, and gives back those that are another consumer's.
    pub(super) async fn acknowledge(&mut self, reader: &ReaderHandle, fates: Vec<Acknowledgement>) {
        self.deliveries.remove(fates.iter().map(|it| it.delivery));
        if !fates.is_empty() {
            self.send(reader, Disposition::Acknowledge(fates)).await;
        }
        let revoked = std::mem::take(&mut self.revoked);
        if !revoked.is_empty() {
            self.send(reader, Disposition::Requeue(revoked)).await;
        }
    }

    /// Gives back everything in hand, at the end of the run.
    pub(super) async fn give_back(&mut self, reader: &ReaderHandle) {
        if !self.deliveries.is_empty() {
            let deliveries = std::mem::take(&mut self.deliveries).in_order();
            self.send(reader, Disposition::Requeue(deliveries)).await;
        }
    }

    /// Tells the source something. A source that takes nothing is waited for as long as [`Context::source_is_left`] says.
    async fn send(&mut self, reader: &ReaderHandle, disposition: Disposition) {
        let sent = tokio::select! {
            biased;
            sent = reader.send(disposition) => sent,
            () = self.context.source_is_left(Duration::ZERO) => Err(source_out_of_time()),
        };
        if let Err(error) = sent {
            self.fail(error);
        }
    }

    /// Extends the deliveries in hand at the source while the consumer waits for something else: otherwise a broker
    /// would hand them to others, or count them as failed.
    pub(super) async fn keep(&self) -> Infallible {
        if semel_core::planted("U07") {
            return std::future::pending().await;
        }
        loop {
            let wait = self.extend_at().saturating_sub(self.context.now());
            tokio::time::sleep(wait).await;
            self.extend_if_due().await;
        }
    }

    /// Extends the deliveries in hand at the source, at a [`third`](Self::third) of the lease.
    pub(super) async fn extend_if_due(&self) {
        let now = self.context.now();
        if now < self.extend_at() {
            return;
        }
        let next = millis(now + self.third());
        self.extend_at.store(next, Ordering::Relaxed);
        if self.deliveries.is_empty() {
            return;
        }
        // A source that has stopped is noticed when it is told of a fate.
        if let Some(source) = self.source.upgrade() {
            let deliveries = self.deliveries.in_order();
            tokio::select! {
                biased;
                _ = source.send(Disposition::Extend(deliveries)) => {}
                () = self.context.patience_is_over() => {}
            }
        }
    }

    /// Returns the time of the next extension, if anything is in hand.
    pub(super) fn extend_due(&self) -> Option<Duration> {
        Some(self.extend_at()).filter(|_| !self.deliveries.is_empty())
    }

    /// Returns a third of the lease, or of the time that the broker waits if that is shorter.
    fn third(&self) -> Duration {
        let lease = self.context.pipeline.lease;
        let held = self.hold.map_or(lease, |hold| hold.min(lease));
        (held / 3).max(Duration::from_millis(1))
    }

    fn hold(&mut self, hold: Option<Duration>) {
        if self.hold != hold {
            self.hold = hold;
            let soon = millis(self.context.now() + self.third());
            self.extend_at.fetch_min(soon, Ordering::Relaxed);
        }
    }

    fn extend_at(&self) -> Duration {
        Duration::from_millis(self.extend_at.load(Ordering::Relaxed))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Payloads in hand beyond which no more messages are taken in: 64 MiB.
const MOST_HELD_BYTES: usize = 64 << 20;
