//! Counts of answers, by their status.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// The answers that the requests of one path were given, by their status.
#[derive(Debug, Default)]
pub struct Answers([AtomicU64; STATUSES.len()]);

impl Answers {
    /// Counts an answer.
    pub(crate) fn count(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status);
        if let Some(count) = place.and_then(|place| self.0.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lists every status that a request can be answered with, and how many were.
    pub fn counts(&self) -> impl Iterator<Item = (u16, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        STATUSES.iter().map(StatusCode::as_u16).zip(counts)
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
