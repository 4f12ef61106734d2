//! The ways in which a key comes to a store, and the words for each.

use semel_core::ClaimId;
use serde::{Deserialize, Serialize};

/// The way in which a key comes to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// In messages, which a source delivers to the workers of a pipeline.
    Delivery,
    /// In the claims of clients. Nothing is kept of what they ask for, and nobody delivers it again.
    Claim,
    /// In the requests of callers, which come through a gateway. Nothing is kept of them, and only their callers send
    /// them again.
    Request,
}

impl Arrival {
    /// Returns whether clients bring the key, and no source of messages.
    pub const fn is_of_clients(self) -> bool {
        match self {
            Self::Delivery => false,
            Self::Claim | Self::Request => true,
        }
    }

    /// Returns one of three texts: that about a delivery, about a claim, or about a request.
    pub const fn of<'t>(self, delivery: &'t str, claim: &'t str, request: &'t str) -> &'t str {
        match self {
            Self::Delivery => delivery,
            Self::Claim => claim,
            Self::Request => request,
        }
    }

    /// Returns the name of whoever has the claim: that of its process, which only a worker has.
    pub(super) fn holder(self, claim: ClaimId) -> String {
        match self {
            Self::Delivery => format!("worker {}", claim.claimant()),
            Self::Claim => "a client".to_owned(),
            Self::Request => "a gateway".to_owned(),
        }
    }

    /// Returns the same at the beginning of a sentence.
    pub(super) fn holder_first(self, claim: ClaimId) -> String {
        match self {
            Self::Delivery => format!("Worker {}", claim.claimant()),
            Self::Claim => "A client".to_owned(),
            Self::Request => "A gateway".to_owned(),
        }
    }

    /// Returns the kind of whoever has the claim.
    pub(super) const fn kind(self) -> &'static str {
        self.of("worker", "client", "gateway")
    }

    /// Returns what decides the operation next.
    pub(super) const fn next(self) -> &'static str {
        self.of(
            "the next delivery",
            "the next claim of the key",
            "the next request under the key",
        )
    }

    /// Returns what has the key.
    pub(super) const fn bearer(self) -> &'static str {
        self.of(
            "a message with this key",
            "a claim of this key",
            "a request under this key",
        )
    }
}
