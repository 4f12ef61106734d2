//! What is told of a run: what wants attention in text, or decisions as JSON objects for a log.

mod decision;
mod producers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::{Duplicate, StateKind};
use semel_engine::consumer::OnProgress;
use semel_engine::event::{Event, Observer, Origin};

use crate::args::{Log, LogFormat, LogLevel};
use crate::output;
use crate::progress::Bars;

use decision::Decision;
use producers::Habits;

/// Tells of what the engine decides and counts what the summary explains.
pub(crate) struct Narrator {
    bars: Bars,
    log: Log,
    told: Mutex<BTreeMap<String, Told>>,
}

#[derive(Clone, Copy, Default)]
struct Told {
    redelivered: u64,
    republished: u64,
    store_failures: u64,
    target_failures: u64,
    quarantined: u64,
    unprotected: u64,
}

impl Narrator {
    pub(crate) fn new(bars: Bars, log: Log) -> Self {
        Self {
            bars,
            log,
            told: Mutex::default(),
        }
    }

    /// Redeliveries and republished messages that a pipeline met.
    pub(crate) fn duplicates(&self, pipeline: &str) -> (u64, u64) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(pipeline)
            .map_or((0, 0), |told| (told.redelivered, told.republished))
    }

    /// Watches, beside `progress`, how much of what a pipeline gets is duplicates, and warns once
    /// of each kind that becomes a habit.
    pub(crate) fn habits(self: &Arc<Self>, pipeline: &str, progress: OnProgress) -> OnProgress {
        let narrator = Arc::clone(self);
        let pipeline = pipeline.to_owned();
        let habits = Mutex::new(Habits::default());
        Arc::new(move |read, summary| {
            let (redelivered, republished) = narrator.duplicates(&pipeline);
            let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
            for warning in habits.look(summary.deliveries(), redelivered, republished) {
                let text = format!("{pipeline}: {warning}");
                narrator.bars.warning(&text);
            }
            drop(habits);
            progress(read, summary);
        })
    }

    fn change<T>(&self, pipeline: &str, change: impl FnOnce(&mut Told) -> T) -> T {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains_key(pipeline) {
            told.insert(pipeline.to_owned(), Told::default());
        }
        change(told.entry(pipeline.to_owned()).or_default())
    }

    fn take_note(&self, pipeline: &str, event: &Event<'_>, origin: Option<Origin<'_>>) {
        if let Event::Replayed { duplicate, .. } = event {
            self.change(pipeline, |told| match duplicate {
                Duplicate::Redelivery => told.redelivered += 1,
                Duplicate::Republish => told.republished += 1,
                Duplicate::Own | Duplicate::Unknown => {}
            });
        }
        let everything = self.log.level == LogLevel::Decisions;
        if self.log.format == LogFormat::Off || !(everything || wants_attention(event)) {
            return;
        }
        if let Event::StoreFailed { .. } = event {
            // The first failure and then every tenth: an outage is one story, not a thousand.
            let count = self.change(pipeline, |told| {
                told.store_failures += 1;
                told.store_failures
            });
            if count % 10 != 1 && !everything {
                return;
            }
        }
        if let Event::TargetAway { .. } = event {
            let count = self.change(pipeline, |told| {
                told.target_failures += 1;
                told.target_failures
            });
            if count % 10 != 1 && !everything {
                return;
            }
        }
        if let Event::Unprotected { .. } = event {
            // The summary counts them all; the breaker has said that they come.
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
        match self.log.format {
            LogFormat::Json => output::log(decision.level(), &decision),
            LogFormat::Text => self.tell(pipeline, &decision, everything),
            LogFormat::Off => {}
        }
    }

    /// In text. Of the messages that go to quarantine only the first few are told; the summary
    /// counts them all.
    fn tell(&self, pipeline: &str, decision: &Decision<'_>, everything: bool) {
        let text = format!("{pipeline}: {}", decision.text());
        if decision.is_quarantined() && !everything {
            let count = self.change(pipeline, |told| {
                told.quarantined += 1;
                told.quarantined
            });
            if count == TOLD_AT_MOST + 1 {
                self.bars.note(&format!(
                    "{pipeline}: quarantined more; the summary counts them"
                ));
            }
            if count > TOLD_AT_MOST {
                return;
            }
        }
        match decision.level() {
            output::Level::Info => self.bars.note(&text),
            output::Level::Warning | output::Level::Error => self.bars.warning(&text),
        }
    }
}

impl Observer for Narrator {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        self.take_note(pipeline, event, None);
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        self.take_note(pipeline, event, Some(origin));
    }
}

/// Whether somebody should hear of it without having asked for every decision.
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
        | Event::Elsewhere { .. }
        | Event::TargetAway { .. }
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

/// A wait as it is told.
fn wait_text(wait: Duration) -> String {
    let wait = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(0));
    format!("{wait:?}")
}

/// How many quarantined messages of a pipeline are told one by one.
const TOLD_AT_MOST: u64 = 10;

#[cfg(test)]
mod tests;
