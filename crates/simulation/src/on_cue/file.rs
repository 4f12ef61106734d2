//! An output file in memory whose content outlives its writer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::Output;

use super::crash::Crash;

/// The act of one append.
#[derive(Clone, Copy, Debug)]
pub enum Append {
    /// Waits, then writes.
    Slow(Duration),
    /// Writes half, and reports a failure.
    FailHalf,
    /// Writes all, and reports a failure.
    FailWhole,
    /// The worker dies before anything is written.
    DieBefore,
    /// The worker dies with half of it written.
    DieHalf,
    /// The worker dies with all of it written.
    DieWhole,
    /// The worker dies as soon as it knows the result.
    DieKnowing,
}

/// The content of a file. Clones are the same file.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    /// Its complete lines, and what follows the last of them.
    pub fn lines(&self) -> (Vec<String>, String) {
        let text = String::from_utf8(self.content().clone()).expect("tests write UTF-8");
        let (whole, rest) = text.rsplit_once('\n').unwrap_or(("", &text));
        (whole.lines().map(str::to_owned).collect(), rest.to_owned())
    }

    /// Writes behind the writer's back.
    pub fn write(&self, bytes: &[u8]) {
        self.content().extend_from_slice(bytes);
    }

    fn content(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("files never panic")
    }
}

/// One writer of a [`Disk`].
pub struct MemoryFile {
    pub name: &'static str,
    pub disk: Disk,
    pub crash: Crash,
    /// One act per append; further appends simply write.
    pub acts: VecDeque<Append>,
}

impl Output for MemoryFile {
    fn mark_name(&self) -> String {
        self.name.to_owned()
    }

    async fn len_bytes(&mut self) -> Result<u64> {
        Ok(self.disk.content().len() as u64)
    }

    async fn cut_back(&mut self, len_bytes: u64) -> Result<()> {
        let mut content = self.disk.content();
        let keep = usize::try_from(len_bytes).expect("test files are small");
        if content.len() < keep {
            let error = Error::new(ErrorKind::Corrupt, "shorter than what was recorded");
            return Err(error.with_code(Code::TargetShortened));
        }
        content.truncate(keep);
        Ok(())
    }

    async fn append(&mut self, batch: &[Bytes]) -> Result<u64> {
        let act = self.acts.pop_front();
        if act.is_some() {
            self.crash.befalls();
        }
        let mut bytes = Vec::new();
        for payload in batch {
            bytes.extend_from_slice(payload);
            bytes.push(b'\n');
        }
        match act {
            Some(Append::Slow(wait)) => tokio::time::sleep(wait).await,
            Some(Append::DieBefore) => return self.crash.now().await,
            Some(Append::FailHalf | Append::DieHalf) => bytes.truncate(bytes.len() / 2),
            Some(Append::FailWhole | Append::DieWhole | Append::DieKnowing) | None => {}
        }
        self.disk.write(&bytes);
        match act {
            Some(Append::FailHalf | Append::FailWhole) => {
                Err(Error::new(ErrorKind::Unavailable, "the disk is gone"))
            }
            Some(Append::DieHalf | Append::DieWhole) => self.crash.now().await,
            Some(Append::DieKnowing) => {
                self.crash.strike();
                tokio::task::yield_now().await;
                self.len_bytes().await
            }
            Some(Append::Slow(_) | Append::DieBefore) | None => self.len_bytes().await,
        }
    }
}
