//! The log of a run for its operator: decisions as JSON objects, or what wants attention as text.
//!
//! A program hands in the [`LogWriter`] that prints. The names and the order of the members of an object are
//! stable; texts may be reworded.

mod decision;
mod producers;
mod set_aside;
mod throttle;

pub use decision::Decision;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_config::PipelineSettings;
use semel_core::{Clock, Code, Duplicate, ErrorKind, StateKind, Timestamp};
use semel_engine::event::{Event, Observer, Origin, Pause};
use semel_engine::surroundings::OnProgress;
use tokio::time::Instant;

use producers::Habits;
use throttle::Throttle;

/// Prints the log of a run.
pub trait LogWriter: Send + Sync {
    /// Prints one line for people.
    fn text(&self, level: Level, text: &str);

    /// Prints a decision as an object.
    fn object(&self, level: Level, decision: &Decision<'_>);
}

/// The importance of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Good to know.
    Info,
    /// Wants the operator's attention.
    Warning,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object per decision, with the keys of messages.
    Objects,
    /// Lines of text, without keys.
    Text,
    /// Nothing is logged.
    Off,
}

/// The decisions that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Those that want attention.
    Attention,
    /// All of them.
    Decisions,
}

/// Logs the decisions of the engine, and counts what the summary explains.
pub struct EventLog {
    writer: Arc<dyn LogWriter>,
    form: Form,
    verbosity: Verbosity,
    clock: Arc<dyn Clock>,
    told: Mutex<BTreeMap<String, Told>>,
    /// True if the output of some pipeline cannot be written, as far as it was reported.
    is_output_away: AtomicBool,
}

#[derive(Default)]
struct Told {
    redelivered: u64,
    republished: u64,
    store_failures: u64,
    is_source_away: bool,
    is_target_away: bool,
    output_away_since: Option<Instant>,
    quarantined: u64,
    unprotected: u64,
    set_aside: Throttle,
}

