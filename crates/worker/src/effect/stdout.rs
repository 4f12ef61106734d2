//! Printing: each message and a line feed, to the reader of the stream.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use semel_engine::effect::{BatchEffect, Call, Verdict};

/// Prints messages to a stream.
#[derive(Debug)]
pub struct StdoutEffect<W> {
    stream: W,
    closed: Closed,
    buffer: Vec<u8>,
}

/// Says whether the reader of the stream has gone (`EPIPE`): no failure, but the end of the work,
/// as with `| head`.
#[derive(Clone, Debug, Default)]
pub struct Closed(Arc<AtomicBool>);

impl Closed {
    /// Returns whether the reader has gone.
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl StdoutEffect<tokio::io::Stdout> {
    /// Prints to standard output.
    pub fn stdout() -> Self {
        Self::new(tokio::io::stdout())
    }
}

impl<W> StdoutEffect<W> {
    /// Prints to `stream`.
    pub fn new(stream: W) -> Self {
        Self {
            stream,
            closed: Closed::default(),
            buffer: Vec::new(),
        }
    }

    /// A handle that says, from elsewhere too, whether the reader has gone.
    pub fn closed(&self) -> Closed {
        self.closed.clone()
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> BatchEffect for StdoutEffect<W> {
    /// Prints the batch and flushes once.
    ///
    /// # Shape
    ///
    /// All done, or: bytes that were handed to the stream may have been read, the rest was not. A
    /// reader that has gone is reported as `closed pipe`, and by [`Closed`]
    ///
    /// # Cancel safety
    ///
    /// None: half a message may have been printed
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut ends = Vec::with_capacity(batch.len());
        for call in batch {
            buffer.extend_from_slice(&call.payload);
            buffer.push(b'\n');
            ends.push(buffer.len());
        }
        let mut handed = 0;
        let printed = self.print(&buffer, &mut handed).await;
        buffer.shrink_to(MOST_KEPT_BYTES);
        self.buffer = buffer;
        let Err(error) = printed else {
            return vec![Verdict::Done(Bytes::new()); batch.len()];
        };
        let error: Box<str> = if error.kind() == ErrorKind::BrokenPipe {
            self.closed.0.store(true, Ordering::Release);
            CLOSED_PIPE.into()
        } else {
            format!("cannot print: {error}").into()
        };
        let starts = std::iter::once(0).chain(ends);
        let verdict = |start| {
            let error = error.clone();
            if start < handed {
                Verdict::MaybeApplied { error }
            } else {
                Verdict::NotApplied {
                    error,
                    retry_after: None,
                }
            }
        };
        starts.take(batch.len()).map(verdict).collect()
    }
}

impl<W: AsyncWrite + Send + Unpin> StdoutEffect<W> {
    /// Counts into `handed` the bytes that the stream took, even after a failure.
    async fn print(&mut self, buffer: &[u8], handed: &mut usize) -> std::io::Result<()> {
        if self.closed.is_closed() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        while *handed < buffer.len() {
            match self.stream.write(&buffer[*handed..]).await? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => *handed += count,
            }
        }
        self.stream.flush().await
    }
}

/// The error of a verdict when the reader has gone.
pub const CLOSED_PIPE: &str = "closed pipe";

const MOST_KEPT_BYTES: usize = 1 << 20;
