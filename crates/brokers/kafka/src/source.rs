//! The source: one member of a consumer group.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use rdkafka::consumer::{BaseConsumer, Consumer};
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::{Clock, Result};

use crate::consumer_thread::run;
use crate::context::Context;
use crate::error::{no_thread, not_made};
use crate::options::{Options, invalid};
use crate::shared::{End, Found, Shared};
use crate::streamed::images::Restoring;
use crate::streamed::{KafkaStream, StreamOptions};

/// Records of the partitions that the group gives to this member.
///
/// # Guarantee   SRC-1 to SRC-3: only the contiguous finished prefix of a partition is committed
/// # Cost        a thread of its own; about 4,000 records or 32 MiB read ahead beside what librdkafka holds. Small
/// records share pieces of 16 KiB, of which each is kept for as long as something of it is
pub struct KafkaSource {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl KafkaSource {
    /// Joins the group. A cluster that is away is no error here: [`Source::fetch`] reports it.
    ///
    /// # Errors
    /// `InvalidConfig`: a setting that librdkafka does not take, or that is not the user's.
    pub fn new(options: Options) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        Self::member(options, shared, None).map(|(source, _)| source)
    }

    /// Joins the group, to commit outputs together with the offsets read. Within a Tokio runtime.
    ///
    /// # Errors
    /// As [`KafkaSource::new`], for either end; and `InvalidConfig`: more than one topic, or a setting that
    /// would have open transactions read.
    pub fn streamed(
        options: Options,
        stream: StreamOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, KafkaStream)> {
        if options.topics.len() != 1 {
            return Err(invalid("transactions are over one topic"));
        }
        if options.has("isolation.level") {
            let message = "`isolation.level` decides what is read again, and is Semel's to set with \
                           transactions; remove it";
            return Err(invalid(message));
        }
        let shared = Arc::new(Shared::default());
        let (stream, restoring) = KafkaStream::new(stream, &options, Arc::clone(&shared), clock)?;
        let (source, consumer) = Self::member(options, shared, Some(restoring))?;
        stream.reads_by(consumer)?;
        Ok((source, stream))
    }

    fn member(
        options: Options,
        shared: Arc<Shared>,
        restoring: Option<Restoring>,
    ) -> Result<(Self, Weak<BaseConsumer<Context>>)> {
        let config = options.config()?;
        let topics: Vec<_> = options.topics.iter().map(ToString::to_string).collect();
        let context = Context {
            shared: Arc::clone(&shared),
            options,
            restoring,
            connection_error: Arc::default(),
            records: OnceLock::new(),
        };
        let consumer: BaseConsumer<Context> =
            config.create_with_context(context).map_err(not_made)?;
        let consumer = Arc::new(consumer);
        let member = Arc::downgrade(&consumer);
        let topics: Vec<_> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(not_made)?;
        let thread = std::thread::Builder::new()
            .name("semel-kafka".into())
            .spawn(move || run(consumer));
        let thread = thread.map_err(no_thread)?;
        let source = Self {
            shared,
            thread: Some(thread),
        };
        Ok((source, member))
    }
}

impl Source for KafkaSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        loop {
            let found = self.shared.lock().fetch(max);
            match found {
                Found::Deliveries(deliveries) => {
                    self.shared.wake();
                    return Ok(Fetched::Deliveries(deliveries));
                }
                Found::Revoked(deliveries) => return Ok(Fetched::Revoked(deliveries)),
                Found::Away(error) => return Ok(Fetched::Away(error)),
                Found::Back => return Ok(Fetched::Back),
                Found::Failed(error) => return Err(error),
                Found::Nothing => self.shared.arrived().await,
            }
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.shared.finish(batch.iter().map(|told| told.delivery));
        Ok(())
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.shared.lock().give_back(batch);
        self.shared.wake();
        Ok(())
    }

    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        // Membership depends on polling, which the thread does however long an effect takes.
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.shared.end(End::Orderly);
        while !self.shared.lock().is_over {
            self.shared.arrived().await;
        }
        match self.shared.lock().fetch(1) {
            Found::Failed(error) => Err(error),
            Found::Deliveries(_)
            | Found::Revoked(_)
            | Found::Away(_)
            | Found::Back
            | Found::Nothing => Ok(()),
        }
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.shared.end(End::AtOnce);
        // It leaves the group by itself; dropping a source does not wait for that.
        drop(self.thread.take());
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaSource")
    }
}