impl EventLog {
    /// Begins a log. The clock says when a count of what was not logged one by one is due.
    pub fn new(
        writer: Arc<dyn LogWriter>,
        form: Form,
        verbosity: Verbosity,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            writer,
            form,
            verbosity,
            clock,
            told: Mutex::default(),
            is_output_away: AtomicBool::new(false),
        }
    }

    /// Redeliveries and republished messages that a pipeline met.
    pub fn duplicates(&self, pipeline: &str) -> (u64, u64) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(pipeline)
            .map_or((0, 0), |told| (told.redelivered, told.republished))
    }

    /// Watches, beside `progress`, how many of a pipeline's deliveries are duplicates, and warns once of each
    /// kind that becomes a habit.
    pub fn habits(
        self: &Arc<Self>,
        pipeline: &PipelineSettings,
        progress: OnProgress,
    ) -> OnProgress {
        let log = Arc::clone(self);
        let habits = Mutex::new(Habits::new(pipeline.source.has_broker()));
        let pipeline = pipeline.pipeline.name.to_string();
        Arc::new(move |read, summary| {
            let (redelivered, republished) = log.duplicates(&pipeline);
            let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
            for warning in habits.look(summary.deliveries(), redelivered, republished) {
                let text = format!("{pipeline}: {warning}");
                log.warning(&text);
            }
            drop(habits);
            log.tell_counted(&pipeline, Throttle::due);
            progress(read, summary);
        })
    }

    /// Reports at the end of a run what was counted and not reported yet.
    pub fn close(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let pipelines: Vec<_> = told.keys().cloned().collect();
        drop(told);
        for pipeline in pipelines {
            self.tell_counted(&pipeline, Throttle::rest);
        }
    }

    fn tell_counted(
        &self,
        pipeline: &str,
        counted: impl FnOnce(&mut Throttle, Timestamp) -> Vec<String>,
    ) {
        let now = self.clock.now();
        for line in self.change(pipeline, |told| counted(&mut told.set_aside, now)) {
            self.warning(&format!("{pipeline}: {line}"));
        }
    }

    fn change<T>(&self, pipeline: &str, change: impl FnOnce(&mut Told) -> T) -> T {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains_key(pipeline) {
            told.insert(pipeline.to_owned(), Told::default());
        }
        change(told.entry(pipeline.to_owned()).or_default())
    }

    /// Tells whether an event was not reported yet: an outage is reported once, and so is its end.
    fn is_news(&self, pipeline: &str, event: &Event<'_>) -> bool {
        match event {
            Event::StoreFailed { error, .. } if error.code() == Code::TargetUnavailable => {
                self.is_output_away.store(true, Ordering::Relaxed);
                self.change(pipeline, |told| {
                    let is_known = told.output_away_since.is_some();
                    told.output_away_since.get_or_insert_with(Instant::now);
                    !std::mem::replace(&mut told.is_target_away, true) && !is_known
                })
            }
            // The breaker reports it if it lasts.
            Event::StoreFailed { error, .. } => {
                !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
            }
            Event::SourceAway { .. } => self.change(pipeline, |told| {
                !std::mem::replace(&mut told.is_source_away, true)
            }),
            Event::SourceBack { .. } => {
                self.change(pipeline, |told| std::mem::take(&mut told.is_source_away))
            }
            Event::TargetAway { .. } => self.change(pipeline, |told| {
                !std::mem::replace(&mut told.is_target_away, true)
            }),
            // A probe may have reported it before the first message met it.
            Event::Paused {
                cause: Pause::TargetAway,
                ..
            } => self.change(pipeline, |told| {
                !std::mem::replace(&mut told.is_target_away, true)
            }),
            Event::Resumed { .. } => {
                self.change(pipeline, |told| told.is_target_away = false);
                true
            }
            Event::TargetBack { .. } => {
                self.change(pipeline, |told| std::mem::take(&mut told.is_target_away))
            }
            _ => true,
        }
    }

    fn take_note(&self, pipeline: &str, event: &Event<'_>, origin: Option<Origin<'_>>) {
        if let Event::Replayed { duplicate, .. } = event {
            self.change(pipeline, |told| match duplicate {
                Duplicate::Redelivery => told.redelivered += 1,
                Duplicate::Republish => told.republished += 1,
                Duplicate::Own | Duplicate::Unknown => {}
            });
        }
        if let Event::Completed { .. } = event
            && self.is_output_away.load(Ordering::Relaxed)
            && let Some(since) = self.change(pipeline, |told| told.output_away_since.take())
        {
            let lasted = since.elapsed();
            self.take_note(pipeline, &Event::TargetBack { lasted }, None);
        }
        let everything = self.verbosity == Verbosity::Decisions;
        if self.form == Form::Off || !(everything || wants_attention(event)) {
            return;
        }
        if !everything && !self.is_news(pipeline, event) {
            return;
        }
        if let Event::StoreFailed { .. } = event {
            // The first failure, and then every tenth: an outage is one story, not a thousand.
            let count = self.change(pipeline, |told| {
                told.store_failures += 1;
                told.store_failures
            });
            if count % 10 != 1 && !everything {
                return;
            }
        }
        if let Event::Unprotected { .. } = event {
            // The summary counts them all; the breaker announced them.
            let count = self.change(pipeline, |told| {
                told.unprotected += 1;
                told.unprotected
            });
            if count > 1 && !everything {
                return;
            }
        }
        let Some(decision) = Decision::of(pipeline, event, origin) else {
            return;
        };
        match self.form {
            Form::Objects => self.writer.object(decision.level(), &decision),
            Form::Text => self.tell(pipeline, &decision, everything),
            Form::Off => {}
        }
    }

    /// Reports a decision as text. Of the messages that go to quarantine, and of those that are set aside for
    /// one reason, only the first few are reported; the summary counts them all.
    fn tell(&self, pipeline: &str, decision: &Decision<'_>, everything: bool) {
        let text = match pipeline {
            // The decision concerns the worker as a whole.
            "" => decision.text().to_owned(),
            _ => format!("{pipeline}: {}", decision.text()),
        };
        if decision.is_quarantined() && !everything {
            let count = self.change(pipeline, |told| {
                told.quarantined += 1;
                told.quarantined
            });
            if count == TOLD_AT_MOST + 1 {
                self.note(&if decision.has_no_message() {
                    format!("{pipeline}: refused more; the metrics count them")
                } else {
                    format!("{pipeline}: quarantined more; the summary counts them")
                });
            }
            if count > TOLD_AT_MOST {
                return;
            }
        }
        if let Some((aside, reason)) = decision.aside()
            && !everything
        {
            let now = self.clock.now();
            let is_told = self.change(pipeline, |told| {
                told.set_aside.take(aside.text(), reason, now)
            });
            if !is_told {
                self.tell_counted(pipeline, Throttle::due);
                return;
            }
        }
        self.writer.text(decision.level(), &text);
    }

    fn note(&self, text: &str) {
        self.writer.text(Level::Info, text);
    }

    fn warning(&self, text: &str) {
        self.writer.text(Level::Warning, text);
    }
}

impl Observer for EventLog {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        self.take_note(pipeline, event, None);
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        self.take_note(pipeline, event, Some(origin));
    }
}

/// Tells whether the operator should hear of an event without having asked for every decision.
fn wants_attention(event: &Event<'_>) -> bool {
    match event {
        Event::Unusable { .. }
        | Event::Conflicted { .. }
        | Event::TooOld { .. }
        | Event::LiveOnly { .. }
        | Event::Fenced { .. }
        | Event::StoreFailed { .. }
        | Event::BreakerOpened { .. }
        | Event::BreakerClosed { .. }
        | Event::SourceAway { .. }
        | Event::SourceBack { .. }
        | Event::Elsewhere { .. }
        | Event::TargetAway { .. }
        | Event::TargetBack { .. }
        | Event::Paused { .. }
        | Event::Resumed { .. }
        | Event::DeadLetterRefused { .. }
        | Event::Revoked { .. }
        | Event::Unprotected { .. }
        | Event::InDoubt { .. }
        | Event::Dead { .. } => true,
        Event::Parked { state, .. } => *state == StateKind::InDoubt,
        Event::Granted { grant, .. } => grant.possible_repeat || grant.formerly_expired,
        _ => false,
    }
}

/// A duration as messages show it.
pub fn lasted_text(lasted: Duration) -> String {
    match lasted.as_secs() {
        0 => format!("{} ms", lasted.as_millis()),
        1..10 => format!("{:.1} s", lasted.as_secs_f64()),
        secs => format!("{secs} s"),
    }
}

/// A wait as messages show it.
fn wait_text(wait: Duration) -> String {
    let wait = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(0));
    format!("{wait:?}")
}

/// The number of quarantined messages of a pipeline that are reported one by one.
const TOLD_AT_MOST: u64 = 10;

#[cfg(test)]
mod tests;
