//! Running parked messages again through their own pipeline: dead letters and quarantined messages.
//!
//! A message leaves the collection of parked messages only after its run came to rest in another durable
//! place, so that a crash at any point loses nothing, and a second run finishes what the first began. Not
//! for choosing the messages: the caller brings a filter.

mod distinct;
mod parked;
mod prospect;

pub use distinct::RELEASED_AS_DISTINCT;
pub use prospect::{Assessed, Assessor, Prospect, unretried};

use std::sync::Arc;

use semel_core::{
    Fate, Key, Note, Parked, ParkedId, Record, Result, StateKind, Timestamp, Unusable,
};
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;

use crate::effect::exec;
use crate::run::{Run, Stores, run};
use crate::settings::EffectSettings;
use parked::ParkedSource;

/// A kind of parked messages.
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

    /// Returns whether a message with one of these reasons, whose record is in `state`, is of this kind.
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

/// The messages to run again, and the author of the order.
#[derive(Clone)]
pub struct Job {
    /// The kind of parked messages of the pipeline.
    pub kind: Kind,
    /// The filter among them.
    pub wanted: Arc<dyn Fn(&Parked) -> bool + Send + Sync>,
    /// Tells whether a message that is wanted, and the record of its key, stand as they did when somebody looked at them;
    /// one that does not is not run, unless it is done. None runs them as they stand.
    pub stands: Option<Stands>,
    /// The number of messages that are wanted, if it is known: the last one ends the search.
    pub count: Option<usize>,
    /// Only messages parked by then: a message that is parked while this runs waits for the next time.
    pub until: Timestamp,
    /// Bytes of their payloads, to show the progress.
    pub total_bytes: u64,
    /// The author of the order, and the reason.
    pub note: Note,
    /// The key under which quarantined messages run, as operations of their own; none for the one that the pipeline
    /// finds in each.
    pub key: Option<Key>,
    /// Told of each message that is handed over to be run, if anybody wants to know: its effect may be called from then on.
    pub on_taken: Option<OnTaken>,
    /// Told what became of each message that was run, if anybody wants to know: once its operation is settled, whether or
    /// not it can be dropped then.
    pub on_fate: Option<OnFate>,
}

/// Tells whether a message and the record of its key stand as they did.
pub type Stands = Arc<dyn Fn(&Parked, Option<&Record>) -> bool + Send + Sync>;

/// Receives each message that is handed over to be run.
pub type OnTaken = Arc<dyn Fn(ParkedId) + Send + Sync>;

/// Receives the fate of each message that was run.
pub type OnFate = Arc<dyn Fn(ParkedId, Fate) + Send + Sync>;

/// The results for the messages.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The run's own summary.
    pub summary: Summary,
    /// The messages, counted by what happened to them as parked ones.
    pub tally: Tally,
}

/// Parked messages, counted by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Came to rest in another place and were dropped.
    pub dropped: u64,
    /// Stayed where they were.
    pub kept: u64,
    /// Were not run at all; see [`Prospect::Refused`], [`Prospect::Published`] and [`Job::stands`].
    pub refused: u64,
}

/// Runs parked messages again, through `pipeline` and `effect` as they are configured now, with the same
/// headers and coordinates and without the age gate. A dead operation is requeued first, and one in doubt
/// retried, with the note. The run does not pause for failures, however many are alike: each message comes
/// to rest, and the report says where.
///
/// # Guarantee   that of the effect's class; a message is dropped only after the store answered
/// that its operation is completed, or keeps it under another reason
/// # Cost        holds a page of messages besides those in hand
/// # Cancel safety   dropping the future is as safe as `kill -9`: a second run continues
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
        exec::inspect(program)?;
    }
    // These messages failed before. A pause would keep the caller waiting for ever, with no report.
    pipeline.pause_after = 0;
    let pipeline = Assessor::prepared(pipeline, &effect);
    let assessor = Assessor::new(pipeline.clone(), &effect, job.kind).under(job.key.clone());
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
