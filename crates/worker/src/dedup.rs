//! A durable `uniq`: of all lines with one key, the first is written, in order and byte for byte.
//!
//! A thread reads and finds the keys, the store decides batch by batch, and the granted lines are
//! written before the decisions are committed. To a file both become durable together: a crash at any
//! point and another run write each first line once. To a stream, which cannot be cut back, the last
//! batch may be printed again after a crash, or is left out and listed.
//!
//! [`Ephemeral`] remembers nothing beyond its run, and needs no store.
//!
//! Not for effects under a claim of their own: that is the engine's consumer. Here nothing but the
//! lines themselves is at stake, so a batch costs one decision per line and two syncs.

mod admission;
mod answers;
mod batch;
mod csv;
mod ephemeral;
mod extract;
mod input;
mod keys;
mod park;
mod pipe;
mod printer;
mod queue;
mod sink;
mod split;

pub use csv::Csv;
pub use ephemeral::{Counts, Ephemeral, Shown};
pub use input::Input;
pub use keys::{Format, Separator};
pub use pipe::Pipe;

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::key::KeySelector;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::source::Progress;
use semel_core::{Error, ErrorKind, Recovery, Result, Scope, Start, Store, Window};
use semel_engine::effect::OnDoubt;
use semel_engine::event::Event;
use semel_engine::summary::{Fate, Summary};
use tokio::sync::watch;

use crate::effect::FileOutput;
use crate::run::{Run, Stores};
use answers::Aside;
use batch::{Batch, Lines};
use extract::Extractor;
use park::Parking;
use printer::{Printed, Printer, Why};
use sink::{FileSink, Sink};

/// The rules by which two lines are the same, and the time for which they are.
#[derive(Clone, Debug)]
pub struct Dedup {
    /// The name in events.
    pub name: Box<str>,
    /// Tenant and operation name of its keys.
    pub scope: Scope,
    /// The place of the key in a line.
    pub key: KeySelector,
    /// The way in which lines and their fields are cut.
    pub format: Format,
    /// The deduplication window.
    pub window: Window,
    /// The longest line; a longer one is quarantined.
    pub max_line_bytes: usize,
}

/// The target of first lines.
pub enum Output {
    /// A file that is kept exact: every line ends with LF.
    File {
        /// The file.
        file: FileOutput,
        /// True if a file with contents that the store knows nothing of is appended to.
        is_append: bool,
    },
    /// A stream: every line as it came.
    Stream {
        /// The stream. A batch counts as printed once it is flushed.
        stream: Box<dyn Write + Send>,
        /// The treatment of lines that may have been printed before a crash.
        on_doubt: OnDoubt,
    },
}

impl Dedup {
    /// The longest line unless a setting says otherwise: 8 MiB, as the longest message elsewhere.
    pub const MAX_LINE_BYTES: usize = 8 << 20;

    /// Writes the first line of each key until `input` ends, a stop is requested, or the reader of the
    /// stream is gone.
    ///
    /// # Guarantee
    ///
    /// Into a file: each first line once, whenever the process is killed and run again. Into a stream:
    /// a line that was not printed is not recorded as completed; after a crash the last batch may be
    /// printed again (`Repeat`), or is in doubt, listed and not printed again (`Park`)
    ///
    /// # Cost
    ///
    /// Constant memory beside the store's; two syncs a batch
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a file with contents that the store knows nothing of. `target-shortened`,
    /// `target-unavailable`, `source-unavailable` and those of the store; the next run writes the
    /// lines that were not recorded
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is as safe as `kill -9`
    pub async fn run(
        self,
        input: Input,
        output: Output,
        stores: Stores,
        run: Run,
    ) -> Result<Summary> {
        let dedup = Arc::new(self);
        let stop = run.stop.subscribe();
        let header = input.header().clone();
        let (start, way, most_lines) = match output {
            Output::File { file, is_append } => {
                let checkpoints = checkpoints(&stores)?;
                let sink = FileSink::recover(file, is_append, &header, &checkpoints).await?;
                let way = Way::admit(Sink::File(sink), checkpoints);
                (Start::Unmarked, way, MOST_LINES)
            }
            Output::Stream { stream, on_doubt } => {
                let printer = Printer::start(stream, stop.clone(), run.patience)
                    .map_err(|error| sink::cannot_print("start a thread to print", error))?;
                let Some(printer) = head(printer, &header).await? else {
                    return Ok(Summary::default());
                };
                match on_doubt {
                    OnDoubt::Repeat => {
                        let way = Way::admit(Sink::Stream(printer), checkpoints(&stores)?);
                        (Start::Unmarked, way, MOST_LINES)
                    }
                    OnDoubt::Park => {
                        let start = Start::Marked(Recovery::Park);
                        (start, Way::Park(Parking::new(printer)), MOST_IN_DOUBT)
                    }
                }
            }
        };
        let (reading, extractor) = {
            let name = input.name();
            let new = || {
                let first = run.surroundings.claim_id();
                let lines = memchr::memchr_iter(b'\n', &header).count() as u64;
                Extractor::new(Arc::clone(&dedup), name, start, first)
                    .behind(lines, header.len() as u64)
            };
            (new(), new())
        };
        let started = run.surroundings.clock.monotonic();
        let total_bytes = input.total_bytes();
        let format = dedup.format.clone();
        let lines = input.start(reading, format, dedup.max_line_bytes, most_lines)?;
        let mut context = Context {
            dedup,
            stores,
            run,
            stop,
            extractor,
            summary: Summary::default(),
        };
        let mut stopped = context.stop.clone();
        let mut pace = Pace {
            most_lines,
            limit: most_lines,
        };
        loop {
            let batch = tokio::select! {
                biased;
                // The sender lives as long as the run.
                _ = stopped.wait_for(|stop| *stop) => break,
                batch = lines.next(pace.most_lines) => batch?,
            };
            let Some(batch) = batch else { break };
            let read_bytes = batch.end_bytes;
            let began = context.now();
            if context.settle(&way, batch).await?.is_break() {
                break;
            }
            pace.took(context.now().saturating_sub(began));
            if let Some(on_progress) = &context.run.on_progress {
                let progress = Progress {
                    read_bytes,
                    total_bytes,
                };
                on_progress(Some(progress), &context.summary);
            }
        }
        context.summary.elapsed = context.now().saturating_sub(started);
        Ok(context.summary)
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { file, is_append } => f
                .debug_struct("File")
                .field("file", file)
                .field("is_append", is_append)
                .finish(),
            Self::Stream { on_doubt, .. } => f
                .debug_struct("Stream")
                .field("on_doubt", on_doubt)
                .finish_non_exhaustive(),
        }
    }
}

