//! `semel run` on the embedded store while two people resolve doubts beside it through the worker, beside the
//! same run alone: as fast as it goes, and at a pace of 50,000 messages/s.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::figures::Figures;
use crate::load::Load;

type Failure = Box<dyn std::error::Error>;

/// Messages per second of either side, round by round.
pub(crate) fn beside() -> crate::Outcome {
    let semel = std::env::var_os("SEMEL_BIN")
        .ok_or("SEMEL_BIN names no semel binary; cargo xtask bench sets it")?;
    println!(
        "`semel run`, standard input to a file, embedded store, beside two people who resolve a doubt every {} ms \
         each through control.sock, {ROUNDS} rounds",
        PAUSE.as_millis()
    );
    println!("| messages/s | alone | beside two people | ratio, round by round | orders, a run |");
    println!("|---|---|---|---|---|");
    for (name, pace) in [("as fast as it goes", None), ("50,000", Some(50_000))] {
        let (mut alone, mut both, mut orders) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(Site::new(&semel)?.run(pace, 0)?.0);
            let (rate, carried_out) = Site::new(&semel)?.run(pace, PEOPLE)?;
            both.push(rate);
            orders.push(f64::from(u32::try_from(carried_out)?));
        }
        println!(
            "| {name} | {} | {} | {} | {} |",
            Figures::of(alone.clone()),
            Figures::of(both.clone()),
            Figures::ratios(&both, &alone),
            Figures::of(orders)
        );
    }
    Ok(())
}

/// A folder with a store that has doubts in it.
struct Site {
    semel: OsString,
    folder: tempfile::TempDir,
}

impl Site {
    fn new(semel: &OsString) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(".")?;
        let site = Self {
            semel: semel.clone(),
            folder,
        };
        std::fs::write(site.path("doubts.toml"), DOUBTS)?;
        std::fs::write(site.path("semel.toml"), LOAD)?;
        let mut lines = String::new();
        for number in 0..KEYS {
            writeln!(lines, "{{\"id\":\"doubt-{number}\"}}")?;
        }
        std::fs::write(site.path("doubts"), lines)?;
        let made = site.command(&["run", "doubts.toml"]).output()?;
        if !made.status.success() || site.doubts()? != KEYS {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(format!("the doubts are not made: {said}").into());
        }
        // Syncs, so that no side pays for writes that another has left.
        Command::new("sync").status()?;
        Ok(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.semel);
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// Messages per second, and the number of orders that this many people had carried out meanwhile.
    fn run(&self, pace: Option<usize>, people: usize) -> Result<(f64, usize), Failure> {
        let load = Load {
            pace,
            messages: MESSAGES,
        };
        let mut worker = self
            .command(&["run"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(self.path("log"))?)
            .spawn()?;
        let is_over = AtomicBool::new(false);
        let next = AtomicUsize::new(0);
        let (taken, orders) = scope(|scope| -> Result<_, Failure> {
            let mut at_work = Vec::new();
            for _ in 0..people {
                at_work.push(scope.spawn(|| self.resolve(&next, &is_over)));
            }
            let fed = load.feed(&mut worker);
            let ended = worker.wait();
            is_over.store(true, Ordering::Relaxed);
            let mut orders = 0;
            for person in at_work {
                let done = person.join().map_err(|_| "a person panicked")?;
                orders += done?;
            }
            if !ended?.success() {
                return Err(std::fs::read_to_string(self.path("log"))?.into());
            }
            Ok((fed?.elapsed(), orders))
        })?;
        if self.doubts()? != KEYS - orders {
            return Err(format!("{orders} resolved, and {} are left", self.doubts()?).into());
        }
        load.check(&self.path("out"))?;
        let messages = f64::from(u32::try_from(MESSAGES)?);
        Ok((messages / taken.as_secs_f64(), orders))
    }

    /// Resolves doubt after doubt until the run is over, and counts them.
    fn resolve(&self, next: &AtomicUsize, is_over: &AtomicBool) -> Result<usize, String> {
        let mut count = 0;
        while !is_over.load(Ordering::Relaxed) {
            sleep(PAUSE);
            if std::fs::metadata(self.path("data/control.sock")).is_err() {
                // Before the worker has opened its store, and once it is about to end.
                continue;
            }
            let key = format!("doubt-{}", next.fetch_add(1, Ordering::Relaxed));
            let args = ["in-doubt", "resolve", &key, "--applied", "--yes"];
            let ended = self.command(&args).output().map_err(|it| it.to_string())?;
            if ended.status.success() {
                count += 1;
            } else if !is_over.load(Ordering::Relaxed) {
                return Err(String::from_utf8_lossy(&ended.stderr).into_owned());
            }
        }
        Ok(count)
    }

    /// The number of doubts that the store has.
    fn doubts(&self) -> Result<usize, Failure> {
        let args = ["in-doubt", "list", "--output", "json", "--limit", "100000"];
        let listed = self.command(&args).output()?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into_owned().into());
        }
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
        Ok(listed["items"].as_array().ok_or("no items")?.len())
    }
}

const ROUNDS: usize = 5;
const MESSAGES: usize = 500_000;
const KEYS: usize = 300;
const PEOPLE: usize = 2;
/// The least time that a person who types takes between two orders.
const PAUSE: Duration = Duration::from_millis(500);

const DOUBTS: &str = r#"
[store]
url = "embedded:./data"

[pipelines.pay]
source = { kind = "file", path = "doubts" }
key = "json:/id"
pause_after = 0
effect = { kind = "exec", timeout = "10s", command = ["sh", "-c", "kill -9 $$"] }
"#;
const LOAD: &str = r#"
[store]
url = "embedded:./data"

[pipelines.pay]
source = { kind = "stdin" }
key = "json:/id"
effect = { kind = "file", path = "out" }
"#;
