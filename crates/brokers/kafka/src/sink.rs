//! The sink: the idempotent producer, every delivery report read.

mod reports;
mod submission;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, ThreadedProducer};
use semel_core::port::sink::{Placement, Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::connection_error::Watch;
use crate::error::{INVALID, NO_RIGHT, NO_TOPIC, NOBODY, TOO_LARGE, not_made};
use crate::options::{AUTO_CREATE, client};
use reports::Reports;

/// Settings of a sink.
#[derive(Clone)]
pub struct SinkOptions {
    /// `host:port`, several with commas between them.
    pub brokers: Box<str>,
    /// The topic to publish to.
    pub topic: Box<str>,
    /// librdkafka's own settings by name.
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// Time for which a message is tried before its fate is unknown.
    pub timeout: Duration,
    /// The one partition that everything goes to; if it is `None`, a partitioner places each message by its key.
    pub partition: Option<i32>,
    /// Sends the id of each message as the header `semel-id`. A reader can use it to recognize a message that is there
    /// twice; a record of 200 bytes costs a tenth more with it.
    pub has_id_header: bool,
}

impl SinkOptions {
    /// Returns the usual settings: half a minute a message.
    pub fn new(brokers: &str, topic: &str) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            properties: Vec::new(),
            timeout: Duration::from_secs(30),
            partition: None,
            has_id_header: true,
        }
    }
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties may be secrets.
        f.debug_struct("SinkOptions")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

/// Publishes to a topic.
///
/// The record's key is [`Publication::order`], so that messages that belong together stay in order; the id goes out as
/// the header `semel-id`, unless the options turn that off. Within the life of this producer, librdkafka's sequence
/// numbers keep its own retries from being repeats; after a restart, the same message may be there twice.
///
/// librdkafka may send a message any time after it was given it, so that the message's fate is unknown once its time is
/// over. So it is given nothing before the cluster has answered, at first and after each failure.
///
/// A topic that was created just now is not known to every broker yet. So a message waits for its topic as long as
/// `topic.metadata.propagation.max.ms` says, five seconds where it is not set, before it is refused because the topic
/// is missing.
pub struct KafkaSink {
    config: ClientConfig,
    producer: Mutex<Arc<Out>>,
    watch: Watch,
    brokers: Box<str>,
    topic: Box<str>,
    partition: Option<i32>,
    has_id_header: bool,
    /// Set if the cluster answered the last request.
    is_there: AtomicBool,
}

/// A producer, and the thread that hears the brokers' reports.
type Out = ThreadedProducer<Reports>;

impl KafkaSink {
    /// Creates the producer. A cluster that is away is no error here.
    ///
    /// # Errors
    /// `InvalidConfig`: a setting that librdkafka does not take, or that is not the user's.
    pub fn new(options: SinkOptions) -> Result<Self> {
        let mut config = client(&options.brokers, &options.properties, OURS)?;
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        if config.get(PROPAGATION).is_none() {
            // A missing topic is reported before the message is given up.
            config.set(PROPAGATION, USUAL_PROPAGATION);
        }
        if config.get(AUTO_CREATE).is_none() {
            // A look creates nothing, and a name that is misspelt is no topic.
            config.set(AUTO_CREATE, "false");
        }
        if LINGER.iter().all(|name| config.get(name).is_none()) {
            // A call hands over all that it has at once, and waits for all of it: what could come to lie beside the last
            // of it is in the next call.
            config.set(LINGER[0], USUAL_LINGER);
        }
        config.set(
            "message.timeout.ms",
            options.timeout.as_millis().to_string(),
        );
        let watch = Watch::default();
        let producer = made(&config, &watch)?;
        Ok(Self {
            producer: Mutex::new(producer),
            config,
            watch,
            brokers: options.brokers,
            topic: options.topic,
            partition: options.partition,
            has_id_header: options.has_id_header,
            is_there: AtomicBool::new(false),
        })
    }

