//! The transactional producers of a member: while the transaction of one is committed, that of the other is written.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};
use semel_core::{Error, Result};
use tokio::time::Instant;

use super::StreamOptions;
use super::images::{lock, unavailable};
use super::producer::{Reports, retried};
use crate::error::{NO_RIGHT, NO_TOPIC, no_thread, not_made};
use crate::options::{AUTO_CREATE, Options, client};

/// The producers that are free.
pub(super) struct Producers {
    idle: Mutex<Vec<Named>>,
    freed: Condvar,
    /// Reason why Semel works without the spare one.
    hindrance: Mutex<Option<Error>>,
}

/// A producer and the name of its transactions.
struct Named {
    transactional_id: Box<str>,
    output: Box<str>,
    config: ClientConfig,
    /// Set if Semel can work without it, one transaction after the other.
    is_spare: bool,
    /// Time of the last refusal, if it was refused.
    refused_at: Option<Instant>,
    made: Option<Made>,
}

/// A producer whose transactions may begin.
pub(super) struct Made {
    pub(super) producer: BaseProducer<Reports>,
    /// Set once it has looked the changelog up, which may be created after it.
    has_changelog: bool,
}

/// A producer in use, until this is dropped.
pub(super) struct Taken<'p> {
    producers: &'p Producers,
    /// Set until it is given back.
    named: Option<Named>,
}

impl Producers {
    pub(super) fn new(options: &StreamOptions, source: &Options) -> Result<Self> {
        let mut config = client(&source.brokers, &options.properties, OURS)?;
        config.set(
            "transaction.timeout.ms",
            options.transaction_timeout.as_millis().to_string(),
        );
        for (name, value) in [
            ("linger.ms", "5"),
            // A record that was taken needs no report of its own.
            ("delivery.report.only.error", "true"),
            ("queue.buffering.max.messages", "200000"),
            // A look creates nothing, and a name that is misspelt is no topic.
            (AUTO_CREATE, "false"),
        ] {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        let named = |is_spare| {
            let name = &options.transactional_id;
            let suffix = if is_spare { ALTERNATE } else { "" };
            let transactional_id = format!("{name}{suffix}");
            let mut config = config.clone();
            config.set("transactional.id", &transactional_id);
            Named {
                transactional_id: transactional_id.into(),
                output: options.output.clone(),
                config,
                is_spare,
                refused_at: None,
                made: None,
            }
        };
        Ok(Self {
            idle: Mutex::new(vec![named(false), named(true)]),
            freed: Condvar::new(),
            hindrance: Mutex::default(),
        })
    }

    /// Creates them ahead of their first transactions, which ends those that their predecessors left open. A failure
    /// now comes again at the first transaction.
    pub(super) fn begin(self: &Arc<Self>) -> Result<()> {
        let idle = std::mem::take(&mut *lock(&self.idle));
        for mut named in idle {
            let producers = Arc::clone(self);
            let thread = std::thread::Builder::new().name("semel-kafka-begin".into());
            let begun = thread.spawn(move || {
                let _ = producers.make(&mut named);
                producers.give_back(named);
            });
            begun.map_err(no_thread)?;
        }
        Ok(())
    }

    /// Waits for a free one that is created and whose former transaction has ended.
    pub(super) fn take(&self) -> Result<Taken<'_>> {
        loop {
            let mut named = self.wait();
            match self.make(&mut named) {
                Ok(true) => {
                    return Ok(Taken {
                        producers: self,
                        named: Some(named),
                    });
                }
                Ok(false) => self.give_back(named),
                Err(error) => {
                    let told = named.told(error);
                    self.give_back(named);
                    return Err(told.not_applied());
                }
            }
        }
    }

    /// Returns the reason why one transaction is written after the other, if that is so.
    pub(super) fn hindrance(&self) -> Option<Error> {
        lock(&self.hindrance).clone()
    }

