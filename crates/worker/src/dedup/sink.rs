//! The sinks of lines: a file whose length is recorded, or a stream.

use std::sync::Arc;

use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together};
use semel_core::{Certainty, Code, Error, ErrorKind, Mark, Result};
use semel_engine::effect::Output as _;

use super::answers::Answers;
use super::batch::Lines;
use super::printer::{Printed, Printer, Why};
use crate::effect::FileOutput;

/// The target of granted lines.
#[derive(Debug)]
pub(super) enum Sink {
    File(FileSink),
    Stream(Printer),
}

/// A file that ends where its mark says.
#[derive(Debug)]
pub(super) struct FileSink {
    file: FileOutput,
    recorded: Mark,
    buffer: Vec<u8>,
}

/// The reason why a batch was not written.
#[derive(Debug)]
pub(super) enum Halt {
    /// The reader is gone, or it is time to stop.
    Ended,
    Failed(Error),
}

impl Sink {
    /// Writes the granted lines; blocks. The mark is to be recorded once all are written.
    pub(super) fn write(&mut self, lines: &Lines, answers: &Answers) -> Result<Mark, Halt> {
        match self {
            Self::File(sink) => sink.write(lines, answers).map_err(Halt::Failed),
            Self::Stream(printer) => {
                let mut buffer = printer.buffer();
                answers.gather(lines, &mut buffer);
                match printer.print(buffer) {
                    Printed::All => Ok(Mark {
                        name: STREAM_MARK.into(),
                        value: 0,
                    }),
                    Printed::Partly { why, .. } => match why {
                        Why::Closed | Why::GaveUp => Err(Halt::Ended),
                        Why::Failed(error) => Err(Halt::Failed(cannot_print("print", error))),
                    },
                }
            }
        }
    }

    /// Notes that the mark is recorded.
    pub(super) fn recorded(&mut self, mark: Mark) {
        match self {
            Self::File(sink) => sink.recorded = mark,
            Self::Stream(_) => {}
        }
    }

    /// Undoes a write after the store failed with `error`: cuts off the lines that are surely not
    /// recorded. Lines that may be recorded stay, and the next start finds out.
    pub(super) fn undo(&self, error: &Error) {
        match self {
            Self::File(sink) if error.certainty() == Certainty::NotApplied => {
                // If this fails as well, the next start cuts it back.
                let _ = sink.file.cut_back_now(sink.recorded.value);
            }
            Self::File(_) | Self::Stream(_) => {}
        }
    }
}

impl FileSink {
    /// Brings the file and its mark into agreement after a crash. An empty file begins with `header`.
    ///
    /// # Errors   `InvalidInput`: it has contents that the store knows nothing of, and is not to be
    /// appended to
    pub(super) async fn recover(
        mut file: FileOutput,
        is_append: bool,
        header: &[u8],
        checkpoints: &AnyCheckpointStore,
    ) -> Result<Self> {
        let name = file.mark_name();
        let mut recorded = Mark {
            name: name.as_str().into(),
            value: 0,
        };
        if let Some(value) = checkpoints.mark(&name).await? {
            file.cut_back(value).await?;
            recorded.value = value;
        } else {
            recorded.value = file.len_bytes().await?;
            if recorded.value > 0 && !is_append {
                let (path, len) = (file.path().display().to_string(), recorded.value);
                let message = format!(
                    "{path} has {len} bytes that this store knows nothing of; add --append to keep \
                     them and write behind them, or name a new file"
                );
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
            // Before the first line: otherwise a crash leaves lines without a record.
            match checkpoints.settle_with(Arc::new([]), &recorded).await? {
                Together::Applied(_) | Together::Refused(_) => {}
            }
        }
        let mut sink = Self {
            file,
            recorded,
            buffer: Vec::new(),
        };
        if sink.recorded.value == 0 && !header.is_empty() {
            sink.recorded = sink.append(|buffer| buffer.extend_from_slice(header))?;
            match checkpoints
                .settle_with(Arc::new([]), &sink.recorded)
                .await?
            {
                Together::Applied(_) | Together::Refused(_) => {}
            }
        }
        Ok(sink)
    }

    fn write(&mut self, lines: &Lines, answers: &Answers) -> Result<Mark> {
        self.append(|buffer| answers.gather(lines, buffer))
    }

    /// Appends the lines that `gather` collects; returns the mark to be recorded.
    fn append(&mut self, gather: impl FnOnce(&mut Vec<u8>)) -> Result<Mark> {
        self.buffer.clear();
        gather(&mut self.buffer);
        if self.buffer.is_empty() {
            return Ok(self.recorded.clone());
        }
        if !self.buffer.ends_with(b"\n") {
            self.buffer.push(b'\n');
        }
        let value = self.file.append_lines(&self.buffer)?;
        Ok(Mark {
            name: self.recorded.name.clone(),
            value,
        })
    }
}

/// The error of a stream that accepts nothing.
pub(super) fn cannot_print(verb: &str, error: std::io::Error) -> Error {
    let cause = match error.kind() {
        std::io::ErrorKind::StorageFull => "no space left on the disk".into(),
        _ => error.to_string(),
    };
    Error::new(ErrorKind::Unavailable, format!("cannot {verb}: {cause}"))
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

/// The name of a stream's mark: a stream has nothing to record, but the store's step needs a mark.
const STREAM_MARK: &str = "stream";
