//! Those who wait for a key: claims that met another one at work.
//!
//! One of all who wait for a key asks the store again from time to time; the others sleep until it has an answer that
//! concerns them, or a claim of the key is settled through this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Backoff, OpId};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, watch};
use tokio::time::sleep;

/// Everyone who waits in this process. Bounded: who finds no place does not wait.
#[derive(Debug)]
pub(crate) struct Waiters {
    most: usize,
    queues: Arc<Mutex<Queues>>,
}

#[derive(Debug, Default)]
struct Queues {
    count: usize,
    by_key: HashMap<OpId, Queue>,
}

/// Those who wait for one key.
#[derive(Debug)]
struct Queue {
    count: usize,
    /// Held by the one who asks the store.
    turn: Arc<Turn<()>>,
    /// Changes when everybody should ask.
    news: watch::Sender<()>,
}

/// A place among those who wait for a key.
#[derive(Debug)]
pub(crate) struct Seat {
    queues: Arc<Mutex<Queues>>,
    id: OpId,
    turn: Arc<Turn<()>>,
    news: watch::Receiver<()>,
    held: Option<OwnedMutexGuard<()>>,
    asked: u32,
}

impl Waiters {
    /// Places for so many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            queues: Arc::default(),
        }
    }

    /// Takes a place; nothing if there is none left.
    pub(crate) fn enter(&self, id: OpId) -> Option<Seat> {
        let mut queues = lock(&self.queues);
        if queues.count >= self.most {
            return None;
        }
        let queue = queues.by_key.entry(id).or_insert_with(|| Queue {
            count: 0,
            turn: Arc::default(),
            news: watch::Sender::default(),
        });
        if queue.count >= MOST_OF_A_KEY {
            return None;
        }
        queue.count += 1;
        let (turn, news) = (Arc::clone(&queue.turn), queue.news.subscribe());
        queues.count += 1;
        Some(Seat {
            queues: Arc::clone(&self.queues),
            id,
            turn,
            news,
            held: None,
            asked: 0,
        })
    }

    /// Returns whether nobody waits, so that no id need be computed.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.queues).count == 0
    }

    /// Wakes those who wait for a key.
    pub(crate) fn wake(&self, id: OpId) {
        lock(&self.queues).wake(id);
    }
}

impl Queues {
    fn wake(&self, id: OpId) {
        if let Some(queue) = self.by_key.get(&id) {
            queue.news.send_replace(());
        }
    }
}

impl Seat {
    /// Waits until it is time to ask the store. `left` is the rest of the time for which the key is held anyhow.
    pub(crate) async fn pause(&mut self, left: Duration) {
        self.asked = self.asked.saturating_add(1);
        let pause = PAUSES.after(self.asked).min(left.max(PAUSES.first));
        let (held, turn) = (&mut self.held, &self.turn);
        let in_turn = async {
            if held.is_none() {
                *held = Some(Arc::clone(turn).lock_owned().await);
            }
            sleep(pause).await;
        };
        tokio::select! {
            biased;
            // The sender lives as long as anybody waits.
            _ = self.news.changed() => {}
            () = in_turn => {}
        }
    }

    /// Wakes the others, after an answer that concerns them as well.
    pub(crate) fn wake_others(&self) {
        lock(&self.queues).wake(self.id);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        queues.count = queues.count.saturating_sub(1);
        if let Some(queue) = queues.by_key.get_mut(&self.id) {
            queue.count = queue.count.saturating_sub(1);
            if queue.count == 0 {
                queues.by_key.remove(&self.id);
            }
        }
    }
}

/// Locks the queues. Nothing that runs under the lock can leave them half changed.
fn lock(queues: &Mutex<Queues>) -> MutexGuard<'_, Queues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most who wait for one key.
const MOST_OF_A_KEY: usize = 1_000;

/// The pauses of the one who asks. Settlements through this process are told at once, so that these count only where
/// several servers share the store, and for leases that end.
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(20),
    most: Duration::from_millis(500),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> OpId {
        OpId::from_bytes([number; 32])
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let waiters = Waiters::new(10 * MOST_OF_A_KEY);
        let mut seats: Vec<_> = (0..MOST_OF_A_KEY)
            .filter_map(|_| waiters.enter(id(1)))
            .collect();
        assert_eq!(seats.len(), MOST_OF_A_KEY);
        assert!(waiters.enter(id(1)).is_none(), "the key has no place left");
        assert!(waiters.enter(id(2)).is_some(), "another key has");
        seats.pop();
        assert!(waiters.enter(id(1)).is_some());
        for key in 3..=12 {
            seats.extend((0..MOST_OF_A_KEY).filter_map(|_| waiters.enter(id(key))));
        }
        assert_eq!(seats.len(), 10 * MOST_OF_A_KEY);
        assert!(waiters.enter(id(2)).is_none(), "no key has a place left");
        drop(seats);
        assert!(waiters.is_empty());
        assert!(lock(&waiters.queues).by_key.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_and_the_others_sleep_until_they_are_woken() {
        let waiters = Arc::new(Waiters::new(MOST_OF_A_KEY));
        let long = Duration::from_secs(30);
        let mut first = waiters.enter(id(1)).expect("a place");
        let mut second = waiters.enter(id(1)).expect("a place");
        first.pause(long).await;
        let hour = tokio::time::timeout(Duration::from_secs(3_600), second.pause(long)).await;
        assert!(hour.is_err(), "it is the turn of the first");
        first.wake_others();
        second.pause(long).await;
        // The first has its answer and goes: the second takes its turn.
        drop(first);
        second.pause(long).await;
        waiters.wake(id(2));
        waiters.wake(id(1));
        let began = tokio::time::Instant::now();
        second.pause(long).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "it was woken");
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_grow_but_end_with_the_lease() {
        let waiters = Waiters::new(1);
        let mut seat = waiters.enter(id(1)).expect("a place");
        let mut waited = Vec::new();
        for left in [30_000, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000, 70] {
            let began = tokio::time::Instant::now();
            seat.pause(Duration::from_millis(left)).await;
            waited.push(began.elapsed().as_millis());
        }
        assert_eq!(waited, [20, 40, 80, 160, 320, 500, 500, 70]);
    }
}
