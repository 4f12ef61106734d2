//! Readings of the store: a bounded number at once, each for a bounded time.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use semel_core::{AnyStore, Code};
use semel_http::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::settings::Lent;

/// The store, and the places of those that read it.
#[derive(Debug)]
pub(crate) struct Readings {
    store: watch::Receiver<Option<Lent>>,
    places: Arc<Semaphore>,
}

/// The subject of a reading, by which a request can be narrowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Records and messages of the store.
    Records,
    /// The outboxes of relays.
    Outboxes,
    /// Things that are named, or the store as a whole.
    Named,
}

/// One of the readings that go on.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) store: AnyStore,
    /// True if the store takes audit entries about itself.
    pub(crate) has_trail: bool,
    subject: Subject,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

impl Readings {
    pub(crate) fn new(store: watch::Receiver<Option<Lent>>) -> Self {
        Self {
            store,
            places: Arc::new(Semaphore::new(READINGS)),
        }
    }

    /// Returns the store.
    ///
    /// # Errors
    ///
    /// 503 `store-unavailable` while the store is not open
    pub(crate) fn lent(&self) -> Result<Lent, Problem> {
        let lent = self.store.borrow().clone();
        lent.ok_or_else(|| {
            let code = Code::StoreUnavailable.as_str();
            let detail = "the store is not open yet; /v1/status says what the worker waits for";
            later(code, detail)
        })
    }

    /// Begins a reading, once there is a place for it.
    ///
    /// # Errors
    ///
    /// 503 `store-unavailable` while the store is not open, 503 `throttled` if no place becomes free in time
    pub(crate) async fn begin(&self) -> Result<Reading, Problem> {
        let Lent { store, trail, .. } = self.lent()?;
        let place = Arc::clone(&self.places).acquire_owned();
        let Ok(Ok(place)) = timeout(PLACE, place).await else {
            let detail = "too many others read the store; ask again";
            return Err(later(Code::Throttled.as_str(), detail));
        };
        Ok(Reading {
            store,
            has_trail: trail.is_some(),
            subject: Subject::Records,
            end: Instant::now() + PATIENCE,
            _place: place,
        })
    }
}

impl Reading {
    /// The same of this subject.
    pub(crate) const fn of(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// Waits for an answer of the store, for as long as the reading may take.
    ///
    /// # Errors
    ///
    /// Those of the store; 503 `timeout`
    pub(crate) async fn within<T>(
        &self,
        answer: impl Future<Output = semel_core::Result<T>>,
    ) -> Result<T, Problem> {
        let Ok(answer) = timeout_at(self.end, answer).await else {
            let (who, advice) = match self.subject {
                Subject::Records => (
                    "store",
                    "narrow it down with `pipeline` and `tenant`, or use",
                ),
                Subject::Outboxes => ("outbox of a relay", "name one with `relay`, or use"),
                Subject::Named => ("store", "ask again, or use"),
            };
            let detail = format!(
                "the {who} did not answer within {} s; {advice} the command line, which has no such bound",
                PATIENCE.as_secs()
            );
            return Err(later(Code::Timeout.as_str(), detail));
        };
        answer.map_err(|error| Problem::from(&error))
    }

    /// Tells whether a page is to end here, full or not.
    pub(crate) fn is_long(&self) -> bool {
        Instant::now() + PATIENCE - SHORT > self.end
    }
}

pub(crate) fn later(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
        .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

/// The readings that go on at once. Others wait.
pub const READINGS: usize = 2;
/// The longest time of a reading.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for a place.
const PLACE: Duration = Duration::from_secs(2);
/// The time after which a page of a list ends, although there is room on it.
const SHORT: Duration = Duration::from_secs(1);
