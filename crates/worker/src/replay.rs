//! Parked messages run again through their own pipeline: dead letters and quarantined messages.
//!
//! A message leaves the collection of parked messages only after its run came to rest somewhere else
//! that is durable, so that a crash at any point loses nothing, and running the same again finishes
//! what was begun. Not for choosing the messages: whoever asks brings a filter.

mod parked;
mod prospect;

pub use prospect::{Assessed, Assessor, Prospect, unretried};

use std::sync::Arc;

use semel_core::{Note, Parked, Result, StateKind, Timestamp, Unusable};
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;

use crate::effect::exec;
use crate::run::{Run, Stores, run};
use crate::settings::EffectSettings;
use parked::ParkedSource;

/// Which parked messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Those of operations that are dead, or were in doubt and are not any more.
    DeadLetters,
    /// Those of operations in doubt, to be run again although nobody knows what became of them.
    InDoubt,
    /// Those that were set aside unrun.
    Quarantined,
}

impl Kind {
    /// Reasons of the parked messages that may be of this kind.
    pub fn reasons(self) -> Vec<Box<str>> {
        let dead: &[&str] = &["dead", "in-doubt"];
        let quarantined: &[&str] = &["fingerprint-conflict", "live-only", "too-old"];
        let reasons = match self {
            Self::DeadLetters => dead.iter().chain(&[]),
            Self::InDoubt => dead[1..].iter().chain(&[]),
            Self::Quarantined => quarantined.iter().chain(&Unusable::CODES),
        };
        reasons.map(|&reason| reason.into()).collect()
    }

    /// Whether a message with one of these reasons, whose record is in `state`, is of this kind.
    pub fn has(self, message: &Parked, state: Option<StateKind>) -> bool {
        match self {
            Self::DeadLetters => {
                &*message.reason != "in-doubt" || state != Some(StateKind::InDoubt)
            }
            Self::InDoubt => &*message.reason == "in-doubt" && state == Some(StateKind::InDoubt),
            Self::Quarantined => true,
        }
    }
}

/// What is run again, and in whose name.
#[derive(Clone)]
pub struct Job {
    /// Which kind of parked messages of the pipeline.
    pub kind: Kind,
    /// Which of them.
    pub wanted: Arc<dyn Fn(&Parked) -> bool + Send + Sync>,
    /// Only messages parked by then: what is parked anew while this runs waits for the next time.
    pub until: Timestamp,
    /// Bytes of their payloads, for whoever watches the progress.
    pub total_bytes: u64,
    /// Who asked, and why.
    pub note: Note,
}

/// What became of the messages.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The run's own summary.
    pub summary: Summary,
    /// Messages by what became of them as parked ones.
    pub tally: Tally,
}

/// Parked messages by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Came to rest elsewhere and were dropped.
    pub dropped: u64,
    /// Are where they were.
    pub kept: u64,
    /// Were not run at all; see [`Prospect::Refused`] and [`Prospect::Published`].
    pub refused: u64,
}

/// Runs parked messages again, through `pipeline` and `effect` as they are configured now, with the
/// same headers and coordinates and without the age gate. A dead operation is requeued first, and
/// one in doubt retried, with the note. Failures do not make it pause, however many are alike: each
/// message comes to rest, and the report says where.
///
/// # Guarantee   that of the effect's class; a message is dropped only after the store answered
/// that its operation is completed, or keeps it under another reason
/// # Cost        holds a page of messages besides what is in hand
/// # Cancel safety   dropping the future is as safe as `kill -9`: running the same again goes on
///
/// # Errors
///
/// Those of [`run`]; `Unavailable` with code `target-unavailable`: the program of the effect is not there.
pub async fn replay(
    mut pipeline: Pipeline,
    effect: EffectSettings,
    stores: Stores,
    around: Run,
    job: Job,
) -> Result<Report> {
    if let Some(program) = effect.program() {
        exec::look(program)?;
    }
    // These failed before. A pause would keep whoever asked waiting for ever, with nothing told.
    pipeline.pause_after = 0;
    let pipeline = Assessor::prepared(pipeline, &effect);
    let assessor = Assessor::new(pipeline.clone(), &effect, job.kind);
    let (source, tally) = ParkedSource::open(
        stores.store.clone(),
        assessor,
        job,
        Arc::clone(&around.surroundings.clock),
    );
    let summary = run(pipeline, effect, source, stores, around).await?;
    let tally = *tally
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Report { summary, tally })
}

#[cfg(test)]
mod tests;
