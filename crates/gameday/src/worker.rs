//! A worker in a process of its own.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use semel_core::{Code, Error, ErrorKind, Result};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::Setup;
use crate::metrics::{Samples, get};
use crate::report::Draft;

/// A worker that runs, and what it reads its messages from. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    messages: Option<ChildStdin>,
    pub(crate) admin: SocketAddr,
    output: PathBuf,
    log: PathBuf,
}

/// The end of a worker.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit status; none if it did not end within a minute, and was killed.
    pub(crate) status: Option<ExitStatus>,
    /// The last line of its log.
    pub(crate) last_words: String,
    counts: Option<Summary>,
}

/// The summary of a run, as far as drills compare it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Summary {
    pub(crate) deliveries: u64,
    pub(crate) applied: u64,
    pub(crate) replayed: u64,
    pub(crate) conflicts: u64,
    pub(crate) too_old: u64,
    pub(crate) dead: u64,
    pub(crate) in_doubt: u64,
    pub(crate) quarantined: u64,
}

/// The settings of a drill's worker that differ from drill to drill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) window: Duration,
    pub(crate) lease: Duration,
    pub(crate) is_gated: bool,
}

/// The url of the store of a drill.
pub(crate) fn url(setup: &Setup) -> String {
    let own = || format!("embedded:{}", setup.dir.join(STORE).display());
    setup.store.clone().unwrap_or_else(own)
}

/// Writes the configuration of a drill's workers. The url of the store, which may have a password, is not in it.
pub(crate) fn configure(setup: &Setup, rules: Rules, target: SocketAddr) -> Result<Configuration> {
    let port = free_port::take().map_err(|error| cannot("listen at 127.0.0.1", error))?;
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let subject = &setup.subject;
    let birth = if rules.is_gated {
        "birth = \"json:/born\"\n"
    } else {
        ""
    };
    let text = format!(
        "[admin]\nlisten = \"{admin}\"\nready_after = \"1s\"\n\n[pipelines.{name}]\n\
         source = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n{birth}window = \"{window}s\"\nlease = \"{lease}s\"\n\
         fail = \"{fail}\"\nconcurrency = {IN_FLIGHT}\n\
         retry = {{ attempts = {attempts}, backoff = \"20ms\" }}\n\n[pipelines.{name}.effect]\n\
         kind = \"http\"\nurl = \"http://{target}/\"\nclass = \"unkeyed\"\non_doubt = \"{on_doubt}\"\n",
        name = quoted(&subject.pipeline),
        window = rules.window.as_secs(),
        // The lease must not outlast the window.
        lease = rules.lease.min(rules.window).as_secs(),
        fail = if subject.fails_open { "open" } else { "closed" },
        attempts = subject.attempts,
        on_doubt = if subject.repeats { "repeat" } else { "park" },
    );
    let file = setup.dir.join("semel.toml");
    std::fs::write(&file, text).map_err(|error| cannot("write its configuration", error))?;
    Ok(Configuration { file, admin })
}

/// The configuration of a drill's workers.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    file: PathBuf,
    admin: SocketAddr,
}

/// A command of the program on the drill's configuration. Nothing of the environment that configures a worker, or tells
/// it where to report, reaches it.
fn program(setup: &Setup, config: &Configuration, arguments: &[&str]) -> Command {
    let mut command = Command::new(&setup.program);
    command.args(arguments).arg("--config").arg(&config.file);
    command.current_dir(&setup.dir).env_clear();
    for name in [
        "HOME",
        "LANG",
        "PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("SEMEL__STORE__URL", url(setup))
        .kill_on_drop(true);
    command
}

/// The keys of the operations in doubt.
pub(crate) async fn doubts(setup: &Setup, config: &Configuration) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        key: String,
    }
    let mut command = program(setup, config, &["in-doubt", "list", "--output", "json"]);
    let output = command.output().await;
    let output = output.map_err(|error| cannot("list what is in doubt", error))?;
    let list: List = serde_json::from_slice(&output.stdout).map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let why = format!("what is in doubt cannot be listed: {words}");
        failed(ErrorKind::Unavailable, why)
    })?;
    Ok(list.items.into_iter().map(|it| it.key).collect())
}

