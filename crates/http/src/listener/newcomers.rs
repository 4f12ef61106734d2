//! Connections that have not asked anything yet. Where all places are taken, the oldest of them gives its own up to whoever
//! comes, so that no number of silent clients keeps others from an answer.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

/// A connection, as far as it may have to give up its place.
#[derive(Default)]
pub(super) struct Newcomer {
    /// The requests so far, of which its service counts each.
    pub(super) requests: Arc<AtomicU64>,
    leave: Notify,
}

/// Those that had not asked anything when they were looked at, the oldest first.
#[derive(Default)]
pub(super) struct Newcomers(VecDeque<Weak<Newcomer>>);

impl Newcomer {
    fn has_asked(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Runs the connection to its end, or until it is told to leave and has not asked anything. Both are seen in one task:
    /// no request is cut off.
    pub(super) async fn run(&self, connection: impl Future<Output = ()>) {
        let mut connection = pin!(connection);
        loop {
            tokio::select! {
                biased;
                () = self.leave.notified() => if !self.has_asked() { return },
                () = connection.as_mut() => return,
            }
        }
    }
}

impl Newcomers {
    /// Adds a connection; `room` is the number of those that can be open at once.
    pub(super) fn add(&mut self, room: usize) -> Arc<Newcomer> {
        if self.0.len() > room.saturating_mul(2) {
            let is_one = |it: &Weak<Newcomer>| it.upgrade().is_some_and(|it| !it.has_asked());
            self.0.retain(is_one);
        }
        let newcomer = Arc::<Newcomer>::default();
        self.0.push_back(Arc::downgrade(&newcomer));
        newcomer
    }

    /// Tells the oldest one to leave, if there is any.
    pub(super) fn give_up_a_place(&mut self) {
        let mut oldest = std::iter::from_fn(|| self.0.pop_front());
        let found = oldest.find_map(|it| it.upgrade().filter(|it| !it.has_asked()));
        if let Some(newcomer) = found {
            newcomer.leave.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_leaves_and_those_that_are_gone_are_forgotten() {
        let mut newcomers = Newcomers::default();
        let [asked, gone, silent, younger] = [(); 4].map(|()| newcomers.add(4));
        asked.requests.fetch_add(1, Ordering::Relaxed);
        drop(gone);
        newcomers.give_up_a_place();
        silent.run(std::future::pending()).await;
        // One that asks in the meantime stays.
        newcomers.give_up_a_place();
        younger.requests.fetch_add(1, Ordering::Relaxed);
        let mut turns = 0;
        let connection = std::future::poll_fn(|context| {
            turns += 1;
            context.waker().wake_by_ref();
            match turns {
                1..10 => std::task::Poll::Pending,
                _ => std::task::Poll::Ready(()),
            }
        });
        younger.run(connection).await;
        assert_eq!(turns, 10);
        for _ in 0..100 {
            drop(newcomers.add(4));
        }
        assert!(newcomers.0.len() <= 10, "{}", newcomers.0.len());
    }
}
