//! The sink: sends everything before it waits for anything.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::{
    GetStreamByNameErrorKind, GetStreamErrorKind, PublishAckFuture, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::join_all;
use semel_core::port::sink::{Placement, Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio::time::timeout_at;

use crate::address::Address;
use crate::error::{answered, away, wrong};
use crate::link::Link;
use crate::options::SinkOptions;

const CODE: Code = Code::TargetUnavailable;
/// The stream drops a second message with the same value here, for as long as its `duplicate_window`.
const MESSAGE_ID: &str = "Nats-Msg-Id";
/// Messages that are in flight at once, fewer than the driver queues.
const AT_ONCE: usize = 1_024;

/// Publishes to one subject, and waits until its stream has stored the messages.
///
/// The id of a publication goes into the header `Nats-Msg-Id`. A NATS header has no line breaks and is
/// text; [`Publication::order`] has no use here, a stream is in order.
pub struct NatsSink {
    options: SinkOptions,
    address: Address,
    link: Mutex<Option<Arc<Link>>>,
}

impl NatsSink {
    /// Creates a sink that connects when it first publishes.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the options make no sense
    pub fn new(options: SinkOptions) -> Result<Self> {
        let address = options.address()?;
        Ok(Self {
            options,
            address,
            link: Mutex::new(None),
        })
    }

    /// Connects now, and checks that a stream takes in the subject.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: refused credentials or rights, or no stream takes in the subject.
    /// `Unavailable`, not applied: the server cannot be reached
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn connect(&self) -> Result<()> {
        let link = self.link().await?;
        self.find_stream(&link).await.map(drop)
    }

    /// Returns the time for which the stream of the subject drops a second message with the same id.
    ///
    /// # Errors
    ///
    /// As [`NatsSink::connect`]
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn duplicate_window(&self) -> Result<Duration> {
        let link = self.link().await?;
        let name = self.find_stream(&link).await?;
        let attempt = format!("look at the stream {name}");
        match link.during(link.context.get_stream(name)).await? {
            Ok(stream) => Ok(stream.cached_info().config.duplicate_window),
            Err(error) => Err(match error.kind() {
                GetStreamErrorKind::JetStream(error) => answered(CODE, &attempt, error),
                GetStreamErrorKind::EmptyName
                | GetStreamErrorKind::InvalidStreamName
                | GetStreamErrorKind::Request => {
                    away(CODE, format!("cannot {attempt}")).with_source(error)
                }
            }),
        }
    }

    /// Returns the connection, or a new one where it broke. Other publishing tasks meanwhile wait for the same one.
    async fn link(&self) -> Result<Arc<Link>> {
        let mut link = self.link.lock().await;
        if let Some(link) = link
            .as_ref()
            .filter(|link| link.connection_error().is_none())
        {
            return Ok(Arc::clone(link));
        }
        *link = None;
        let opened = Arc::new(Link::open(&self.address, CODE, self.options.timeout).await?);
        Ok(Arc::clone(link.insert(opened)))
    }

    /// Returns the name of the stream that takes in the subject.
    async fn find_stream(&self, link: &Link) -> Result<String> {
        let subject = &self.options.subject;
        match link.during(link.context.stream_by_subject(subject)).await? {
            Ok(name) => Ok(name),
            Err(error) => Err(match error.kind() {
                GetStreamByNameErrorKind::NotFound | GetStreamByNameErrorKind::InvalidSubject => {
                    wrong(format!(
                        "no stream takes in the subject {subject}; create one, or correct the subject"
                    ))
                }
                GetStreamByNameErrorKind::Request | GetStreamByNameErrorKind::JetStream(_) => away(
                    CODE,
                    format!("cannot find the stream of the subject {subject}"),
                )
                .with_source(error),
            }),
        }
    }

    /// Sends all of `batch` in its order, and then waits for all confirmations together.
    async fn send(&self, link: &Link, batch: &[Publication], deadline: Instant) -> Vec<Answer> {
        let mut sent = Vec::with_capacity(batch.len());
        for publication in batch {
            sent.push(self.send_one(link, publication, deadline).await);
        }
        let confirmed = sent.into_iter().map(|sent| async {
            let confirmation = sent?.into_future();
            match timeout_at(deadline, link.during(confirmation)).await {
                Ok(Ok(Ok(told))) => Ok(Placement {
                    partition: None,
                    offset: Some(told.sequence),
                    is_duplicate: told.duplicate,
                }),
                Ok(Ok(Err(error))) => Err(self.failure(&error)),
                Ok(Err(error)) => Err(maybe(error)),
                Err(_) => Err(self.unconfirmed()),
            }
        });
        join_all(confirmed).await
    }

    /// Sends one; waits only for room in the driver's queue.
    async fn send_one(
        &self,
        link: &Link,
        publication: &Publication,
        deadline: Instant,
    ) -> Result<PublishAckFuture, Failure> {
        let message = message(publication).map_err(Failure::Other)?;
        let subject = self.options.subject.clone();
        let sent = link.context.send_publish(subject, message);
        match timeout_at(deadline, link.during(sent)).await {
            Ok(Ok(Ok(sent))) => Ok(sent),
            Ok(Ok(Err(error))) => Err(self.failure(&error)),
            Ok(Err(error)) => Err(maybe(error)),
            Err(_) => Err(self.unconfirmed()),
        }
    }

    fn failure(&self, error: &PublishError) -> Failure {
        Failure::Other(match error.kind() {
            PublishErrorKind::StreamNotFound => return Failure::NoStream,
            PublishErrorKind::MaxPayloadExceeded => too_large(error),
            PublishErrorKind::TimedOut => return self.unconfirmed(),
            PublishErrorKind::BrokenPipe => return maybe(away(CODE, "the connection broke")),
            PublishErrorKind::MaxAckPending => away(CODE, "too many messages are unconfirmed"),
            PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::WrongLastSequence
            | PublishErrorKind::Other => match said(error) {
                Some(said)
                    if said.error_code() == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM
                        || said.error_code() == ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM =>
                {
                    too_large(error)
                }
                Some(said) => answered(
                    CODE,
                    &format!("publish to {}", self.options.subject),
                    said.clone(),
                ),
                None => Error::new(
                    ErrorKind::Internal,
                    format!("a message was not published: {error}"),
                ),
            },
        })
    }

    fn unconfirmed(&self) -> Failure {
        let subject = &self.options.subject;
        let message = format!("a message to {subject} was not confirmed in time");
        Failure::Other(Error::new(ErrorKind::Timeout, message).with_code(CODE))
    }

    /// Returns the error for a subject that nobody takes in, or a stream that is not up yet.
    async fn no_stream(&self, link: &Link) -> Error {
        match self.find_stream(link).await {
            Err(error) if error.kind() == ErrorKind::InvalidConfig => error,
            Ok(_) | Err(_) => {
                let subject = &self.options.subject;
                away(
                    CODE,
                    format!("the stream of the subject {subject} is not ready"),
                )
            }
        }
    }
}

impl Sink for NatsSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let placed = self.place(batch).await.into_iter();
        placed.map(|answer| answer.map(drop)).collect()
    }

    async fn place(&self, batch: &[Publication]) -> Vec<Result<Placement>> {
        let deadline = Instant::now() + self.options.timeout;
        let link = match timeout_at(deadline, self.link()).await {
            Ok(Ok(link)) => link,
            Ok(Err(error)) => return vec![Err(error); batch.len()],
            Err(_) => {
                let (place, waited) = (&self.address.name, self.options.timeout);
                let message =
                    format!("NATS cannot be reached at {place}: no answer within {waited:?}");
                let error = away(CODE, message);
                return vec![Err(error); batch.len()];
            }
        };
        let mut results = Vec::with_capacity(batch.len());
        for some in batch.chunks(AT_ONCE) {
            let answers = self.send(&link, some, deadline).await;
            let absent = answers
                .iter()
                .any(|answer| matches!(answer, Err(Failure::NoStream)));
            let absence = if absent {
                Some(self.no_stream(&link).await)
            } else {
                None
            };
            results.extend(answers.into_iter().map(|answer| {
                answer.map_err(|failure| match (failure, &absence) {
                    (Failure::Other(error), _) => error,
                    (Failure::NoStream, Some(error)) => error.clone(),
                    (Failure::NoStream, None) => unreachable!("it was looked for"),
                })
            }));
        }
        results
    }
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

