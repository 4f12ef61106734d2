//! The thread that restores images from the changelog: those of all waiting partitions at once.

mod read;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use semel_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

use super::StreamOptions;
use super::changelog::{self, Unfit};
use super::images::{Images, Known, Partition};
use crate::connection_error::ConnectionError;
use crate::error::{away, no_thread, not_made};
use crate::options::{Options, client};
use crate::shared::{AssignmentId, Shared};

/// Starts the thread. It ends with the consumer.
pub(super) fn spawn(
    options: &StreamOptions,
    source: &Options,
    images: Arc<Images>,
    shared: Arc<Shared>,
) -> Result<()> {
    let committed = reader(source, "read_committed")?;
    let uncommitted = reader(source, "read_uncommitted")?;
    let runtime = Handle::try_current().map_err(|error| {
        let message = "Kafka transactions need a Tokio runtime";
        Error::new(ErrorKind::Internal, message).with_source(error)
    })?;
    let restorer = Restorer {
        options: options.clone(),
        source: source.clone(),
        images,
        shared,
        committed,
        uncommitted,
        runtime,
        is_fit: false,
    };
    let thread = std::thread::Builder::new()
        .name("semel-kafka-restore".into())
        .spawn(move || restorer.run());
    thread.map(drop).map_err(no_thread)
}

/// Creates a consumer that is no member of the group, and only asks and reads.
fn reader(source: &Options, isolation: &str) -> Result<BaseConsumer> {
    let mut config: ClientConfig = client(&source.brokers, &source.properties, &[])?;
    // The group whose committed offsets are read.
    config.set("group.id", &*source.group);
    config.set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    config.set("isolation.level", isolation);
    // A block may have more than half a megabyte, and a thousand small ones are read at once.
    config.set("fetch.queue.backoff.ms", "5");
    config.set("fetch.message.max.bytes", "8388608");
    config.remove("group.instance.id");
    config.create().map_err(not_made)
}

struct Restorer {
    options: StreamOptions,
    source: Options,
    images: Arc<Images>,
    shared: Arc<Shared>,
    /// Sees committed records, and the end of those.
    committed: BaseConsumer,
    /// Sees the end of everything.
    uncommitted: BaseConsumer,
    runtime: Handle,
    /// Set once the changelog was checked.
    is_fit: bool,
}

/// Reason why an image is not restored yet.
enum Failed {
    /// The cluster, or a part of it, is away.
    Away(KafkaError),
    /// The changelog can never be used.
    Unfit(Error),
    /// The partition is no longer wanted.
    Unwanted,
}

impl From<KafkaError> for Failed {
    fn from(error: KafkaError) -> Self {
        Self::Away(error)
    }
}

/// An image that is to be restored.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    id: AssignmentId,
    /// The offset of the changelog behind the image's last record, once something was read.
    next: Option<i64>,
}

/// Images to restore, by partition.
type Batch = BTreeMap<i32, Wanted>;

impl Restorer {
    fn run(mut self) {
        // The group is joined meanwhile. A failure now comes again once a partition is assigned.
        let _ = self.look_at_changelog();
        while let Some(batch) = self.wanted() {
            match self.restore(batch) {
                Ok(()) | Err(Failed::Unwanted) => {}
                Err(Failed::Away(error)) => {
                    if let Some(code) = error.rdkafka_error_code() {
                        self.shared.lock().goes_wrong(
                            code,
                            away(code, &self.source, &ConnectionError::default()),
                        );
                        self.shared.tell();
                    }
                    std::thread::sleep(AGAIN);
                }
                Err(Failed::Unfit(error)) => {
                    self.shared.lock().failed(error);
                    self.shared.tell();
                    return;
                }
            }
        }
    }

    /// Waits for images that are to be restored.
    fn wanted(&self) -> Option<Batch> {
        let mut state = self.images.lock();
        loop {
            let batch = batch(&state);
            if !batch.is_empty() {
                return Some(batch);
            }
            drop(state);
            if self.shared.lock().is_over {
                return None;
            }
            state = self.images.lock();
            if state.values().all(|known| known.is_restored) {
                let waited = self.images.changed.wait_timeout(state, LOOK);
                state = match waited {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                };
            }
        }
    }

    /// Leaves out images that are no longer wanted.
    fn keep_wanted(&self, batch: &mut Batch) -> std::result::Result<(), Failed> {
        // One lock at a time: the consumer takes the other one first.
        let known = self.images.lock();
        batch.retain(|_, wanted| known.contains_key(&wanted.id));
        drop(known);
        if batch.is_empty() || self.shared.lock().is_over {
            return Err(Failed::Unwanted);
        }
        Ok(())
    }

