//! The producers whose messages wait in the store, as they are counted now and then.

mod ages;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{ProducerEntry, StreamEntry};
use semel_core::{Clock, Error, ErrorKind, Result};
use semel_telemetry::{Sample, SampledFamily};
use tokio::time::{Instant, sleep, timeout_at};

use self::ages::Ages;
use self::shown::{Row, Shown};
use super::pace::{Pace, Reading};

/// The last counts of what waits in a store for its producers.
#[derive(Debug, Default)]
pub(crate) struct ProducerSamples(Mutex<Option<Reading<Vec<Row>>>>);

impl ProducerSamples {
    /// Counts over and over for as long as the future is polled: every few seconds, and more seldom where that takes
    /// long. `at_once` is the number of producers that the journal is asked for in a call.
    ///
    /// A journal that may not be read, is damaged or is newer is left alone for [`LEFT_ALONE`]; `tell` hears of that once,
    /// and of one that was too slow [`TOO_SLOW`] times in a row.
    pub(crate) async fn take(
        &self,
        journal: impl ProducerJournal,
        at_once: usize,
        clock: &dyn Clock,
        tell: impl Fn(&Error),
    ) {
        let mut pace = Pace::new(EVERY, PARTS);
        let mut counts = Counts::default();
        let (mut is_told, mut too_slow) = (false, 0_u32);
        loop {
            let begun = Instant::now();
            let counted = counts.count(&journal, at_once, clock).await;
            let took = begun.elapsed();
            // A slow one keeps to its share as well, however seldom that is.
            let share = if took > SLOW {
                took * PARTS
            } else {
                Duration::ZERO
            };
            let (pause, trouble) = match counted {
                Ok((rows, trouble)) => {
                    *self.lock() = Some(Reading::new(rows, begun));
                    is_told &= trouble.is_some();
                    too_slow = 0;
                    (pace.after(took).max(share), trouble)
                }
                Err(error) if is_lasting(&error) => (LEFT_ALONE, Some(error)),
                // Others tell of a store that is away.
                Err(error) => {
                    let is_slow = error.kind() == ErrorKind::Timeout;
                    too_slow = if is_slow {
                        too_slow.saturating_add(1)
                    } else {
                        0
                    };
                    let pause = pace.after_failure().max(share);
                    (pause, Some(error).filter(|_| too_slow >= TOO_SLOW))
                }
            };
            if let Some(error) = trouble.filter(|_| !is_told) {
                is_told = true;
                tell(&error);
            }
            sleep(pause).await;
        }
    }

    /// Returns the families of what waits, without a series while nothing is known of late.
    pub(super) fn families(&self, store: &str) -> [SampledFamily; 3] {
        let reading = self.lock();
        let rows = reading.as_ref().and_then(Reading::value);
        let (mut waiting, mut kept, mut oldest) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows.into_iter().flatten() {
            let labels = [("store", store), ("producer", &*row.producer)];
            waiting.push(Sample::new(labels, row.figures.waiting));
            kept.push(Sample::new(labels, row.figures.kept));
            oldest.extend(row.oldest.map(|it| Sample::real(labels, it.as_secs_f64())));
        }
        [
            SampledFamily::gauge(
                "semel_producer_backlog",
                "Messages of a producer that are in the store and that its broker has not confirmed.",
                waiting,
            ),
            SampledFamily::gauge(
                "semel_producer_kept",
                "Those of them that are not to be sent, since the producer is frozen.",
                kept,
            ),
            SampledFamily::gauge(
                "semel_producer_oldest_seconds",
                "The time since the oldest message that waits and is not kept was taken, in seconds; 0 if none waits.",
                oldest,
            ),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading<Vec<Row>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that one count leaves to the next.
#[derive(Default)]
struct Counts {
    shown: Shown,
    ages: Ages,
}

impl Counts {
    /// Counts once, for at most [`PATIENCE`]. Returns what is to be shown, and what kept it from the age of a producer.
    async fn count(
        &mut self,
        journal: &impl ProducerJournal,
        at_once: usize,
        clock: &dyn Clock,
    ) -> Result<(Vec<Row>, Option<Error>)> {
        let begun = Instant::now();
        let listed = list(journal, at_once, begun + LISTING).await?;
        self.shown.choose(&listed, Instant::now());
        let until = begun + PATIENCE;
        let (shown, entries) = (&self.shown, &listed.entries);
        let asked = self.ages.ask(journal, entries, |it| shown.has(it), until);
        let trouble = asked.await?;
        let trouble = trouble.or_else(|| entries.iter().find_map(ProducerEntry::fault));
        let now = clock.now();
        let rows = self.shown.rows(&listed, |it| self.ages.of(it, now));
        Ok((rows, trouble))
    }
}

/// The producers of a store, or the first ones by name.
struct Listed {
    entries: Vec<ProducerEntry>,
    /// True if there are no others.
    is_whole: bool,
}

/// Lists producers page by page, at most [`MOST`], and those that are there by then.
async fn list(journal: &impl ProducerJournal, at_once: usize, until: Instant) -> Result<Listed> {
    let mut entries: Vec<ProducerEntry> = Vec::new();
    while entries.len() < MOST {
        let after = entries.last().map(|it| it.name.clone());
        let most = at_once.min(MOST - entries.len());
        let asked = journal.page(after.as_ref(), u32::try_from(most).unwrap_or(u32::MAX));
        let Ok(found) = timeout_at(until, asked).await else {
            if entries.is_empty() {
                let message = "the store took too long to list its producers";
                return Err(Error::new(ErrorKind::Timeout, message).not_applied());
            }
            break;
        };
        let found = found?;
        let is_last = found.len() < most;
        entries.extend(found);
        if is_last {
            let is_whole = true;
            return Ok(Listed { entries, is_whole });
        }
    }
    let is_whole = false;
    Ok(Listed { entries, is_whole })
}

/// Returns the number of messages of a stream that wait and are not to be sent, since its producer is frozen.
fn kept(entry: &ProducerEntry, stream: &StreamEntry) -> u64 {
    if !entry.is_frozen {
        return 0;
    }
    let last = stream.next.saturating_sub(1);
    last.saturating_sub(stream.confirmed.max(stream.released))
}

/// Tells whether a call that failed fails again until a person does something.
fn is_lasting(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidConfig
            | ErrorKind::Unsupported
            | ErrorKind::Corrupt
            | ErrorKind::Poisoned
    )
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(10);
/// A store spends one part of its time in so many on counting, or more if a count is brief.
const PARTS: u32 = 20;
/// The time that a count may take without a longer pause than all that is sampled has.
const SLOW: Duration = Duration::from_secs(3);
/// The longest time for which producers are listed, and for which they are listed and their messages are looked at.
const LISTING: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(8);
/// The counts in a row that a store may be too slow for before it is told.
const TOO_SLOW: u32 = 3;
/// The pause after a failure that lasts: each try may be an error in the log of a server.
const LEFT_ALONE: Duration = Duration::from_secs(600);
/// The producers that are counted: the first ones by name.
pub(crate) const MOST: usize = 10_000;
