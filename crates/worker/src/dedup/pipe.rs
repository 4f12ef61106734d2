//! A stream that knows whether its reader has taken the written bytes.
//!
//! Bytes that lie in a pipe when its reader goes are lost. So a flush of a pipe waits until it is
//! empty, and fails if the reader goes first.

use std::fs::File;
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::FileTypeExt;
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe, or any other stream, whose flush does nothing.
#[derive(Debug)]
pub struct Pipe {
    file: File,
    is_fifo: bool,
    /// Bytes since the last flush.
    fresh_bytes: usize,
}

impl Pipe {
    /// Wraps `file`.
    pub fn new(file: File) -> Self {
        let file_type = file.metadata().map(|metadata| metadata.file_type());
        Self {
            is_fifo: file_type.is_ok_and(|file_type| file_type.is_fifo()),
            file,
            fresh_bytes: 0,
        }
    }

    /// Waits at most this long for the reader to go.
    fn stays(&self, wait: Duration) -> Result<()> {
        // No event is requested: the system reports a reader that is gone without that.
        let mut fds = [PollFd::new(&self.file, PollFlags::empty())];
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&wait)) {
            Ok(1..) if fds[0].revents().contains(PollFlags::ERR) => {
                Err(ErrorKind::BrokenPipe.into())
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = self.file.write(bytes)?;
        self.fresh_bytes += count;
        Ok(count)
    }

    /// Waits until the reader has taken everything. A reader that takes little and goes at once, as
    /// `head` does, has mostly not wanted all that it took: it counts as gone before.
    fn flush(&mut self) -> Result<()> {
        let fresh_bytes = std::mem::take(&mut self.fresh_bytes);
        if !self.is_fifo {
            return Ok(());
        }
        let mut nap = SHORTEST_NAP;
        while rustix::io::ioctl_fionread(&self.file)? > 0 {
            self.stays(Duration::ZERO)?;
            sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
        let is_little = fresh_bytes < MUCH_BYTES;
        self.stays(if is_little { LINGER } else { Duration::ZERO })
    }
}

const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_millis(5);
/// More than readers take at once.
const MUCH_BYTES: usize = 128 << 10;
/// The time that a reader takes to go.
const LINGER: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};
    use std::os::fd::OwnedFd;

    use super::*;

    fn both() -> (std::io::PipeReader, Pipe) {
        let (reader, writer) = pipe().expect("a pipe");
        (reader, Pipe::new(File::from(OwnedFd::from(writer))))
    }

    #[test]
    fn a_flush_waits_for_the_reader() {
        let (mut reader, mut writer) = both();
        let flushed = std::thread::spawn(move || {
            writer.write_all(b"two words").expect("room");
            writer.flush().map(|()| writer)
        });
        let mut word = [0; 9];
        reader.read_exact(&mut word[..4]).expect("a word");
        assert!(!flushed.is_finished(), "it has not been read");
        reader.read_exact(&mut word[4..]).expect("the rest");
        flushed.join().expect("a thread").expect("all is read");
    }

    #[test]
    fn a_reader_that_goes_before_it_has_read_all_is_told_of() {
        let (mut reader, mut writer) = both();
        writer.write_all(b"two words").expect("room");
        reader.read_exact(&mut [0; 4]).expect("a word");
        drop(reader);
        let error = writer.flush().expect_err("nobody reads the rest");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_needs_no_reader() {
        let file = tempfile::tempfile().expect("a file");
        let mut pipe = Pipe::new(file);
        pipe.write_all(b"a line\n").expect("room");
        pipe.flush().expect("no reader");
    }
}
