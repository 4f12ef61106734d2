//! A folder of its own with a configuration, and `semel run` in it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The arguments of a worker that logs every decision with its key, so that the log has the whole history of a key.
pub(crate) const RUN_WITH_DECISIONS: &[&str] = &[
    "run",
    "--output",
    "json",
    "--log",
    "json",
    "--log-level",
    "decisions",
];

/// A folder with input and configuration, removed when dropped.
#[derive(Debug)]
pub struct Site(TempDir);

impl Site {
    /// A folder with these files.
    ///
    /// # Panics
    ///
    /// If the file system fails.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file is written");
        }
        Self(folder)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The text of a file in it; empty if there is none yet.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    pub fn text(&self, name: &str) -> String {
        match std::fs::read(self.path(name)) {
            Ok(bytes) => String::from_utf8(bytes).expect("a text file"),
            Err(_) => String::new(),
        }
    }

    /// Starts `semel` with `arguments` here. Its standard error goes to `stderr.log`, behind the
    /// output of earlier runs.
    ///
    /// # Panics
    ///
    /// If `SEMEL_BIN` names no program.
    pub fn start(&self, arguments: &[&str]) -> Run {
        self.spawn(arguments, Stdio::piped())
    }

    /// The same with its standard output appended to the file `name`.
    ///
    /// # Panics
    ///
    /// If `SEMEL_BIN` names no program.
    pub fn start_into(&self, name: &str, arguments: &[&str]) -> Run {
        self.spawn(arguments, self.append(name).into())
    }

    /// Starts `semel` with a socket that stays open, as systemd hands one over under a name.
    ///
    /// # Panics
    ///
    /// If there is no shell, or `SEMEL_BIN` names no program.
    pub fn start_at(&self, socket: &TcpListener, name: &str, arguments: &[&str]) -> Run {
        let socket = socket.try_clone().expect("a descriptor");
        let child = Command::new("sh")
            .args(["-c", AS_SYSTEMD])
            .arg(semel())
            .args(arguments)
            .env("LISTEN_FDNAMES", name)
            .current_dir(self.0.path())
            .stdin(OwnedFd::from(socket))
            .stdout(Stdio::piped())
            .stderr(self.append("stderr.log"))
            .spawn();
        Run(child.expect("a shell"))
    }

    /// Starts another program than `semel` here.
    ///
    /// # Panics
    ///
    /// If there is no such program.
    pub(crate) fn start_program(&self, program: &Path, arguments: &[&str]) -> Run {
        self.spawn_program(program, arguments, Stdio::piped())
    }

    fn append(&self, name: &str) -> File {
        let mut options = File::options();
        let file = options.create(true).append(true).open(self.path(name));
        file.expect("a file to append to")
    }

    fn spawn(&self, arguments: &[&str], stdout: Stdio) -> Run {
        self.spawn_program(&semel(), arguments, stdout)
    }

    fn spawn_program(&self, program: &Path, arguments: &[&str], stdout: Stdio) -> Run {
        let child = Command::new(program)
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(self.append("stderr.log"))
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        Run(child)
    }

    /// Runs `semel run --output json` to its end and returns its one summary.
    ///
    /// # Panics
    ///
    /// If it fails or prints no summary.
    pub fn run_to_the_end(&self) -> Summary {
        let (status, stdout) = self.start(&["run", "--output", "json"]).wait();
        assert!(status.success(), "{status}: {}", self.text("stderr.log"));
        Summary::parse(&stdout)
    }

    /// The failures that workers ended with here, and the last forty lines that they printed, without the decisions about
    /// messages that met their fate: why a worker ended stands before thousands of them.
    pub fn last_words(&self) -> String {
        let said = self.text("stderr.log");
        let is_usual = |line: &&str| {
            let decisions = ["completed", "granted", "replayed"];
            decisions
                .iter()
                .any(|it| line.contains(&format!("\"decision\":\"{it}\"")))
        };
        let lines: Vec<_> = said.lines().filter(|line| !is_usual(line)).collect();
        let (earlier, last) = lines.split_at(lines.len().saturating_sub(40));
        let is_failure = |line: &&&str| line.contains(r#""level":"error""#);
        let failures = earlier.iter().filter(is_failure).copied();
        failures
            .chain(last.iter().copied())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The number of bytes that workers have printed on their standard errors.
    pub fn said(&self) -> u64 {
        std::fs::metadata(self.path("stderr.log")).map_or(0, |it| it.len())
    }

    /// The bytes that they printed behind this many.
    ///
    /// # Panics
    ///
    /// If the file system fails.
    pub fn said_behind(&self, bytes: u64) -> String {
        let mut said = Vec::new();
        if let Ok(mut file) = File::open(self.path("stderr.log")) {
            file.seek(SeekFrom::Start(bytes)).expect("a place");
            file.read_to_end(&mut said).expect("it is read");
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Every line that workers printed about a key, if they log every decision.
    pub fn told_of(&self, key: &str) -> String {
        let said = self.text("stderr.log");
        let lines: Vec<_> = said.lines().filter(|line| line.contains(key)).collect();
        lines.join("\n")
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}

/// A running `semel`; killed when dropped.
#[derive(Debug)]
pub struct Run(Child);

impl Run {
    /// Kills it after `moment`, as `kill -9` does. Returns whether it still ran.
    ///
    /// # Panics
    ///
    /// If the process cannot be waited for.
    pub fn kill_after(mut self, moment: Duration) -> bool {
        sleep(moment);
        let still_ran = self.0.try_wait().expect("a child").is_none();
        // It may end by itself between the two; that is no failure of the test.
        let _ = self.0.kill();
        self.0.wait().expect("a child");
        still_ran
    }

    /// Kills it as soon as `is_time`. Returns whether it still ran.
    ///
    /// # Panics
    ///
    /// If the process cannot be waited for.
    pub fn kill_when(mut self, mut is_time: impl FnMut() -> bool) -> bool {
        while !is_time() {
            if self.0.try_wait().expect("a child").is_some() {
                return false;
            }
            sleep(Duration::from_micros(200));
        }
        self.kill_after(Duration::ZERO)
    }

    /// Kills it once `bytes` of its output were read. Returns whether it still ran, and all of its
    /// output.
    ///
    /// # Panics
    ///
    /// If its standard output is no pipe.
    pub fn kill_after_reading(mut self, bytes: usize) -> (bool, Vec<u8>) {
        let mut stdout = self.0.stdout.take().expect("a pipe");
        let mut printed = Vec::new();
        let first = stdout.by_ref().take(bytes as u64);
        let read = BufReader::new(first).read_to_end(&mut printed);
        let is_over = read.expect("a pipe") < bytes;
        let still_ran = self.kill_after(Duration::ZERO);
        stdout.read_to_end(&mut printed).expect("a pipe");
        (still_ran && !is_over, printed)
    }

    /// The most memory that it ever had in the machine, in bytes, as the kernel reports it.
    ///
    /// # Panics
    ///
    /// If it is gone.
    pub fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|it| it.trim().strip_suffix(" kB"));
        kibibytes.expect("a size").parse::<u64>().expect("a number") << 10
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If it is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process id");
        kill_process(pid, signal).expect("the process is there");
    }

    /// Asks it to stop after `moment` and kills it `grace` later. Returns whether it still ran
    /// then.
    ///
    /// # Panics
    ///
    /// If the process cannot be waited for.
    pub fn stop_and_kill_after(mut self, moment: Duration, grace: Duration) -> bool {
        sleep(moment);
        if self.0.try_wait().expect("a child").is_none() {
            self.signal(Signal::TERM);
        }
        self.kill_after(grace)
    }

    /// Waits for its end, at most this long, and returns its output. For a process that prints
    /// little: its output is not read meanwhile.
    ///
    /// # Panics
    ///
    /// If it takes longer; it is killed then.
    pub fn wait_at_most(mut self, patience: Duration) -> (ExitStatus, String) {
        let nap = Duration::from_millis(10);
        for _ in 0..patience.as_millis() / nap.as_millis() {
            if self.0.try_wait().expect("a child").is_some() {
                return self.wait();
            }
            sleep(nap);
        }
        self.kill_after(Duration::ZERO);
        panic!("semel did not end within {patience:?}");
    }

    /// Waits for its end and returns its output.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut printed = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut printed).expect("text");
        }
        (self.0.wait().expect("a child"), printed)
    }
}