    /// Checks that the cluster answers and has the topic.
    ///
    /// # Errors
    /// Not applied: `InvalidConfig`, there is no such topic, or no right to it; `Unavailable`, the cluster is
    /// away.
    ///
    /// # Cancel safety
    /// Safe
    pub async fn connect(&self) -> Result<()> {
        let (producer, topic) = (self.producer()?, self.topic.clone());
        let look = move || {
            let metadata = producer.client().fetch_metadata(Some(&topic), ANSWER)?;
            let wrong = metadata
                .topics()
                .first()
                .and_then(rdkafka::metadata::MetadataTopic::error);
            wrong.map_or(Ok(()), |code| Err(KafkaError::Global(code.into())))
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let away = || {
            let brokers = &self.brokers;
            let (connection_error, down) = (&self.watch.0, RDKafkaErrorCode::AllBrokersDown);
            let message = match connection_error.unreached(down) {
                Some(why) => format!("Kafka cannot be reached at {brokers}: {why}"),
                None => format!(
                    "{brokers}: {}",
                    connection_error.why(down).unwrap_or(NOBODY)
                ),
            };
            Error::new(ErrorKind::Unavailable, message)
                .with_code(Code::TargetUnavailable)
                .not_applied()
        };
        match looked {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error @ KafkaError::Global(_))) => Err(self.refused(error, false)),
            Ok(Err(error)) => Err(away().with_source(error)),
            Err(error) => Err(away().with_source(error)),
        }
    }

    /// Returns the producer, created anew where it has failed for good, as for a missing right: it sends nothing any
    /// more, and has reported on everything that it had.
    fn producer(&self) -> Result<Arc<Out>> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if producer.client().fatal_error().is_some() {
            *producer = made(&self.config, &self.watch)?;
        }
        Ok(Arc::clone(&producer))
    }

    /// Looks until the cluster has the topic, or has had the time to tell all its brokers of it.
    async fn await_topic(&self) -> Result<()> {
        let propagation = self.config.get(PROPAGATION);
        let propagation = propagation.and_then(|millis| millis.parse().ok());
        let until = Instant::now() + Duration::from_millis(propagation.unwrap_or_default());
        loop {
            match self.connect().await {
                Err(error) if is_of_no_topic(&error) && Instant::now() < until => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                looked => return looked,
            }
        }
    }

    /// Returns the error for a message that was not published.
    fn unpublished(&self, producer: &Out, why: Unpublished) -> Error {
        match why {
            Unpublished::NotSent(error) => self.unsent(producer, error),
            Unpublished::NotConfirmed(error) => self.unconfirmed(producer, error),
        }
    }

    /// Returns the error for a message that was given to librdkafka, and not confirmed.
    fn unconfirmed(&self, producer: &Out, error: KafkaError) -> Error {
        match error.rdkafka_error_code() {
            // It never left: the producer failed for good before.
            Some(RDKafkaErrorCode::PurgeQueue) => self.unsent(producer, error),
            _ => self.refused(error, true),
        }
    }

    /// Returns the error for a message that was not sent.
    fn unsent(&self, producer: &Out, error: KafkaError) -> Error {
        match producer.client().fatal_error() {
            Some((code, _)) => self.refused(KafkaError::MessageProduction(code), false),
            None => self.refused(error, false),
        }
    }

    /// Returns the error for a message that was sent, or was not.
    fn refused(&self, error: KafkaError, is_sent: bool) -> Error {
        let topic = &self.topic;
        let (kind, why, is_maybe) = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => {
                (ErrorKind::InvalidInput, TOO_LARGE, false)
            }
            Some(RDKafkaErrorCode::InvalidRecord) => (ErrorKind::InvalidInput, INVALID, false),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                (ErrorKind::InvalidConfig, NO_TOPIC, false)
            }
            // A user that may write to no topic at all may not be idempotent either.
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed,
            ) => (ErrorKind::InvalidConfig, NO_RIGHT, false),
            Some(RDKafkaErrorCode::MessageTimedOut) => (
                ErrorKind::Timeout,
                "no broker confirmed the message in time",
                is_sent,
            ),
            _ => (
                ErrorKind::Unavailable,
                "the message was not confirmed",
                is_sent,
            ),
        };
        let refused = Error::new(kind, format!("{topic}: {why}"));
        let refused = match kind {
            ErrorKind::Timeout | ErrorKind::Unavailable => {
                refused.with_code(Code::TargetUnavailable)
            }
            _ => refused,
        };
        let refused = refused.with_source(error);
        if is_maybe {
            refused
        } else {
            refused.not_applied()
        }
    }
}

