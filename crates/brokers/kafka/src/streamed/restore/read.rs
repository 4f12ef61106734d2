//! Reads the changelog into images, all partitions beside each other.
//!
//! While it is read, an image is this thread's own, so that a caller that asks for another partition waits for nothing.
//! Progress and results are published a batch at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use semel_core::partition::Image;
use semel_core::{Code, Error, ErrorKind};

use super::{Failed, LOOK, Restorer};
use crate::shared::AssignmentId;
use crate::streamed::block;

/// Range to read of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRange {
    pub(super) id: AssignmentId,
    pub(super) from: i64,
    /// Offset behind the last record that counts.
    pub(super) end: i64,
}

/// One partition that is being read.
struct Reading {
    range: ReadRange,
    image: Image,
    next: i64,
}

type Readings = BTreeMap<i32, Reading>;

impl Restorer {
    /// Reads committed records, each partition to its end. Returns early when more is to be restored.
    pub(super) fn read(&self, ranges: BTreeMap<i32, ReadRange>) -> Result<(), Failed> {
        let mut readings = self.begin(ranges);
        let read = self.read_all(&mut readings);
        let left = self.committed.unassign();
        // No record that was read is read again.
        let mut known = self.images.lock();
        for reading in readings.into_values() {
            if let Some(known) = known.get_mut(&reading.range.id) {
                known.image = reading.image;
                known.next = Some(reading.next);
            }
        }
        drop(known);
        read?;
        Ok(left?)
    }

    /// Takes the images out, and publishes how far there is to go.
    fn begin(&self, ranges: BTreeMap<i32, ReadRange>) -> Readings {
        let mut known = self.images.lock();
        let mut readings = Readings::new();
        for (partition, range) in ranges {
            let Some(known) = known.get_mut(&range.id) else {
                continue;
            };
            let empty = Image::new(self.options.window);
            let image = std::mem::replace(&mut known.image, empty);
            // A reading that was broken off goes on where it stopped.
            let from = known.reach.map_or(range.from, |(from, _)| from);
            known.reach = Some((from, range.end));
            let next = range.from;
            let reading = Reading { range, image, next };
            readings.insert(partition, reading);
        }
        readings
    }

    fn read_all(&self, readings: &mut Readings) -> Result<(), Failed> {
        let changelog = &*self.options.changelog;
        let mut partitions = TopicPartitionList::new();
        let (mut done, mut begun) = (Vec::new(), 0);
        for (partition, reading) in &mut *readings {
            let ReadRange { from, end, .. } = reading.range;
            if from < end {
                partitions.add_partition_offset(changelog, *partition, Offset::Offset(from))?;
                begun += 1;
            } else {
                done.push(*partition);
            }
        }
        self.finish(readings, &done);
        if begun == 0 {
            return Ok(());
        }
        self.committed.assign(&partitions)?;
        loop {
            let Polled { messages, ended } = poll(&self.committed)?;
            for message in &messages {
                take_in(readings, message, changelog)?;
            }
            let is_idle = messages.is_empty() && ended.is_empty();
            drop(messages);
            self.finish(readings, &ended);
            if self.tell(readings) || readings.is_empty() {
                return Ok(());
            }
            if is_idle && self.shared.lock().is_over {
                return Err(Failed::Unwanted);
            }
        }
    }

    /// Publishes progress, and leaves out partitions that are no longer wanted; returns whether something else is
    /// wanted.
    fn tell(&self, readings: &mut Readings) -> bool {
        let mut known = self.images.lock();
        readings.retain(|_, reading| match known.get_mut(&reading.range.id) {
            Some(known) => {
                known.next = Some(reading.next);
                known.operations = reading.image.len();
                true
            }
            None => false,
        });
        let mut open = known.values().filter(|known| !known.is_restored);
        open.any(|known| !readings.contains_key(&known.number))
    }

    /// Finishes partitions that are read to their end: their records may be fetched.
    fn finish(&self, readings: &mut Readings, partitions: &[i32]) {
        let mut restored = Vec::new();
        let mut known = self.images.lock();
        for partition in partitions {
            let Some(reading) = readings.remove(partition) else {
                continue;
            };
            let Some(known) = known.get_mut(&reading.range.id) else {
                continue;
            };
            known.operations = reading.image.len();
            known.image = reading.image;
            known.next = Some(reading.next.max(reading.range.end));
            known.is_restored = true;
            restored.push(reading.range.id);
        }
        drop(known);
        if restored.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for id in restored {
            state.may_be_fetched(id);
        }
        drop(state);
        self.shared.tell();
        self.shared.wake();
    }
}

/// Records and ends of one look at the consumer.
#[derive(Default)]
struct Polled<'c> {
    messages: Vec<BorrowedMessage<'c>>,
    /// Partitions that have nothing more.
    ended: Vec<i32>,
}

/// Waits a little for the first record, and takes the others that are there.
fn poll(consumer: &BaseConsumer) -> Result<Polled<'_>, Failed> {
    let mut polled = Polled::default();
    let mut bytes = 0;
    let mut patience = LOOK;
    while polled.messages.len() < MOST && bytes < MOST_BYTES {
        match consumer.poll(patience) {
            None => break,
            // A record that is behind the end was not read before it.
            Some(Err(KafkaError::PartitionEOF(partition))) => polled.ended.push(partition),
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(message)) => {
                bytes += message.payload_len();
                polled.messages.push(message);
            }
        }
        patience = Duration::ZERO;
    }
    Ok(polled)
}

fn take_in(
    readings: &mut Readings,
    message: &BorrowedMessage<'_>,
    changelog: &str,
) -> Result<(), Failed> {
    let (partition, offset) = (message.partition(), message.offset());
    // A restored partition has a worker, which itself writes the records read here.
    let Some(reading) = readings.get_mut(&partition) else {
        return Ok(());
    };
    let Some((at, entries)) = block::read(message.payload().unwrap_or_default()) else {
        let message = format!(
            "{changelog}, partition {partition}, offset {offset}: no changelog of this version; use the \
             version that wrote it, or a topic of its own"
        );
        let error = Error::new(ErrorKind::Corrupt, message).with_code(Code::RecordCorrupt);
        return Err(Failed::Unfit(error));
    };
    reading.image.insert(at, entries);
    reading.next = offset + 1;
    Ok(())
}

/// Records and bytes that are taken in before progress is published.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 1 << 20;