impl Drop for Run {
    /// Kills the process, so that a test that fails leaves no worker behind.
    fn drop(&mut self) {
        // Without effect on a process that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The summary that a run printed at its end.
#[derive(Clone, Debug)]
pub struct Summary(serde_json::Value);

impl Summary {
    /// Reads the output of `--output json` for the one pipeline.
    ///
    /// # Panics
    ///
    /// If it has another form.
    pub fn parse(stdout: &str) -> Self {
        Self(serde_json::from_str(stdout).expect("one summary on one line"))
    }

    /// The pipeline that it is about.
    ///
    /// # Panics
    ///
    /// If it does not say.
    pub fn pipeline(&self) -> &str {
        self.0["pipeline"].as_str().expect("the name of a pipeline")
    }

    /// One of its counts.
    ///
    /// # Panics
    ///
    /// If it has none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    /// Asserts that every delivery has exactly one fate.
    ///
    /// # Panics
    ///
    /// If not.
    pub fn check_sum(&self, deliveries: u64) {
        let fates = [
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
        let sum: u64 = fates.iter().map(|fate| self.count(fate)).sum();
        assert_eq!(
            (sum, self.count("deliveries")),
            (deliveries, deliveries),
            "{}",
            self.0
        );
    }
}

fn semel() -> PathBuf {
    let path = std::env::var_os("SEMEL_BIN").expect("SEMEL_BIN names the semel binary");
    std::fs::canonicalize(path).expect("SEMEL_BIN names the semel binary")
}

/// Has the standard input stand where systemd puts the first socket, and becomes the program.
const AS_SYSTEMD: &str = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; exec \"$0\" \"$@\"";
