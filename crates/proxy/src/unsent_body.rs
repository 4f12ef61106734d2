//! Bodies that another upstream can be given, as long as nothing of them was read.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};

/// A body that may not have been sent.
pub(crate) struct UnsentBody(Arc<Shared>);

/// The same body on its way to an upstream. If it is dropped before anything of it is read, it can be sent again.
pub(crate) struct OutgoingBody {
    shared: Arc<Shared>,
    body: Option<Body>,
    hint: SizeHint,
    is_empty: bool,
}

struct Shared {
    unread: Mutex<Option<Body>>,
    has_moved: AtomicBool,
}

impl UnsentBody {
    pub(crate) fn new(body: Body) -> Self {
        let unread = Mutex::new(Some(body));
        let has_moved = AtomicBool::new(false);
        Self(Arc::new(Shared { unread, has_moved }))
    }

    /// Returns the body for a request; nothing if an earlier request began to read it.
    pub(crate) fn outgoing(&self) -> Option<OutgoingBody> {
        let unread = self.0.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let body = unread.as_ref()?;
        Some(OutgoingBody {
            shared: Arc::clone(&self.0),
            body: None,
            hint: body.size_hint(),
            is_empty: body.is_end_stream(),
        })
    }

    /// Tells whether a part of the body was read since it was asked last.
    pub(crate) fn has_moved(&self) -> bool {
        self.0.has_moved.swap(false, Ordering::Relaxed)
    }
}

impl Shared {
    fn take(&self) -> Option<Body> {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread.take()
    }
}

impl HttpBody for OutgoingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_none() {
            self.body = Some(self.shared.take().unwrap_or_default());
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_ready() {
            self.shared.has_moved.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body
            .as_ref()
            .map_or(self.is_empty, HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.as_ref().map(HttpBody::size_hint);
        hint.unwrap_or(self.hint)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_that_was_not_read_can_be_sent_again_and_one_that_was_read_cannot() {
        let unsent = UnsentBody::new(Body::from("five!"));
        drop(unsent.outgoing().expect("unread"));
        assert!(!unsent.has_moved());
        let outgoing = unsent.outgoing().expect("again");
        assert_eq!(outgoing.size_hint().exact(), Some(5));
        let read = outgoing.collect().await.expect("a body").to_bytes();
        assert_eq!(read, "five!");
        assert!(unsent.has_moved() && !unsent.has_moved());
        assert!(unsent.outgoing().is_none());
    }

    #[tokio::test]
    async fn an_empty_body_is_empty_before_it_is_read() {
        let unsent = UnsentBody::new(Body::empty());
        let outgoing = unsent.outgoing().expect("unread");
        assert!(outgoing.is_end_stream());
        assert!(unsent.outgoing().is_some());
    }
}
