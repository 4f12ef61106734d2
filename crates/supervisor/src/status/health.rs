//! The health of what the pipelines of a worker depend on: their store, source and target, and since when one
//! of them does not answer. Learns it from events and probes; asks nothing itself. Times are monotonic, except
//! those that are shown.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Clock, Code, Error, Timestamp};
use semel_engine::event::{Event, Observer, Pause};
use semel_engine::summary::Fate;
use semel_operate::value::Time;
use serde::Serialize;

/// The reasons why a pipeline is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reason {
    /// Its store does not answer, or cannot be written.
    StoreAway,
    /// Its broker is not reached.
    SourceAway,
    /// The target of its effect is not reached.
    TargetAway,
    /// The target of its effect fails with every message.
    TargetFailing,
    /// The program of its effect does not work.
    HandlerBroken,
    /// It begins no effects, for another reason.
    Paused,
}

/// A reason with its details, as the status reports it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Because {
    pub(crate) reason: Reason,
    since: Time,
    /// The code for `semel explain`.
    code: &'static str,
    error: Box<str>,
}

/// The knowledge about a target without asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownOfTarget {
    /// An effect was done just now.
    Works,
    /// The pipeline pauses, and tries it itself.
    Paused,
    Nothing,
}

/// The health of the dependencies; see the module.
pub(crate) struct Health {
    pub(super) ready_after: Duration,
    pub(super) clock: Arc<dyn Clock>,
    known: Mutex<Known>,
    /// True while a start waits for the store.
    is_store_awaited: AtomicBool,
}

#[derive(Default)]
struct Known {
    store: Part,
    is_breaker_open: bool,
    /// The servers of the API that a gateway serves.
    upstreams: Part,
    pipelines: BTreeMap<Box<str>, Depends>,
}

/// The dependencies of a pipeline besides the store.
#[derive(Default)]
struct Depends {
    source: Part,
    /// The source was reached once.
    is_reached: bool,
    target: Part,
    pause: Option<(Pause, Trouble)>,
    /// The time when an effect was last done.
    done_at: Duration,
}

/// One dependency, which answers or not.
#[derive(Default)]
pub(super) struct Part {
    /// The time of its last answer.
    answered_at: Duration,
    trouble: Option<Trouble>,
}

#[derive(Clone)]
pub(super) struct Trouble {
    since: Timestamp,
    began_at: Duration,
    failed_at: Duration,
    code: Code,
    error: Box<str>,
}

impl Part {
    pub(super) fn answers(&mut self, now: Duration) {
        self.answered_at = now;
        self.trouble = None;
    }

    pub(super) fn fails(&mut self, trouble: Trouble) {
        match &mut self.trouble {
            Some(known) => {
                known.failed_at = trouble.failed_at;
                known.code = trouble.code;
                known.error = trouble.error;
            }
            None => self.trouble = Some(trouble),
        }
    }

    /// Notes a failure of what says so once, and answered until then.
    pub(super) fn fails_since(&mut self, now: Duration, trouble: Trouble) {
        if self.trouble.is_none() {
            self.answered_at = now;
        }
        self.fails(trouble);
    }

    /// Returns the reason if the dependency has given no answer for `ready_after`.
    pub(super) fn because(
        &self,
        reason: Reason,
        now: Duration,
        ready_after: Duration,
    ) -> Option<Because> {
        let trouble = self.trouble.as_ref()?;
        let is_long = now.saturating_sub(self.answered_at) >= ready_after;
        is_long.then(|| trouble.because(reason))
    }
}

impl Trouble {
    fn because(&self, reason: Reason) -> Because {
        Because {
            reason,
            since: Time(self.since),
            code: self.code.as_str(),
            error: self.error.clone(),
        }
    }
}

impl Observer for Health {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        self.note(pipeline, event);
    }
}

impl Health {
    /// Starts with everything answering, until something else is known.
    pub(crate) fn new(ready_after: Duration, clock: Arc<dyn Clock>) -> Self {
        let mut known = Known::default();
        known.store.answered_at = clock.monotonic();
        known.upstreams.answered_at = known.store.answered_at;
        Self {
            ready_after,
            clock,
            known: Mutex::new(known),
            is_store_awaited: AtomicBool::new(false),
        }
    }

    /// Adds a pipeline.
    pub(crate) fn knows(&self, pipeline: &str) {
        let now = self.clock.monotonic();
        let mut known = self.lock();
        known.store.answered_at = now;
        let it = known.pipelines.entry(pipeline.into()).or_default();
        it.source.answered_at = now;
        it.target.answered_at = now;
    }

