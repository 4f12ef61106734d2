//! The notices of a run, or of a verb that runs messages again, on the terminal: in words, and the progress of pipelines
//! as bars.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use semel_config::PipelineSettings;
use semel_engine::surroundings::OnProgress;
use semel_supervisor::event_log::EventLog;
use semel_supervisor::{Notice, Reporter};

use super::restoration::Restoring;
use crate::progress::Bars;
use crate::run::notices;
use crate::{self as output, Level};

/// Reports a run to its operator.
pub struct Console {
    bars: Bars,
    log: Arc<EventLog>,
    restoring: Mutex<BTreeMap<Box<str>, Restoring>>,
}

impl Console {
    /// Makes the console of a run, with its bars and its log.
    pub fn new(bars: Bars, log: Arc<EventLog>) -> Self {
        Self {
            bars,
            log,
            restoring: Mutex::default(),
        }
    }
}

impl Reporter for Console {
    fn report(&self, notice: &Notice<'_>) {
        let restoring = || {
            self.restoring
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        match *notice {
            Notice::Restoring {
                pipeline,
                restoration,
                elapsed,
            } => {
                let mut restoring = restoring();
                let it = restoring.entry(pipeline.into()).or_default();
                it.show(pipeline, restoration, elapsed, &self.bars);
            }
            Notice::Restored {
                pipeline,
                restoration,
                elapsed,
            } => {
                restoring().remove(pipeline);
                self.bars
                    .note(&super::restoration::done(pipeline, restoration, elapsed));
            }
            Notice::Ended { pipeline, .. } => {
                restoring().remove(pipeline);
            }
            _ => {}
        }
        match notices::text(notice) {
            Some((Level::Info, text)) => self.bars.note(&text),
            Some((Level::Warning | Level::Error, text)) => match notices::span(notice) {
                // A log names the span, and has no bars.
                Some(span) if !output::is_told_in_text() => output::warning_in(span, &text),
                _ => self.bars.warning(&text),
            },
            None => {}
        }
    }

    fn progress(&self, pipeline: &PipelineSettings) -> OnProgress {
        let progress = self.bars.of(&pipeline.pipeline.name);
        self.log.habits(pipeline, progress)
    }
}
