//! The wait for a store on a server that is away while a worker, or a run of one of its pipelines, starts: a start is tried
//! again here and nowhere else, and the wait is told of once. Not for what runs: that asks its store again by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_backends::store;
use semel_config::StoreUrl;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout};

use crate::notice::{Notice, Reporter};
use crate::status::Health;
use crate::window_guard::PROMPT;

/// The wait of a worker for its store.
pub(crate) struct StoreWait {
    url: StoreUrl,
    health: Arc<Health>,
    reporter: Arc<dyn Reporter>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// The starts that are under way.
    under_way: usize,
    /// The time since which the store is away, once that was told.
    away_since: Option<Instant>,
}

/// A start, which is tried until it is made.
pub(crate) trait Start {
    /// The result.
    type Made;
    /// The reason why it cannot be made now.
    type Failure;

    /// Tries it once. Dropped if it is called off: nothing has begun then.
    fn attempt(&mut self) -> impl Future<Output = Result<Self::Made, Self::Failure>> + Send;

    /// Takes note of a failure, and returns the pause before it is tried again.
    ///
    /// # Errors   that of a failure that no wait mends
    fn fails(&mut self, failure: Self::Failure) -> Result<Duration>;
}

impl StoreWait {
    pub(crate) fn new(url: &StoreUrl, health: &Arc<Health>, reporter: &Arc<dyn Reporter>) -> Self {
        Self {
            url: url.clone(),
            health: Arc::clone(health),
            reporter: Arc::clone(reporter),
            told: Mutex::default(),
        }
    }

    /// Tries a start until it is made; returns nothing if it is called off before.
    ///
    /// # Errors   those of the start that no wait mends
    pub(crate) async fn until_made<S: Start>(
        &self,
        start: &mut S,
        called_off: impl Future<Output = ()> + Send,
    ) -> Result<Option<S::Made>> {
        let _under_way = self.begins();
        tokio::pin!(called_off);
        loop {
            let tried = tokio::select! {
                biased;
                () = &mut called_off => return Ok(None),
                tried = start.attempt() => tried,
            };
            let pause = match tried {
                Ok(made) => return Ok(Some(made)),
                Err(failure) => start.fails(failure)?,
            };
            tokio::select! {
                biased;
                () = &mut called_off => return Ok(None),
                () = sleep(pause) => {}
            }
        }
    }

    /// Makes a call of the store, as a part of a start, and tells if a server has not answered after a while.
    ///
    /// # Errors   those of the call
    pub(crate) async fn asks<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        tokio::pin!(call);
        if let Ok(answered) = timeout(PROMPT, &mut call).await {
            return answered;
        }
        self.is_silent();
        call.await
    }

    /// Tells whether a call of the store failed in a way that is waited for. Only a server comes back by itself.
    pub(crate) fn is_for(&self, error: &Error) -> bool {
        self.url.is_server() && is_away(error)
    }

    /// Takes note of such a failure, and returns the pause before the start is tried again.
    pub(crate) fn fails(&self, error: &Error) -> Duration {
        self.health.store_failed(error);
        let mut told = self.told();
        // Where the breaker is open, everybody has heard of it.
        let is_news = told.away_since.is_none() && !self.health.is_breaker_open();
        if is_news {
            told.away_since = Some(Instant::now());
        }
        drop(told);
        if is_news {
            self.health.awaits_store(true);
            let error = store::at_store(&self.url, error.clone());
            self.reporter.report(&Notice::StoreAway(&error));
        }
        RETRY
    }

    /// Takes note that a server has not answered yet.
    fn is_silent(&self) {
        let is_told = self.told().away_since.is_some();
        if self.url.is_server() && !is_told {
            let silent = format!("no answer within {} s", PROMPT.as_secs());
            let silent = Error::new(ErrorKind::Unavailable, silent);
            self.fails(&silent.with_code(Code::StoreUnavailable));
        }
    }

    /// Takes note that the store has answered all that a start asks it.
    pub(crate) fn answers(&self) {
        let since = self.told().away_since.take();
        if let Some(since) = since {
            self.health.awaits_store(false);
            self.health.store_answers();
            let lasted = since.elapsed();
            self.reporter.report(&Notice::StoreBack { lasted });
        }
    }

    fn begins(&self) -> UnderWay<'_> {
        self.told().under_way += 1;
        UnderWay(self)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A start that is under way, until this is dropped.
struct UnderWay<'w>(&'w StoreWait);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut told = self.0.told();
        told.under_way -= 1;
        let is_over = told.under_way == 0 && told.away_since.take().is_some();
        drop(told);
        if is_over {
            // Whoever waited is called off: from here on the probe asks the store.
            self.0.health.awaits_store(false);
        }
    }
}

/// Tells whether the store may become fit without any action at this worker: its server is away, or has a store
/// that `semel store migrate` brings forward. Every other error is wrong now and stays so: tables that are
/// foreign or newer, and a place that takes no writes or has no room, which a person should see before anything
/// begins.
fn is_away(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            matches!(error.code(), Code::StoreUnavailable | Code::Timeout)
        }
        ErrorKind::ClaimLost
        | ErrorKind::Conflict
        | ErrorKind::Corrupt
        | ErrorKind::Internal
        | ErrorKind::InvalidConfig
        | ErrorKind::InvalidInput
        | ErrorKind::Poisoned
        | ErrorKind::Throttled
        | ErrorKind::Unsupported => false,
    }
}

/// The time between two tries.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
