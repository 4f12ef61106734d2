//! A circuit breaker for a store that does not answer: the store is left alone, and asked again now
//! and then by one call at a time.
//!
//! A [`Breaker`] belongs to one store and is shared by all its callers. While it is open, only one
//! probe at a time calls the store, so that a store that comes back is not overrun. A [`Policy`] is
//! a pipeline's way to take part; [`Guarded`] is the same as a layer, for callers who would rather
//! fail at once than wait. Not for repeating a call: the caller does that, with the same claim ids.

mod guarded;
mod policy;

pub use guarded::Guarded;
pub use policy::Policy;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use semel_core::{Admission, Clock, Code, Entropy, Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::event::Event;
use crate::retry::jittered;
use crate::sync::{Mutex, MutexGuard};

/// The conditions under which a breaker opens, and the pauses between tries of the store while it
/// is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of calls in a row that must have failed; 5.
    pub failures: u32,
    /// The time for which they must have failed as well, from the first of them; 2 seconds.
    pub failing_for: Duration,
    /// The time for which the store is left alone at first; 500 milliseconds. Doubled after each
    /// probe that fails, and up to a quarter longer by chance.
    pub first: Duration,
    /// The longest time for which it is left alone; 5 seconds.
    pub most: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failures: 5,
            failing_for: Duration::from_secs(2),
            first: Duration::from_millis(500),
            most: Duration::from_secs(5),
        }
    }
}

/// Keeps calls away from a store that does not answer.
///
/// # Cost   one lock per call of the store
pub struct Breaker {
    settings: Settings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    state: Mutex<State>,
    /// Notified whenever waiting callers may have something to do.
    turned: watch::Sender<()>,
}

/// The breaker's state; times are monotonic.
#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
        /// The time of the first of these failures.
        since: Option<Duration>,
    },
    Open(Opened),
}

#[derive(Debug)]
struct Opened {
    since: Duration,
    /// The time at which the store is tried next.
    until: Duration,
    wait: Duration,
    error: Error,
    is_probed: bool,
}

/// The breaker's answer to a caller: call the store, or wait.
#[derive(Debug)]
pub enum Entry<'a> {
    /// Call the store, and report how that went.
    Call(Permit<'a>),
    /// Leave it alone for now.
    Wait {
        /// The time until it is tried again; another caller may be trying it.
        wait: Duration,
        /// The failure of the last call.
        error: Error,
    },
}

/// The change that a call caused.
#[derive(Clone, Debug)]
pub enum Turn {
    /// The breaker opened: the store is left alone from now on.
    Opened {
        /// The failure of the last call.
        error: Error,
        /// The time for which the store is left alone at first.
        wait: Duration,
    },
    /// The store answers again.
    Closed {
        /// The time for which the breaker was open.
        lasted: Duration,
    },
}

/// The state of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The store answers, as far as is known.
    Closed,
    /// The store is left alone.
    Open {
        /// The time for which it has been left alone so far.
        lasted: Duration,
        /// The code of its last failure.
        code: Code,
    },
}

impl Breaker {
    /// Returns a breaker that is closed.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            settings,
            clock,
            entropy,
            state: Mutex::new(State::CLOSED),
            turned: watch::Sender::new(()),
        }
    }

    /// Asks whether the store may be called now.
    pub fn enter(&self) -> Entry<'_> {
        let now = self.clock.monotonic();
        match &mut *self.state() {
            State::Closed { .. } => Entry::Call(Permit::new(self, false)),
            State::Open(opened) if opened.until <= now && !opened.is_probed => {
                opened.is_probed = !semel_core::planted("U03");
                Entry::Call(Permit::new(self, true))
            }
            State::Open(opened) => Entry::Wait {
                wait: if opened.is_probed {
                    self.settings.most
                } else {
                    opened.until.saturating_sub(now)
                },
                error: opened.error.clone(),
            },
        }
    }

    /// Returns a permit for a call that was begun while the breaker was closed.
    pub(crate) fn made(&self) -> Permit<'_> {
        Permit::new(self, false)
    }

    /// Tells whether the store is left alone.
    pub fn is_open(&self) -> bool {
        matches!(*self.state(), State::Open(_))
    }

    /// Returns the state of the breaker.
    pub fn status(&self) -> Status {
        match &*self.state() {
            State::Closed { .. } => Status::Closed,
            State::Open(opened) => Status::Open {
                lasted: self.clock.monotonic().saturating_sub(opened.since),
                code: opened.error.code(),
            },
        }
    }

    /// Returns the monotonic time at which the store may be called again; `None` means now.
    pub fn next_try(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        match &*self.state() {
            State::Open(opened) if opened.is_probed => Some(now + self.settings.most),
            State::Open(opened) => Some(opened.until).filter(|until| *until > now),
            State::Closed { .. } => None,
        }
    }

    /// Waits for `wait`, or until a probe has ended.
    ///
    /// # Cancel safety   safe
    pub async fn turned_within(&self, wait: Duration) {
        let mut turned = self.turned.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as this breaker.
            _ = turned.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    fn answered(&self) -> Option<Turn> {
        let mut state = self.state();
        let turn = match &*state {
            State::Closed { failures: 0, .. } => return None,
            State::Closed { .. } => None,
            State::Open(opened) => Some(Turn::Closed {
                lasted: self.clock.monotonic().saturating_sub(opened.since),
            }),
        };
        *state = State::CLOSED;
        drop(state);
        if turn.is_some() {
            self.turned.send_replace(());
        }
        turn
    }

    fn failed(&self, error: &Error, is_probe: bool) -> Option<Turn> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        match &mut *state {
            State::Closed { failures, since } => {
                *failures = failures.saturating_add(1);
                let first = *since.get_or_insert(now);
                let settings = &self.settings;
                if *failures < settings.failures || now.saturating_sub(first) < settings.failing_for
                {
                    return None;
                }
                let wait = jittered(&*self.entropy, settings.first);
                *state = State::Open(Opened {
                    since: first,
                    until: now + wait,
                    wait: settings.first,
                    error: error.clone(),
                    is_probed: false,
                });
                let error = error.clone();
                Some(Turn::Opened { error, wait })
            }
            State::Open(opened) if is_probe => {
                opened.wait = (opened.wait * 2).min(self.settings.most);
                opened.until = now + jittered(&*self.entropy, opened.wait);
                opened.error = error.clone();
                opened.is_probed = false;
                drop(state);
                self.turned.send_replace(());
                None
            }
            // The call began before the breaker opened: nothing new.
            State::Open(_) => None,
        }
    }

    /// Lets the next probe begin after one that was dropped: it says nothing.
    fn probe_dropped(&self) {
        if let State::Open(opened) = &mut *self.state() {
            opened.is_probed = false;
        }
        self.turned.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("state", &*self.state())
            .finish_non_exhaustive()
    }
}

