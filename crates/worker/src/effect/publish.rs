//! Publishing to a place of a broker: a batch in one go, each message with its own verdict.
//!
//! Knows no broker: the reader of the configuration provides a [`Target`]. The messages are made by
//! [`publication`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::sink::{AnySink, Publication, Sink};
use semel_core::{Certainty, Error, ErrorKind, Result};
use semel_engine::effect::{BulkEffect, Call, Class, OnDoubt, Verdict, within_provider_window};
use semel_engine::event::{Event, Observer, Pause};
use semel_engine::publication;
use tokio::sync::watch;
use tokio::time::Instant;

use super::excerpt::one_line;

/// A place of a broker: a topic, a subject, an exchange. Shown without secrets.
pub trait Target: fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// A sink that connects when it first publishes.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: settings that contradict each other; `Unsupported`: not built into this program
    fn sink(&self) -> Result<AnySink>;

    /// Connects, and checks whether the place is there.
    ///
    /// # Errors
    ///
    /// As [`Target::sink`]; `InvalidConfig`: no such place, or no right to it; `Unavailable`, `Timeout`:
    /// the broker cannot be reached
    ///
    /// # Cancel safety
    ///
    /// Safe
    fn inspect(&self) -> Inspection<'_>;

    /// The time after which the fate of a message under way is unknown.
    fn timeout(&self) -> Duration;

    /// The names that it has in traces.
    fn destination(&self) -> Destination;
}

/// The names that a place of a broker has in traces, none of them a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The kind of the broker, as `messaging.system` of OpenTelemetry has it.
    pub system: &'static str,
    /// The topic, the subject, or exchange and routing key.
    pub name: String,
    /// The host and the port of the server; nothing if there are several, or if the host is not certain.
    pub server: Option<(String, u16)>,
}

/// See [`Target::inspect`].
pub type Inspection<'a> = Pin<Box<dyn Future<Output = Result<Facts>> + Send + 'a>>;

/// The known facts about a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The time for which the broker itself drops a second message with the same id, if it does.
    pub duplicate_window: Option<Duration>,
}

/// The place that an effect publishes to, and its promise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The place.
    pub target: Arc<dyn Target>,
    /// The way in which it takes part in the proof.
    pub promise: Promise,
}

/// The way in which publishing takes part in the proof that it happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The broker, or the reader, drops a second message with the same id.
    Keyed {
        /// The time for which it does; `None` to ask the broker.
        provider_window: Option<Duration>,
    },
    /// No one drops a second message.
    Unkeyed(OnDoubt),
}

impl Promise {
    /// The class as far as it is known before the broker was asked: a window that only the broker knows
    /// counts as endless.
    pub fn class(self) -> Class {
        match self {
            Self::Unkeyed(on_doubt) => Class::Unkeyed(on_doubt),
            Self::Keyed { provider_window } => Class::Keyed {
                provider_window: provider_window.map_or(Duration::MAX, within_provider_window),
            },
        }
    }
}

impl Settings {
    /// See [`Promise::class`].
    pub fn class(&self) -> Class {
        self.promise.class()
    }

    /// The class at a place with these facts.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: keyed for longer than the broker drops repeats, or keyed without a time where the
    /// broker drops none
    pub fn class_at(&self, facts: Facts) -> Result<Class> {
        let Promise::Keyed { provider_window } = self.promise else {
            return Ok(self.class());
        };
        let window = match (provider_window, facts.duplicate_window) {
            (Some(declared), Some(real)) if declared > real => {
                return Err(refused(format!(
                    "provider_window is {declared:?}, and {} drops repeats for {real:?} alone; widen its \
                     duplicate window, or shorten provider_window",
                    self.target
                )));
            }
            (Some(declared), _) => declared,
            (None, Some(real)) if !real.is_zero() => real,
            (None, Some(_) | None) => {
                return Err(refused(format!(
                    "{} drops no repeats; give it a duplicate window, or the effect another class",
                    self.target
                )));
            }
        };
        Ok(Class::Keyed {
            provider_window: within_provider_window(window),
        })
    }
}

/// Publishes each message once its operation is claimed.
///
/// While the broker is unreachable, has no room or lacks the place, messages that surely are not there are
/// published again until they are, regardless of the caps on attempts: a broker that is down for an hour
/// makes no dead letters.
///
/// # Shape
///
/// confirmed → done, without an outcome; may be there → maybe applied; a message that the broker will never
/// take → dead; one that surely is not there because the broker takes none now → away
pub struct PublishEffect {
    sink: AnySink,
}

/// The surroundings of the publishing of a pipeline.
#[derive(Clone)]
pub struct Around {
    /// The pipeline's name.
    pub pipeline: Box<str>,
    /// The observer that learns when the broker is unreachable.
    pub observer: Arc<dyn Observer>,
    /// Turned `true` to stop.
    pub stop: watch::Receiver<bool>,
    /// Turned `true` to end this run alone, if there is a channel.
    pub recalled: Option<watch::Receiver<bool>>,
}

