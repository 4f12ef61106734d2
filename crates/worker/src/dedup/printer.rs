//! Printing to a stream that may block for as long as its reader likes.
//!
//! A thread of its own writes, so that the caller can give up the wait at a shutdown. It ends with the
//! printer, or with the process if the reader never reads on.

use std::io::{ErrorKind, Result, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::watch;

/// Prints to one stream.
#[derive(Debug)]
pub(super) struct Printer {
    jobs: SyncSender<Vec<u8>>,
    done: Receiver<(Vec<u8>, Result<()>)>,
    handed: Arc<Handed>,
    stop: watch::Receiver<bool>,
    /// The time that a reader may take once a stop is requested.
    patience: Duration,
    spare: Vec<u8>,
}

/// The result of printing.
#[derive(Debug)]
pub(super) enum Printed {
    /// All bytes were handed over.
    All,
    /// Some bytes were not.
    Partly {
        /// Bytes that may have been read.
        handed: usize,
        why: Why,
    },
}

/// The reason why not all was handed over.
#[derive(Debug)]
pub(super) enum Why {
    /// The reader has gone: no failure, but the end of the work, as with `| head`.
    Closed,
    /// It is time to stop, and the reader does not read.
    GaveUp,
    /// The stream takes nothing more.
    Failed(std::io::Error),
}

#[derive(Debug, Default)]
struct Handed {
    /// Bytes that the stream took.
    taken: AtomicUsize,
    /// Bytes that it took or may be taking now, and a bit that says whether it gets no more: one word, so
    /// that the number that was reported for a stream that was given up stays true.
    offered: AtomicUsize,
}

/// In `offered`: nothing more is handed over.
const ENDED: usize = 1 << (usize::BITS - 1);

impl Printer {
    /// Starts the thread.
    ///
    /// # Errors   no thread can be started
    pub(super) fn start(
        mut stream: Box<dyn Write + Send>,
        stop: watch::Receiver<bool>,
        patience: Duration,
    ) -> Result<Self> {
        let (jobs, accepted) = sync_channel::<Vec<u8>>(1);
        let (finished, done) = sync_channel(1);
        let handed = Arc::<Handed>::default();
        let progress = Arc::clone(&handed);
        let work = move || {
            while let Ok(buffer) = accepted.recv() {
                let printed = progress.print(&mut *stream, &buffer);
                if finished.send((buffer, printed)).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("semel-dedup-printer".into())
            .spawn(work)?;
        Ok(Self {
            jobs,
            done,
            handed,
            stop,
            patience,
            spare: Vec::new(),
        })
    }

    /// Memory to print from.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        buffer
    }

    /// Prints all of `buffer`; blocks. Prints nothing once the stream was given up.
    pub(super) fn print(&mut self, buffer: Vec<u8>) -> Printed {
        if buffer.is_empty() {
            return Printed::All;
        }
        if !self.handed.begin() {
            return Printed::Partly {
                handed: 0,
                why: Why::GaveUp,
            };
        }
        if self.jobs.send(buffer).is_err() {
            return self.gone();
        }
        let mut was_stopping = false;
        loop {
            let wait = if was_stopping {
                self.patience
            } else {
                LOOK_EVERY
            };
            match self.done.recv_timeout(wait) {
                Ok((buffer, printed)) => {
                    self.spare = buffer;
                    return self.ended(printed);
                }
                Err(RecvTimeoutError::Timeout) if was_stopping => {
                    return Printed::Partly {
                        handed: self.handed.end(),
                        why: Why::GaveUp,
                    };
                }
                Err(RecvTimeoutError::Timeout) => was_stopping = *self.stop.borrow(),
                Err(RecvTimeoutError::Disconnected) => return self.gone(),
            }
        }
    }

    fn ended(&self, printed: Result<()>) -> Printed {
        let Err(error) = printed else {
            return Printed::All;
        };
        Printed::Partly {
            handed: self.handed.taken.load(Ordering::Acquire),
            why: if error.kind() == ErrorKind::BrokenPipe {
                Why::Closed
            } else {
                Why::Failed(error)
            },
        }
    }

    /// The result when the thread has ended, which only a panic in the stream can cause.
    fn gone(&self) -> Printed {
        Printed::Partly {
            handed: self.handed.end(),
            why: Why::Failed(std::io::Error::other("the thread that prints has stopped")),
        }
    }
}

impl Handed {
    /// Begins with another buffer, unless printing has ended. The thread is at rest.
    fn begin(&self) -> bool {
        self.taken.store(0, Ordering::Release);
        let begin = |offered| (offered & ENDED == 0).then_some(0);
        self.offered
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, begin)
            .is_ok()
    }

    /// Ends printing. Returns how much was offered, which is all that ever will be.
    fn end(&self) -> usize {
        self.offered.fetch_or(ENDED, Ordering::AcqRel) & !ENDED
    }

    /// Returns whether the stream may be offered the bytes up to `end`.
    fn offers(&self, end: usize) -> bool {
        let offer = |offered| (offered & ENDED == 0).then_some(end);
        self.offered
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, offer)
            .is_ok()
    }

    fn print(&self, stream: &mut (impl Write + ?Sized), buffer: &[u8]) -> Result<()> {
        let mut taken = 0;
        while taken < buffer.len() {
            let part = &buffer[taken..buffer.len().min(taken + MOST_AT_ONCE)];
            if !self.offers(taken + part.len()) {
                // No caller waits for this answer.
                return Err(ErrorKind::TimedOut.into());
            }
            match stream.write(part) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => taken += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.taken.store(taken, Ordering::Release);
        }
        stream.flush()
    }
}

/// The interval at which a waiting caller checks whether it is time to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// As much as a pipe holds.
const MOST_AT_ONCE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes a part, and continues when the test reads.
    struct Stream {
        took: Arc<Mutex<Vec<u8>>>,
        asked: SyncSender<()>,
        read: Receiver<()>,
    }

    impl Write for Stream {
        fn write(&mut self, part: &[u8]) -> Result<usize> {
            let _ = self.asked.send(());
            let _ = self.read.recv();
            self.took.lock().expect("bytes").extend_from_slice(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_that_was_given_up_gets_no_more_than_was_told() {
        let took = Arc::<Mutex<Vec<u8>>>::default();
        let (asked, was_asked) = sync_channel(9);
        let (reads, read) = sync_channel(9);
        let stream = Stream {
            took: Arc::clone(&took),
            asked,
            read,
        };
        let (_stops, stop) = watch::channel(true);
        let patience = Duration::from_millis(1);
        let mut printer = Printer::start(Box::new(stream), stop, patience).expect("a thread");
        let buffer = vec![7; 3 * MOST_AT_ONCE];
        let Printed::Partly {
            handed,
            why: Why::GaveUp,
        } = printer.print(buffer.clone())
        else {
            panic!("nobody read");
        };
        assert_eq!(handed, MOST_AT_ONCE);
        // The reader reads on now.
        was_asked.recv().expect("a part is offered");
        reads.send(()).expect("a stream");
        let again = printer.print(buffer);
        assert!(matches!(
            again,
            Printed::Partly {
                handed: 0,
                why: Why::GaveUp
            }
        ));
        // The thread ends with the printer, and makes no request before.
        drop(printer);
        assert!(was_asked.recv().is_err(), "another part was offered");
        assert_eq!(took.lock().expect("bytes").len(), MOST_AT_ONCE);
    }
}
