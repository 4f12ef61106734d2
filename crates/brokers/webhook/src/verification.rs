//! The rules by which a request is genuine: who signs, with what, and how far clocks may differ.

use std::time::Duration;

use axum::http::HeaderMap;
use semel_core::Timestamp;

use super::refusal::Refusal;
use super::scheme::Scheme;
use super::secrets::{InvalidSecret, Secrets};
use super::signature::{self, Comparison, Signed};

/// The rules by which a request is genuine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    scheme: Scheme,
    secrets: Secrets,
    tolerance: Duration,
}

impl Verification {
    /// Accepts requests that a provider has signed with one of these secrets, one a line. Clocks may differ by
    /// [`Verification::TOLERANCE`].
    ///
    /// # Errors
    ///
    /// A text without secrets, or with a line that is none.
    pub fn new(scheme: Scheme, secrets: &str) -> Result<Self, InvalidSecret> {
        let secrets = Secrets::read(&scheme, secrets)?;
        Ok(Self {
            scheme,
            secrets,
            tolerance: Self::TOLERANCE,
        })
    }

    /// Accepts every request.
    pub fn none() -> Self {
        Self {
            scheme: Scheme::None,
            secrets: Secrets::none(),
            tolerance: Self::TOLERANCE,
        }
    }

    /// The same rules with this distance between the clocks, for schemes that sign the time.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// The distance between the clocks that providers recommend.
    pub const TOLERANCE: Duration = Duration::from_secs(300);

    /// The way of signing.
    pub const fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Checks a request that came at `now`.
    ///
    /// # Errors
    ///
    /// The reason why it is not genuine.
    pub fn check(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), Refusal> {
        let mut check = self.begin(headers)?;
        check.add(body);
        check.end(now)
    }

    /// Begins to check a request whose body is still to come.
    ///
    /// # Errors   the reason why it cannot be genuine, whatever its body is
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Result<Check, Refusal> {
        let signed = signature::read(&self.scheme, headers)?;
        let comparisons = signed.as_ref().map_or_else(Vec::new, |signed| {
            let keys = self.secrets.keys();
            keys.filter_map(|key| signed.comparison(key)).collect()
        });
        Ok(Check {
            signed,
            comparisons,
            tolerance: self.tolerance,
        })
    }
}

/// The check of a request whose body arrives.
pub(crate) struct Check {
    /// Nothing if every request is accepted.
    signed: Option<Signed>,
    /// One for each secret.
    comparisons: Vec<Comparison>,
    tolerance: Duration,
}

impl Check {
    /// Adds what has arrived of the body. So a long one costs its time bit by bit, and nobody else waits for the whole.
    pub(crate) fn add(&mut self, part: &[u8]) {
        for comparison in &mut self.comparisons {
            comparison.add(part);
        }
    }

    /// Tells whether the whole request, which came at `now`, is genuine.
    ///
    /// # Errors   the reason why it is not
    pub(crate) fn end(self, now: Timestamp) -> Result<(), Refusal> {
        let Some(signed) = self.signed else {
            return Ok(());
        };
        if !self.comparisons.iter().any(|it| signed.is_that_of(it)) {
            return Err(Refusal::Wrong(signed.header));
        }
        let Some(at) = signed.at else {
            return Ok(());
        };
        let (late, early) = (now.since(at), at.since(now));
        let off = late.max(early);
        if off > self.tolerance {
            return Err(Refusal::Untimely {
                off,
                tolerance: self.tolerance,
                is_ahead: early > late,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
