//! Requests for messages: one at a time, which waits at the server for the first message and ends with those that are
//! there.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::{HeaderMap, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{ByteString, Result, Timestamp};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::HEAD_BYTES;
use crate::address::Address;
use crate::consumer::{self, CODE, Facts};
use crate::error::away;
use crate::in_flight::Holding;
use crate::link::{Link, PATIENCE};
use crate::options::Options;

/// Time for which a request waits at the server before it is repeated.
const EXPIRES: Duration = Duration::from_secs(5);
/// Time after that by which a live server has ended the request.
const GRACE: Duration = Duration::from_secs(3);
/// Pause before the next request to a server that cannot serve one at the moment.
const PAUSE: Duration = Duration::from_millis(200);
/// Time within which the messages of one request are still handed over together.
const LINGER: Duration = Duration::from_millis(2);

/// A connection with a consumer at its other end.
pub(crate) struct Pull {
    pub(crate) link: Link,
    pub(crate) facts: Facts,
    subject: String,
    inbox: Subject,
    messages: Subscriber,
    requested: Option<Requested>,
    not_before: Instant,
    /// Any message, to read the next one with: it takes a context, which is expensive to copy.
    reader: Message,
    max_message_bytes: usize,
}

/// A request that the server has not answered in full.
#[derive(Clone, Copy, Debug)]
struct Requested {
    left: usize,
    /// Time by which a live server has ended it.
    until: Instant,
}

/// A message that came and is not handed over yet.
pub(crate) struct Arrived {
    /// Whole but for its id.
    delivery: Delivery,
    pub(crate) holding: Holding,
    /// Number of further messages for the consumer when the server sent it.
    pub(crate) behind: u64,
}

impl Arrived {
    pub(crate) fn into_delivery(self, id: impl FnOnce(Holding) -> DeliveryId) -> Delivery {
        let mut delivery = self.delivery;
        delivery.id = id(self.holding);
        delivery
    }
}

impl Pull {
    pub(crate) async fn open(address: Address, options: Options) -> Result<Self> {
        let link = Link::open(&address, CODE, PATIENCE).await?;
        let facts = consumer::ensure(&link, &options).await?;
        Self::over(link, facts, &options.consumer, &options).await
    }

