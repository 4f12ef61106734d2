//! One more reading of a stream: its present messages, beside the durable consumer, and then the end.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::datetime::from_nanos;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{RetentionPolicy, Stream};
use semel_core::port::rescan::RescanSource;
use semel_core::port::source::{DeliveryId, Fetched};
use semel_core::{Error, ErrorKind, Result, Timestamp};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::address::Address;
use crate::consumer::{CODE, Facts, created, filters, found, stream};
use crate::error::is_for_good;
use crate::link::{Link, PATIENCE};
use crate::options::{Options, invalid};
use crate::pull::Pull;

/// Reads the messages that a stream has when it is opened, from its first on, or those of `since`: on the subject of
/// `options`, else on those of its consumer, where there is one, else on all. The durable consumer is not used: nothing
/// is acknowledged, and its workers go on undisturbed. A consumer of its own reads, which the server forgets soon
/// after.
///
/// # Guarantee   every message that is still there when it is read, in the order of the stream, once per opening
/// # Cost        a task of its own, and up to three thousand messages read ahead
/// # Errors      `InvalidConfig`: the options make no sense. While it reads also, as of
/// [`NatsSource::connect`](crate::NatsSource::connect); `Unsupported`: the stream deletes what is acknowledged
///
/// # Panics
/// Outside a Tokio runtime.
pub fn rescan(options: Options, since: Option<Timestamp>) -> Result<RescanSource> {
    let address = options.address()?;
    let from = match since {
        None => Start::First,
        Some(since) => Start::Time(since),
    };
    from.policy()?;
    let (sender, mut batches) = mpsc::channel(2);
    let reading = Reading {
        address,
        options,
        from,
        last: None,
        sender: sender.clone(),
    };
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            () = reading.run() => {}
        }
    });
    Ok(RescanSource::new(move |context| batches.poll_recv(context)))
}

/// Position at which the reading continues.
#[derive(Clone, Copy, Debug)]
enum Start {
    First,
    Time(Timestamp),
    Sequence(u64),
}

impl Start {
    fn policy(self) -> Result<DeliverPolicy> {
        Ok(match self {
            Self::First => DeliverPolicy::All,
            Self::Time(since) => {
                let nanos = i128::from(since.as_millis()) * 1_000_000;
                let start_time = from_nanos(nanos)
                    .map_err(|_| invalid(format!("{since} is no time that NATS has")))?;
                DeliverPolicy::ByStartTime { start_time }
            }
            Self::Sequence(start_sequence) => DeliverPolicy::ByStartSequence { start_sequence },
        })
    }
}

struct Reading {
    address: Address,
    options: Options,
    from: Start,
    /// The newest message that the stream had when it was first reached.
    last: Option<u64>,
    sender: mpsc::Sender<Result<Fetched>>,
}

impl Reading {
    async fn run(mut self) {
        while let Err(error) = self.read().await {
            let is_over = is_for_good(&error);
            let told = if is_over {
                Err(error)
            } else {
                Ok(Fetched::Away(error))
            };
            if self.sender.send(told).await.is_err() || is_over {
                return;
            }
            sleep(AGAIN).await;
        }
    }

    /// Reads to the end, or until the connection breaks: then it continues behind the last message handed over.
    async fn read(&mut self) -> Result<()> {
        let link = Link::open(&self.address, CODE, PATIENCE).await?;
        let stream = stream(&link, &self.options).await?;
        let info = stream.cached_info();
        if info.config.retention != RetentionPolicy::Limits {
            return Err(keeps_nothing(&self.options));
        }
        let last = *self.last.get_or_insert(info.state.last_sequence);
        let (consumer, behind) = self.make(&link, &stream).await?;
        if behind == 0 {
            return Ok(());
        }
        let mut pull = Pull::over(link, FACTS, &consumer, &self.options).await?;
        let mut arrived = VecDeque::new();
        loop {
            pull.wait(MOST, &mut arrived).await?;
            if arrived.is_empty() && self.is_read(&pull.link, &stream, &consumer).await? {
                return Ok(());
            }
            let is_last = arrived
                .back()
                .is_some_and(|it| it.behind == 0 || it.holding.sequence >= last);
            let next = arrived.back().map(|it| it.holding.sequence + 1);
            let wanted = arrived
                .drain(..)
                .filter(|it| it.holding.sequence <= last)
                .map(|it| it.into_delivery(|_| DeliveryId(u64::MAX)));
            let fetched = Ok(Fetched::Deliveries(wanted.collect()));
            if self.sender.send(fetched).await.is_err() || is_last {
                return Ok(());
            }
            if let Some(next) = next {
                self.from = Start::Sequence(next);
            }
        }
    }

    /// Creates a consumer of its own; returns its name, and the number of messages for it.
    async fn make(&self, link: &Link, stream: &Stream) -> Result<(String, u64)> {
        let subjects = if let Some(subject) = &self.options.filter_subject {
            vec![subject.clone()]
        } else {
            let there = found(link, stream, &self.options).await?;
            let there = there.iter().flat_map(filters);
            there.map(str::to_owned).collect()
        };
        let (filter_subject, filter_subjects) = match <[String; 1]>::try_from(subjects) {
            Ok([one]) => (one, Vec::new()),
            Err(several) => (String::new(), several),
        };
        let config = pull::Config {
            ack_policy: AckPolicy::None,
            deliver_policy: self.from.policy()?,
            filter_subject,
            filter_subjects,
            inactive_threshold: FORGOTTEN,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let attempt = format!("read the stream {} again", self.options.stream);
        let info = created(link, stream, config, &attempt).await?;
        Ok((info.name, info.num_pending))
    }

    /// Returns whether nothing is left, although the last expected message did not come: it was deleted meanwhile.
    async fn is_read(&self, link: &Link, stream: &Stream, consumer: &str) -> Result<bool> {
        let info = link.during(stream.consumer_info(consumer)).await?;
        let info = info.map_err(|error| {
            let message = format!("the stream {} is not read on", self.options.stream);
            crate::error::away(CODE, message).with_source(error)
        })?;
        Ok(info.num_pending == 0)
    }
}

fn keeps_nothing(options: &Options) -> Error {
    let message = format!(
        "the stream {} deletes what is acknowledged, so what was done cannot be read again",
        options.stream
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// Facts of a consumer whose messages nobody acknowledges.
const FACTS: Facts = Facts {
    ack_wait: Duration::from_secs(3_600),
    max_batch: None,
    max_expires: None,
    findings: Vec::new(),
};
/// Time for which the server remembers the consumer of a reader that is gone.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Pause between two tries to begin.
const AGAIN: Duration = Duration::from_millis(500);
/// Messages that are asked for at once.
const MOST: usize = 1_000;
