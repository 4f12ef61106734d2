//! The rules by which a request is genuine: who signs, with what, and how far clocks may differ.

use std::time::Duration;

use axum::http::HeaderMap;
use semel_core::Timestamp;

use super::refusal::Refusal;
use super::scheme::Scheme;
use super::secrets::{InvalidSecret, Secrets};
use super::signature;

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
        let signed = signature::read(&self.scheme, headers)?;
        let Some(signed) = signed else {
            return Ok(());
        };
        let mut keys = self.secrets.keys();
        if !keys.any(|key| signed.is_made_with(key, body)) {
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
