//! The drills, and the steps that they share.

mod crash;
mod poison;
mod replay;
mod store_down;
mod storm;
mod ttl;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use tokio::process::Command;
use tokio::time::sleep;

use crate::Setup;
use crate::metrics::Scrape;
use crate::provider::{Books, Provider};
use crate::report::{Draft, Report};
use crate::worker::{self, Configuration, LOOK, Rules, Worker, cannot, configure};

/// A bad day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drill {
    /// A worker is killed in the middle of its effects, and everything comes again.
    Crash,
    /// The store goes away under a worker, and comes back.
    StoreDown,
    /// Everything comes again after it was finished.
    Replay,
    /// Everything comes again after the longest time for which it can.
    Ttl,
    /// Almost nothing but duplicates comes, for as long as it takes to be noticed.
    Storm,
    /// Messages come that cannot be worked on, among others that can.
    Poison,
}

impl Drill {
    /// Every drill.
    pub const ALL: [Self; 6] = [
        Self::Crash,
        Self::StoreDown,
        Self::Replay,
        Self::Ttl,
        Self::Storm,
        Self::Poison,
    ];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::StoreDown => "store-down",
            Self::Replay => "replay",
            Self::Ttl => "ttl",
            Self::Storm => "storm",
            Self::Poison => "poison",
        }
    }
}

/// Plays a drill, and reports it.
///
/// # Errors
///
/// `Unavailable`: the folder takes no files, or the worker does not start; `Timeout`: it does not end; `InvalidInput`:
/// the drill needs a command that breaks the store.
///
/// # Cancel safety
///
/// Dropping it kills the worker. A store that a command broke stays broken.
pub async fn play(drill: Drill, setup: &Setup) -> Result<Report> {
    let pipeline = &setup.subject.pipeline;
    let mut draft = Draft::new(drill.as_str(), pipeline, setup.dir.clone(), &setup.alerts);
    match drill {
        Drill::Crash => crash::play(setup, &mut draft).await,
        Drill::StoreDown => store_down::play(setup, &mut draft).await,
        Drill::Replay => replay::play(setup, &mut draft).await,
        Drill::Ttl => ttl::play(setup, &mut draft).await,
        Drill::Storm => storm::play(setup, &mut draft).await,
        Drill::Poison => poison::play(setup, &mut draft).await,
    }?;
    Ok(draft.end())
}

/// The scratch world of a drill.
struct Scene<'a> {
    setup: &'a Setup,
    config: Configuration,
    provider: Provider,
}

impl<'a> Scene<'a> {
    /// Sets the scene, with the settings of the subject; an effect takes `takes`.
    async fn set(setup: &'a Setup, takes: Duration) -> Result<Self> {
        let subject = &setup.subject;
        let rules = Rules {
            window: subject.window,
            is_gated: false,
            fails_open: subject.fails_open,
            attempts: subject.attempts,
        };
        Self::with(setup, &rules, takes).await
    }

    async fn with(setup: &'a Setup, rules: &Rules, takes: Duration) -> Result<Self> {
        let provider = Provider::begin(takes).await?;
        let config = configure(setup, rules, provider.address)?;
        Ok(Self {
            setup,
            config,
            provider,
        })
    }

    /// Starts a worker.
    async fn worker(&self, name: &str) -> Result<Worker> {
        Worker::start(self.setup, &self.config, name).await
    }

    fn books(&self) -> &Books {
        self.provider.books()
    }

    /// Scrapes the worker until `holds`, at most for `longest`; returns the last scrape, and whether it holds.
    async fn seen(
        &self,
        worker: &Worker,
        longest: Duration,
        holds: impl Fn(&Scrape) -> bool,
    ) -> (Scrape, bool) {
        let mut left = longest;
        loop {
            let scrape = worker.scrape().await;
            if holds(&scrape) {
                return (scrape, true);
            }
            if left.is_zero() {
                return (scrape, false);
            }
            sleep(SCRAPE).await;
            left = left.saturating_sub(SCRAPE);
        }
    }

    /// Waits until the provider has applied `count` operations or more, at most for `longest`.
    async fn applied(&self, count: usize, longest: Duration) -> bool {
        let mut left = longest;
        while self.books().operations() < count {
            if left.is_zero() {
                return false;
            }
            sleep(LOOK).await;
            left = left.saturating_sub(LOOK);
        }
        true
    }

    /// Runs a shell command that breaks or mends the store.
    async fn run(&self, command: &str) -> Result<()> {
        let status = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.setup.dir)
            .env("SEMEL_GAMEDAY_STORE", &self.config.store)
            .env("SEMEL_GAMEDAY_DIR", &self.setup.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
            .map_err(|error| cannot("run a command", error))?;
        if status.success() {
            return Ok(());
        }
        // The command may hold a secret.
        let message = format!("the command of --break or --mend failed: {status}");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Breaks the store and mends it, as far as commands for that were named.
    async fn break_and_mend(&self, draft: &mut Draft<'_>) -> Result<()> {
        if let Some(command) = &self.setup.break_store {
            self.run(command).await?;
            draft.happened("ran the command that breaks the store");
        }
        if let Some(command) = &self.setup.mend_store {
            self.run(command).await?;
            draft.happened("ran the command that mends the store");
        }
        Ok(())
    }

    /// The folder of the store, if that is the drill's own.
    fn own_store(&self) -> Option<PathBuf> {
        let own = self.setup.dir.join(worker::STORE);
        self.setup.store.is_none().then_some(own)
    }
}

/// Checks that no effect happened twice.
fn check_once(draft: &mut Draft<'_>, books: &Books) {
    let repeated = books.repeated();
    let (count, of) = (repeated.len(), books.operations());
    let example = repeated.first();
    let example = example.map_or_else(String::new, |it| format!(", such as {it}"));
    draft.check(
        "no effect happens twice",
        count == 0,
        format!("{count} of {of}{example}"),
    );
}

/// Returns one message for each number, the same each time.
fn messages(prefix: &str, numbers: std::ops::Range<u32>) -> String {
    numbers.fold(String::new(), |mut all, number| {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "{{\"id\":\"{prefix}{number}\",\"amount\":{number}}}");
        all
    })
}

/// The time between two scrapes.
const SCRAPE: Duration = Duration::from_millis(500);
