//! The state that librdkafka's callbacks work on, and what they do: errors, and partitions that come and go.

use std::sync::{Arc, OnceLock, Weak};

use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use semel_rdkafka_batch::RecordQueue;
use tokio::time::Instant;

use crate::commit::commit;
use crate::connection_error::ConnectionError;
use crate::error::{away, fatal};
use crate::options::Options;
use crate::shared::{End, Shared};
use crate::streamed::images::Restoring;

/// Callbacks of librdkafka.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    /// Set where records are committed in transactions: the image of a partition is restored before the partition is
    /// read.
    pub(crate) restoring: Option<Restoring>,
    pub(crate) connection_error: Arc<ConnectionError>,
    /// Queue that receives the records of the partitions, for as long as the thread reads it.
    pub(crate) records: OnceLock<Weak<RecordQueue<Context>>>,
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        self.connection_error.note(&error, reason);
        if let Some(code) = error.rdkafka_error_code() {
            let error = away(code, &self.options, &self.connection_error);
            let mut state = self.shared.lock();
            state.goes_wrong(code, error);
            drop(state);
            self.shared.tell();
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(partitions) => self.take(partitions),
            Rebalance::Revoke(partitions) => self.let_go(consumer, partitions),
            Rebalance::Error(_) => {}
        }
    }

    fn post_rebalance(&self, _consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(partitions) = rebalance else {
            return;
        };
        let mut state = self.shared.lock();
        for partition in partitions.elements() {
            let (topic, partition) = (partition.topic(), partition.partition());
            let id = state.assign(topic, partition, self.restoring.is_none());
            if let Some(restoring) = &self.restoring {
                restoring.begin(id, partition);
            }
        }
    }
}

impl Context {
    /// Directs the records of these partitions to the queue that is read many at a time, before any is there.
    fn take(&self, partitions: &TopicPartitionList) {
        let Some(records) = self.records.get().and_then(Weak::upgrade) else {
            // The queue is no longer read.
            return;
        };
        for partition in partitions.elements() {
            if let Err(error) = records.take(partition.topic(), partition.partition()) {
                self.shared.lock().failed(fatal(error));
            }
        }
    }

    /// Drains first, commits, and then lets the partitions go. Where they are lost already, another member works on
    /// them, and there is nothing to wait for.
    fn let_go(&self, consumer: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        let named = partitions.elements();
        let named: Vec<_> = named
            .iter()
            .map(|it| (it.topic().into(), it.partition()))
            .collect();
        let is_lost = consumer.assignment_lost();
        let mut state = self.shared.lock();
        let leaving = state.leave(&named);
        self.shared.tell();
        let begun = Instant::now();
        while !is_lost && state.end != Some(End::AtOnce) && state.held(&leaving) > 0 {
            let left = self.options.drain.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            state = self.shared.wait(state, left);
        }
        let is_theirs = !is_lost && state.end != Some(End::AtOnce);
        drop(state);
        if is_theirs {
            // If it is refused, the records come again; so do unfinished ones.
            let _ = commit(consumer, &self.shared, Some(&leaving));
        }
        self.shared.lock().left(&leaving);
        if let Some(restoring) = &self.restoring {
            restoring.end(&leaving);
        }
    }
}
