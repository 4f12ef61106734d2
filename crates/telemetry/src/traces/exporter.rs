//! Sends spans to a collector: a bounded queue, one task, batches. Whatever cannot be sent is counted and forgotten.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prost::Message;
use semel_engine::trace::Spans;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::otlp::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans, Span,
};
use super::{LostSpans, TraceSettings, Traces};

/// The way to a collector.
pub trait Transport: Send + Sync + 'static {
    /// Sends the body of one request, of type `application/x-protobuf`, and returns that of the answer.
    ///
    /// # Errors
    ///
    /// The collector cannot be reached, or did not take it.
    ///
    /// # Cancel safety
    ///
    /// The request may have been sent.
    fn post(&self, body: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Refused>> + Send;
}

/// The reason why a collector has not taken spans: one line without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// News of an exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The collector takes no spans; told once.
    Away(String),
    /// More spans are made than it takes; told once, until all fit again.
    Overflows,
    /// It took a part of them only; told once.
    TookPart(String),
    /// It takes them again.
    Back {
        /// The spans that were lost so far.
        lost: u64,
    },
}

/// A function that is called with news, on the task of the exporter.
pub type OnNews = Arc<dyn Fn(News) + Send + Sync>;

/// The task that sends spans. Dropping it ends the task; what waits is lost, and not counted.
pub struct Exporter {
    traces: Traces,
    /// The time of the close.
    closing: watch::Sender<Option<Instant>>,
    task: JoinSet<()>,
}

/// The spans of attempts on their way to the exporter.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    sender: mpsc::Sender<Vec<Span>>,
    lost: LostSpans,
    /// Spans were lost for want of room since the task last looked.
    overflowed: Arc<AtomicBool>,
}

impl Queue {
    /// Adds the spans of an attempt in the form that they are sent in, which is made only if there is room. The last
    /// quarter of the room is for hard cases.
    pub(super) fn offer(&self, spans: &Spans<'_>, made: impl FnOnce() -> Vec<Span>) {
        self.offer_all(spans.are_always_kept(), spans.count(), made);
    }