    /// Takes note of an event.
    fn note(&self, pipeline: &str, event: &Event<'_>) {
        let now = || self.clock.monotonic();
        match event {
            // An output is written between two calls of the store.
            Event::StoreFailed { error, .. } if error.code() == Code::TargetUnavailable => {
                self.target_failed(pipeline, error);
            }
            Event::StoreFailed { error, .. } => self.store_failed(error),
            Event::BreakerOpened { error, .. } => {
                self.store_failed(error);
                self.lock().is_breaker_open = true;
            }
            Event::BreakerClosed { .. } => {
                let mut known = self.lock();
                known.is_breaker_open = false;
                known.store.answers(now());
            }
            // Not all other fates need the store to take something in.
            Event::Settled {
                fate: Fate::Applied,
                ..
            } => {
                let now = now();
                let mut known = self.lock();
                if !known.is_breaker_open {
                    known.store.answers(now);
                }
                if let Some(it) = known.pipelines.get_mut(pipeline) {
                    it.done_at = now;
                    it.is_reached = true;
                    it.target.answers(now);
                }
            }
            Event::SourceAway { error } => {
                let trouble = self.trouble(error);
                self.of(pipeline, |it| {
                    if it.source.trouble.is_none() {
                        // An event reports it once it has lasted.
                        let before = now().saturating_sub(SOURCE_GRACE);
                        it.source.answered_at = it.source.answered_at.max(before);
                    }
                    it.source.fails(trouble);
                });
            }
            Event::SourceBack { .. } => self.of(pipeline, |it| {
                it.is_reached = true;
                it.source.answers(now());
            }),
            Event::Settled { .. } | Event::Elsewhere { .. } => self.source_reached(pipeline),
            Event::TargetAway { error, .. } => self.target_failed(pipeline, error),
            Event::TargetBack { .. } => self.target_answers(pipeline),
            Event::Paused { cause, error, .. } => {
                let trouble = self.trouble_of(cause.code(), (*error).into());
                self.of(pipeline, |it| {
                    let began = it.pause.take().map(|(_, began)| began);
                    let trouble = match began {
                        Some(began) => Trouble {
                            since: began.since,
                            began_at: began.began_at,
                            ..trouble
                        },
                        None => trouble,
                    };
                    it.pause = Some((*cause, trouble));
                });
            }
            Event::Resumed { .. } => self.of(pipeline, |it| {
                it.pause = None;
                it.target.answers(now());
            }),
            _ => {}
        }
    }

    /// Notes that the store, or a probe of it, failed.
    pub(crate) fn store_failed(&self, error: &Error) {
        let trouble = self.trouble(error);
        self.lock().store.fails(trouble);
    }

    /// Notes that the store answered a read. That proves nothing about a full store while a pipeline tries to
    /// write to it; once nothing has failed for a while, it does.
    pub(crate) fn store_answers(&self) {
        let now = self.clock.monotonic();
        let mut known = self.lock();
        let is_over = known.store.trouble.as_ref().is_none_or(|it| {
            let is_silence = matches!(it.code, Code::StoreUnavailable | Code::Timeout);
            is_silence || now.saturating_sub(it.failed_at) >= QUIET
        });
        if is_over && !known.is_breaker_open {
            known.store.answers(now);
        }
    }

