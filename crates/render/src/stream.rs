//! Writes bytes to standard output, until nobody reads any more.

use std::io::{BufWriter, Stdout, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use semel_core::{Code, Error, ErrorKind, Result};

/// The answer to a writer: `Break` when nobody reads any more, or when enough was printed. That is no failure:
/// the verb stops its work and ends with exit code 0.
pub type Go = ControlFlow<()>;

/// Standard output, buffered.
///
/// # Shape   `Break` once the other end of the pipe is closed, and from then on
/// # Errors  `target-unavailable`: it takes nothing, a full disk for example
pub struct Stream<W: Write = Stdout> {
    writer: BufWriter<W>,
    is_closed: bool,
}

impl Stream {
    /// The standard output of this process.
    pub fn stdout() -> Self {
        Self::new(std::io::stdout())
    }

    /// Finds out whether the output is still read, without printing anything: for work that takes long between
    /// two lines.
    pub fn look(&mut self) -> Go {
        self.is_closed |= is_abandoned(rustix::stdio::stdout());
        self.go()
    }
}

impl<W: Write> Stream<W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer: BufWriter::with_capacity(BUFFER_BYTES, writer),
            is_closed: false,
        }
    }

    /// Prints these bytes, at once or later.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn write(&mut self, bytes: &[u8]) -> Result<Go> {
        if self.is_closed {
            return Ok(Go::Break(()));
        }
        let result = self.writer.write_all(bytes);
        self.answer(result)
    }

    /// Prints the bytes that are held back, now.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn flush(&mut self) -> Result<Go> {
        if self.is_closed {
            return Ok(Go::Break(()));
        }
        let result = self.writer.flush();
        self.answer(result)
    }

    fn answer(&mut self, result: std::io::Result<()>) -> Result<Go> {
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => return Err(cannot_print(error)),
        }
        Ok(self.go())
    }

    const fn go(&self) -> Go {
        if self.is_closed {
            Go::Break(())
        } else {
            Go::Continue(())
        }
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> W {
        let mut writer = self.writer;
        writer.flush().expect("a writer that takes all");
        writer.into_parts().0
    }
}

/// Tells whether this is a pipe that nobody reads any more.
fn is_abandoned(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut polled, Some(&at_once)), Ok(1..))
        && polled[0].revents().contains(PollFlags::ERR)
}

/// The error of a standard output that takes nothing.
pub fn cannot_print(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot print to standard output")
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

const BUFFER_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_reader_is_noticed_before_anything_is_written() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(!is_abandoned(&writer));
        drop(reader);
        assert!(is_abandoned(&writer));
        let file = tempfile::tempfile().expect("a file");
        assert!(!is_abandoned(&file), "nobody reads a file");
    }
}
