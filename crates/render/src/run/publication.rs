//! The report of a publication, as data and as lines; and the words that are said meanwhile.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use semel_core::Result;
use semel_core::producer::{Incarnation, ProducerName};
use semel_outbox::producer::{ProducerEvent, ProducerObserver, ProducerSummary, TakenRows};
use serde::Serialize;

use crate::progress::{Bar, Bars};
use crate::{self as output, Output};

/// The summary.
#[derive(Debug, Serialize)]
pub struct PublicationReport {
    producer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    stream: String,
    target: String,
    dry_run: bool,
    /// Rows that were read, blank ones left out.
    rows: u64,
    blank: u64,
    /// Rows that were appended by an earlier run.
    pub skipped: u64,
    published: u64,
    repeated: u64,
    late: u64,
    resent: u64,
    duplicates: u64,
    refused: u64,
    kept: u64,
    /// Messages of earlier runs that are not confirmed; of a trial alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// The settings of the store's server that promise less than a producer needs, a line each.
    pub warnings: Vec<Box<str>>,
    /// The time that it took.
    #[serde(rename = "elapsed_secs", serialize_with = "seconds")]
    pub elapsed: Duration,
}

fn seconds<S: serde::Serializer>(
    elapsed: &Duration,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_f64(elapsed.as_secs_f64())
}

impl PublicationReport {
    /// Begins that of a run of a producer, whose earlier run took so many rows.
    pub fn of(of: &Incarnation, stream: &str, target: &str, skipped: u64) -> Self {
        Self {
            id: Some(of.id.clone()),
            epoch: Some(of.epoch),
            dry_run: false,
            skipped,
            ..Self::trial(&of.name, stream, target)
        }
    }

    /// Begins that of a run that was stopped before its producer was opened.
    pub fn unopened(producer: &ProducerName, stream: &str, target: &str) -> Self {
        Self {
            dry_run: false,
            ..Self::trial(producer, stream, target)
        }
    }

    /// Begins that of a run that publishes nothing.
    pub fn trial(producer: &ProducerName, stream: &str, target: &str) -> Self {
        Self {
            producer: producer.to_string(),
            id: None,
            epoch: None,
            stream: stream.to_owned(),
            target: target.to_owned(),
            dry_run: true,
            rows: 0,
            blank: 0,
            skipped: 0,
            published: 0,
            repeated: 0,
            late: 0,
            resent: 0,
            duplicates: 0,
            refused: 0,
            kept: 0,
            waiting: None,
            warnings: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Counts rows that were read, blank ones apart.
    pub const fn count(&mut self, rows: u64, blank: u64) {
        self.rows += rows;
        self.blank += blank;
    }

    /// Takes the counts of the producer.
    pub const fn take(&mut self, summary: &ProducerSummary) {
        self.published = summary.published;
        self.repeated = summary.repeated;
        self.late = summary.late;
        self.resent = summary.resent;
        self.duplicates = summary.duplicates;
        self.refused = summary.refused;
        self.kept = summary.kept;
    }

    /// Prints it.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn print(&self, format: Output) -> Result<()> {
        match format {
            Output::Json | Output::Jsonl => output::object(self),
            Output::Table => output::data(self.lines().join("\n")).map_err(output::cannot_print),
        }
    }

    fn lines(&self) -> Vec<String> {
        let Self {
            producer, target, ..
        } = self;
        let mut lines = if self.dry_run {
            vec![format!(
                "{producer}: {} rows would go to {target}",
                self.rows
            )]
        } else {
            let (published, seconds) = (self.published, self.elapsed.as_secs_f64());
            vec![format!(
                "{producer}: {published} published to {target} in {seconds:.2} s"
            )]
        };
        for (label, count, meaning) in [
            (
                "skipped",
                self.skipped,
                "rows that an earlier run took already",
            ),
            (
                "repeated",
                self.repeated,
                "left by an earlier run; sent under the same ids, perhaps for the second time",
            ),
            (
                "late",
                self.late,
                "sent again later than the broker itself would drop them; perhaps for the second time",
            ),
            (
                "resent",
                self.resent,
                "sent again after a call that broke; perhaps for the second time, under the same ids",
            ),
            (
                "duplicates",
                self.duplicates,
                "known to the broker by their ids; it dropped the second",
            ),
            ("refused", self.refused, "the broker takes them in no case"),
            ("kept", self.kept, "in the store, and not published"),
            ("blank", self.blank, "rows without anything"),
            (
                "waiting",
                self.waiting.unwrap_or(0),
                "left by an earlier run; sent first",
            ),
        ] {
            if count > 0 {
                lines.push(format!("  {label:<12}{count:>9}  {meaning}"));
            }
        }
        lines
    }
}

/// Says how many rows of a pipe are taken where a stop came before its end: what is sure, and what is not. `show` is the
/// command that shows the producer as an object.
pub fn stopped_pipe(name: &str, taken: &TakenRows, show: &str) -> String {
    let TakenRows { sure, unsure } = taken;
    let mut text = format!(
        "stopped behind row {sure} of {name}: the rows up to it are in the store, and the next run sends what of them is \
         not published; "
    );
    match unsure {
        None => text.push_str("those behind it are not taken"),
        Some(unsure) => {
            let (first, last) = (sure + 1, unsure.last);
            let (with, without) = (unsure.next_with, unsure.next_without);
            let _ = write!(
                text,
                "the store has not said whether it has rows {first} to {last}, all of them or none: before the next run, \
                 `{show}` says `\"next\":{with}` if it has them, and {without} if not; those behind row {last} are not \
                 taken"
            );
        }
    }
    text
}

/// Tells the operator what happens meanwhile.
pub struct PublicationTeller {
    bars: Bars,
    bar: Bar,
    address: String,
    producer: String,
    refused: AtomicU64,
    is_frozen: AtomicBool,
    /// It was said that the broker is waited for, and nothing was published since.
    is_waiting: AtomicBool,
}

impl PublicationTeller {
    /// Makes one that moves a bar, of a producer that publishes to an address.
    pub fn new(bars: Bars, bar: Bar, address: &str, producer: &ProducerName) -> Self {
        Self {
            bars,
            bar,
            address: address.to_owned(),
            producer: producer.to_string(),
            refused: AtomicU64::new(0),
            is_frozen: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        }
    }