    /// Notes whether a start waits for the store: it asks the store itself, and has told of it.
    pub(crate) fn awaits_store(&self, is_awaited: bool) {
        self.is_store_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Tells whether a start waits for the store.
    pub(crate) fn is_store_awaited(&self) -> bool {
        self.is_store_awaited.load(Ordering::Relaxed)
    }

    /// Tells whether the store has failed and is not known to answer again.
    pub(crate) fn store_fails(&self) -> bool {
        self.lock().store.trouble.is_some()
    }

    fn target_failed(&self, pipeline: &str, error: &Error) {
        let trouble = self.trouble(error);
        self.of(pipeline, |it| it.target.fails(trouble));
    }

    /// Notes that the target of a pipeline's effect was reached.
    pub(crate) fn target_answers(&self, pipeline: &str) {
        let now = self.clock.monotonic();
        self.of(pipeline, |it| it.target.answers(now));
    }

    /// Notes that no server of the API answers.
    pub(crate) fn upstreams_failed(&self, error: &Error) {
        let trouble = self.trouble(error);
        self.lock().upstreams.fails(trouble);
    }

    /// Notes that a server of the API answers.
    pub(crate) fn upstreams_answer(&self) {
        let now = self.clock.monotonic();
        self.lock().upstreams.answers(now);
    }

    /// Returns the reasons why a gateway is not ready; none if it is.
    pub(crate) fn reasons_of_gateway(&self) -> Vec<Because> {
        let now = self.clock.monotonic();
        let (known, after) = (self.lock(), self.ready_after);
        let of_store = known.store.because(Reason::StoreAway, now, after);
        let of_upstreams = known.upstreams.because(Reason::TargetAway, now, after);
        of_store.into_iter().chain(of_upstreams).collect()
    }

    /// Returns what is known of the target of a pipeline, if no effect was done for the time `within`.
    pub(crate) fn known_of_target(&self, pipeline: &str, within: Duration) -> KnownOfTarget {
        let now = self.clock.monotonic();
        let known = self.lock();
        match known.pipelines.get(pipeline) {
            Some(it) if it.pause.is_some() => KnownOfTarget::Paused,
            Some(it) if now.saturating_sub(it.done_at) < within => KnownOfTarget::Works,
            Some(_) | None => KnownOfTarget::Nothing,
        }
    }

    /// Returns the reason why nothing that depends on the store alone is ready, if there is one.
    pub(crate) fn reason_of_store(&self) -> Option<Because> {
        let now = self.clock.monotonic();
        let known = self.lock();
        known
            .store
            .because(Reason::StoreAway, now, self.ready_after)
    }

    /// Returns the reasons why a pipeline is not ready; none if it is.
    pub(crate) fn reasons(&self, pipeline: &str) -> Vec<Because> {
        let now = self.clock.monotonic();
        let known = self.lock();
        let after = self.ready_after;
        let mut reasons: Vec<_> = known
            .store
            .because(Reason::StoreAway, now, after)
            .into_iter()
            .collect();
        let Some(it) = known.pipelines.get(pipeline) else {
            return reasons;
        };
        reasons.extend(it.source.because(Reason::SourceAway, now, after));
        let pause = it.pause.as_ref();
        let pause = pause.filter(|(_, it)| now.saturating_sub(it.began_at) >= after);
        let pause = pause.map(|(cause, it)| it.because(Reason::of(*cause)));
        let target = it.target.because(Reason::TargetAway, now, after);
        let is_told = pause.as_ref().map(|it| it.reason) == Some(Reason::TargetAway);
        reasons.extend(target.filter(|_| !is_told));
        reasons.extend(pause);
        reasons
    }

    /// Notes that no run of a pipeline is under way. What a run said last, that its source is away or that it begins no
    /// effects, is over: the next one says so anew, and does not take back what another one said.
    pub(crate) fn is_between_runs(&self, pipeline: &str) {
        let now = self.clock.monotonic();
        self.of(pipeline, |it| {
            it.source.answers(now);
            if it.pause.take().is_some() {
                it.target.answers(now);
            }
        });
    }

    /// Tells whether the breaker is open, so that the store is left alone.
    pub(crate) fn is_breaker_open(&self) -> bool {
        self.lock().is_breaker_open
    }

    /// Notes that the source of a pipeline was reached.
    pub(crate) fn source_reached(&self, pipeline: &str) {
        self.of(pipeline, |it| it.is_reached = true);
    }

    /// Returns each pipeline, and whether its source is connected: not before it was first reached.
    pub(crate) fn sources(&self) -> Vec<(Box<str>, bool)> {
        let known = self.lock();
        let all = known.pipelines.iter();
        all.map(|(name, it)| (name.clone(), it.is_reached && it.source.trouble.is_none()))
            .collect()
    }

    pub(super) fn trouble(&self, error: &Error) -> Trouble {
        self.trouble_of(error.code(), error.to_string().into())
    }

    fn trouble_of(&self, code: Code, error: Box<str>) -> Trouble {
        let now = self.clock.monotonic();
        Trouble {
            since: self.clock.now(),
            began_at: now,
            failed_at: now,
            code,
            error,
        }
    }

    fn of(&self, pipeline: &str, change: impl FnOnce(&mut Depends)) {
        if let Some(it) = self.lock().pipelines.get_mut(pipeline) {
            change(it);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reason {
    fn of(cause: Pause) -> Self {
        match cause {
            Pause::TargetAway => Self::TargetAway,
            Pause::TargetFailing => Self::TargetFailing,
            Pause::HandlerBroken => Self::HandlerBroken,
            _ => Self::Paused,
        }
    }
}

/// The time for which a source is away before it says so.
const SOURCE_GRACE: Duration = Duration::from_secs(2);
/// The time within which a pipeline that waits for a store tries it.
const QUIET: Duration = Duration::from_secs(7);

#[cfg(test)]
mod tests;
