//! Records of chosen partitions, read many at a time.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use rdkafka::Timestamp;
use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{Header, Headers, Message};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

/// A queue of a consumer's, which records of chosen partitions go to, and nothing else.
///
/// The caller that reads from it goes on calling [`BaseConsumer::poll`], which has the events, and the records of all
/// other partitions. A read counts as a poll for `max.poll.interval.ms`.
pub struct RecordQueue<C: ConsumerContext> {
    queue: NonNull<native::rd_kafka_queue_t>,
    /// The consumer that the queue is a part of.
    consumer: Arc<BaseConsumer<C>>,
}

// SAFETY: librdkafka's queues may be used by any thread and by several at once; each call takes the queue's lock.
unsafe impl<C: ConsumerContext> Send for RecordQueue<C> {}
// SAFETY: as for `Send`.
unsafe impl<C: ConsumerContext> Sync for RecordQueue<C> {}

impl<C: ConsumerContext> RecordQueue<C> {
    /// Creates a queue that no partition's records go to yet.
    ///
    /// # Errors
    /// librdkafka makes none.
    pub fn new(consumer: Arc<BaseConsumer<C>>) -> KafkaResult<Self> {
        let client = consumer.client().native_ptr();
        // SAFETY: the client is open for as long as `consumer` lives.
        let queue = unsafe { native::rd_kafka_queue_new(client) };
        let queue = NonNull::new(queue).ok_or_else(|| made_none("no queue"))?;
        Ok(Self { queue, consumer })
    }

    /// Directs the records of a partition to this queue; those that wait for the consumer's poll stay there. So that
    /// none is read behind a later one, this belongs before the partition is assigned, each time that it is: into
    /// [`ConsumerContext::pre_rebalance`], or before [`Consumer::assign`].
    ///
    /// # Errors
    /// The topic's name has a zero in it, or librdkafka makes no such partition.
    pub fn take(&self, topic: &str, partition: i32) -> KafkaResult<()> {
        let topic = CString::new(topic)?;
        let client = self.consumer.client().native_ptr();
        // SAFETY: the client is open for as long as `self.consumer` lives, and `topic` ends with a zero.
        let from =
            unsafe { native::rd_kafka_queue_get_partition(client, topic.as_ptr(), partition) };
        let from = NonNull::new(from).ok_or_else(|| made_none("no such partition"))?;
        // SAFETY: both queues are of this client. librdkafka keeps what it forwards to, so that ours may end before.
        unsafe { native::rd_kafka_queue_forward(from.as_ptr(), self.queue.as_ptr()) };
        // SAFETY: this reference was given to us, and ends here.
        unsafe { native::rd_kafka_queue_destroy(from.as_ptr()) };
        Ok(())
    }

    /// Reads at most `most` records that are there; where none is, waits as long as `patience` for one.
    ///
    /// A failure of a partition comes as an error, in its place between records.
    pub fn read(&self, most: usize, patience: Duration) -> Records<'_> {
        let mut read = self.fill(most, Duration::ZERO);
        if read.is_empty() && !patience.is_zero() {
            // For several it would wait until there are so many.
            read = self.fill(most.min(1), patience);
        }
        Records {
            read: read.into_iter(),
            queue: PhantomData,
        }
    }

    fn fill(&self, most: usize, patience: Duration) -> Vec<Owned> {
        let mut read: Vec<Owned> = Vec::with_capacity(most);
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is open; `read` has room for `most` pointers, since `Owned` is one, and librdkafka writes
        // no more than that.
        let count = unsafe {
            let room = read.spare_capacity_mut().as_mut_ptr().cast();
            native::rd_kafka_consume_batch_queue(self.queue.as_ptr(), patience, room, most)
        };
        // SAFETY: so many were written, none of them null, and each is ours to destroy.
        unsafe { read.set_len(usize::try_from(count).unwrap_or_default()) };
        read
    }
}

impl<C: ConsumerContext> Drop for RecordQueue<C> {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, and before the client, which `self.consumer` keeps open.
        unsafe { native::rd_kafka_queue_destroy(self.queue.as_ptr()) };
    }
}

fn made_none(what: &str) -> KafkaError {
    KafkaError::ClientCreation(what.to_owned())
}

/// A record of librdkafka's that is ours to destroy.
#[repr(transparent)]
struct Owned(NonNull<native::rd_kafka_message_t>);

impl Owned {
    fn get(&self) -> &native::rd_kafka_message_t {
        // SAFETY: it lives until it is destroyed, which is when `self` is dropped, and nobody writes to it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, and before its client: no `Records` outlives its queue.
        unsafe { native::rd_kafka_message_destroy(self.0.as_ptr()) };
    }
}

