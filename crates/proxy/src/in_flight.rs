//! Places of requests, of which there is a bounded number: each is held until its answer has gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
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
        if body.is_end_stream() {
            return body;
        }
        Body::new(Placed { body, _place: self })
    }
}

/// A body that has a place.
struct Placed {
    body: Body,
    _place: Place,
}

impl HttpBody for Placed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