impl Worker {
    /// Starts a worker called `name`, and waits until it answers.
    pub(crate) async fn start(setup: &Setup, config: &Configuration, name: &str) -> Result<Self> {
        let path = |ending: &str| setup.dir.join(format!("{name}.{ending}"));
        let (output, log) = (path("json"), path("log"));
        let open = |path: &Path| File::create(path).map_err(|it| cannot("write its logs", it));
        let mut child = program(setup, config, &["run", "--output", "json"])
            .stdin(Stdio::piped())
            .stdout(open(&output)?)
            .stderr(open(&log)?)
            .spawn()
            .map_err(|error| cannot("start a worker", error))?;
        let messages = child.stdin.take();
        let mut worker = Self {
            child,
            messages,
            admin: config.admin,
            output,
            log,
        };
        for _ in 0..START_LOOKS {
            if worker.ready().await == Some(true) {
                return Ok(worker);
            }
            if let Ok(Some(_)) = worker.child.try_wait() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let why = format!(
            "the worker of the drill did not start: {}; its log is {}",
            last_line(&worker.log),
            worker.log.display()
        );
        Err(failed(ErrorKind::Unavailable, why))
    }

    /// Hands these messages in. A worker that takes none within a minute, or is gone, leaves the rest unread.
    pub(crate) async fn feed(&mut self, messages: &str) {
        if let Some(pipe) = &mut self.messages {
            let write = pipe.write_all(messages.as_bytes());
            let _ = timeout(PATIENCE, write).await;
        }
    }

    /// Tells whether it is ready; none if it does not answer.
    pub(crate) async fn ready(&self) -> Option<bool> {
        get(self.admin, "/readyz")
            .await
            .map(|(status, _)| status == 200)
    }

    /// Scrapes it; nothing if it does not answer.
    pub(crate) async fn scrape(&self) -> Samples {
        Samples::of(self.admin).await.unwrap_or_default()
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        let _ = self.child.kill().await;
    }

    /// Tells it that no more messages come, and waits for its end.
    pub(crate) async fn end(mut self) -> Result<Ended> {
        drop(self.messages.take());
        self.ended().await
    }

    /// Waits until it has ended by itself, at most for a minute.
    pub(crate) async fn ended(&mut self) -> Result<Ended> {
        let waited = timeout(PATIENCE, self.child.wait()).await;
        let status = if let Ok(status) = waited {
            Some(status.map_err(|error| cannot("wait for a worker", error))?)
        } else {
            let _ = self.child.kill().await;
            None
        };
        let printed = std::fs::read_to_string(&self.output).unwrap_or_default();
        let counts = printed.lines().find_map(|it| serde_json::from_str(it).ok());
        Ok(Ended {
            status,
            last_words: last_line(&self.log),
            counts,
        })
    }
}

impl Ended {
    /// Checks that the worker ended well; returns its summary, or one of nothing.
    pub(crate) fn checked(&self, draft: &mut Draft<'_>) -> Summary {
        let is_well = self.status.is_some_and(|it| it.success()) && self.counts.is_some();
        draft.check(
            "the worker ends well when nothing more comes",
            is_well,
            self.end(),
        );
        self.counts.unwrap_or_default()
    }

    /// Describes its end; unless that was a good one, with its last words.
    pub(crate) fn end(&self) -> String {
        match self.status {
            Some(status) if status.success() => "with exit code 0".to_owned(),
            Some(status) => format!("{status}: {}", self.last_words),
            None => format!("not within {} s: {}", PATIENCE.as_secs(), self.last_words),
        }
    }
}

/// A basic string of TOML, which JSON's strings are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(crate) fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rfind(|it| !it.trim().is_empty());
    last.unwrap_or("it said nothing").to_owned()
}

/// The error that the drill cannot do something on this machine.
pub(crate) fn cannot(what: &str, error: io::Error) -> Error {
    failed(ErrorKind::Unavailable, format!("the drill cannot {what}")).with_source(error)
}

/// The error that a drill could not be played to its end.
pub(crate) fn failed(kind: ErrorKind, why: impl Into<Box<str>>) -> Error {
    Error::new(kind, why)
        .with_code(Code::DrillFailed)
        .not_applied()
}

/// The folder of the embedded store.
pub(crate) const STORE: &str = "store";
/// Most effects in flight.
pub(crate) const IN_FLIGHT: u32 = 32;
/// The time between two looks at a worker.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
const START_LOOKS: u32 = 600;
/// The longest time that a worker may take for what the drill gives it.
const PATIENCE: Duration = Duration::from_secs(60);
