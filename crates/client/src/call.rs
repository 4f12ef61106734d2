//! One call, and the state that all calls of a service share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, request};
use semel_core::{Clock, Entropy};
use semel_engine::effect::within_provider_window;
use semel_gateway::Past;
use tokio::time::Instant;

use crate::settings::Settings;

/// The origin of an answer, among the extensions of each that a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFrom {
    /// The server carried the request out, or refused it, in this call.
    Server {
        /// The number of attempts that this call made.
        attempts: u32,
    },
    /// The server says that it is the stored answer to an earlier attempt.
    ServerRecord {
        /// The number of attempts that this call made.
        attempts: u32,
    },
    /// The store of intents: nothing was sent.
    Store,
}

/// State that all calls of one service share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The window in seconds that the server advertised last.
    pub(crate) advertised_secs: AtomicU64,
    pub(crate) counters: Counters,
}

/// The numbers of calls and requests of a layer and its clones, from their beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that sent something; all requests of a call have one key.
    pub calls: u64,
    /// Requests that were sent: one per attempt.
    pub requests: u64,
    /// Calls that ended with an answer which the server says it had stored.
    pub server_replays: u64,
    /// Calls that were answered from the store of intents, and sent nothing.
    pub store_replays: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) server_replays: AtomicU64,
    pub(crate) store_replays: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            calls: of(&self.calls),
            requests: of(&self.requests),
            server_replays: of(&self.server_replays),
            store_replays: of(&self.store_replays),
        }
    }
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The earlier attempts under the key of a request, by other calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    pub(crate) past: Past,
    /// The time since the first of them.
    pub(crate) age: Duration,
}

impl Prior {
    pub(crate) const NONE: Self = Self {
        past: Past::Clean,
        age: Duration::ZERO,
    };
}

/// A result, and whether it speaks for every attempt under the key.
pub(crate) struct Answered {
    pub(crate) answer: Response<Bytes>,
    pub(crate) is_outcome: bool,
}

/// One call.
pub(crate) struct Call<S> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) service: S,
    pub(crate) head: request::Parts,
    pub(crate) body: Bytes,
    /// The key that is sent, if there is one.
    pub(crate) key: Option<Box<str>>,
    pub(crate) prior: Prior,
}

impl<S> Call<S> {
    /// Returns the time by which a key may be sent again, if the server recognises keys.
    pub(crate) fn window_end(&self, now: Instant) -> Option<Instant> {
        let usable = self.shared.settings.usable_window()?;
        let advertised = self.shared.advertised_secs.load(Ordering::Relaxed);
        let usable = usable.min(within_provider_window(Duration::from_secs(advertised)));
        Some(later(now, usable.saturating_sub(self.prior.age)))
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.key.is_some() && self.shared.settings.window.is_some()
    }
}

/// Returns the time that much later; a year later, if that is too far off.
pub(crate) fn later(than: Instant, by: Duration) -> Instant {
    than.checked_add(by).unwrap_or_else(|| than + LONGEST)
}

const LONGEST: Duration = Duration::from_secs(366 * 86_400);