impl Sink for KafkaSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let confirmed = self.confirmed(batch, false).await.into_iter();
        confirmed.map(|answer| answer.map(drop)).collect()
    }

    async fn place(&self, batch: &[Publication]) -> Vec<Result<Placement>> {
        self.confirmed(batch, true).await
    }

    fn sends_ids(&self) -> bool {
        self.has_id_header
    }
}

impl KafkaSink {
    /// Publishes messages, and learns where each is if that is wanted.
    async fn confirmed(&self, batch: &[Publication], is_placed: bool) -> Vec<Result<Placement>> {
        if !self.is_there.load(Ordering::Relaxed) {
            if let Err(error) = self.await_topic().await {
                return vec![Err(error); batch.len()];
            }
            self.is_there.store(true, Ordering::Relaxed);
        }
        let producer = match self.producer() {
            Ok(producer) => producer,
            Err(error) => return vec![Err(error); batch.len()],
        };
        let mut sent = self.sent(&producer, batch, is_placed).await;
        let is_of_refused_set = |answer: &std::result::Result<Placement, Unpublished>| {
            let Err(Unpublished::NotConfirmed(error)) = answer else {
                return false;
            };
            let code = error.rdkafka_error_code();
            code.is_some_and(|code| REFUSED_TOGETHER.contains(&code))
        };
        if sent
            .iter()
            .filter(|answer| is_of_refused_set(answer))
            .count()
            > 1
        {
            // The broker refuses the records that came with one that it does not take, too. Sent one by one, they show
            // which it is.
            for (answer, message) in sent.iter_mut().zip(batch) {
                if is_of_refused_set(answer) {
                    let one = std::slice::from_ref(message);
                    let mut one = self.sent(&producer, one, is_placed).await;
                    if let Some(one) = one.pop() {
                        *answer = one;
                    }
                }
            }
        }
        let sent = sent.into_iter();
        let confirmed: Vec<_> = sent
            .map(|answer| answer.map_err(|why| self.unpublished(&producer, why)))
            .collect();
        let failed = |answer: &Result<Placement>| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| error.kind() != ErrorKind::InvalidInput)
        };
        if confirmed.iter().any(failed) {
            self.is_there.store(false, Ordering::Relaxed);
        }
        confirmed
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KafkaSink({})", self.topic)
    }
}

/// Reason why a message is not published, or why its fate is unknown.
enum Unpublished {
    /// librdkafka did not take it.
    NotSent(KafkaError),
    /// No broker confirmed it.
    NotConfirmed(KafkaError),
}

fn is_of_no_topic(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let code = source
        .and_then(|source| source.downcast_ref::<KafkaError>())
        .and_then(KafkaError::rdkafka_error_code);
    matches!(
        code,
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)
    )
}

fn made(config: &ClientConfig, watch: &Watch) -> Result<Arc<Out>> {
    let producer = config.create_with_context(Reports::new(watch.clone()));
    producer.map(Arc::new).map_err(not_made)
}

/// Setting for the time that a new topic needs to reach all brokers.
const PROPAGATION: &str = "topic.metadata.propagation.max.ms";

/// Its value in milliseconds, unless the user has set one.
const USUAL_PROPAGATION: &str = "5000";

/// The time for which a record waits for others beside it: a property with two names.
const LINGER: [&str; 2] = ["linger.ms", "queue.buffering.max.ms"];

/// Its value in milliseconds, unless the user has set one; librdkafka's own is 5.
const USUAL_LINGER: &str = "1";

/// The pause between two looks for the topic.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The longest wait for the cluster to say whether it has the topic.
const ANSWER: Duration = Duration::from_secs(5);

/// Settings of a producer that the user cannot have.
const OURS: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "enable.idempotence",
    "message.timeout.ms",
    "request.required.acks",
    "transactional.id",
];

/// The failures of a set of records of which one is at fault.
const REFUSED_TOGETHER: [RDKafkaErrorCode; 3] = [
    RDKafkaErrorCode::MessageSizeTooLarge,
    RDKafkaErrorCode::InvalidRecord,
    RDKafkaErrorCode::InvalidDifferentRecord,
];