    /// Makes sure that the changelog is there and fit for use, once.
    fn look_at_changelog(&mut self) -> std::result::Result<(), Failed> {
        if self.is_fit {
            return Ok(());
        }
        let look = changelog::fit(&self.source, &self.options, &self.uncommitted);
        let partitions = self.runtime.block_on(look).map_err(|unfit| match unfit {
            Unfit::Away(error) => Failed::Away(error),
            Unfit::Never(error) => Failed::Unfit(error),
        })?;
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        self.images.partitions.store(partitions, Ordering::Relaxed);
        self.is_fit = true;
        Ok(())
    }

    /// Restores images, each from an offset of the changelog or from where its window begins.
    fn restore(&mut self, mut batch: Batch) -> std::result::Result<(), Failed> {
        self.look_at_changelog()?;
        self.await_former_owners(&mut batch)?;
        let ends = self.ends(&mut batch)?;
        let from = self.begins(&batch)?;
        let places = batch.into_iter().map(|(partition, Wanted { id, .. })| {
            let end = ends.get(&partition).copied().unwrap_or_default();
            let from = from.get(&partition).copied().unwrap_or(end).min(end);
            (partition, read::ReadRange { id, from, end })
        });
        self.read(places.collect())
    }

    /// Waits until no transaction of a former owner is open over a partition: the broker does not answer the offsets of
    /// a partition with an open one. A former owner that begins one later is no longer of the group's generation. Where
    /// some partitions have one, the others need not wait for them.
    fn await_former_owners(&self, batch: &mut Batch) -> std::result::Result<(), Failed> {
        let is_settled = |partitions: &[i32], patience| {
            let mut asked = TopicPartitionList::new();
            for topic in &self.source.topics {
                for partition in partitions {
                    asked.add_partition(topic, *partition);
                }
            }
            self.committed.committed_offsets(asked, patience).is_ok()
        };
        loop {
            let all: Vec<_> = batch.keys().copied().collect();
            if is_settled(&all, ASK) {
                return Ok(());
            }
            self.keep_wanted(batch)?;
            let settled: Vec<_> = batch.keys().copied().collect();
            let settled = settled.into_iter();
            let settled: Vec<_> = settled.filter(|it| is_settled(&[*it], AGAIN)).collect();
            if !settled.is_empty() {
                batch.retain(|partition, _| settled.contains(partition));
                return Ok(());
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Returns the present ends of the changelogs, once everything before them is committed or aborted: all writes of
    /// former owners are before them.
    fn ends(&self, batch: &mut Batch) -> std::result::Result<BTreeMap<i32, i64>, Failed> {
        let changelog = &*self.options.changelog;
        let end_of = |reader: &BaseConsumer, partition| {
            let found = reader.fetch_watermarks(changelog, partition, ASK);
            found.map(|(_, end)| end)
        };
        let mut ends = BTreeMap::new();
        for partition in batch.keys() {
            ends.insert(*partition, end_of(&self.uncommitted, *partition)?);
        }
        for (partition, end) in &ends {
            while batch.contains_key(partition) && end_of(&self.committed, *partition)? < *end {
                self.keep_wanted(batch)?;
                std::thread::sleep(LOOK / 20);
            }
        }
        Ok(ends)
    }

    /// Returns the offsets to begin at: behind the records already in an image, or at the first one still inside its
    /// window. A partition without any so young has none.
    fn begins(&self, batch: &Batch) -> std::result::Result<BTreeMap<i32, i64>, Failed> {
        let changelog = &self.options.changelog;
        let window = self.options.window.duration();
        let since = self.images.clock.now().minus(window + window / 8 + SLACK);
        let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let mut begins = BTreeMap::new();
        let mut times = TopicPartitionList::new();
        for (partition, wanted) in batch {
            match wanted.next {
                Some(next) => {
                    begins.insert(*partition, next);
                }
                None => {
                    times.add_partition_offset(changelog, *partition, Offset::Offset(since))?;
                }
            }
        }
        if times.count() > 0 {
            for found in self.committed.offsets_for_times(times, ASK)?.elements() {
                found.error()?;
                if let Offset::Offset(offset) = found.offset() {
                    begins.insert(found.partition(), offset);
                }
            }
        }
        Ok(begins)
    }
}

/// Collects the images to restore.
fn batch(known: &Known) -> Batch {
    let all = known.iter().filter(|(_, known)| !known.is_restored);
    let wanted = |(id, known): (&AssignmentId, &Partition)| {
        let next = known.next;
        (known.number, Wanted { id: *id, next })
    };
    // The newest assignment of a partition counts, and is the last.
    all.map(wanted).collect()
}

/// The longest wait for an answer of the cluster.
const ASK: Duration = Duration::from_secs(5);
/// Pause after a failure.
const AGAIN: Duration = Duration::from_millis(200);
/// Pause between two checks whether a restoration is still wanted.
const LOOK: Duration = Duration::from_millis(200);
/// Longer than any clock is off.
const SLACK: Duration = Duration::from_secs(600);