/// Records and errors of one read.
pub struct Records<'q> {
    read: vec::IntoIter<Owned>,
    queue: PhantomData<&'q ()>,
}

impl<'q> Iterator for Records<'q> {
    type Item = KafkaResult<BorrowedRecord<'q>>;

    fn next(&mut self) -> Option<Self::Item> {
        let message = self.read.next()?;
        let native::rd_kafka_message_t { err, partition, .. } = *message.get();
        Some(match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(BorrowedRecord::of(message)),
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                Err(KafkaError::PartitionEOF(partition))
            }
            err => Err(KafkaError::MessageConsumption(RDKafkaErrorCode::from(err))),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.read.size_hint()
    }
}

impl ExactSizeIterator for Records<'_> {}

/// A record, in librdkafka's memory.
pub struct BorrowedRecord<'q> {
    headers: Option<RecordHeaders>,
    message: Owned,
    queue: PhantomData<&'q ()>,
}

impl BorrowedRecord<'_> {
    fn of(message: Owned) -> Self {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is there; where this succeeds, `headers` are the message's own and live as long as it.
        let has = unsafe { native::rd_kafka_message_headers(message.0.as_ptr(), &raw mut headers) };
        let has = has == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
        Self {
            headers: NonNull::new(headers).filter(|_| has).map(RecordHeaders),
            message,
            queue: PhantomData,
        }
    }
}

/// Returns the bytes that librdkafka has there; `None` where it has a null.
///
/// # Safety
/// At a `start` that is not null there are `len` bytes, and nobody writes to them for as long as `'m`.
unsafe fn bytes<'m>(start: *const std::ffi::c_void, len: usize) -> Option<&'m [u8]> {
    // SAFETY: as above.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), len) })
}

impl Message for BorrowedRecord<'_> {
    type Headers = RecordHeaders;

    fn key(&self) -> Option<&[u8]> {
        let message = self.message.get();
        // SAFETY: the key of a message is its own, and lives as long as it.
        unsafe { bytes(message.key, message.key_len) }
    }

    fn payload(&self) -> Option<&[u8]> {
        let message = self.message.get();
        // SAFETY: the payload of a message is its own, and lives as long as it.
        unsafe { bytes(message.payload, message.len) }
    }

    unsafe fn payload_mut(&mut self) -> Option<&mut [u8]> {
        let &native::rd_kafka_message_t { payload, len, .. } = self.message.get();
        // SAFETY: as for `payload`; the caller vouches that it may be written to.
        (!payload.is_null()).then(|| unsafe { slice::from_raw_parts_mut(payload.cast(), len) })
    }

    fn topic(&self) -> &str {
        // SAFETY: a message without an error has a topic, whose name ends with a zero and lives as long as it.
        let name = unsafe { CStr::from_ptr(native::rd_kafka_topic_name(self.message.get().rkt)) };
        name.to_str().unwrap_or_default()
    }

    fn partition(&self) -> i32 {
        self.message.get().partition
    }

    fn offset(&self) -> i64 {
        self.message.get().offset
    }

    fn timestamp(&self) -> Timestamp {
        use native::rd_kafka_timestamp_type_t as Kind;
        let mut kind = Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is there.
        let time =
            unsafe { native::rd_kafka_message_timestamp(self.message.0.as_ptr(), &raw mut kind) };
        match kind {
            Kind::RD_KAFKA_TIMESTAMP_CREATE_TIME if time != -1 => Timestamp::CreateTime(time),
            Kind::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME if time != -1 => {
                Timestamp::LogAppendTime(time)
            }
            _ => Timestamp::NotAvailable,
        }
    }

    fn headers(&self) -> Option<&RecordHeaders> {
        self.headers.as_ref()
    }
}

/// The headers of a record, which cannot outlive it.
pub struct RecordHeaders(NonNull<native::rd_kafka_headers_t>);

impl Headers for RecordHeaders {
    fn count(&self) -> usize {
        // SAFETY: they live as long as their record, which `self` is a part of.
        unsafe { native::rd_kafka_header_cnt(self.0.as_ptr()) }
    }

    fn try_get(&self, idx: usize) -> Option<Header<'_, &[u8]>> {
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: they live as long as their record, which `self` is a part of.
        let found = unsafe {
            native::rd_kafka_header_get_all(
                self.0.as_ptr(),
                idx,
                &raw mut name,
                &raw mut value,
                &raw mut len,
            )
        };
        if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: where there is such a header, its name ends with a zero and lives as long as the headers.
        let key = unsafe { CStr::from_ptr(name) };
        Some(Header {
            key: key.to_str().unwrap_or_default(),
            // SAFETY: so does its value.
            value: unsafe { bytes(value, len) },
        })
    }
}