/// Prints the header. Returns no printer if the reader is gone.
async fn head(mut printer: Printer, header: &Bytes) -> Result<Option<Printer>> {
    if header.is_empty() {
        return Ok(Some(printer));
    }
    let header = header.to_vec();
    let print = tokio::task::spawn_blocking(move || (printer.print(header), printer));
    let (result, printer) = print
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, "printing panicked").with_source(error))?;
    match result {
        Printed::All => Ok(Some(printer)),
        Printed::Partly { why, .. } => match why {
            Why::Closed | Why::GaveUp => Ok(None),
            Why::Failed(error) => Err(sink::cannot_print("print", error)),
        },
    }
}

/// The way in which lines and their records are brought together.
enum Way {
    /// Decided, written and completed in one step of the store.
    Admit(admission::Admitting),
    /// Marked as started, printed, completed.
    Park(Parking),
}

impl Way {
    fn admit(sink: Sink, checkpoints: AnyCheckpointStore) -> Self {
        Self::Admit(admission::Admitting::new(sink, checkpoints))
    }
}

/// Says whether to go on: `Break` when the reader is gone or it is time to stop.
type Go = ControlFlow<()>;

/// The number of lines that go to the store at once: fewer for a slow reader, so that a batch, and
/// with it what a crash puts in doubt, is about a second of its work.
struct Pace {
    most_lines: usize,
    limit: usize,
}

impl Pace {
    fn took(&mut self, time: Duration) {
        if time > LONG {
            self.most_lines = (self.most_lines / 4).max(1);
        } else if time < LONG / 4 {
            self.most_lines = (self.most_lines * 2).min(self.limit);
        }
    }
}

/// The state that both ways need.
struct Context {
    dedup: Arc<Dedup>,
    stores: Stores,
    run: Run,
    stop: watch::Receiver<bool>,
    /// The extractor for lines that are looked at again.
    extractor: Extractor,
    summary: Summary,
}

impl Context {
    async fn settle(&mut self, way: &Way, mut batch: Batch) -> Result<Go> {
        self.quarantine(std::mem::take(&mut batch.unusable)).await?;
        if batch.lines.len() == 0 {
            return Ok(Go::Continue(()));
        }
        match way {
            Way::Admit(admitting) => admitting.settle(self, batch).await,
            Way::Park(parking) => parking.settle(self, batch).await,
        }
    }

    /// Keeps lines without a usable key, durably, before any other work on their batch.
    async fn quarantine(
        &mut self,
        unusable: Vec<(semel_core::Parked, semel_core::Unusable)>,
    ) -> Result<()> {
        if unusable.is_empty() {
            return Ok(());
        }
        let (parked, reasons): (Vec<_>, Vec<_>) = unusable.into_iter().unzip();
        let parked: Arc<[_]> = parked.into();
        self.stores.store.park(Arc::clone(&parked)).await?;
        for (parked, unusable) in parked.iter().zip(&reasons) {
            let coordinates = &parked.coordinates;
            self.observe(&Event::Unusable {
                coordinates,
                unusable,
            });
            self.summary.count(Fate::Quarantined);
        }
        Ok(())
    }

    /// Keeps lines whose operation is given up, or whose key is refused.
    async fn set_aside(&mut self, lines: &Lines, aside: &[(usize, Aside)]) -> Result<()> {
        if aside.is_empty() {
            return Ok(());
        }
        let parked = aside
            .iter()
            .map(|(at, aside)| {
                let (reason, detail) = aside.reason();
                self.extractor.parked(lines, *at, reason, detail)
            })
            .collect();
        self.stores.store.park(parked).await.map(drop)
    }

    /// Waits until a key may be free. Returns whether to go on.
    async fn wait(&mut self, wait: Duration) -> Go {
        let wait = wait.clamp(Duration::from_millis(5), RECHECK);
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Go::Break(()),
            () = tokio::time::sleep(wait) => Go::Continue(()),
        }
    }

    fn now(&self) -> Duration {
        self.run.surroundings.clock.monotonic()
    }

    fn observe(&self, event: &Event<'_>) {
        let observer = &self.run.surroundings.observer;
        observer.observe(&self.dedup.name, event);
    }
}

fn checkpoints(stores: &Stores) -> Result<AnyCheckpointStore> {
    stores.checkpoints.clone().ok_or_else(|| {
        let message = "deduplication needs a store with marks";
        Error::new(ErrorKind::Unsupported, message)
    })
}

/// The time that a batch may take before the next one is made smaller.
const LONG: Duration = Duration::from_secs(1);
/// The most lines that go to the store at once.
const MOST_LINES: usize = 24_576;
/// The same if a crash leaves them all in doubt.
const MOST_IN_DOUBT: usize = 1_024;
/// The time after which a busy key is tried again; it may be free long before its claimant's lease
/// ends.
const RECHECK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