    /// Adds so many spans, which are a hard case or not.
    pub(super) fn offer_all(&self, is_hard: bool, count: usize, made: impl FnOnce() -> Vec<Span>) {
        let has_room = is_hard || self.sender.capacity() > KEPT_FREE;
        match self.sender.try_reserve() {
            Ok(place) if has_room => place.send(made()),
            Err(TrySendError::Closed(())) => self.lost.add(count),
            Ok(_) | Err(TrySendError::Full(())) => {
                self.lost.add(count);
                self.overflowed.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Exporter {
    /// Begins to send. Needs a tokio runtime.
    pub fn begin(
        settings: TraceSettings,
        transport: impl Transport,
        lost: LostSpans,
        on_news: OnNews,
    ) -> Self {
        let (sender, queue) = mpsc::channel(MOST_QUEUED);
        let (closing, closed) = watch::channel(None);
        let overflowed = Arc::new(AtomicBool::new(false));
        let settings = Arc::new(settings);
        let sending = Sending {
            settings: Arc::clone(&settings),
            transport,
            queue,
            closed,
            lost: lost.clone(),
            on_news,
            failures: 0,
            overflowed: Arc::clone(&overflowed),
            is_overflowing: false,
            has_told_of_part: false,
        };
        let mut task = JoinSet::new();
        task.spawn(sending.run());
        Self {
            traces: Traces::new(
                settings,
                Queue {
                    sender,
                    lost,
                    overflowed,
                },
            ),
            closing,
            task,
        }
    }

    /// Returns the maker of observers.
    pub const fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Sends what waits, for two seconds at most, and ends. Spans that come later are lost.
    ///
    /// # Cancel safety
    ///
    /// Safe: the task ends by itself, or with the exporter.
    pub async fn close(mut self) {
        self.closing.send_replace(Some(Instant::now()));
        while self.task.join_next().await.is_some() {}
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

/// The state of the task.
struct Sending<T> {
    settings: Arc<TraceSettings>,
    transport: T,
    queue: mpsc::Receiver<Vec<Span>>,
    closed: watch::Receiver<Option<Instant>>,
    lost: LostSpans,
    on_news: OnNews,
    /// The failures since the collector last took something.
    failures: u32,
    overflowed: Arc<AtomicBool>,
    is_overflowing: bool,
    has_told_of_part: bool,
}

impl<T: Transport> Sending<T> {
    async fn run(mut self) {
        let mut closed = self.closed.clone();
        while !self.is_closed() {
            let mut batch = Vec::new();
            let first = tokio::select! {
                biased;
                first = self.queue.recv() => first,
                _ = closed.changed() => None,
            };
            let Some(first) = first else {
                break;
            };
            batch.push(first);
            self.fill(&mut batch, &mut closed).await;
            self.send(batch).await;
            self.rest(&mut closed).await;
        }
        self.queue.close();
        let mut batch = Vec::new();
        while self.queue.recv_many(&mut batch, MOST_IN_BATCH).await > 0 {
            self.send(std::mem::take(&mut batch)).await;
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// Waits until a batch is full, or its first spans are old enough.
    async fn fill(
        &mut self,
        batch: &mut Vec<Vec<Span>>,
        closed: &mut watch::Receiver<Option<Instant>>,
    ) {
        let due = Instant::now() + LONGEST_WAIT;
        while batch.len() < MOST_IN_BATCH && !self.is_closed() {
            let room = MOST_IN_BATCH - batch.len();
            tokio::select! {
                biased;
                count = self.queue.recv_many(batch, room) => if count == 0 {
                    return;
                },
                _ = closed.changed() => return,
                () = sleep_until(due) => return,
            }
        }
    }

    /// Sends a batch, once.
    async fn send(&mut self, batch: Vec<Vec<Span>>) {
        let spans: Vec<_> = batch.into_iter().flatten().collect();
        let count = spans.len();
        let body = self.body(spans);
        let deadline = Instant::now() + LONGEST_CALL;
        let mut closed = self.closed.clone();
        let sent = tokio::select! {
            biased;
            () = last_moment(&mut closed) => Err(Refused("the run has ended".into())),
            sent = timeout_at(deadline, self.transport.post(body)) => {
                sent.unwrap_or_else(|_| Err(Refused("no answer in time".into())))
            }
        };
        let sent = sent.and_then(|answer| part_of(&answer));
        self.tell_of_overflow();
        match sent {
            Ok(part) => {
                let rejected = part.as_ref().map_or(0, |it| it.rejected_spans);
                let rejected = usize::try_from(rejected).unwrap_or(0);
                self.lost.add(rejected.min(count));
                if let Some(part) = part.filter(|_| rejected > 0)
                    && !std::mem::replace(&mut self.has_told_of_part, true)
                {
                    (self.on_news)(News::TookPart(one_line(&part.error_message)));
                }
                if std::mem::take(&mut self.failures) > 0 {
                    let lost = self.lost.count();
                    (self.on_news)(News::Back { lost });
                }
            }
            Err(Refused(why)) => {
                self.lost.add(count);
                self.failures = self.failures.saturating_add(1);
                if self.failures == 1 {
                    (self.on_news)(News::Away(why));
                }
            }
        }
    }

    /// Tells of spans that found no room, once until all of them fit again. A collector that is away was told of.
    fn tell_of_overflow(&mut self) {
        let overflows = self.overflowed.swap(false, Ordering::Relaxed);
        if overflows && !self.is_overflowing && self.failures == 0 {
            (self.on_news)(News::Overflows);
        }
        self.is_overflowing = overflows;
    }

    /// Leaves a collector alone that has just failed, for longer each time.
    async fn rest(&self, closed: &mut watch::Receiver<Option<Instant>>) {
        if self.failures == 0 || self.is_closed() {
            return;
        }
        let wait = SHORTEST_REST * 2_u32.pow(self.failures.min(8) - 1);
        let until = Instant::now() + wait.min(LONGEST_REST);
        tokio::select! {
            biased;
            _ = closed.changed() => {}
            () = sleep_until(until) => {}
        }
    }

    fn body(&self, spans: Vec<Span>) -> Vec<u8> {
        let attributes = self.settings.resource.iter();
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, value.clone()));
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: attributes.collect(),
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "semel".into(),
                        version: self.settings.version.into(),
                    }),
                    spans,
                }],
            }],
        };
        request.encode_to_vec()
    }
}

/// Reads the answer to a request that was taken: what of it was not, if anything. An empty one says that all was.
fn part_of(answer: &[u8]) -> Result<Option<ExportTracePartialSuccess>, Refused> {
    match ExportTraceServiceResponse::decode(answer) {
        Ok(answer) => Ok(answer.partial_success),
        Err(_) => Err(Refused("the answer is not that of a collector".into())),
    }
}

/// Returns the words of a collector as one line that is not too long.
fn one_line(text: &str) -> String {
    let plain = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    plain.take(MOST_REASON_CHARS).collect()
}

/// Waits until the exporter was closed and its last time is over.
async fn last_moment(closed: &mut watch::Receiver<Option<Instant>>) {
    let closed_at = match closed.wait_for(Option::is_some).await {
        Ok(closed_at) => *closed_at,
        // The exporter was dropped, and the task with it.
        Err(_) => None,
    };
    match closed_at {
        Some(closed_at) => sleep_until(closed_at + LAST_CALLS).await,
        None => std::future::pending().await,
    }
}

/// The attempts that wait at most: about four spans each, of half a kilobyte.
const MOST_QUEUED: usize = 4_096;
/// The room that only hard cases may use.
const KEPT_FREE: usize = MOST_QUEUED / 4;
const MOST_REASON_CHARS: usize = 200;
/// The attempts in a request at most.
const MOST_IN_BATCH: usize = 512;
/// The longest time for which the first spans of a batch wait for the others.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_CALL: Duration = Duration::from_secs(10);
/// The time for which the end of a run waits for a collector.
const LAST_CALLS: Duration = Duration::from_millis(1_800);
const SHORTEST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);
