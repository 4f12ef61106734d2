//! Connections that were upgraded, and belong to both ends from then on.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The upgraded connections of a proxy.
pub(crate) struct Tunnels {
    running: Mutex<JoinSet<()>>,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Tunnels {
    /// Room for so many at once, each of which ends once nothing came from either end for `idle`.
    pub(crate) fn new(most: usize, idle: Duration) -> Self {
        Self {
            running: Mutex::new(JoinSet::new()),
            places: Arc::new(Semaphore::new(most)),
            idle,
        }
    }

    /// Takes a place, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Copies in both directions once both ends have agreed, until both have ended or nothing moves any more.
    pub(crate) fn open(&self, client: OnUpgrade, upstream: OnUpgrade, place: OwnedSemaphorePermit) {
        let idle = self.idle;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(async move {
            let (client, upstream) = tokio::join!(client, upstream);
            if let (Ok(client), Ok(upstream)) = (client, upstream) {
                let moved = Moved::default();
                let mut client = Moving::new(TokioIo::new(client), &moved);
                let mut upstream = Moving::new(TokioIo::new(upstream), &moved);
                tokio::select! {
                    biased;
                    // Either end may break off; the other one sees that.
                    _ = copy_bidirectional(&mut client, &mut upstream) => {}
                    () = moved.until_idle(idle) => {}
                }
            }
            drop(place);
        });
    }

    /// Breaks all of them off.
    pub(crate) fn close(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.abort_all();
    }
}

/// The time at which something came last, from either end of a connection.
#[derive(Clone)]
struct Moved(Arc<Mutex<Instant>>);

impl Default for Moved {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Moved {
    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing has come for so long.
    async fn until_idle(&self, idle: Duration) {
        // A time that no clock reaches is no limit.
        while let Some(end) = self.last().checked_add(idle) {
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
        std::future::pending::<()>().await;
    }
}

/// One end of a connection, which notes when something comes from it.
struct Moving<T> {
    inner: T,
    moved: Moved,
}

impl<T> Moving<T> {
    fn new(inner: T, moved: &Moved) -> Self {
        let moved = moved.clone();
        Self { inner, moved }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Moving<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.moved.set();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Moving<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_nothing_came_for_the_whole_time() {
        let moved = Moved::default();
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let beats = {
            let moved = moved.clone();
            async move {
                for _ in 0..5 {
                    tokio::time::sleep(9 * second).await;
                    moved.set();
                }
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = beats => {}
            () = moved.until_idle(10 * second) => {}
        }
        assert_eq!(began.elapsed().as_secs(), 55);
        let forever = tokio::time::timeout(1_000 * second, moved.until_idle(Duration::MAX));
        assert!(forever.await.is_err());
    }
}
