//! The running attempt, in the view of its effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use semel_core::{
    Carried, Claim, FencingToken, Key, OpId, Operation, Outcome, Settlement, Timestamp,
    TraceContext, Window,
};
use tokio::sync::watch;

use crate::effect::TraceHeaders;
use crate::trace::HttpExchange;

/// The attempt under which an effect runs. Cheap to clone; pass a clone to everything that the
/// effect starts.
#[derive(Clone, Debug)]
pub struct Op(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    claim: Claim,
    id: OnceLock<OpId>,
    idempotency_key: OnceLock<String>,
    stop: watch::Receiver<bool>,
    /// A transaction of the effect has recorded its end.
    is_committed: AtomicBool,
    /// The trace that the call came with.
    carried: Option<Carried>,
    /// The span of the effect, if anybody wants spans.
    span: Option<TraceContext>,
    /// The request of HTTP that the effect was.
    exchange: Mutex<Option<HttpExchange>>,
}

impl Op {
    pub(super) fn new(
        claim: Claim,
        stop: watch::Receiver<bool>,
        carried: Option<Carried>,
        span: Option<TraceContext>,
    ) -> Self {
        Self(Arc::new(Inner {
            claim,
            id: OnceLock::new(),
            idempotency_key: OnceLock::new(),
            stop,
            is_committed: AtomicBool::new(false),
            carried,
            span,
            exchange: Mutex::default(),
        }))
    }

    /// Returns the key to pass to services that the effect calls: derived from the operation alone,
    /// so the same on every attempt. 64 hexadecimal digits.
    pub fn idempotency_key(&self) -> &str {
        let derive = || {
            if semel_core::planted("M08") {
                return format!("{}-{}", self.operation_id(), self.attempt());
            }
            self.operation_id().to_string()
        };
        self.0.idempotency_key.get_or_init(derive)
    }

    /// Returns the operation: tenant, name and key.
    pub fn operation(&self) -> &Operation {
        &self.0.claim.operation
    }

    /// Returns the key of the operation.
    pub fn key(&self) -> &Key {
        &self.0.claim.operation.key
    }

    /// Returns the id of the operation.
    pub fn operation_id(&self) -> OpId {
        *self.0.id.get_or_init(|| self.0.claim.operation.id())
    }

    /// Returns the number of this attempt over all calls and processes, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.claim.attempt
    }

    /// Returns a number that rises with every claim of the store; for targets that can refuse a
    /// smaller one.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.claim.token
    }

    /// Returns the trace to pass to services that the effect calls, as the headers `traceparent` and `tracestate`: the span
    /// of this attempt's effect, or [that with which the call came](super::Declared::trace) if nobody records spans.
    pub fn trace(&self) -> Option<TraceHeaders> {
        TraceHeaders::handed_on(self.0.span, self.0.carried.clone())
    }

    /// Notes, for the span of the effect, the request of HTTP that it is; the last one counts. Note it when it is sent, and
    /// again with its answer: an effect that runs out of time is broken off in between. `exchange` is not called while
    /// nobody wants spans.
    pub fn exchanged(&self, exchange: impl FnOnce() -> HttpExchange) {
        if self.0.span.is_some() {
            *self.noted() = Some(exchange());
        }
    }

    /// Notes the request of HTTP that the effect was, as [`exchanged`](Self::exchanged) does, unless one was noted.
    pub fn exchanged_unless_noted(&self, exchange: impl FnOnce() -> HttpExchange) {
        if self.0.span.is_some() {
            self.noted().get_or_insert_with(exchange);
        }
    }

    /// Returns the request of HTTP that the effect was, if it was one.
    pub(super) fn exchange(&self) -> Option<HttpExchange> {
        self.noted().clone()
    }

    fn noted(&self) -> MutexGuard<'_, Option<HttpExchange>> {
        self.0
            .exchange
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the lease of an earlier attempt ran out and this one took its place.
    pub fn is_takeover(&self) -> bool {
        self.0.claim.takeover
    }

    /// Tells whether an earlier attempt may have applied the effect and the class has it run again.
    pub fn is_possible_repeat(&self) -> bool {
        self.0.claim.possible_repeat
    }

    /// Returns the time at which the effect was first started, over all attempts, on the store's
    /// clock.
    pub fn first_started_at(&self) -> Option<Timestamp> {
        self.0.claim.first_started_at
    }

    /// Returns the report that the effect happened, for an inbox to settle within the effect's own transaction: see
    /// [`Declared::transactional`](super::Declared::transactional).
    pub fn completion(&self, outcome: Outcome, window: Window) -> Settlement {
        self.0.claim.completion(outcome, window)
    }

    /// Says that the transaction with the [completion](Self::completion) of this attempt is committed. If the effect then
    /// returns a value, the call records nothing more.
    pub fn committed(&self) {
        self.0.is_committed.store(true, Ordering::Release);
    }

    /// Tells whether a transaction of the effect has recorded its end.
    pub(super) fn is_committed(&self) -> bool {
        self.0.is_committed.load(Ordering::Acquire)
    }

    /// Tells whether this attempt has lost its right to go on; see [`Op::cancelled`].
    pub fn is_cancelled(&self) -> bool {
        *self.0.stop.borrow() || self.0.stop.has_changed().is_err()
    }

    /// Waits until this attempt has no right to go on: its claim was lost, its time is up, or it is
    /// over.
    ///
    /// The effect's own future is dropped then, so this is for work that the effect has started
    /// elsewhere: a thread, a task, a child process.
    ///
    /// # Cancel safety   safe
    pub async fn cancelled(&self) {
        let mut stop = self.0.stop.clone();
        // An error means that the attempt is over.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
