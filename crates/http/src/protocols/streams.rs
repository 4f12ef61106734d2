//! The answers of a connection of HTTP/2, none of which waits for long for its client to take it: the client opens the
//! window of each, and may leave it shut.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::service::Service;
use tokio::task_local;
use tokio::time::sleep;

task_local! {
    /// The answer of the stream whose task this is.
    static PROGRESS: Arc<Progress>;
}

/// Runs the streams of a connection. One whose answer finds no room for a time is reset, and all that it holds is dropped.
#[derive(Clone)]
pub(crate) struct Streams {
    running: Arc<AtomicUsize>,
    limit: Duration,
}

impl Streams {
    /// Resets a stream whose answer finds no room for `limit`, which is noticed within twice that time.
    pub(crate) fn new(limit: Duration) -> Self {
        let running = Arc::default();
        Self { running, limit }
    }

    /// Waits until no stream runs any more, and then for as long as a client has to take what is left of their answers.
    pub(crate) async fn gone(&self) {
        let mut quiet = 0;
        while quiet < 2 {
            sleep(self.limit).await;
            let is_quiet = self.running.load(Relaxed) == 0;
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let running = Running::new(&self.running);
        let (progress, limit) = (Arc::<Progress>::default(), self.limit);
        let stream = PROGRESS.scope(Arc::clone(&progress), stream);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = stream => {}
                () = progress.stalled(limit) => {}
            }
            drop(running);
        });
    }
}

/// One of the streams that run, until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(running: &Arc<AtomicUsize>) -> Self {
        running.fetch_add(1, Relaxed);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The progress of an answer: it changes with each part that is taken, and is odd while one waits for room.
#[derive(Default)]
struct Progress(AtomicU64);

impl Progress {
    /// Notes whether a part waits for room from now on.
    fn moved(&self, waits: bool) {
        let next = (self.0.load(Relaxed) | 1) + 1;
        self.0.store(next | u64::from(waits), Relaxed);
    }

    /// Waits until a part has found no room for this time.
    async fn stalled(&self, limit: Duration) {
        let mut before = 0;
        loop {
            sleep(limit).await;
            let now = self.0.load(Relaxed);
            if now % 2 == 1 && now == before {
                return;
            }
            before = now;
        }
    }
}

/// A service whose answers are watched by the [`Streams`] that they run in.
#[derive(Clone)]
pub(crate) struct Watched<S>(pub(crate) S);

impl<S, B> Service<Request<Incoming>> for Watched<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Future: Send + 'static>,
    B: HttpBody<Data = Bytes> + Send + 'static,
{
    type Response = Response<WatchedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| WatchedBody {
                body: Box::pin(body),
                rest: Bytes::new(),
                progress: PROGRESS.try_with(Arc::clone).unwrap_or_default(),
            }))
        })
    }
}

/// The body of an answer, in parts that are short enough to wait for room.
pub(crate) struct WatchedBody<B> {
    body: Pin<Box<B>>,
    /// The rest of a longer part.
    rest: Bytes,
    progress: Arc<Progress>,
}

impl<B: HttpBody<Data = Bytes>> HttpBody for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            let polled = this.body.as_mut().poll_frame(context);
            let waits = matches!(polled, Poll::Ready(Some(Ok(_))));
            this.progress.moved(waits);
            let Poll::Ready(Some(Ok(frame))) = polled else {
                return polled;
            };
            match frame.into_data() {
                Ok(data) => this.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        } else {
            this.progress.moved(true);
        }
        let part = this.rest.len().min(MOST_PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

/// The longest part of an answer, which is the longest frame that every client takes. What is handed over as the last one
/// stays in memory until the client takes it or the connection ends.
const MOST_PART_BYTES: usize = 16 << 10;
