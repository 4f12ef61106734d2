//! Places of requests, of which there is a bounded number: each is held until its answer has gone.

use std::sync::Arc;

use axum::body::Body;
use semel_http::held_until_gone;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The place of a request among those in hand. It is free once its last clone is dropped: that of the client's connection,
/// and that of the call of the upstream, which may outlive it.
#[derive(Clone)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Place {
    /// Takes one, if there is one.
    pub(crate) fn take(places: &Arc<Semaphore>) -> Option<Self> {
        let permit = Arc::clone(places).try_acquire_owned().ok()?;
        Some(Self {
            _permit: Arc::new(permit),
        })
    }

    /// Holds it until `body` has gone.
    pub(crate) fn until_gone(self, body: Body) -> Body {
        held_until_gone(body, self)
    }
}
