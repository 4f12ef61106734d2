//! The scratch world of a drill: its configuration, its provider, its messages, and the steps that drills share.

use std::fmt::Write;
use std::fs::File;
use std::ops::Range;
use std::process::Stdio;
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::Samples;
use crate::provider::{Books, Provider};
use crate::report::Draft;
use crate::worker::{self, Configuration, Rules, Worker, cannot, configure, failed};
use crate::{Commands, Setup};

/// A scratch world.
pub(crate) struct Scene<'a> {
    setup: &'a Setup,
    config: Configuration,
    provider: Provider,
    /// Part of every id, so that a store may have seen other drills.
    drill: String,
}

impl<'a> Scene<'a> {
    /// Sets the scene with the settings of the subject; an effect takes `takes`. Its window lasts for longer than any
    /// drill.
    pub(crate) async fn set(setup: &'a Setup, takes: Duration) -> Result<Self> {
        let subject = &setup.subject;
        let rules = Rules {
            window: subject.window.max(Duration::from_secs(600)),
            lease: Duration::from_secs(30),
            is_gated: false,
        };
        Self::with(setup, rules, takes).await
    }

    /// Sets the scene with rules of its own.
    pub(crate) async fn with(setup: &'a Setup, rules: Rules, takes: Duration) -> Result<Self> {
        let provider = Provider::begin(takes).await?;
        let config = configure(setup, rules, provider.address)?;
        let drill = format!("{:x}", setup.clock.now().as_millis());
        Ok(Self {
            setup,
            config,
            provider,
            drill,
        })
    }

    /// Starts a worker.
    pub(crate) async fn worker(&self, name: &str) -> Result<Worker> {
        Worker::start(self.setup, &self.config, name).await
    }

    pub(crate) fn setup(&self) -> &Setup {
        self.setup
    }

    pub(crate) fn books(&self) -> &Books {
        self.provider.books()
    }

    /// The ids of these numbers.
    pub(crate) fn ids(&self, prefix: &str, numbers: Range<u32>) -> impl Iterator<Item = String> {
        let drill = self.drill.clone();
        let prefix = prefix.to_owned();
        numbers.map(move |number| format!("{prefix}{drill}-{number}"))
    }

    /// One message for each number, the same each time, with `more` members.
    pub(crate) fn messages(&self, prefix: &str, numbers: Range<u32>, more: &str) -> String {
        self.ids(prefix, numbers)
            .fold(String::new(), |mut all, id| {
                // Writing to a string cannot fail.
                let _ = writeln!(all, "{{\"id\":\"{id}\"{more}}}");
                all
            })
    }

    /// Scrapes the worker until `holds`, at most for `longest`; returns the last scrape, and whether it holds.
    pub(crate) async fn seen(
        &self,
        worker: &Worker,
        longest: Duration,
        holds: impl Fn(&Samples) -> bool,
    ) -> (Samples, bool) {
        let until = Instant::now() + longest;
        loop {
            let scrape = worker.scrape().await;
            let is_so = holds(&scrape);
            if is_so || Instant::now() >= until {
                return (scrape, is_so);
            }
            sleep(SCRAPE).await;
        }
    }

    /// Waits until the worker has acknowledged `count` messages, at most for `longest`.
    pub(crate) async fn settled(&self, worker: &Worker, count: u32, longest: Duration) -> bool {
        let settled = |it: &Samples| it.sum("semel_deliveries_total", &[]) >= count.into();
        self.seen(worker, longest, settled).await.1
    }

    /// Waits until the worker says that it is ready, or is not, at most for `longest`.
    pub(crate) async fn becomes(&self, worker: &Worker, ready: bool, longest: Duration) -> bool {
        let said = async {
            while worker.ready().await != Some(ready) {
                sleep(SCRAPE).await;
            }
        };
        timeout(longest, said).await.is_ok()
    }

    /// Waits until the provider has applied `count` operations or more, at most for `longest`.
    pub(crate) async fn applied(&self, count: u32, longest: Duration) -> bool {
        let applied = async {
            while self.books().operations() < count as usize {
                sleep(worker::LOOK).await;
            }
        };
        timeout(longest, applied).await.is_ok()
    }

    /// The keys of operations in doubt.
    pub(crate) async fn doubts(&self) -> Result<Vec<String>> {
        worker::doubts(self.setup, &self.config).await
    }

    /// Breaks the store and mends it, as far as commands for that were named.
    pub(crate) async fn break_and_mend(&self, draft: &mut Draft<'_>) -> Result<()> {
        if let Some(commands) = &self.setup.commands {
            commands.break_it(self.setup).await?;
            commands.mend_it(self.setup).await?;
            draft.happened("ran the commands that break the store and mend it");
        }
        Ok(())
    }
}

impl Commands {
    pub(crate) async fn break_it(&self, setup: &Setup) -> Result<()> {
        run(setup, "--break", &self.break_store).await
    }

    pub(crate) async fn mend_it(&self, setup: &Setup) -> Result<()> {
        run(setup, "--mend", &self.mend_store).await
    }
}

/// Runs the command that mends the store, if one was named: for a drill that did not come to its end.
///
/// # Errors
///
/// `Unavailable`: it fails, or takes longer than two minutes.
pub async fn mend(setup: &Setup) -> Result<()> {
    match &setup.commands {
        Some(commands) => commands.mend_it(setup).await,
        None => Ok(()),
    }
}

/// Runs the shell command of an option, in the current folder. It may hold a secret; what it prints is in the folder of
/// the drill.
async fn run(setup: &Setup, option: &str, command: &str) -> Result<()> {
    let file = setup.dir.join("commands.log");
    let log = File::options().create(true).append(true).open(&file);
    let log = log.map_err(|error| cannot("write its logs", error))?;
    let copy = log
        .try_clone()
        .map_err(|error| cannot("write its logs", error))?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("SEMEL_GAMEDAY_STORE", worker::url(setup))
        .env("SEMEL_GAMEDAY_DIR", &setup.dir)
        .stdin(Stdio::null())
        .stdout(copy)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| cannot("run a command", error))?;
    let Ok(status) = timeout(COMMAND, child.wait()).await else {
        let seconds = COMMAND.as_secs();
        return Err(failed(
            ErrorKind::Timeout,
            format!("the command of {option} took longer than {seconds} s"),
        ));
    };
    let status = status.map_err(|error| cannot("run a command", error))?;
    if status.success() {
        return Ok(());
    }
    Err(failed(
        ErrorKind::Unavailable,
        format!(
            "the command of {option} failed with {status}: {}; what it printed is in {}",
            worker::last_line(&file),
            file.display()
        ),
    ))
}

/// A finding that is yes or no.
pub(crate) const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// The error that a drill is refused, with `why`.
pub(crate) fn refused(why: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

/// Checks that no effect happened twice.
pub(crate) fn check_once(draft: &mut Draft<'_>, books: &Books) {
    check_twice_at_most(draft, books, 0, "no effect happens twice");
}

/// Checks that no more than `most` effects happened twice.
pub(crate) fn check_twice_at_most(draft: &mut Draft<'_>, books: &Books, most: usize, what: &str) {
    let repeated = books.repeated();
    let (count, of) = (repeated.len(), books.operations());
    let example = repeated.first();
    let example = example.map_or_else(String::new, |it| format!(", such as {it}"));
    draft.check(what, count <= most, format!("{count} of {of}{example}"));
}

/// The time between two scrapes.
const SCRAPE: Duration = Duration::from_millis(300);
/// The longest time that a command may take.
const COMMAND: Duration = Duration::from_secs(120);
