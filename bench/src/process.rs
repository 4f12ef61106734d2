//! A separate program that is measured from outside.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use crate::figures::timed;

type Failure = Box<dyn std::error::Error>;

/// A running program, ended with its handle.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// The number of lines that it has printed.
    lines: Arc<AtomicUsize>,
    /// The thread that counts them, until there will be no more.
    counting: Option<JoinHandle<std::io::Result<()>>>,
}

impl Process {
    /// Starts it; its messages for people go to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()?;
        let lines = Arc::new(AtomicUsize::new(0));
        let output = child.stdout.take().ok_or("no standard output")?;
        let counted = Arc::clone(&lines);
        Ok(Self {
            child,
            log: log.to_owned(),
            lines,
            counting: Some(spawn(move || count(output, &counted))),
        })
    }

    /// Waits for `is_there`.
    pub(crate) fn until(
        &mut self,
        mut is_there: impl FnMut(&Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let (mut waited, mut was_there) = (Duration::ZERO, false);
        while !was_there {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.log)?;
                return Err(format!("it ended with {status}: {said}").into());
            }
            if waited > PATIENCE {
                let said = std::fs::read_to_string(&self.log)?;
                return Err(format!("it is not done after {PATIENCE:?}: {said}").into());
            }
            let (taken, there) = timed(|| {
                let there = is_there(self);
                sleep(LOOK);
                there
            });
            waited += taken;
            was_there = there?;
        }
        Ok(())
    }

    /// The number of lines that it has printed by now.
    pub(crate) fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }

    /// See [`processor_seconds`].
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        processor_seconds(&self.child.id().to_string())
    }

    /// Its children.
    pub(crate) fn children(&self) -> Result<Vec<String>, Failure> {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(children.split_whitespace().map(str::to_owned).collect())
    }

    /// The most memory that it had at once, in MB.
    pub(crate) fn peak_megabytes(&self) -> Result<f64, Failure> {
        self.memory("VmHWM:")
    }

    /// The memory that it has, in MB.
    pub(crate) fn megabytes(&self) -> Result<f64, Failure> {
        self.memory("VmRSS:")
    }

    fn memory(&self, name: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: u32 = kilobytes.ok_or_else(|| format!("no {name}"))?.parse()?;
        Ok(f64::from(kilobytes) / 1e3)
    }

    /// Asks it to end in an orderly way, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let asked = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        let ended = self.child.wait()?;
        let counted = self
            .counting
            .take()
            .and_then(|counting| counting.join().ok());
        counted.ok_or("its output was not read")??;
        if asked.success() && ended.success() {
            return Ok(());
        }
        let said = std::fs::read_to_string(&self.log)?;
        Err(format!("it ended with {ended}: {said}").into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `stop` the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(mut output: ChildStdout, lines: &AtomicUsize) -> std::io::Result<()> {
    let mut some = vec![0; 1 << 16];
    loop {
        let read = output.read(&mut some)?;
        if read == 0 {
            return Ok(());
        }
        let parts = some[..read].split(|byte| *byte == b'\n').count();
        lines.fetch_add(parts - 1, Ordering::Relaxed);
    }
}

/// A free address of this machine.
pub(crate) fn address() -> std::io::Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port::take()?)))
}

/// The processor time of a process, all its threads together.
pub(crate) fn processor_seconds(process: &str) -> Result<f64, Failure> {
    times(process, 11)
}

/// The processor time of the children of this process that were waited for.
pub(crate) fn processor_seconds_of_children() -> Result<f64, Failure> {
    times("self", 13)
}

/// A user time and the system time behind it.
fn times(process: &str, field: usize) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The fields behind the name, which may hold anything; then state and ten more before user and
    // system time.
    let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
    let fields = fields.split_whitespace().skip(field).take(2);
    let ticks: Result<Vec<u32>, _> = fields.map(str::parse).collect();
    Ok(f64::from(ticks?.into_iter().sum::<u32>()) / TICKS)
}

/// The units of Linux's processor times, per second.
const TICKS: f64 = 100.0;
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// The time limit for all of it.
const PATIENCE: Duration = Duration::from_secs(300);
