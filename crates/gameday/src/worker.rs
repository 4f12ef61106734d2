//! A worker in a process of its own.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::Setup;
use crate::metrics::{Scrape, get};

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
    pub(crate) status: ExitStatus,
    /// The summary of its pipeline; none if it printed none.
    pub(crate) summary: Option<Summary>,
    /// The last line of its log.
    pub(crate) last_words: String,
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
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) window: Duration,
    pub(crate) is_gated: bool,
    pub(crate) fails_open: bool,
    pub(crate) attempts: u32,
}

/// Writes the configuration of a drill's workers.
pub(crate) fn configure(setup: &Setup, rules: &Rules, target: SocketAddr) -> Result<Configuration> {
    let admin = free_address().map_err(|error| cannot("listen at 127.0.0.1", error))?;
    let name = &setup.subject.pipeline;
    let store = setup.store.as_ref().map_or_else(
        || format!("embedded:{}", setup.dir.join(STORE).display()),
        Clone::clone,
    );
    // The lease must not outlast the window.
    let lease = rules.window.min(Duration::from_secs(2)).as_secs();
    let birth = if rules.is_gated {
        "birth = \"json:/born\"\n"
    } else {
        ""
    };
    let text = format!(
        "[store]\nurl = {store}\n\n[admin]\nlisten = \"{admin}\"\nready_after = \"1s\"\n\n[pipelines.{name}]\n\
         source = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n{birth}window = \"{window}s\"\nlease = \"{lease}s\"\n\
         fail = \"{fail}\"\nretry = {{ attempts = {attempts}, backoff = \"20ms\" }}\n\n\
         [pipelines.{name}.effect]\nkind = \"http\"\nurl = \"http://{target}/\"\nclass = \"unkeyed\"\non_doubt = \"park\"\n",
        store = quoted(&store),
        name = quoted(name),
        window = rules.window.as_secs(),
        fail = if rules.fails_open { "open" } else { "closed" },
        attempts = rules.attempts,
    );
    let file = setup.dir.join("semel.toml");
    std::fs::write(&file, text).map_err(|error| cannot("write its configuration", error))?;
    Ok(Configuration { file, admin, store })
}

/// The configuration of a drill's workers.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    file: PathBuf,
    admin: SocketAddr,
    /// The url of the store.
    pub(crate) store: String,
}

impl Worker {
    /// Starts a worker called `name`, and waits until it answers.
    pub(crate) async fn start(setup: &Setup, config: &Configuration, name: &str) -> Result<Self> {
        let path = |ending: &str| setup.dir.join(format!("{name}.{ending}"));
        let (output, log) = (path("json"), path("log"));
        let open = |path: &Path| File::create(path).map_err(|it| cannot("write its logs", it));
        let mut child = Command::new(&setup.program)
            .args(["run", "--output", "json", "--config"])
            .arg(&config.file)
            .current_dir(&setup.dir)
            .stdin(Stdio::piped())
            .stdout(open(&output)?)
            .stderr(open(&log)?)
            .kill_on_drop(true)
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
        let message = format!(
            "the worker of the drill did not start: {}; its log is {}",
            last_line(&worker.log),
            worker.log.display()
        );
        Err(Error::new(ErrorKind::Unavailable, message))
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
    pub(crate) async fn scrape(&self) -> Scrape {
        Scrape::of(self.admin).await.unwrap_or_default()
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

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self) -> Result<Ended> {
        let waited = timeout(PATIENCE, self.child.wait()).await;
        let Ok(status) = waited else {
            let message = format!(
                "the worker of the drill did not end within {} s; its log is {}",
                PATIENCE.as_secs(),
                self.log.display()
            );
            return Err(Error::new(ErrorKind::Timeout, message));
        };
        let status = status.map_err(|error| cannot("wait for a worker", error))?;
        let printed = std::fs::read_to_string(&self.output).unwrap_or_default();
        let summary = printed.lines().find_map(|it| serde_json::from_str(it).ok());
        Ok(Ended {
            status,
            summary,
            last_words: last_line(&self.log),
        })
    }
}

impl Ended {
    /// The summary, or one of nothing.
    pub(crate) fn counts(&self) -> Summary {
        self.summary.unwrap_or_default()
    }
}

/// A basic string of TOML, which JSON's strings are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rfind(|it| !it.trim().is_empty());
    last.unwrap_or("it said nothing").to_owned()
}

/// An address of this machine that nobody listens at.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The error that the drill cannot do something on this machine.
pub(crate) fn cannot(what: &str, error: io::Error) -> Error {
    let message = format!("the drill cannot {what}: {error}");
    Error::new(ErrorKind::Unavailable, message).with_source(error)
}

/// The folder of the embedded store.
pub(crate) const STORE: &str = "store";
/// The time between two looks at a worker.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
const START_LOOKS: u32 = 600;
/// The longest time that a worker may take for what the drill gives it.
const PATIENCE: Duration = Duration::from_secs(60);
