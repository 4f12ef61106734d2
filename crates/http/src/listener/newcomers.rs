//! Connections that have not asked anything yet. Where all places are taken, the oldest of them gives its own up to whoever
//! comes, so that no number of silent clients keeps others from an answer. It has had its place for a time by then: one
//! that just got it has not been read.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::Instant;

/// A connection, as far as it may have to give up its place.
#[derive(Default)]
pub(super) struct Newcomer {
    /// The requests so far, of which its service counts each.
    pub(super) requests: Arc<AtomicU64>,
    leave: Notify,
}

/// Those that had not asked anything when they were looked at, the oldest first, each with the time of its place.
#[derive(Default)]
pub(super) struct Newcomers(VecDeque<(Instant, Weak<Newcomer>)>);

impl Newcomer {
    fn has_asked(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Runs the connection to its end, or until it is told to leave and has not asked anything. Both are seen in one
    /// task, and what has arrived by then is read before: a request whose head is whole is not cut off.
    pub(super) async fn run(&self, connection: impl Future<Output = ()>) {
        let mut connection = pin!(connection);
        loop {
            tokio::select! {
                biased;
                () = connection.as_mut() => return,
                () = self.leave.notified() => {}
            }
            // The system tells what has arrived between two turns of a task.
            tokio::select! {
                biased;
                () = connection.as_mut() => return,
                () = yield_now() => if !self.has_asked() { return },
            }
        }
    }
}

impl Newcomers {
    /// Adds a connection that has a place from now on; `room` is the number of those that can be open at once.
    pub(super) fn add(&mut self, room: usize, now: Instant) -> Arc<Newcomer> {
        if self.0.len() > room.saturating_mul(2) {
            let is_one = |(_, it): &(Instant, Weak<Newcomer>)| {
                it.upgrade().is_some_and(|it| !it.has_asked())
            };
            self.0.retain(is_one);
        }
        let newcomer = Arc::<Newcomer>::default();
        self.0.push_back((now, Arc::downgrade(&newcomer)));
        newcomer
    }

    /// Tells the oldest one to leave, if there is any that has had its place for [`GRACE`].
    pub(super) fn give_up_a_place(&mut self, now: Instant) {
        while let Some((since, oldest)) = self.0.front() {
            let silent = oldest.upgrade().filter(|it| !it.has_asked());
            if silent.is_some() && now.saturating_duration_since(*since) < GRACE {
                return;
            }
            self.0.pop_front();
            if let Some(newcomer) = silent {
                newcomer.leave.notify_one();
                return;
            }
        }
    }
}

/// The time for which each has its place, whoever else comes.
pub(super) const GRACE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::timeout;

    use super::*;

    /// Runs a connection that asks in a turn of its own, or never; returns whether it came to its end.
    async fn ended(newcomer: &Newcomer, asks_in: Option<u32>) -> bool {
        let mut turns = 0;
        let mut has_ended = false;
        let connection = std::future::poll_fn(|context| {
            turns += 1;
            if asks_in == Some(turns) {
                newcomer.requests.fetch_add(1, Ordering::Relaxed);
            }
            context.waker().wake_by_ref();
            if turns < 10 {
                return std::task::Poll::Pending;
            }
            has_ended = true;
            std::task::Poll::Ready(())
        });
        let run = timeout(Duration::from_secs(60), newcomer.run(connection));
        run.await.expect("it comes to an end");
        has_ended
    }

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_leaves_and_those_that_are_gone_are_forgotten() {
        let mut newcomers = Newcomers::default();
        let begin = Instant::now();
        let [asked, gone, silent, younger] = [(); 4].map(|()| newcomers.add(4, begin));
        asked.requests.fetch_add(1, Ordering::Relaxed);
        drop(gone);
        newcomers.give_up_a_place(begin + GRACE);
        let run = timeout(Duration::from_secs(60), silent.run(pending()));
        run.await.expect("it was told to leave");
        // One that asks in the meantime stays.
        newcomers.give_up_a_place(begin + GRACE);
        younger.requests.fetch_add(1, Ordering::Relaxed);
        assert!(ended(&younger, None).await);
        for _ in 0..100 {
            drop(newcomers.add(4, begin));
        }
        assert!(newcomers.0.len() <= 10, "{}", newcomers.0.len());
    }

    #[tokio::test]
    async fn what_has_arrived_is_read_before_one_leaves() {
        let begin = Instant::now();
        for (asks_in, stays) in [(Some(1), true), (Some(2), true), (None, false)] {
            let mut newcomers = Newcomers::default();
            let newcomer = newcomers.add(4, begin);
            newcomers.give_up_a_place(begin + GRACE);
            assert_eq!(ended(&newcomer, asks_in).await, stays, "{asks_in:?}");
        }
    }

    #[tokio::test]
    async fn each_has_its_place_for_a_time() {
        let mut newcomers = Newcomers::default();
        let begin = Instant::now();
        let newcomer = newcomers.add(4, begin);
        newcomers.give_up_a_place(begin + GRACE / 2);
        assert!(ended(&newcomer, None).await, "it stays");
        newcomers.give_up_a_place(begin + GRACE);
        assert!(!ended(&newcomer, None).await, "it leaves");
    }
}
