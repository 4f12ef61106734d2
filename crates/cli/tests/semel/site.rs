//! A folder of its own with input and configuration, in which `semel` runs.

mod diagnosis;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder that is removed when dropped.
pub(crate) struct Site(TempDir);

impl Site {
    pub(crate) fn new() -> Self {
        // A folder beside the build, on a disk: some effects are refused in memory.
        let place = env!("CARGO_TARGET_TMPDIR");
        Self(tempfile::tempdir_in(place).expect("a temporary folder"))
    }

    /// A folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let site = Self::new();
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a file is written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The text of a file; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        let bytes = std::fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8(bytes).expect("a text file")
    }

    /// The lines of a file, sorted.
    pub(crate) fn sorted_lines(&self, name: &str) -> Vec<String> {
        let mut lines: Vec<_> = self.text(name).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    pub(crate) fn database(&self, name: &str) -> Connection {
        let database = Connection::open(self.path(name)).expect("a database");
        database.busy_timeout(LONGEST_RUN).expect("a busy timeout");
        database
    }

    /// The rows of a query, each with its columns as text, joined by `|`; NULL is `NULL`.
    pub(crate) fn rows(&self, database: &str, sql: &str) -> Vec<String> {
        let database = self.database(database);
        let mut statement = database.prepare(sql).expect("a statement");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let text = |at| {
                use rusqlite::types::ValueRef;
                Ok(match row.get_ref(at)? {
                    ValueRef::Null => "NULL".to_owned(),
                    ValueRef::Integer(number) => number.to_string(),
                    ValueRef::Real(number) => format!("{number:?}"),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        String::from_utf8_lossy(bytes).into_owned()
                    }
                })
            };
            (0..columns).map(text).collect::<rusqlite::Result<Vec<_>>>()
        });
        rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
            .expect("rows")
            .into_iter()
            .map(|row| row.join("|"))
            .collect()
    }

    /// Runs `semel` with `arguments` to its end.
    pub(crate) fn semel(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    /// Runs `semel run --output json` to its end, which must be a good one; returns its one summary.
    pub(crate) fn run(&self) -> Summary {
        self.semel(&["run", "--output", "json"]).done().summary()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command().args(arguments))
    }

    /// A command that runs `semel` here, with no variable in its environment that it reads.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
        command.current_dir(self.0.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("SEMEL") || text.starts_with("OTEL") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// A running `semel`. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let file = || tempfile::tempfile().expect("a temporary file");
        let (stdout, stderr) = (file(), file());
        let copy = |file: &File| file.try_clone().expect("a handle");
        command.stdout(copy(&stdout)).stderr(copy(&stderr));
        Self {
            child: command.spawn().expect("the semel binary"),
            stdout,
            stderr,
        }
    }

    /// The same, with `input` on its standard input.
    pub(crate) fn start_with(command: &mut Command, input: impl AsRef<[u8]>) -> Self {
        let mut stdin = tempfile::tempfile().expect("a temporary file");
        stdin
            .write_all(input.as_ref())
            .and_then(|()| stdin.rewind())
            .expect("an input");
        Self::start(command.stdin(stdin))
    }

    /// Its standard input, where that is a pipe.
    pub(crate) fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("a pipe")
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process id"), signal).expect("the process is there");
    }

    /// Stops it, and waits until none of its threads runs any more: the signal is delivered later than it is sent.
    pub(crate) fn halt(&self) {
        self.signal(Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        wait_for("a process that is stopped", || {
            let threads = std::fs::read_dir(&threads).expect("its threads");
            // One that is gone does not run either. The state follows the name, which is in brackets.
            let is_stopped = |thread: std::fs::DirEntry| {
                let stat = std::fs::read_to_string(thread.path().join("stat"));
                stat.ok().is_none_or(|stat| stat.contains(") T "))
            };
            threads.map_while(Result::ok).all(is_stopped)
        });
    }

    /// Takes the end of its standard input, where that is a pipe.
    pub(crate) fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// Returns its standard error so far.
    pub(crate) fn stderr(&mut self) -> String {
        text(&mut self.stderr)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Tells what it has printed so far, and what the system knows of it: for a failure to show.
    pub(crate) fn diagnosis(&mut self) -> String {
        let stdout = text(&mut self.stdout);
        let (from, _) = stdout.char_indices().nth_back(TAIL).unwrap_or_default();
        format!(
            "--- standard error\n{}\n--- standard output\n{}\n--- process {}\n{}",
            text(&mut self.stderr),
            &stdout[from..],
            self.child.id(),
            diagnosis::of(self.child.id())
        )
    }

    /// Waits for its end; a process that hangs is killed and fails the test, with what is known of it.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ended {
        if !comes_within(LONGEST_RUN, LONGEST_PAUSE, || !self.is_running()) {
            let diagnosis = self.diagnosis();
            panic!("waited {LONGEST_RUN:?} for the end of semel\n{diagnosis}");
        }
        let status = self.child.wait().expect("a child");
        Ended {
            status,
            stdout: text(&mut self.stdout),
            stderr: text(&mut self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If `wait` was called, the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &mut File) -> String {
    // Reads through a handle of its own: the child continues to write at its own position.
    let mut bytes = Vec::new();
    let mut at = 0;
    let mut block = [0; 8192];
    while let Ok(count @ 1..) = std::os::unix::fs::FileExt::read_at(file, &mut block, at) {
        bytes.extend_from_slice(&block[..count]);
        at += count as u64;
    }
    String::from_utf8(bytes).expect("semel prints text")
}

/// The end of a process, and its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn done(self) -> Self {
        self.code(0)
    }

    /// Asserts that standard error contains this text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in {self:#?}");
        self
    }

    /// The one summary on standard output.
    #[track_caller]
    pub(crate) fn summary(&self) -> Summary {
        let line = self.stdout.strip_suffix('\n').expect("a line");
        Summary::read(line)
    }
}

