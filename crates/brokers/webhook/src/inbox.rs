//! The requests in hand: those that wait to be fetched, and those that were fetched and are not settled yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::Fate;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};

use super::message::Message;

/// The requests in hand of one source.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Told when something waits, and at the end.
    arrived: Notify,
    places: Arc<Semaphore>,
    /// Of all bodies, in units.
    memory: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    next_id: u64,
    waiting: VecDeque<InHand>,
    /// Those that were given back, and the time at which they are handed over again.
    again: VecDeque<(Instant, InHand)>,
    out: BTreeMap<DeliveryId, InHand>,
}

/// A message, and the request that waits for its fate.
#[derive(Debug)]
struct InHand {
    message: Message,
    /// Told once; nobody may listen any more.
    request: oneshot::Sender<Ending>,
    _room: Room,
}

/// The end of a request in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its message has met this fate.
    Settled(Fate),
    /// The source was closed before.
    Closed,
}

/// A place among the requests in hand, and the memory of a body.
#[derive(Debug)]
pub(crate) struct Room {
    _place: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Inbox {
    /// An inbox for this many requests, with memory for more than one of the longest bodies.
    pub(crate) fn new(max_in_hand: usize, max_body_bytes: usize) -> Self {
        let memory = units(max_body_bytes.max(MEMORY_BYTES));
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            places: Arc::new(Semaphore::new(max_in_hand.min(Semaphore::MAX_PERMITS))),
            memory: Arc::new(Semaphore::new(memory)),
        }
    }

    /// Tells whether there is room for a request with a body of this length. Nothing is taken: whoever sends it may not
    /// be the provider.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.places.available_permits() > 0 && self.memory.available_permits() >= units(bytes)
    }

    /// Takes a place and memory for a request with a body of this length; nothing if there is none.
    pub(crate) fn room(&self, bytes: usize) -> Option<Room> {
        let memory = u32::try_from(units(bytes)).ok()?;
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(memory);
        let place = Arc::clone(&self.places).try_acquire_owned();
        Some(Room {
            _place: place.ok()?,
            _memory: memory.ok()?,
        })
    }

    /// Puts a message in; returns the channel of its end, and nothing once the inbox is closed.
    pub(crate) fn put(&self, message: Message, room: Room) -> Option<oneshot::Receiver<Ending>> {
        let (request, ending) = oneshot::channel();
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.waiting.push_back(InHand {
            message,
            request,
            _room: room,
        });
        drop(state);
        self.arrived.notify_one();
        Some(ending)
    }

    /// Tells whether it takes no more messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Waits for messages, and returns at most `max` of them; nothing once the inbox is closed.
    ///
    /// # Cancel safety   safe: a message that was not returned waits for the next call
    pub(crate) async fn next(&self, max: usize) -> Option<Vec<Delivery>> {
        loop {
            let again_at = {
                let mut state = self.lock();
                if state.is_closed {
                    return None;
                }
                let deliveries = state.hand_over(max.max(1), Instant::now());
                if !deliveries.is_empty() {
                    return Some(deliveries);
                }
                state.again.front().map(|(at, _)| *at)
            };
            tokio::select! {
                biased;
                () = self.arrived.notified() => {}
                () = until(again_at) => {}
            }
        }
    }

    /// Tells the requests of these deliveries their fates. A stale id has no request.
    pub(crate) fn settle(&self, batch: &[Acknowledgement]) {
        let mut state = self.lock();
        for told in batch {
            if let Some(in_hand) = state.out.remove(&told.delivery) {
                // A provider that hung up sends the message again, and meets its record.
                let _ = in_hand.request.send(Ending::Settled(told.fate));
            }
        }
    }

    /// Takes these deliveries back, to be handed over again after a pause.
    pub(crate) fn take_back(&self, batch: &[DeliveryId]) {
        let at = Instant::now() + PAUSE;
        let mut state = self.lock();
        for id in batch {
            if let Some(in_hand) = state.out.remove(id) {
                state.again.push_back((at, in_hand));
            }
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Ends every request in hand, and takes no further ones.
    pub(crate) fn close(&self) {
        let ended = {
            let mut state = self.lock();
            let next_id = state.next_id;
            let closed = State {
                is_closed: true,
                next_id,
                ..State::default()
            };
            std::mem::replace(&mut *state, closed)
        };
        let again = ended.again.into_iter().map(|(_, in_hand)| in_hand);
        let all = ended.waiting.into_iter().chain(again);
        for in_hand in all.chain(ended.out.into_values()) {
            let _ = in_hand.request.send(Ending::Closed);
        }
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hand_over(&mut self, max: usize, now: Instant) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < max {
            let is_due = self.again.front().is_some_and(|(at, _)| *at <= now);
            let next = if is_due {
                self.again.pop_front().map(|(_, in_hand)| in_hand)
            } else {
                self.waiting.pop_front()
            };
            let Some(in_hand) = next else {
                break;
            };
            let id = DeliveryId(self.next_id);
            self.next_id += 1;
            deliveries.push(in_hand.message.delivery(id));
            self.out.insert(id, in_hand);
        }
        deliveries
    }
}

/// Waits until this time; for ever, without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The units of memory that a body takes: a KiB each.
const fn units(bytes: usize) -> usize {
    bytes.div_ceil(1 << 10)
}

/// The memory of all bodies in hand, unless one alone may take more.
const MEMORY_BYTES: usize = 64 << 20;
/// The pause before a delivery that was given back is handed over again.
const PAUSE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
