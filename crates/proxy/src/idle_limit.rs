//! Bodies of clients that may stop sending.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// A body that breaks off if its next part takes too long.
pub(crate) struct IdleLimited {
    body: Body,
    idle: Duration,
    /// The end of the wait for a part that was not there when it was asked for: most bodies come with their head.
    until: Option<Pin<Box<Sleep>>>,
}

impl IdleLimited {
    /// Waits for each part of `body` so long at most.
    pub(crate) fn body(body: Body, idle: Duration) -> Body {
        if body.is_end_stream() {
            return body;
        }
        Body::new(Self {
            body,
            idle,
            until: None,
        })
    }
}

impl HttpBody for IdleLimited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.until = None;
            return polled;
        }
        let idle = self.idle;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(idle)));
        until.as_mut().poll(context).map(|()| {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            Some(Err(axum::Error::new(late)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
