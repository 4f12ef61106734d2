//! A store that remembers finished keys as bits of a filter: for telemetry, where a known share of losses
//! is acceptable and an exact record per key is not.
//!
//! **It takes a new key for a known one now and then**, at most at the declared rate, and then the effect
//! of that key never happens. Nothing else in Semel does that, so it is never a default, a pipeline asks
//! for it by name, and classes that promise more are refused ([`Settings::check`]).
//!
//! Unfinished operations are kept exactly, in memory: claims, leases, attempts, doubts. Messages that are
//! set aside go to a store that keeps them. A finished key is a few bits in memory, in two generations,
//! for at least one window and at most two; these bits do not survive a restart, and other processes know
//! nothing of them. Outcomes, fingerprints and transport ids of finished keys are gone. Not for version
//! gates, and not for effects in the store's transaction or with a mark: it has none.

mod exact_records;
mod filter;
mod recent;
mod rotating;
mod statistics;
mod store;

pub use statistics::Statistics;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use semel_core::{
    Admission, ClaimRequest, Clock, Duplicate, Entropy, Error, ErrorKind, OpId, Result, Settled,
    Settlement, StateKind, Step, Store, Timestamp,
};

use crate::effect::{Class, OnDoubt};
use crate::sync::{Mutex, MutexGuard};
use exact_records::ExactRecords;
use recent::Recent;
use rotating::Rotating;

/// A store whose finished keys are bits of a filter, over a store that keeps messages that are set aside.
///
/// # Guarantee   a key that was completed is skipped for at least its window; of keys that were not, at
/// most the declared share is skipped
/// # Cost        memory alone: about 18 bits a key at a rate of one in a thousand, twice
pub struct Approximate<S> {
    kept: S,
    clock: Arc<dyn Clock>,
    settings: Settings,
    state: Mutex<State>,
}

/// The declarations of a pipeline, and the loss that it accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The least time for which a finished key is remembered: the window of the pipeline.
    pub window: Duration,
    /// New keys in one window. Up to four times as many are remembered, at the same error rate and in
    /// more memory; beyond that, claims of new keys fail until the window is over.
    pub keys: u64,
    /// The share of new keys that may be taken for known, and so be lost; above zero, at most a tenth.
    pub error_rate: f64,
    /// The name of the pipeline that accepts this although its class promises more.
    pub accepted_by: Option<Box<str>>,
}

impl Settings {
    /// Returns settings for `keys` in a `window`, of which one in a thousand may be lost.
    pub const fn new(window: Duration, keys: u64) -> Self {
        Self {
            window,
            keys,
            error_rate: 0.001,
            accepted_by: None,
        }
    }

