//! Messages for the standard input of a worker, all at once or at a pace.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use crate::figures::Stopwatch;

type Failure = Box<dyn std::error::Error>;

/// The messages of a run.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Messages a second; without it, as fast as they are taken.
    pub(crate) pace: Option<usize>,
    /// The number of all.
    pub(crate) messages: usize,
}

impl Load {
    /// Writes the messages; the time runs from the first.
    pub(crate) fn feed(self, worker: &mut Child) -> Result<Stopwatch, Failure> {
        let stdin = worker.stdin.take().ok_or("no standard input")?;
        let mut stdin = BufWriter::with_capacity(1 << 16, stdin);
        let since = Stopwatch::start();
        let piece = self.pace.map_or(self.messages, |pace| pace / TICKS);
        for first in (0..self.messages).step_by(piece) {
            for number in first..(first + piece).min(self.messages) {
                writeln!(
                    stdin,
                    r#"{{"id":"pay-{number}","amount":{},"note":"of a benchmark with others beside it"}}"#,
                    number % 1_000
                )?;
            }
            stdin.flush()?;
            if self.pace.is_some() {
                let due = TICK * u32::try_from(first / piece + 1)?;
                sleep(due.saturating_sub(since.elapsed()));
            }
        }
        Ok(since)
    }

    /// Checks that a file has a line for each of them.
    pub(crate) fn check(self, copied: &Path) -> crate::Outcome {
        let text = std::fs::read(copied)?;
        let count = text.split(|byte| *byte == b'\n').count() - 1;
        if count == self.messages {
            return Ok(());
        }
        Err(format!("{count} of {} are in the file", self.messages).into())
    }
}

/// The number of pieces of a second, at a pace.
const TICKS: usize = 100;
const TICK: Duration = Duration::from_millis(10);