type Answer = Result<Placement, Failure>;

/// Reason why a message was not confirmed.
enum Failure {
    /// Nobody listens to the subject.
    NoStream,
    Other(Error),
}

/// Failure of a message that was in flight already.
fn maybe(error: Error) -> Failure {
    Failure::Other(if error.kind() == ErrorKind::Unavailable {
        Error::new(ErrorKind::Unavailable, error.to_string()).with_code(CODE)
    } else {
        error
    })
}

fn too_large(error: &PublishError) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("the server takes no such message: {error}"),
    )
}

/// Returns the server's answer, if the error carries one.
fn said(error: &PublishError) -> Option<&jetstream::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Prefix of headers that are commands to the server, so none of them is passed on.
const COMMAND: &str = "Nats-";

fn message(publication: &Publication) -> Result<PublishMessage> {
    let mut headers = HeaderMap::new();
    for (name, value) in &publication.headers {
        if name
            .get(..COMMAND.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(COMMAND))
        {
            continue;
        }
        let bad = || {
            let message = format!("the header {name:?} cannot be one of a NATS message");
            Error::new(ErrorKind::InvalidInput, message)
        };
        let value = std::str::from_utf8(value).map_err(|_| bad())?;
        let name: HeaderName = name.parse().map_err(|_| bad())?;
        let value: HeaderValue = value.parse().map_err(|_| bad())?;
        headers.append(name, value);
    }
    let id: HeaderValue = publication.id.parse().map_err(|_| {
        let message = "the id of a message has line breaks, which no NATS header may have";
        Error::new(ErrorKind::InvalidInput, message)
    })?;
    headers.insert(MESSAGE_ID, id);
    Ok(PublishMessage::build()
        .payload(publication.payload.clone())
        .headers(headers))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn with(name: &str, value: &'static [u8]) -> Publication {
        Publication {
            id: "one".into(),
            order: None,
            payload: Bytes::new(),
            headers: vec![(name.into(), Bytes::from_static(value))],
        }
    }

    #[test]
    fn what_no_header_can_be_is_refused_and_does_not_panic() {
        message(&with("a", b"b")).expect("a header");
        let mut id = with("a", b"b");
        id.id = "two\nlines".into();
        for bad in [
            with("a", b"1\r\n2"),
            with("a", b"\xff"),
            with("a b", b"c"),
            id,
        ] {
            let error = message(&bad).expect_err("no header");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
