//! Messages in hand, and the lane that each of them is in.

use std::fmt;
use std::hash::Hasher;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel_core::{Admission, Entropy, Grant};
use siphasher::sip::SipHasher13;

use super::context::Context;
use super::timing::Timing;
use crate::differing::Measured;
use crate::event::Origin;
use crate::pipeline::Incoming;
use crate::trace::attempt::{AttemptTrace, TraceSlot};

/// A message in hand. It moves from one list to the next many times, so it is small to move. One that is dropped in the
/// middle of an attempt, since the run ends with an error, has its trace handed over all the same.
pub(super) struct InHand(Box<Laned>);

struct Laned {
    incoming: Incoming,
    lane: LaneId,
    timing: Timing,
    /// The measures of the outcome of an effect whose claim was lost.
    lost: Option<Box<Measured>>,
    trace: TraceSlot,
    /// The run that hands its trace over, once it has one.
    traced_by: Option<Arc<Context>>,
    /// Its trace was handed over, or is none that is recorded.
    is_trace_over: AtomicBool,
}

impl InHand {
    /// Takes in hand a message that was fetched at `fetched_at`.
    pub(super) fn new(incoming: Incoming, laning: Laning, fetched_at: Duration) -> Self {
        let lane = laning.lane(&incoming);
        let timing = Timing::new(fetched_at);
        Self(Box::new(Laned {
            incoming,
            lane,
            timing,
            lost: None,
            trace: TraceSlot::default(),
            traced_by: None,
            is_trace_over: AtomicBool::new(false),
        }))
    }

    /// Returns the times of the message.
    pub(super) fn timing(&self) -> Timing {
        self.0.timing
    }

    /// Returns the times of the message.
    pub(super) fn timing_mut(&mut self) -> &mut Timing {
        &mut self.0.timing
    }

    /// Keeps the measures of the outcome of an effect whose claim was lost, to be compared with the recorded one.
    pub(super) fn keep_lost(&mut self, ended: Measured) {
        self.0.lost = Some(Box::new(ended));
        self.0.incoming.request.wants_outcome = true;
    }

    /// Returns the measures of the outcome of an effect whose claim was lost.
    pub(super) fn lost(&self) -> Option<&Measured> {
        self.0.lost.as_deref()
    }

    /// Returns where it came from, and the span in which it is worked on.
    pub(super) fn origin(&self) -> Origin<'_> {
        let span = self.trace().map(AttemptTrace::process);
        let origin = Origin::new(&self.coordinates, &self.headers);
        origin.with_payload(&self.payload).in_span(span)
    }

    /// Returns the trace of the attempt with the message, if it has one.
    pub(super) fn trace(&self) -> Option<&AttemptTrace> {
        self.0.trace.get()
    }

    /// Returns the trace of the attempt with the message, if it has one.
    pub(super) fn trace_mut(&mut self) -> Option<&mut AttemptTrace> {
        self.0.trace.get_mut()
    }

    /// Notes in its trace that a transaction, which is the claim as well, was granted it.
    pub(super) fn trace_transaction(&mut self, takeover: bool) {
        if let Some(trace) = self.trace_mut() {
            trace.granted_within(takeover);
        }
    }

    /// Notes in its trace that the store failed for it, or told of a doubt.
    pub(super) fn trace_trouble(&mut self) {
        if let Some(trace) = self.trace_mut() {
            trace.had_trouble = true;
        }
    }

    /// Notes in its trace that its claim was granted at this time.
    pub(super) fn trace_grant(&mut self, answered_at: Duration, grant: Grant) {
        if let Some(trace) = self.trace_mut() {
            trace.granted(answered_at, grant);
        }
    }

    /// Notes in its trace the answer to a claim that was not granted, or too late.
    pub(super) fn trace_answer(&mut self, answered_at: Duration, admission: &Admission) {
        if let Some(trace) = self.trace_mut() {
            trace.admitted(answered_at, admission);
        }
    }

    /// Notes in its trace that the store has answered the report on its claim.
    pub(super) fn trace_settled(&mut self, answered_at: Duration) {
        if let Some(trace) = self.trace_mut() {
            trace.settled(answered_at);
        }
    }

    /// Notes in its trace that a batch was committed with it, or was not.
    pub(super) fn trace_commit(&mut self, answered_at: Duration, is_done: bool) {
        if let Some(trace) = self.trace_mut() {
            trace.committed(answered_at, is_done);
        }
    }

    /// Returns the place for its trace.
    pub(super) fn trace_slot(&self) -> &TraceSlot {
        &self.0.trace
    }

    /// Returns the place for its trace.
    pub(super) fn trace_slot_mut(&mut self) -> &mut TraceSlot {
        &mut self.0.trace
    }

    /// Begins a trace, which this run hands over.
    pub(super) fn begin_trace(&mut self, begun: AttemptTrace, run: &Arc<Context>) {
        self.0.trace.trace = Some(begun);
        self.0.traced_by.get_or_insert_with(|| Arc::clone(run));
        *self.0.is_trace_over.get_mut() = false;
    }

    /// Notes that its trace is done with.
    pub(super) fn trace_is_over(&self) {
        self.0.is_trace_over.store(true, Ordering::Relaxed);
    }

    /// Returns the lane that the message waits in.
    pub(super) fn lane(&self) -> LaneId {
        self.0.lane
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let is_over = *self.0.is_trace_over.get_mut();
        if let Some(run) = self.0.traced_by.take().filter(|_| !is_over) {
            run.trace_abandoned(self);
        }
    }
}

impl fmt::Debug for InHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InHand")
            .field("incoming", &self.0.incoming)
            .field("lane", &self.0.lane)
            .field("trace", &self.0.trace)
            .finish_non_exhaustive()
    }
}

impl Deref for InHand {
    type Target = Incoming;

    fn deref(&self) -> &Incoming {
        &self.0.incoming
    }
}

impl DerefMut for InHand {
    fn deref_mut(&mut self) -> &mut Incoming {
        &mut self.0.incoming
    }
}

/// The lane of a message: a hash of its order key, within its tenant unless the pipeline names the order key. Two keys that share a lane wait for each other, nothing
/// worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(u32);

impl LaneId {
    /// Returns the hash under which a table looks for the lane.
    pub(super) fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Assigns lanes to messages. Its seed is chosen once per run, so that senders cannot choose collisions.
#[derive(Clone, Copy)]
pub(super) struct Laning {
    seed: (u64, u64),
}

impl Laning {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let (mut low, mut high) = ([0; 8], [0; 8]);
        entropy.fill(&mut low);
        entropy.fill(&mut high);
        Self {
            seed: (u64::from_le_bytes(low), u64::from_le_bytes(high)),
        }
    }

    /// Returns the lane of a message.
    fn lane(self, incoming: &Incoming) -> LaneId {
        let mut hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        let (tenant, order) = incoming.order();
        hasher.write(tenant.as_bytes());
        // No tenant has this byte in it.
        hasher.write(&[0]);
        hasher.write(order);
        let hash = hasher.finish();
        LaneId(u32::try_from(hash >> 32).unwrap_or_default())
    }
}
