//! A sink that appends messages to a file, one a line. Not exact, as the effect `file` is: a message that was appended and
//! not recorded before a crash is appended again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};

/// Appends messages to a file, which any number of processes of one machine may do at once.
#[derive(Clone, Debug)]
pub struct AppendSink {
    path: Arc<PathBuf>,
}

impl AppendSink {
    /// Returns a sink that appends to `path`, and makes the file when it first publishes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Arc::new(path.into()),
        }
    }

    /// Appends whole lines under a lock, and makes them durable. Blocks.
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let is_new = !self.path.try_exists()?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&*self.path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        if is_new {
            let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        append_to(&mut file, lines)
    }
}

/// The file that lines are appended to.
trait Appended: Read + Seek + Write {
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Appended for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Appends all of the lines or none: those of a write that failed would be there again after the next try.
fn append_to(file: &mut impl Appended, lines: &[u8]) -> io::Result<()> {
    let torn = ends_in_a_torn_line(file)?;
    let start = file.seek(SeekFrom::End(0))?;
    let mut text = Vec::with_capacity(lines.len() + 1);
    if torn {
        text.push(b'\n');
    }
    text.extend_from_slice(lines);
    let written = file.write_all(&text).and_then(|()| file.sync());
    if written.is_err() {
        // Where even that fails, the next write ends the torn line.
        let _ = file.cut(start);
    }
    written
}

impl Sink for AppendSink {
    /// # Cancel safety
    ///
    /// What was handed over is appended all the same.
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let mut lines = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for message in batch {
            if message.payload.contains(&b'\n') {
                answers.push(Err(Error::new(
                    ErrorKind::InvalidInput,
                    "the message has a line feed, and a line of a file has none",
                )));
                continue;
            }
            lines.extend_from_slice(&message.payload);
            lines.push(b'\n');
            answers.push(Ok(()));
        }
        if lines.is_empty() {
            return answers;
        }
        let sink = self.clone();
        let appended = tokio::task::spawn_blocking(move || sink.append(&lines)).await;
        let failure = match appended {
            Ok(Ok(())) => return answers,
            Ok(Err(error)) => {
                let message = format!("cannot append to {}: {error}", self.path.display());
                Error::new(ErrorKind::Unavailable, message).with_code(Code::TargetUnavailable)
            }
            Err(error) => Error::new(ErrorKind::Internal, "a write panicked").with_source(error),
        };
        let failed = answers
            .into_iter()
            .map(|answer| answer.and(Err(failure.clone())));
        failed.collect()
    }

    fn sends_ids(&self) -> bool {
        false
    }
}

/// Tells whether a process that was killed left a line without its end.
fn ends_in_a_torn_line(file: &mut impl Appended) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(payload: &'static str) -> Publication {
        Publication {
            id: Box::default(),
            order: None,
            payload: Bytes::from_static(payload.as_bytes()),
            headers: Vec::new(),
        }
    }

    #[tokio::test]
    async fn messages_are_appended_whole_and_a_torn_line_is_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("orders.ndjson");
        std::fs::write(&path, "first\nto").expect("a torn line");
        let sink = AppendSink::new(&path);
        let batch = ["a", "b\nc", "d"].map(message);
        let answers = sink.publish(&batch).await;
        let kinds = answers.iter().map(|it| it.as_ref().err().map(Error::kind));
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, [None, Some(ErrorKind::InvalidInput), None]);
        let text = std::fs::read_to_string(&path).expect("the file");
        assert_eq!(text, "first\nto\na\nd\n");
    }

    /// A file on a disk that has room for so many bytes more.
    struct NearlyFull(File, usize);

    impl Read for NearlyFull {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Seek for NearlyFull {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    impl Write for NearlyFull {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = bytes.len().min(self.1);
            if some == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1 -= some;
            self.0.write(&bytes[..some])
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Appended for NearlyFull {
        fn sync(&mut self) -> io::Result<()> {
            self.0.sync()
        }

        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.0.cut(len)
        }
    }

    #[test]
    fn a_write_that_fails_half_way_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("orders.ndjson");
        std::fs::write(&path, "first\n").expect("a line");
        let file = OpenOptions::new().read(true).append(true).open(&path);
        let mut disk = NearlyFull(file.expect("the file"), 5);
        let failed = append_to(&mut disk, b"a\nb\nc\n").expect_err("full");
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        let text = || std::fs::read_to_string(&path).expect("the file");
        assert_eq!(text(), "first\n");
        disk.1 = 100;
        append_to(&mut disk, b"a\nb\nc\n").expect("room");
        assert_eq!(text(), "first\na\nb\nc\n");
    }

    #[tokio::test]
    async fn a_folder_that_is_missing_is_an_outage_of_all_but_what_is_refused() {
        let sink = AppendSink::new("/nonexistent/orders.ndjson");
        let answers = sink.publish(&["a", "b\nc"].map(message)).await;
        let kinds = answers.iter().map(|it| it.as_ref().err().map(Error::kind));
        let kinds: Vec<_> = kinds.collect();
        let expected = [ErrorKind::Unavailable, ErrorKind::InvalidInput].map(Some);
        assert_eq!(kinds, expected);
    }
}