    /// Creates it if it is not there. Returns `false` if Semel works without it for a while.
    fn make(&self, named: &mut Named) -> std::result::Result<bool, KafkaError> {
        let made = named.make();
        if !named.is_spare {
            return made.map(|()| true);
        }
        named.refused_at = None;
        let no_right = RDKafkaErrorCode::TransactionalIdAuthorizationFailed;
        match made {
            Ok(()) => {
                *lock(&self.hindrance) = None;
                Ok(true)
            }
            Err(error) if error.rdkafka_error_code() == Some(no_right) => {
                named.refused_at = Some(Instant::now());
                *lock(&self.hindrance) = Some(named.told(error));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn wait(&self) -> Named {
        let mut idle = lock(&self.idle);
        loop {
            let made = idle.iter().position(|named| named.made.is_some());
            let next = made.or_else(|| idle.iter().position(Named::is_worth_a_try));
            if let Some(next) = next {
                return idle.swap_remove(next);
            }
            let waited = self.freed.wait(idle);
            idle = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, named: Named) {
        lock(&self.idle).push(named);
        self.freed.notify_one();
    }
}

impl Taken<'_> {
    /// Returns the producer, if it was not lost.
    pub(super) fn made(&self) -> Option<&Made> {
        self.named.as_ref()?.made.as_ref()
    }

    /// Returns the producer, which knows the changelog.
    pub(super) fn producer(&mut self, changelog: &str) -> Result<&BaseProducer<Reports>> {
        let made = self.named.as_mut().and_then(|named| named.made.as_mut());
        let made = made.ok_or_else(|| unavailable("no producer").not_applied())?;
        if !std::mem::replace(&mut made.has_changelog, true) {
            look_up(&made.producer, changelog);
        }
        Ok(&made.producer)
    }

    /// Drops the producer: its next transaction is another producer's.
    pub(super) fn lose(&mut self) {
        if let Some(named) = &mut self.named {
            named.made = None;
        }
    }

    /// Creates another producer of the same name, which makes the coordinator end the transaction, one way or the
    /// other. Without one, the coordinator does so by itself when the transaction's time is over.
    pub(super) fn replace(&mut self) {
        if let Some(named) = &mut self.named {
            named.made = None;
            let _ = named.make();
        }
    }

    /// Ends the open transaction; if that fails, a new producer does.
    pub(super) fn abort(&mut self, timeout: Duration) {
        if let Some(Made { producer, .. }) = self.made()
            && retried(timeout, || producer.abort_transaction(timeout)).is_err()
        {
            self.replace();
        }
    }

    /// Returns the error for a refusal of the brokers.
    pub(super) fn refused(&self, error: KafkaError) -> Error {
        match &self.named {
            Some(named) => named.told(error),
            None => unavailable("no producer").with_source(error),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(named) = self.named.take() {
            self.producers.give_back(named);
        }
    }
}

impl Named {
    /// Creates the producer where there is none; its former transaction has ended then.
    fn make(&mut self) -> std::result::Result<(), KafkaError> {
        if self.made.is_some() {
            return Ok(());
        }
        let producer: BaseProducer<Reports> = self.config.create_with_context(Reports::default())?;
        // A producer that begins before a broker is connected begins again half a second later. A look is answered by
        // the connection that the client began with, which does not count as one of a broker.
        let output = &self.output;
        if look_up(&producer, output) {
            let _ = producer.client().fetch_watermarks(output, 0, LOOK_UP);
        }
        retried(INIT, || producer.init_transactions(INIT))?;
        self.made = Some(Made {
            producer,
            has_changelog: false,
        });
        Ok(())
    }

    /// Returns `false` if it was refused a moment ago.
    fn is_worth_a_try(&self) -> bool {
        let refused_at = self.refused_at;
        refused_at.is_none_or(|refused_at| refused_at.elapsed() >= REFUSED_FOR)
    }

    /// Returns the error for a failure.
    fn told(&self, error: KafkaError) -> Error {
        let Self {
            output,
            transactional_id,
            ..
        } = self;
        if let KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) = error {
            return not_made(error);
        }
        let message = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch) => {
                format!(
                    "transactions as {transactional_id}: another producer of the same name is at \
                     work, or the transaction took longer than its timeout"
                )
            }
            Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) => format!(
                "transactions as {transactional_id}: the user may not use the name; grant Write \
                 and Describe on the transactional id"
            ),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                format!("{output}: {NO_TOPIC}")
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                format!("{output}: {NO_RIGHT}")
            }
            _ => format!("{output}: the transaction was not committed"),
        };
        unavailable(message).with_source(error)
    }
}

/// Looks up a topic, so that the first record need not wait for that. Returns whether the brokers say that it is there.
fn look_up(producer: &BaseProducer<Reports>, topic: &str) -> bool {
    let found = producer.client().fetch_metadata(Some(topic), LOOK_UP);
    found.is_ok_and(|it| it.topics().iter().any(|topic| topic.error().is_none()))
}

/// Suffix of the second producer's name behind that of the first.
const ALTERNATE: &str = ".alternate";

/// The longest time in which a producer begins, which ends the transaction that its predecessor left open.
const INIT: Duration = Duration::from_secs(30);

/// Time for which Semel works without the second producer before it tries again whether the name may be used.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// The longest time for which a producer looks a topic up before anything is sent there.
const LOOK_UP: Duration = Duration::from_secs(1);

/// Settings of the producer that the user cannot have.
const OURS: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "enable.idempotence",
    "request.required.acks",
    "transaction.timeout.ms",
    "transactional.id",
];
