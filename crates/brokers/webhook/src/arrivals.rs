//! The bodies that arrive: nobody knows yet whether they are genuine, so they are bounded apart from the requests in
//! hand, and the oldest of them make room for others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// The bodies that arrive at one path.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The memory of all together.
    max_bytes: usize,
    /// The most at once.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    bytes: usize,
    /// By their age: the first is the oldest.
    bodies: BTreeMap<u64, Arriving>,
}

#[derive(Debug)]
struct Arriving {
    began: Instant,
    bytes: usize,
    /// True once it is there whole, and somebody has it in hand: it makes no room.
    is_held: bool,
    /// Dropped when it has to make room.
    _stays: oneshot::Sender<()>,
}

/// A body that arrives, with the memory of what has arrived of it.
#[derive(Debug)]
pub(crate) struct Arrival {
    all: Arc<Arrivals>,
    id: u64,
    stays: oneshot::Receiver<()>,
}

impl Arrivals {
    /// Room for bodies of which the longest alone has this many bytes, at one of `paths` of a listener that takes so many
    /// connections: all paths together leave most of these to others.
    pub(crate) fn new(max_body_bytes: usize, connections: usize, paths: usize) -> Self {
        Self {
            max_bytes: max_body_bytes.max(BYTES),
            most: (connections / 4 / paths.max(1)).clamp(1, BODIES),
            state: Mutex::default(),
        }
    }

    /// Begins to read a body, in place of an old one if need be; nothing if there are too many, and all are young.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Arrival> {
        let now = Instant::now();
        let mut state = self.lock();
        if state.bodies.len() >= self.most && !state.send_away(now, |_, _| true) {
            return None;
        }
        let (sender, stays) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        let arriving = Arriving {
            began: now,
            bytes: 0,
            is_held: false,
            _stays: sender,
        };
        state.bodies.insert(id, arriving);
        drop(state);
        Some(Arrival {
            all: Arc::clone(self),
            id,
            stays,
        })
    }

    /// Returns the number of bodies that are in hand.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        let state = self.lock();
        state.bodies.values().filter(|it| it.is_held).count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sends the oldest of these bodies away unless it is young; tells whether one went.
    fn send_away(&mut self, now: Instant, these: impl Fn(u64, &Arriving) -> bool) -> bool {
        let mut oldest = self
            .bodies
            .iter()
            .filter(|(id, it)| !it.is_held && these(**id, it));
        let oldest = oldest.next().map(|(id, it)| (*id, it.began));
        match oldest {
            Some((id, began)) if now.duration_since(began) >= YOUTH => {
                self.end(id);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Takes a body out, and its sender with it, at which its reader knows.
    fn end(&mut self, id: u64) {
        if let Some(body) = self.bodies.remove(&id) {
            self.bytes -= body.bytes;
        }
    }
}

impl Arrival {
    /// Takes memory for a body that has reached this length; false if there is none, or it has had to make room.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let now = Instant::now();
        let mut state = self.all.lock();
        let Some(own) = state.bodies.get(&self.id) else {
            return false;
        };
        let more = bytes.saturating_sub(own.bytes);
        while state.bytes + more > self.all.max_bytes {
            if !state.send_away(now, |id, it| id != self.id && it.bytes > 0) {
                return false;
            }
        }
        state.bytes += more;
        if let Some(own) = state.bodies.get_mut(&self.id) {
            own.bytes += more;
        }
        true
    }

    /// Keeps its place and memory until it is dropped, with memory for this length; false if there is none, or it has had
    /// to make room.
    pub(crate) fn hold(&self, bytes: usize) -> bool {
        if !self.grow(bytes) {
            return false;
        }
        let mut state = self.all.lock();
        let own = state.bodies.get_mut(&self.id);
        own.map(|own| own.is_held = true).is_some()
    }

    /// Gives its memory and its place back.
    pub(crate) fn end(&self) {
        self.all.lock().end(self.id);
    }

    /// Waits until it has to make room.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn is_sent_away(&mut self) {
        let _ = (&mut self.stays).await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.end();
    }
}

/// The memory of all bodies that arrive, unless one alone may take more.
const BYTES: usize = 32 << 20;
/// The most bodies that arrive at once at one path, whatever the listener takes.
const BODIES: usize = 1_024;
/// The time for which a body does not have to make room: longer than a provider needs to send one.
const YOUTH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
