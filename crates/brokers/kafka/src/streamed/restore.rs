//! The thread that restores images from the changelog.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::runtime::Handle;

use super::changelog::{self, Unfit};
use super::{Images, StreamOptions, block};
use crate::error::{away, no_thread, not_made};
use crate::options::{Options, client};
use crate::shared::{AssignmentId, Shared};
use crate::trouble::Trouble;

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

/// A consumer that is no member of the group, and only asks and reads.
fn reader(source: &Options, isolation: &str) -> Result<BaseConsumer> {
    let mut config: ClientConfig = client(&source.brokers, &source.properties, &[])?;
    // Whose committed offsets are asked for.
    config.set("group.id", &*source.group);
    config.set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    config.set("isolation.level", isolation);
    config.remove("group.instance.id");
    config.create().map_err(not_made)
}

struct Restorer {
    options: StreamOptions,
    source: Options,
    images: Arc<Images>,
    shared: Arc<Shared>,
    /// Sees what is committed, and the end of that.
    committed: BaseConsumer,
    /// Sees the end of everything.
    uncommitted: BaseConsumer,
    runtime: Handle,
    /// Whether the changelog was looked at.
    is_fit: bool,
}

/// Why an image is not restored yet.
enum Failed {
    /// The cluster, or a part of it, is away.
    Away(KafkaError),
    /// This can never be.
    Unfit(Error),
    /// Nobody wants it any more.
    Unwanted,
}

impl From<KafkaError> for Failed {
    fn from(error: KafkaError) -> Self {
        Self::Away(error)
    }
}

impl Restorer {
    fn run(mut self) {
        while let Some((id, partition, next)) = self.wanted() {
            match self.restore(id, partition, next) {
                Ok(()) | Err(Failed::Unwanted) => {}
                Err(Failed::Away(error)) => {
                    if let Some(code) = error.rdkafka_error_code() {
                        self.shared
                            .lock()
                            .away(away(code, &self.source, &Trouble::default()));
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

    /// Waits for an image that is to be restored, and says from where.
    fn wanted(&self) -> Option<(AssignmentId, i32, Option<i64>)> {
        let mut state = self.images.lock();
        loop {
            let mut all = state.iter();
            if let Some((id, known)) = all.find(|(_, known)| !known.is_restored) {
                return Some((*id, known.number, known.next));
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

    fn is_wanted(&self, id: AssignmentId) -> std::result::Result<(), Failed> {
        // One lock at a time: the consumer takes the other one first.
        let is_there = self.images.lock().contains_key(&id);
        if is_there && !self.shared.lock().is_over {
            return Ok(());
        }
        Err(Failed::Unwanted)
    }

    /// Restores the image of one assignment, from an offset of the changelog or from where its window begins.
    fn restore(
        &mut self,
        id: AssignmentId,
        partition: i32,
        next: Option<i64>,
    ) -> std::result::Result<(), Failed> {
        let Self { runtime, .. } = self;
        if !self.is_fit {
            let look = changelog::fit(&self.source, &self.options, &self.uncommitted);
            let partitions = runtime.block_on(look).map_err(|unfit| match unfit {
                Unfit::Away(error) => Failed::Away(error),
                Unfit::Never(error) => Failed::Unfit(error),
            })?;
            let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
            self.images.partitions.store(partitions, Ordering::Relaxed);
            self.is_fit = true;
        }
        // No transaction of a former owner is open over the partition: the offsets of one that is, are not
        // answered. Whoever begins one later is not of the group's generation any more.
        let mut asked = TopicPartitionList::new();
        for topic in &self.source.topics {
            asked.add_partition(topic, partition);
        }
        while self
            .committed
            .committed_offsets(asked.clone(), ASK)
            .is_err()
        {
            self.is_wanted(id)?;
            std::thread::sleep(AGAIN);
        }
        // Whatever they wrote is in the changelog now, and has an end.
        let changelog = &*self.options.changelog;
        let (_, end) = self
            .uncommitted
            .fetch_watermarks(changelog, partition, ASK)?;
        while self
            .committed
            .fetch_watermarks(changelog, partition, ASK)?
            .1
            < end
        {
            self.is_wanted(id)?;
            std::thread::sleep(LOOK / 20);
        }
        if let Some(from) = self.from(partition, next)?.filter(|from| *from < end) {
            self.read(id, partition, from)?;
        }
        let mut images = self.images.lock();
        let known = images.get_mut(&id).ok_or(Failed::Unwanted)?;
        known.next = known.next.max(Some(end));
        known.is_restored = true;
        drop(images);
        self.shared.lock().may_be_fetched(id);
        self.shared.tell();
        self.shared.wake();
        Ok(())
    }

    /// Where to begin: behind what is known, or where what is still inside its window begins.
    fn from(&self, partition: i32, next: Option<i64>) -> std::result::Result<Option<i64>, Failed> {
        if next.is_some() {
            return Ok(next);
        }
        let window = self.options.window.duration();
        let since = self.images.clock.now().minus(window + window / 8 + SLACK);
        let mut times = TopicPartitionList::new();
        let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let changelog = &self.options.changelog;
        times.add_partition_offset(changelog, partition, Offset::Offset(since))?;
        let found = self.committed.offsets_for_times(times, ASK)?;
        let found = found.elements().first().map(TopicPartitionListElem::offset);
        Ok(match found {
            Some(Offset::Offset(offset)) => Some(offset),
            // Nothing so young.
            _ => None,
        })
    }

    /// Reads what is committed, to its end.
    fn read(&self, id: AssignmentId, partition: i32, from: i64) -> std::result::Result<(), Failed> {
        let changelog = &*self.options.changelog;
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(changelog, partition, Offset::Offset(from))?;
        self.committed.assign(&place)?;
        loop {
            let message = match self.committed.poll(LOOK) {
                None => {
                    self.is_wanted(id)?;
                    continue;
                }
                Some(Err(KafkaError::PartitionEOF(_))) => break,
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(message)) => message,
            };
            let (offset, payload) = (message.offset(), message.payload().unwrap_or_default());
            let Some((at, entries)) = block::read(payload) else {
                let message = format!(
                    "{changelog}, partition {partition}, offset {offset}: no changelog of this \
                     version; use the version that wrote it, or a topic of its own"
                );
                let error = Error::new(ErrorKind::Corrupt, message).with_code(Code::RecordCorrupt);
                return Err(Failed::Unfit(error));
            };
            let mut images = self.images.lock();
            let known = images.get_mut(&id).ok_or(Failed::Unwanted)?;
            known.image.insert(at, entries);
            known.next = Some(offset + 1);
        }
        self.committed.unassign()?;
        Ok(())
    }
}

/// How long a question to the cluster may take.
const ASK: Duration = Duration::from_secs(5);
/// How long to wait after a failure.
const AGAIN: Duration = Duration::from_millis(200);
/// How often to look whether a restoration is still wanted.
const LOOK: Duration = Duration::from_millis(200);
/// Longer than any clock is off.
const SLACK: Duration = Duration::from_secs(600);