    /// Opens a pull of this consumer of the stream that `options` name.
    pub(crate) async fn over(
        link: Link,
        facts: Facts,
        consumer: &str,
        options: &Options,
    ) -> Result<Self> {
        let inbox = Subject::from(link.client.new_inbox());
        let messages = link.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|error| {
            away(CODE, "the connection to the NATS server broke").with_source(error)
        })?;
        let message = async_nats::Message {
            subject: inbox.clone(),
            reply: None,
            payload: Bytes::new(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        let reader = Message {
            message,
            context: link.context.clone(),
        };
        Ok(Self {
            facts,
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{}.{consumer}", options.stream),
            inbox,
            messages,
            requested: None,
            not_before: Instant::now(),
            reader,
            link,
            max_message_bytes: options.max_message_bytes,
        })
    }

    /// Takes the messages that are here, without waiting. An error means that a new pull is needed.
    pub(crate) fn drain(&mut self, arrived: &mut VecDeque<Arrived>) -> Result<()> {
        while let Some(next) = self.messages.next().now_or_never() {
            self.take_in(next, arrived)?;
        }
        Ok(())
    }

    /// Requests `max` messages, if no request is open, and waits until some have come, or until it is time for the next
    /// request. Cancel safe. An error means that a new pull is needed.
    pub(crate) async fn wait(&mut self, max: usize, arrived: &mut VecDeque<Arrived>) -> Result<()> {
        let until = if let Some(requested) = self.requested {
            requested.until
        } else {
            sleep_until(self.not_before).await;
            self.request(max).await?
        };
        let next = tokio::select! {
            biased;
            next = self.messages.next() => next,
            error = self.link.wait_for_error() => return Err(error),
            () = sleep_until(until) => {
                return Err(away(CODE, "the NATS server does not answer"));
            }
        };
        self.take_in(next, arrived)?;
        let linger = Instant::now() + LINGER;
        while !arrived.is_empty() && arrived.len() < max && self.requested.is_some() {
            match timeout_at(linger, self.messages.next()).await {
                Ok(next) => self.take_in(next, arrived)?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Requests nothing more, and takes the messages that the server had sent already.
    pub(crate) async fn stop(&mut self, arrived: &mut VecDeque<Arrived>) {
        if self.messages.drain().await.is_err() {
            return;
        }
        while let Ok(Some(message)) = timeout(Duration::from_secs(1), self.messages.next()).await {
            if self.take_in(Some(message), arrived).is_err() {
                return;
            }
        }
    }

    async fn request(&mut self, max: usize) -> Result<Instant> {
        let batch = self.facts.max_batch.map_or(max, |most| most.min(max));
        let expires = self
            .facts
            .max_expires
            .map_or(EXPIRES, |most| most.min(EXPIRES));
        // Without waiting for a full batch, though for its first message.
        let request = format!(
            r#"{{"batch":{batch},"expires":{},"no_wait":true}}"#,
            expires.as_nanos()
        );
        let (subject, inbox) = (self.subject.clone(), self.inbox.clone());
        let sent = self
            .link
            .client
            .publish_with_reply(subject, inbox, request.into());
        let sent = self.link.during(sent).await?;
        sent.map_err(|error| away(CODE, "cannot ask for messages").with_source(error))?;
        let until = Instant::now() + expires + GRACE;
        self.requested = Some(Requested { left: batch, until });
        Ok(until)
    }

    fn take_in(
        &mut self,
        next: Option<async_nats::Message>,
        arrived: &mut VecDeque<Arrived>,
    ) -> Result<()> {
        let Some(message) = next else {
            return Err(away(CODE, "the connection to the NATS server broke"));
        };
        match message.status {
            None | Some(StatusCode::OK) => {
                let spent = self.requested.as_mut().is_some_and(|requested| {
                    requested.left = requested.left.saturating_sub(1);
                    requested.left == 0
                });
                if spent {
                    self.requested = None;
                }
                arrived.extend(self.read(message));
                Ok(())
            }
            Some(StatusCode::IDLE_HEARTBEAT) => Ok(()),
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => {
                self.requested = None;
                Ok(())
            }
            Some(StatusCode::NO_RESPONDERS) => Err(away(
                CODE,
                "the consumer is gone, or its server is not ready",
            )),
            Some(status) => {
                self.requested = None;
                self.not_before = Instant::now() + PAUSE;
                let why = message.description.unwrap_or_default();
                if status == StatusCode::REQUEST_TERMINATED && !why.contains("Consumer Deleted") {
                    // Too many held or waiting, a leader that changed, a server that stops.
                    return Ok(());
                }
                let message = format!("the server ended a request for messages: {status} {why}");
                Err(away(CODE, message))
            }
        }
    }

    /// Reads a message; one that is no message of a stream has no place there, and is ignored.
    fn read(&mut self, message: async_nats::Message) -> Option<Arrived> {
        self.reader.message = message;
        let info = self.reader.info().ok()?;
        let published = info.published.unix_timestamp_nanos() / 1_000_000;
        let (sequence, behind) = (info.stream_sequence, info.pending);
        let received = u32::try_from(info.delivered).ok();
        let coordinates = format!("nats:{}:{sequence}", info.stream);
        let message = &mut self.reader.message;
        let reply = message.reply.take()?;
        let payload = std::mem::take(&mut message.payload);
        let oversize = payload.len() > self.max_message_bytes;
        let length = payload.len();
        let payload = if oversize {
            // A copy, so that the rest is not kept with it.
            Bytes::copy_from_slice(&payload[..length.min(HEAD_BYTES)])
        } else {
            payload
        };
        let headers = message.headers.take().map(|map| headers(&map));
        let mut delivery = Delivery::new(DeliveryId(u64::MAX), payload, coordinates);
        delivery.headers = headers.unwrap_or_default();
        delivery.appended_at = u64::try_from(published).ok().map(Timestamp::from_millis);
        delivery.oversize_bytes = oversize.then_some(length as u64);
        delivery.received = received;
        let holding = Holding {
            reply,
            sequence,
            until: Instant::now() + self.facts.ack_wait,
        };
        Some(Arrived {
            delivery,
            holding,
            behind,
        })
    }
}

/// Collects the headers by their names: the driver keeps no order but that of values under one name.
fn headers(map: &HeaderMap) -> Vec<(ByteString, Bytes)> {
    let each = map.iter().flat_map(|(name, values)| {
        let value = |value: &async_nats::HeaderValue| {
            let bytes = Bytes::copy_from_slice(value.as_str().as_bytes());
            (ByteString::from(name.as_ref()), bytes)
        };
        values.iter().map(value)
    });
    let mut headers: Vec<_> = each.collect();
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    headers
}
