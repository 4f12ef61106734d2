//! Progress bars and what is told of a run, on standard error.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use semel_core::{Duplicate, StateKind};
use semel_engine::consumer::OnProgress;
use semel_engine::event::{Event, Observer};
use semel_engine::summary::Fate;

use crate::output;

/// A bar per pipeline where standard error is a terminal, nothing elsewhere.
#[derive(Clone)]
pub(crate) struct Bars(Option<MultiProgress>);

impl Bars {
    pub(crate) fn new() -> Self {
        Self(std::io::stderr().is_terminal().then(MultiProgress::new))
    }

    /// Tells something without tearing a bar apart.
    pub(crate) fn note(&self, text: &str) {
        match &self.0 {
            Some(bars) => bars.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bars) = &self.0 {
            let _ = bars.clear();
        }
    }

    /// What moves the bar of one pipeline.
    pub(crate) fn of(&self, name: &str) -> OnProgress {
        let Some(bars) = &self.0 else {
            return Arc::new(|_, _| {});
        };
        let bar = bars.add(ProgressBar::no_length().with_style(style(WITHOUT_END)));
        bar.set_prefix(name.to_owned());
        Arc::new(move |progress, summary| {
            if let Some(progress) = progress {
                if let (Some(total), None) = (progress.total_bytes, bar.length()) {
                    bar.set_style(style(WITH_END));
                    bar.set_length(total);
                }
                bar.set_position(progress.read_bytes);
            }
            let (applied, all) = (summary.of(Fate::Applied), summary.deliveries());
            bar.set_message(format!("{applied} applied of {all}"));
        })
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Tells of what wants attention and counts what the summary explains.
pub(crate) struct Narrator {
    bars: Bars,
    told: Mutex<BTreeMap<String, Told>>,
}

#[derive(Clone, Copy, Default)]
struct Told {
    redelivered: u64,
    republished: u64,
    store_failures: u64,
    quarantined: u64,
}

impl Narrator {
    pub(crate) fn new(bars: Bars) -> Self {
        Self {
            bars,
            told: Mutex::default(),
        }
    }

    /// Redeliveries and republished messages that a pipeline met.
    pub(crate) fn duplicates(&self, pipeline: &str) -> (u64, u64) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(pipeline)
            .map_or((0, 0), |told| (told.redelivered, told.republished))
    }

    fn change<T>(&self, pipeline: &str, change: impl FnOnce(&mut Told) -> T) -> T {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains_key(pipeline) {
            told.insert(pipeline.to_owned(), Told::default());
        }
        change(told.entry(pipeline.to_owned()).or_default())
    }

    /// Tells of the first few messages that go to quarantine; the summary counts them all.
    fn quarantined(&self, pipeline: &str, coordinates: &str, why: &str) {
        let count = self.change(pipeline, |told| {
            told.quarantined += 1;
            told.quarantined
        });
        if count <= TOLD_AT_MOST {
            self.bars
                .note(&format!("{pipeline}: quarantined {coordinates}: {why}"));
        } else if count == TOLD_AT_MOST + 1 {
            self.bars.note(&format!(
                "{pipeline}: quarantined more; the summary counts them"
            ));
        }
    }

    fn warn(&self, pipeline: &str, text: &str) {
        self.bars.note(&format!("warning: {pipeline}: {text}"));
    }
}

impl Observer for Narrator {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        match event {
            Event::Replayed { duplicate, .. } => self.change(pipeline, |told| match duplicate {
                Duplicate::Redelivery => told.redelivered += 1,
                Duplicate::Republish => told.republished += 1,
                Duplicate::Own | Duplicate::Unknown => {}
            }),
            Event::Unusable {
                coordinates,
                unusable,
            } => {
                let why = format!("{unusable} [{}]", unusable.code());
                self.quarantined(pipeline, coordinates, &why);
            }
            Event::Conflicted { coordinates, .. } => {
                let why = "the key was used with another request [fingerprint-conflict]";
                self.quarantined(pipeline, coordinates, why);
            }
            Event::TooOld { coordinates, .. } => {
                let why = "no record, and older than the window [too-old]";
                self.quarantined(pipeline, coordinates, why);
            }
            Event::Fenced {
                operation, token, ..
            } => {
                let id = operation.id();
                self.warn(
                    pipeline,
                    &format!(
                        "fenced: the claim with token {token} was lost while its effect ran; its \
                         result is discarded (operation {id})"
                    ),
                );
            }
            Event::StoreFailed { error, wait } => {
                // The first failure and then every tenth: an outage is one story, not a thousand.
                let count = self.change(pipeline, |told| {
                    told.store_failures += 1;
                    told.store_failures
                });
                if count % 10 == 1 {
                    let wait = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(0));
                    let code = error.code();
                    self.warn(
                        pipeline,
                        &format!("{error} [{code}]; trying again in {wait:?}"),
                    );
                }
            }
            Event::InDoubt {
                operation,
                coordinates,
            }
            | Event::Parked {
                operation,
                coordinates,
                state: StateKind::InDoubt,
            } => {
                let id = operation.id();
                let text = format!(
                    "in doubt: nobody knows whether {coordinates} happened (operation {id})"
                );
                self.warn(pipeline, &text);
            }
            Event::Dead {
                operation,
                coordinates,
                error,
            } => {
                let id = operation.id();
                self.warn(
                    pipeline,
                    &format!("dead: {coordinates}: {error} (operation {id})"),
                );
            }
            Event::Granted { claim } if claim.possible_repeat => {
                let id = claim.operation.id();
                self.warn(
                    pipeline,
                    &format!("possible repeat: operation {id} may have happened before"),
                );
            }
            Event::Granted { claim } if claim.formerly_expired => {
                let id = claim.operation.id();
                let text = format!(
                    "forgotten: operation {id} happened before its window passed; it runs again"
                );
                self.warn(pipeline, &text);
            }
            _ => {}
        }
    }
}

/// How many quarantined messages of a pipeline are told one by one.
const TOLD_AT_MOST: u64 = 10;
const WITH_END: &str =
    "{prefix} {wide_bar} {percent:>3}% {msg}, {binary_bytes_per_sec}, {eta} left";
const WITHOUT_END: &str = "{prefix} {spinner} {msg}";
