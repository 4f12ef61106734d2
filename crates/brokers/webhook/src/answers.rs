//! Counts of answers, by their status.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;

use super::ingest::{Lanes, Refusals};

/// The answers that the requests of one path were given, by their status.
#[derive(Debug, Default)]
pub struct Answers {
    statuses: [AtomicU64; STATUSES.len()],
    /// The messages that a gate refused.
    pub(crate) refusals: Refusals,
    /// The producers of a path that has a gate.
    lanes: Mutex<Option<Arc<Lanes>>>,
}

impl Answers {
    /// Counts an answer.
    pub(crate) fn count(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status);
        if let Some(count) = place.and_then(|place| self.statuses.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lists every status that a request can be answered with, and how many were.
    pub fn counts(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self
            .statuses
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        STATUSES.iter().map(StatusCode::as_u16).zip(counts)
    }

    /// Lists why a path that takes messages refused some, of which client, and how many requests. A client without a name
    /// is the empty one.
    pub fn refusals(&self) -> Vec<(&'static str, Box<str>, u64)> {
        self.refusals.counts()
    }

    /// Returns how many messages wait at a path that takes them, and how many of those a frozen producer keeps.
    pub fn waiting(&self) -> Option<(u64, u64)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.as_ref().map(|it| (it.waiting(), it.parked()))
    }

    /// Shows the producers of a path from now on.
    pub(crate) fn show(&self, shown: Arc<Lanes>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        *lanes = Some(shown);
    }
}

/// Every status of an answer; what comes to an unknown path belongs to nobody.
const STATUSES: [StatusCode; 10] = [
    StatusCode::OK,
    StatusCode::ACCEPTED,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::SERVICE_UNAVAILABLE,
];