/// The summary of one pipeline, as JSON.
#[derive(Debug)]
pub(crate) struct Summary(serde_json::Value);

impl Summary {
    /// Reads a summary and checks that every delivery has one fate.
    #[track_caller]
    pub(crate) fn read(line: &str) -> Self {
        let summary =
            Self(serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")));
        let sum: u64 = FATES.iter().map(|fate| summary.count(fate)).sum();
        assert_eq!(summary.count("deliveries"), sum, "{line}");
        summary
    }

    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    pub(crate) fn pipeline(&self) -> &str {
        self.0["pipeline"].as_str().unwrap_or_default()
    }

    /// Asserts these fates and takeovers, and zero for all others.
    #[track_caller]
    pub(crate) fn is(&self, expected: &[(&str, u64)]) {
        for name in FATES.iter().chain(&["takeovers"]) {
            let expected = expected.iter().find(|(known, _)| known == name);
            assert_eq!(
                self.count(name),
                expected.map_or(0, |(_, count)| *count),
                "{name} in {}",
                self.0
            );
        }
    }
}

/// The end of a process that ends by itself, or that waits for its store until it is asked to stop.
pub(crate) fn ended_or_stopped(mut running: Running) -> Ended {
    wait_for("an end or a wait", || {
        !running.is_running() || running.stderr().contains(WAITS)
    });
    if running.is_running() {
        running.signal(Signal::TERM);
    }
    running.wait()
}

/// Starts `semel` with these arguments, and kills it each time that it is `step` further, until it comes to its end.
#[track_caller]
pub(crate) fn killed_until_done(
    site: &Site,
    arguments: &[&str],
    step: usize,
    progress: impl Fn() -> usize,
) {
    let mut kills = 0;
    loop {
        let goal = progress() + step;
        let mut running = site.start(arguments);
        // A kill has to hit it on the way.
        let is_due = comes_within(LONGEST_RUN, SHORTEST_PAUSE, || {
            progress() >= goal || !running.is_running()
        });
        assert!(is_due, "no progress within {LONGEST_RUN:?}, and no end");
        if !running.is_running() {
            running.wait().done();
            break;
        }
        running.signal(Signal::KILL);
        kills += 1;
        running.wait();
    }
    assert!(kills > 2, "killed {kills} times");
}

/// Waits until a condition holds, for as long as a test may take, however long one look takes.
#[track_caller]
pub(crate) fn wait_for(what: &str, is_there: impl FnMut() -> bool) {
    wait_within(LONGEST_RUN, what, is_there);
}

/// The same for so long at most.
#[track_caller]
pub(crate) fn wait_within(limit: Duration, what: &str, is_there: impl FnMut() -> bool) {
    let is_there = comes_within(limit, LONGEST_PAUSE, is_there);
    assert!(is_there, "waited {limit:?} for {what}");
}

/// Waits for so long at most, and tells whether the condition came to hold. A look that is costly, as a request to a
/// worker is, is followed by a longer pause, up to `longest`: what is waited for would have to share the processors with
/// it.
#[expect(
    clippy::disallowed_methods,
    reason = "a test that waits in vain must end"
)]
fn comes_within(limit: Duration, longest: Duration, mut is_there: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < limit {
        let looked = Instant::now();
        if is_there() {
            return true;
        }
        let pause = looked.elapsed() * 4;
        sleep(pause.clamp(SHORTEST_PAUSE, longest));
    }
    false
}

/// A line for each item.
pub(crate) fn lines<T>(items: impl IntoIterator<Item = T>, line: impl Fn(T) -> String) -> String {
    let lines = items.into_iter().map(line);
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Reads a pipe to its end.
pub(crate) fn read_all(mut pipe: impl Read) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).expect("text");
    text
}

/// The fates; their sum is `deliveries`.
pub(crate) const FATES: [&str; 9] = [
    "applied",
    "replayed",
    "stale",
    "conflicts",
    "too_old",
    "released",
    "dead",
    "in_doubt",
    "quarantined",
];
/// The pauses between two looks at what is waited for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Much longer than any test takes.
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(60);
/// The number of characters of its standard output that a failure shows.
const TAIL: usize = 4_096;
/// The words with which a waiting run says so.
pub(crate) const WAITS: &str = "trying again";
