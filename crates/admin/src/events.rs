//! Events: what changes about the worker while somebody looks at it, as server-sent events.
//!
//! Each stream is told the newest of what it was not told yet, at most once a second, so that nothing queues up for a slow
//! client. It ends after [`LONGEST`], and browsers ask again by themselves: with a token that is still good. Where nothing
//! changes, there is a heartbeat that pages can hear: a worker that hangs closes no connection.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use futures_util::stream;
use semel_core::Code;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::answer::{Answer, json_text};
use crate::query::Query;
use crate::reading::later;
use crate::settings::Worker;

/// The streams that are open, and what they tell.
#[derive(Debug)]
pub(crate) struct Events {
    places: Arc<Semaphore>,
    /// The last saying, and its time: streams of the same moment share it.
    said: Shared,
}

/// The last saying of all streams, and its moment.
type Shared = Arc<Mutex<Option<(Instant, Arc<Said>)>>>;

/// Everything that is told, as JSON.
#[derive(Debug, Default)]
struct Said {
    /// The data of each event, in the order of [`NAMES`].
    data: [String; NAMES.len()],
    is_last: bool,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(STREAMS)),
            said: Arc::default(),
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    ///
    /// 403 for a caller that is confined to a tenant: what is told is about all of them; 503 `throttled` where there are
    /// too many streams
    pub(crate) fn open(&self, worker: &Arc<dyn Worker>, query: &Query) -> Answer {
        query.sees_everything()?;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let detail = "too many others listen; ask again, or ask /v1/status now and then";
            return Err(later(Code::Throttled.as_str(), detail));
        };
        let begun = Instant::now();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stream = Stream {
            worker: Arc::clone(worker),
            said: Arc::clone(&self.said),
            told: None,
            ticks,
            begun,
            told_at: begun,
            is_over: false,
            _place: place,
        };
        let chunks = stream::unfold(stream, async |mut stream| {
            let chunk = stream.next().await?;
            Some((Ok::<_, Infallible>(chunk), stream))
        });
        let mut answer = json_text(Body::from_stream(chunks));
        let kind = HeaderValue::from_static("text/event-stream");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(answer)
    }
}

/// A stream that is open.
struct Stream {
    worker: Arc<dyn Worker>,
    said: Shared,
    /// The last saying that its client was told.
    told: Option<Arc<Said>>,
    ticks: Interval,
    begun: Instant,
    told_at: Instant,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// Waits until there is something to tell; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            let now = self.ticks.tick().await;
            let said = self.saying(now);
            let mut text = String::new();
            if self.told.is_none() {
                text += "retry: 1000\n\n";
            }
            for (at, name) in NAMES.into_iter().enumerate() {
                let told = self.told.as_ref().map(|it| &it.data[at]);
                if told != Some(&said.data[at]) {
                    // Writing to a string cannot fail.
                    let _ = write!(text, "event: {name}\ndata: {}\n\n", said.data[at]);
                }
            }
            self.is_over = said.is_last || now.saturating_duration_since(self.begun) >= LONGEST;
            self.told = Some(said);
            if text.is_empty() && now.saturating_duration_since(self.told_at) >= HEARTBEAT {
                text += HEARTBEAT_EVENT;
            }
            if !text.is_empty() {
                self.told_at = now;
                return Some(text.into());
            }
        }
        None
    }

    /// Returns what is to be told, which is asked for once in a moment for all streams.
    fn saying(&self, now: Instant) -> Arc<Said> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, said)) = &*said
            && now.saturating_duration_since(*at) < TICK / 2
        {
            return Arc::clone(said);
        }
        let fresh = Arc::new(Said::of(&*self.worker));
        *said = Some((now, Arc::clone(&fresh)));
        fresh
    }
}

impl Said {
    fn of(worker: &dyn Worker) -> Self {
        let (status, pipelines) = (worker.status(), worker.pipelines());
        let part = |names: &[&str]| {
            let parts = pipelines.iter().map(|(name, pipeline)| {
                let mut part = Map::new();
                part.insert("pipeline".into(), Value::from(&**name));
                let members = names.iter();
                part.extend(members.map(|name| ((*name).to_owned(), pipeline[*name].clone())));
                Value::Object(part)
            });
            Value::from(parts.collect::<Vec<_>>())
        };
        let state = status["state"].clone();
        let is_last = state == "stopping";
        let data = [
            json!({ "state": state, "ready": status["ready"], "pipelines": part(&["state", "reasons"]) }),
            json!({ "pipelines": part(&["set_aside"]) }),
            json!({ "pipelines": part(&["so_far"]) }),
        ];
        Self {
            data: data.map(|it| it.to_string()),
            is_last,
        }
    }
}

/// The names of events: how the worker and its pipelines are; what waits for a person; what was done so far.
const NAMES: [&str; 3] = ["status", "set_aside", "so_far"];
/// The most streams at once.
pub const STREAMS: usize = 32;
/// The shortest time between two events of a name.
const TICK: Duration = Duration::from_secs(1);
/// The event of a stream that has nothing to say. One without data is not handed to a page.
const HEARTBEAT_EVENT: &str = "event: heartbeat\ndata: {}\n\n";
/// The longest time in which a stream says nothing.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The longest time of a stream.
const LONGEST: Duration = Duration::from_secs(50);

#[cfg(test)]
mod tests;
