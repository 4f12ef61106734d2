//! One call: claim, run, settle, answer. It is a task of its own, so that nothing of it depends on
//! the caller's patience.
//!
//! The call keeps these rules, whatever happens:
//!
//! - every granted item is settled: completed, released or given back. Only the end of the process
//!   or of the runtime leaves that to the lease;
//! - an effect that has begun runs on when its caller goes away; one that has not never begins;
//! - a store call is never called off. A caller who has waited too long gets an error, and the call
//!   goes on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::fingerprint::Reading;
use semel_core::{Carried, Claim, ClaimRequest, Duplicate, ErrorKind, Outcome, Store};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::declared::{Declared, Wanted};
use super::error::Error;
use super::failure::Failure;
use super::op::Op;
use super::settings::Settings;
use super::shared::{Presence, Shared};
use crate::event::Event;
use crate::trace::attempt::TraceSlot;

/// The end of one effect.
pub(super) type Verdict = Result<Outcome, Failure>;

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The effects that run under the claims of a call.
pub(super) enum Work {
    /// An effect per item.
    Each(Box<Each>),
    /// One effect for all items that were granted together; verdicts in the same order.
    Whole(Box<Whole>),
}

type Each = dyn FnMut(usize, Op) -> Boxed<Verdict> + Send;
type Whole = dyn FnMut(Vec<(usize, Op)>) -> Boxed<Vec<Verdict>> + Send;

/// The answer for an item that has a value.
pub(super) enum Answer {
    /// The effect ran and put the value in its place.
    Ran {
        attempt: u32,
        takeover: bool,
        possible_repeat: bool,
        kept: bool,
    },
    /// The record has the value.
    Replayed {
        outcome: Outcome,
        duplicate: Duplicate,
    },
}

pub(super) type Answers = Vec<Result<Answer, Error>>;

pub(super) struct Run<S> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) store: S,
    pub(super) name: Arc<str>,
    pub(super) settings: Settings,
    pub(super) requests: Vec<ClaimRequest>,
    /// The reading of each request.
    pub(super) readings: Vec<Option<Arc<Reading>>>,
    pub(super) work: Work,
    /// The trace that the call came with.
    pub(super) carried: Option<Carried>,
    /// The trace of each item; none of any while nobody wants spans.
    pub(super) traces: Vec<TraceSlot>,
    pub(super) answers: Vec<Option<Result<Answer, Error>>>,
    /// The last known wait for each item that another caller was seen to run.
    pub(super) seen_busy: Vec<Option<Duration>>,
    pub(super) reply: Option<oneshot::Sender<Answers>>,
}

/// A granted item.
pub(super) struct Held<S> {
    pub(super) index: usize,
    pub(super) claim: Claim,
    pub(super) op: Op,
    pub(super) stop: watch::Sender<bool>,
    /// The time at which the lease was asked for that is known to hold.
    pub(super) asked_at: Duration,
    /// The time at which its effect began; none before.
    pub(super) began_at: Option<Duration>,
    /// The time by which its effect must have begun, if that depends on a provider's window.
    pub(super) begin_by: Option<Duration>,
    /// The mark that it runs here; it wakes duplicates in this process when dropped.
    pub(super) presence: Presence<S>,
}

/// An item that another caller runs.
pub(super) struct Busy {
    pub(super) index: usize,
    pub(super) wait: Duration,
}

impl<S: Store + Clone> Run<S> {
    pub(super) fn new(
        declared: &Declared<S>,
        store: S,
        wanted: Vec<Wanted>,
        work: Work,
    ) -> (Self, oneshot::Receiver<Answers>) {
        let shared = Arc::clone(&declared.shared);
        let (reply, answers) = oneshot::channel();
        let (requests, readings): (Vec<_>, Vec<_>) =
            wanted.into_iter().map(|it| (it.claim, it.reading)).unzip();
        let run = Self {
            answers: requests.iter().map(|_| None).collect(),
            seen_busy: vec![None; requests.len()],
            traces: if shared.spans.is_some() {
                requests.iter().map(|_| TraceSlot::default()).collect()
            } else {
                Vec::new()
            },
            shared,
            store,
            name: declared.name(),
            settings: declared.settings.clone(),
            requests,
            readings,
            work,
            carried: declared.trace.clone(),
            reply: Some(reply),
        };
        (run, answers)
    }