    /// Checks that a pipeline of this class can use such a store.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: no keys or no window to size the store by, or an invalid error rate.
    /// `Unsupported`: a version gate; a class other than unkeyed that repeats its doubts, unless
    /// [`Settings::accepted_by`] names the pipeline
    pub fn check(&self, pipeline: &str, class: Class, has_gate: bool) -> Result<()> {
        self.check_size()?;
        if has_gate {
            let message = "an approximate store has no version gate; use an exact store";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let promise = match class {
            Class::Unkeyed(OnDoubt::Repeat) => return Ok(()),
            _ if semel_core::planted("A05") => return Ok(()),
            Class::Transactional => "transactional",
            Class::Streamed => "streamed",
            Class::Keyed { .. } => "keyed",
            Class::Unkeyed(OnDoubt::Park) => "unkeyed and parks its doubts",
        };
        if self.accepted_by.as_deref() == Some(pipeline) {
            return Ok(());
        }
        let message = format!(
            "an approximate store loses effects, and this pipeline is {promise}: use an exact store, or \
             accept the loss for this pipeline by name (`accept_loss = true`)"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Returns the bytes of memory for the declared keys.
    pub fn bytes(&self) -> u64 {
        Rotating::bytes_for(self.keys, self.error_rate)
    }

    fn check_size(&self) -> Result<()> {
        let fault = if self.keys == 0 {
            "`keys` must say how many new keys come in one window"
        } else if self.window.is_zero() {
            "the window must be longer than zero"
        } else if !(MIN_ERROR_RATE..=MAX_ERROR_RATE).contains(&self.error_rate) {
            "`error_rate` must be from 0.000000001 to 0.1"
        } else if self.bytes() > MOST_BYTES {
            "so many keys at this error rate need over 64 GiB of memory; use an exact store"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidConfig, fault))
    }
}

/// Everything that the store remembers.
#[derive(Debug)]
struct State {
    unfinished: ExactRecords,
    finished: Rotating,
    recent: Recent,
    counts: statistics::Counts,
}

impl<S: Store> Approximate<S> {
    /// Returns an empty store. Messages that are set aside are kept in `kept`.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`, as [`Settings::check`]
    pub fn new(
        kept: S,
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<Self> {
        settings.check_size()?;
        let (mut low, mut high) = ([0; 8], [0; 8]);
        entropy.fill(&mut low);
        entropy.fill(&mut high);
        let salt = (u64::from_le_bytes(low), u64::from_le_bytes(high));
        let declared = (settings.keys, settings.error_rate);
        let finished = Rotating::new(declared, settings.window, clock.monotonic(), salt);
        Ok(Self {
            kept,
            clock,
            settings,
            state: Mutex::new(State {
                unfinished: ExactRecords::default(),
                finished,
                recent: Recent::default(),
                counts: statistics::Counts::default(),
            }),
        })
    }

    /// Returns the store that keeps messages that are set aside.
    pub const fn kept(&self) -> &S {
        &self.kept
    }

    /// Returns counts of the skipped keys, and the measured rate of errors.
    pub fn statistics(&self) -> Statistics {
        let (state, _) = self.locked();
        let State {
            unfinished,
            finished,
            counts,
            ..
        } = &*state;
        counts.statistics(finished, unfinished.len(), self.settings.error_rate)
    }

    /// Returns the state and the time, which is read under the lock so that it never runs backwards.
    fn locked(&self) -> (MutexGuard<'_, State>, Timestamp) {
        // A panic leaves nothing half done.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.finished.rotate(self.clock.monotonic());
        (state, self.clock.now())
    }

    /// Returns the time until old keys go and there is room for new ones.
    fn until_room(&self, state: &State) -> Duration {
        let rotates_at = state.finished.rotates_at();
        rotates_at.saturating_sub(self.clock.monotonic())
    }
}

impl State {
    /// Decides a claim. `wait` is the time until there is room for more.
    fn claim(&mut self, request: &ClaimRequest, now: Timestamp, wait: Duration) -> Admission {
        self.counts.probe(&self.finished);
        if request.gate.is_some() {
            let message = "an approximate store has no version gate";
            return Admission::Failed(Error::new(ErrorKind::Unsupported, message));
        }
        let id = request.operation.id();
        let found = self.unfinished.get(&id);
        if found.is_none_or(|record| record.is_forgotten(now)) {
            let place = self.finished.place(&id);
            if self.finished.contains(place) {
                self.counts.skipped += 1;
                return Admission::Replay {
                    outcome: None,
                    duplicate: Duplicate::Unknown,
                };
            }
            let running = self.unfinished.len() as u64;
            if !self.finished.has_room(running + 1) {
                self.counts.refused += 1;
                return Admission::Failed(full().retry_after(wait));
            }
            if semel_core::planted("A03") {
                self.finished.insert(place);
            }
        }
        self.unfinished.claim(id, request, now)
    }

    fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        let id = settlement.operation.id();
        let settled = self.unfinished.settle(id, settlement, now);
        match (&settlement.step, &settled) {
            (_, Settled::Now(StateKind::Completed)) => {
                self.finish(id);
                self.recent.note(id, settlement.claim_id);
                settled
            }
            (_, Settled::Fenced { found: None })
                if self.finished.contains(self.finished.place(&id)) =>
            {
                // A completion whose answer was lost is harmless to repeat. The bits do not say whose
                // completion theirs was, so a claimant that is not known to have completed is superseded.
                let is_repeated = matches!(settlement.step, Step::Complete { .. })
                    && self.recent.is_by(&id, settlement.claim_id);
                if is_repeated {
                    Settled::Now(StateKind::Completed)
                } else {
                    Settled::Fenced {
                        found: Some(StateKind::Completed),
                    }
                }
            }
            (
                Step::Start { .. }
                | Step::Complete { .. }
                | Step::Release { .. }
                | Step::Fail { .. },
                Settled::Now(_) | Settled::Fenced { .. } | Settled::Failed(_),
            ) => settled,
        }
    }

    /// Turns a completed operation into bits.
    fn finish(&mut self, id: OpId) {
        let place = self.finished.place(&id);
        self.finished.insert(place);
        self.unfinished.remove(&id);
        self.counts.finished += 1;
    }
}

impl<S: fmt::Debug> fmt::Debug for Approximate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approximate")
            .field("kept", &self.kept)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn full() -> Error {
    let message =
        "the approximate store holds four times the keys that were declared; raise `keys`";
    Error::new(ErrorKind::Throttled, message)
}

const MIN_ERROR_RATE: f64 = 1e-9;
const MAX_ERROR_RATE: f64 = 0.1;
const MOST_BYTES: u64 = 64 << 30;
