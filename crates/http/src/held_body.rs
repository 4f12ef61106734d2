//! Bodies that hold something for as long as they are under way.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// Returns a body that holds `held`, a place or a count, until it has gone: it was sent to its end, or its connection has
/// ended. One that has nothing to send holds nothing.
pub fn held_until_gone<T: Send + Unpin + 'static>(body: Body, held: T) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(HeldBody { body, _held: held })
}

struct HeldBody<T> {
    body: Body,
    _held: T,
}

impl<T: Unpin> HttpBody for HeldBody<T> {
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