    pub(super) async fn go(mut self) {
        let began_at = self.shared.now();
        let mut pause = FIRST_PAUSE;
        let mut pending: Vec<usize> = (0..self.requests.len()).collect();
        let mut is_first = true;
        loop {
            let (granted, busy) = self.admit(&pending, is_first).await;
            is_first = false;
            let ran = !granted.is_empty();
            pending = self.attend(granted).await;
            let left = self
                .settings
                .wait
                .saturating_sub(self.shared.now().saturating_sub(began_at));
            if !ran && pending.is_empty() && (left.is_zero() || self.shared.is_closing()) {
                for Busy { index, wait } in &busy {
                    self.answer(*index, Err(self.busy(*index, *wait)));
                }
                break;
            }
            pending.extend(busy.iter().map(|busy| busy.index));
            if pending.is_empty() || !self.is_wanted() {
                break;
            }
            // After a round of its own, an item that was busy may be a duplicate of one that has
            // just ended.
            if !ran {
                let soonest = busy.iter().map(|busy| busy.wait).min().unwrap_or(pause);
                self.pause(pending[0], pause.min(soonest).min(left)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        self.reply(unanswered);
        self.give_back_traces();
    }

    pub(super) fn busy(&self, index: usize, wait: Duration) -> Error {
        if self.shared.is_closing() {
            return Error::Closed;
        }
        Error::Busy {
            operation_id: self.requests[index].operation.id(),
            retry_after: wait,
        }
    }

    /// Waits until an item is worth asking for again, or no caller wants it any more.
    async fn pause(&mut self, index: usize, nap: Duration) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        let shared = &self.shared;
        tokio::select! {
            biased;
            () = reply.closed() => {}
            () = shared.closing() => {}
            () = shared.left(&self.requests[index].operation) => {}
            () = sleep(nap.max(Duration::from_millis(1))) => {}
        }
    }

    pub(super) fn store_failed(&self, error: &semel_core::Error, wait: Duration) {
        self.shared
            .observe(&self.name, &Event::StoreFailed { error, wait });
    }

    /// Returns the answer for an item that the store could not be asked about. One that another caller was seen to run
    /// is busy: a caller who takes an absent store for leave to run it would run it beside that one.
    pub(super) fn not_asked(&self, index: usize, source: semel_core::Error) -> Error {
        let operation_id = self.requests[index].operation.id();
        match self.seen_busy[index] {
            Some(retry_after) if source.kind() != ErrorKind::Corrupt => Error::Busy {
                operation_id,
                retry_after,
            },
            Some(_) | None => Error::Store {
                operation_id,
                source,
            },
        }
    }

    /// Answers an item, with which its attempt is over.
    pub(super) fn answer(&mut self, index: usize, answer: Result<Answer, Error>) {
        self.end_trace(index, &answer);
        self.answers[index] = Some(answer);
    }

    /// Tells whether the caller still waits for the answers.
    pub(super) fn is_wanted(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Gives the answers; `missing` makes one for each item without, and is called once per item.
    pub(super) fn reply(&mut self, mut missing: impl FnMut() -> Error) {
        let Some(reply) = self.reply.take() else {
            return;
        };
        let answers = self.answers.iter_mut().map(|answer| {
            let missing = missing();
            answer.take().unwrap_or(Err(missing))
        });
        // The caller may be gone.
        let _ = reply.send(answers.collect());
    }
}

/// Returns the answer of an item that has none, which only a defect can bring about; or of one that
/// no caller waits for.
pub(super) fn unanswered() -> Error {
    Error::Closed
}

/// The pause between two looks at a key that another caller runs. Callers of one process are woken
/// sooner.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