    /// Sets the number of messages that there will be.
    pub fn ends_at(&self, total: u64) {
        self.bar.ends_at(total);
    }

    /// Tells whether the producer is frozen.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Ordering::Relaxed)
    }
}

impl ProducerObserver for PublicationTeller {
    fn observe(&self, event: &ProducerEvent<'_>) {
        let (address, producer) = (&self.address, &self.producer);
        match event {
            ProducerEvent::Published { count } => {
                self.is_waiting.store(false, Ordering::Relaxed);
                self.bar.advance(*count);
            }
            ProducerEvent::Repeated { count } => self.bars.note(&format!(
                "{count} messages of an earlier run were not confirmed; they go first, under the same ids"
            )),
            ProducerEvent::Late { window } if window.is_zero() => self.bars.warning(&format!(
                "{address} does not know what an earlier run has sent: only a reader that goes by ids drops one that is \
                 there already"
            )),
            ProducerEvent::Late { window } => self.bars.warning(&format!(
                "{address} remembers ids for {window:?}, and some of these messages are older: only a reader that \
                 goes by ids drops one that is there already"
            )),
            ProducerEvent::Refused { sequence, error }
                if self.refused.fetch_add(1, Ordering::Relaxed) < MOST_REFUSALS =>
            {
                let text = format!("{producer}: message {sequence} is refused: {error}");
                self.bars.warning(&text);
            }
            ProducerEvent::SinkAway { error } => {
                self.is_waiting.store(true, Ordering::Relaxed);
                self.bars.warning(&format!("{address} is away: {error}; waiting for it"));
            }
            // Each call that waits says so: one line for all of them.
            ProducerEvent::SinkSilent { since } if !self.is_waiting.swap(true, Ordering::Relaxed) => {
                let text = format!(
                    "{address} has not answered for {} s; waiting for it",
                    since.as_secs()
                );
                self.bars.warning(&text);
            }
            ProducerEvent::SinkBack { lasted } => {
                self.is_waiting.store(false, Ordering::Relaxed);
                self.bars.note(&format!("{address} is back after {:.1} s", lasted.as_secs_f64()));
            }
            ProducerEvent::JournalAway { error } => {
                self.bars.warning(&format!("the store is away: {error}; waiting for it"));
            }
            ProducerEvent::JournalBack { lasted } => {
                self.bars.note(&format!("the store is back after {:.1} s", lasted.as_secs_f64()));
            }
            ProducerEvent::Frozen => self.is_frozen.store(true, Ordering::Relaxed),
            ProducerEvent::Thawed => {
                self.is_frozen.store(false, Ordering::Relaxed);
                self.bars.note(&format!("producer {producer} is thawed"));
            }
            // Further refusals, further calls that wait, and events that a later version adds, are counted at the end.
            _ => {}
        }
    }
}

/// The refusals that are told one by one.
const MOST_REFUSALS: u64 = 10;

#[cfg(test)]
mod tests {
    use semel_outbox::producer::UnsureRows;

    use super::*;

    #[test]
    fn a_stop_of_a_pipe_says_what_is_sure_and_what_is_not() {
        let mut taken = TakenRows {
            sure: 4,
            unsure: None,
        };
        let text = stopped_pipe("standard input", &taken, "show it");
        assert!(
            text.starts_with("stopped behind row 4 of standard input: "),
            "{text}"
        );
        assert!(text.ends_with("; those behind it are not taken"), "{text}");
        taken.unsure = Some(UnsureRows {
            last: 9,
            next_without: 5,
            next_with: 10,
        });
        let text = stopped_pipe("standard input", &taken, "show it");
        for words in [
            "has not said whether it has rows 5 to 9, all of them or none",
            "`show it` says `\"next\":10` if it has them, and 5 if not",
            "those behind row 9 are not taken",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
}