impl State {
    const CLOSED: Self = Self::Closed {
        failures: 0,
        since: None,
    };
}

/// Permission to call the store once.
#[derive(Debug)]
#[must_use = "a breaker learns from how the call went"]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_told: bool,
}

impl<'a> Permit<'a> {
    const fn new(breaker: &'a Breaker, is_probe: bool) -> Self {
        Self {
            breaker,
            is_probe,
            is_told: false,
        }
    }

    /// Reports how the call went; returns the change that this caused, for observers.
    ///
    /// A refusal or a damaged record is an answer. An error that is neither an answer nor an outage
    /// changes nothing.
    pub fn tell<T>(mut self, result: &Result<T>) -> Option<Turn> {
        let failed = result.as_ref().err();
        let said = failed.map_or(Said::Answered, Said::by);
        self.is_told = said != Said::Nothing;
        match (said, failed) {
            (Said::Failed, Some(error)) => self.breaker.failed(error, self.is_probe),
            (Said::Answered | Said::Failed, _) => self.breaker.answered(),
            (Said::Nothing, _) => None,
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_told {
            self.breaker.probe_dropped();
        }
    }
}

impl Turn {
    /// Returns the same as an event.
    pub fn event(&self) -> Event<'_> {
        match self {
            Self::Opened { error, wait } => Event::BreakerOpened { error, wait: *wait },
            Self::Closed { lasted } => Event::BreakerClosed { lasted: *lasted },
        }
    }
}

/// The state of a store, as an error tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The store is there.
    Answered,
    /// The store is away, silent, full, or may not be written.
    Failed,
    /// Neither.
    Nothing,
}

impl Said {
    fn by(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout => Self::Failed,
            ErrorKind::InvalidInput
            | ErrorKind::Unsupported
            | ErrorKind::ClaimLost
            | ErrorKind::Conflict
            | ErrorKind::Throttled
            | ErrorKind::Corrupt => Self::Answered,
            ErrorKind::InvalidConfig | ErrorKind::Poisoned | ErrorKind::Internal => Self::Nothing,
        }
    }
}

/// Tells whether an error says that the store is away, silent, full, or may not be written.
pub(crate) fn is_outage(error: &Error) -> bool {
    Said::by(error) == Said::Failed
}

/// Turns a batch in which every item failed with an outage into a failure of the store.
pub(crate) fn all_failed(admissions: Vec<Admission>) -> Result<Vec<Admission>> {
    let failures = admissions.iter().map_while(|admission| match admission {
        Admission::Failed(error) if is_outage(error) => Some(error),
        Admission::Failed(_)
        | Admission::Granted(_)
        | Admission::Replay { .. }
        | Admission::Busy { .. }
        | Admission::Conflict { .. }
        | Admission::Stale { .. }
        | Admission::Parked { .. }
        | Admission::TooOld => None,
    });
    let mut failures: Vec<_> = failures.collect();
    match failures.pop() {
        Some(error) if failures.len() + 1 == admissions.len() => Err(error.clone()),
        Some(_) | None => Ok(admissions),
    }
}

/// Returns the error of a wait that was given up; the call may have been carried out.
pub(crate) fn unanswered(within: Duration) -> Error {
    let message = format!("the store has not answered within {within:?}");
    Error::new(ErrorKind::Timeout, message)
}

/// The longest wait for one answer of a store, unless a layer sets another.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