impl PublishEffect {
    /// An effect that publishes to `sink`.
    pub fn new(sink: AnySink) -> Self {
        Self { sink }
    }
}

impl fmt::Debug for PublishEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishEffect")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

impl BulkEffect for PublishEffect {
    /// # Cancel safety
    ///
    /// None: some of the batch may be published
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        let sends_ids = self.sink.sends_ids();
        let publications = batch.iter();
        let publications: Vec<Publication> = publications
            .map(|call| publication::of_call(call, sends_ids))
            .collect();
        // The engine takes a message without a verdict for unknown.
        let answers = self.sink.publish(&publications).await;
        answers.into_iter().map(verdict).collect()
    }
}

/// Waits for `target` until it is there. Returns its facts, or nothing if a stop was requested or the run
/// recalled.
///
/// # Errors
///
/// Those of [`Target::inspect`] that waiting does not resolve.
pub(crate) async fn found(target: &dyn Target, around: Around) -> Result<Option<Facts>> {
    let mut ended = around.clone();
    let mut away = Patience::new(around);
    loop {
        let inspection = tokio::select! {
            biased;
            () = ended.ended() => return Ok(None),
            inspection = target.inspect() => inspection,
        };
        match inspection {
            Ok(facts) => {
                away.ends();
                return Ok(Some(facts));
            }
            Err(error) if is_outage(&error) => {
                if !away.goes_on(&error).await {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits for a broker that is unreachable, a little longer each time.
struct Patience {
    around: Around,
    wait: Duration,
    since: Option<Instant>,
}

impl Patience {
    const fn new(around: Around) -> Self {
        Self {
            around,
            wait: FIRST_RETRY,
            since: None,
        }
    }

    /// Reports the reason, once, and waits; returns `false` when a stop is requested.
    async fn goes_on(&mut self, error: &Error) -> bool {
        if self.around.is_ended() {
            return false;
        }
        let wait = self.wait;
        if self.since.is_none() {
            self.since = Some(Instant::now());
            let paused = Event::Paused {
                cause: Pause::TargetAway,
                error: &one_line(&text(error)),
                wait,
            };
            let around = &self.around;
            around.observer.observe(&around.pipeline, &paused);
        }
        self.wait = (wait * 2).min(LONGEST_RETRY);
        tokio::select! {
            biased;
            () = self.around.ended() => false,
            () = tokio::time::sleep(wait) => true,
        }
    }

    /// Reports that the broker is back, if its absence was reported.
    fn ends(self) {
        if let Some(since) = self.since {
            let resumed = Event::Resumed {
                cause: Pause::TargetAway,
                lasted: since.elapsed(),
            };
            self.around
                .observer
                .observe(&self.around.pipeline, &resumed);
        }
    }
}

impl Around {
    fn is_ended(&self) -> bool {
        let is_recalled = self.recalled.as_ref().is_some_and(|it| *it.borrow());
        is_recalled || *self.stop.borrow()
    }

    /// Waits until it is to stop, or the run is recalled.
    async fn ended(&mut self) {
        let recalled = async {
            match &mut self.recalled {
                Some(recalled) => turned(recalled).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = turned(&mut self.stop) => {}
            () = recalled => {}
        }
    }
}

/// Waits until a channel says `true`; for ever if no one is left to do so.
async fn turned(channel: &mut watch::Receiver<bool>) {
    if channel.wait_for(|it| *it).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The verdict of the sink's answer on its own message.
fn verdict(answer: Result<()>) -> Verdict {
    let Err(error) = answer else {
        return Verdict::Done(Bytes::new());
    };
    let words = one_line(&text(&error)).into();
    if is_away(&error) {
        return Verdict::Away { error: words };
    }
    match (error.kind(), error.certainty()) {
        (ErrorKind::InvalidInput, _) => Verdict::Dead {
            error: words,
            decisive: false,
        },
        (_, Certainty::MaybeApplied) => Verdict::MaybeApplied { error: words },
        (_, Certainty::NotApplied) => Verdict::NotApplied {
            error: words,
            retry_after: None,
        },
    }
}

/// Returns whether the place takes no message at all now, and this one surely is not there.
fn is_away(error: &Error) -> bool {
    error.certainty() == Certainty::NotApplied
        && (is_outage(error)
            || matches!(
                error.kind(),
                ErrorKind::InvalidConfig | ErrorKind::Unsupported
            ))
}

fn is_outage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Throttled
    )
}

fn text(error: &Error) -> Vec<u8> {
    error.to_string().into_bytes()
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// The pause between two tries of a broker that is unreachable.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_millis(800);

#[cfg(test)]
mod tests;
