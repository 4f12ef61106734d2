//! What is done about a store that does not answer: it is left alone, and asked again now and then
//! by one call at a time.
//!
//! A [`Breaker`] belongs to one store and is shared by everybody who calls it. While it is open,
//! nobody calls the store but one probe at a time, so that a store that comes back is not run over.
//! A [`Policy`] is how a pipeline takes part; [`Guarded`] is the same as a layer, for callers who
//! would rather fail at once than wait. Not for repeating a call: whoever calls does that, with the
//! same claim ids.

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

/// When a breaker opens, and how often a store is tried while it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many calls in a row must have failed; 5.
    pub failures: u32,
    /// And for how long, from the first of them; 2 seconds.
    pub failing_for: Duration,
    /// How long the store is left alone at first; 500 milliseconds. Doubled after each probe that
    /// fails, and up to a quarter longer by chance.
    pub first: Duration,
    /// The longest that it is left alone; 5 seconds.
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
    /// Told whenever somebody who waits may have something to do.
    turned: watch::Sender<()>,
}

/// Times are monotonic.
#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
        /// When the first of them was met.
        since: Option<Duration>,
    },
    Open(Opened),
}

#[derive(Debug)]
struct Opened {
    since: Duration,
    /// When the store is tried next.
    until: Duration,
    wait: Duration,
    error: Error,
    is_probed: bool,
}

/// Whether the store may be called.
#[derive(Debug)]
pub enum Entry<'a> {
    /// Call it, and tell how that went.
    Call(Permit<'a>),
    /// Leave it alone for now.
    Wait {
        /// Until it is tried again; somebody else may be trying it.
        wait: Duration,
        /// How the last call failed.
        error: Error,
    },
}

/// What a call changed.
#[derive(Clone, Debug)]
pub enum Turn {
    /// The breaker opened: the store is left alone from now on.
    Opened {
        /// How the last call failed.
        error: Error,
        /// How long it is left alone at first.
        wait: Duration,
    },
    /// The store answers again.
    Closed {
        /// How long the breaker was open.
        lasted: Duration,
    },
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The store answers, as far as is known.
    Closed,
    /// The store is left alone.
    Open {
        /// For how long it has been.
        lasted: Duration,
        /// The code of its last failure.
        code: Code,
    },
}

impl Breaker {
    /// A breaker that is closed.
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

    /// To tell of a call that was made without waiting, when this was closed.
    pub(crate) fn made(&self) -> Permit<'_> {
        Permit::new(self, false)
    }

    /// Whether the store is left alone.
    pub fn is_open(&self) -> bool {
        matches!(*self.state(), State::Open(_))
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        match &*self.state() {
            State::Closed { .. } => Status::Closed,
            State::Open(opened) => Status::Open {
                lasted: self.clock.monotonic().saturating_sub(opened.since),
                code: opened.error.code(),
            },
        }
    }

    /// When the store may be called again, in monotonic time; `None` where it may be now.
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
            // Begun before it opened: nothing new.
            State::Open(_) => None,
        }
    }

    /// A probe that nobody waited for says nothing; the next one may begin.
    fn probe_dropped(&self) {
        if let State::Open(opened) = &mut *self.state() {
            opened.is_probed = false;
        }
        self.turned.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done by a panic.
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

/// Leave to call the store once.
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

    /// Tells how the call went; what that changed is for whoever observes.
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
    /// The same as an event.
    pub fn event(&self) -> Event<'_> {
        match self {
            Self::Opened { error, wait } => Event::BreakerOpened { error, wait: *wait },
            Self::Closed { lasted } => Event::BreakerClosed { lasted: *lasted },
        }
    }
}

/// What an error says about the store behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// It is there.
    Answered,
    /// It is away, silent, full, or may not be written.
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

/// Whether an error says that the store is away, silent, full, or may not be written.
pub(crate) fn is_outage(error: &Error) -> bool {
    Said::by(error) == Said::Failed
}

/// What fails for every item alike is a failure of the store.
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

/// The wait for an answer was given up; the call may have been carried out.
pub(crate) fn unanswered(within: Duration) -> Error {
    let message = format!("the store has not answered within {within:?}");
    Error::new(ErrorKind::Timeout, message)
}

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
