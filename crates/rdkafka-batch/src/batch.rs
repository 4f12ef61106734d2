//! Records without headers, handed over many at a time.

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::ProducerContext;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

/// Records on their way to [`Topic::send`], which copies the bytes that they borrow.
#[derive(Default)]
pub struct Batch<'r> {
    records: Vec<native::rd_kafka_message_t>,
    borrowed: PhantomData<&'r [u8]>,
}

impl<'r> Batch<'r> {
    /// Creates an empty batch with room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            records: Vec::with_capacity(count),
            borrowed: PhantomData,
        }
    }

    /// Adds one more. Its delivery report has `opaque`.
    pub fn push(&mut self, key: Option<&'r [u8]>, payload: Option<&'r [u8]>, opaque: usize) {
        let (key, key_len) = parts(key);
        let (payload, len) = parts(payload);
        self.records.push(native::rd_kafka_message_t {
            // Until it is taken: of more than fit into a call, the rest is handed over with the next.
            err: RDKafkaRespErr::RD_KAFKA_RESP_ERR__QUEUE_FULL,
            rkt: ptr::null_mut(),
            partition: BY_KEY,
            payload,
            len,
            key,
            key_len,
            offset: 0,
            _private: opaque as *mut c_void,
        });
    }

    /// Leaves out the first, which is the one reported when some were not taken.
    pub fn leave_out_first(&mut self) {
        if !self.records.is_empty() {
            self.records.remove(0);
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

fn parts(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        (bytes.as_ptr().cast_mut().cast(), bytes.len())
    })
}

/// Reason why librdkafka did not take a record.
#[derive(Debug)]
pub struct NotTaken {
    /// The opaque of the first of them.
    pub opaque: usize,
    /// The reason. With `QueueFull`, nothing behind it was taken either.
    pub error: KafkaError,
}

/// A topic that a producer sends to.
pub struct Topic<'p> {
    topic: NonNull<native::rd_kafka_topic_t>,
    producer: PhantomData<&'p ()>,
}

impl<'p> Topic<'p> {
    /// Creates the topic of this name, without asking the cluster; `client` is a producer's.
    ///
    /// # Errors
    /// The name has a zero in it or is longer than librdkafka takes, or the client is a consumer's.
    pub fn new<C>(client: &'p Client<C>, name: &str) -> KafkaResult<Self>
    where
        C: ProducerContext<DeliveryOpaque = usize>,
    {
        let name = CString::new(name)?;
        let native = client.native_ptr();
        // SAFETY: the client is open for as long as `client` is borrowed.
        let kind = unsafe { native::rd_kafka_type(native) };
        if kind != native::rd_kafka_type_t::RD_KAFKA_PRODUCER {
            return Err(KafkaError::ClientCreation("no producer".to_owned()));
        }
        // SAFETY: as above; `name` ends with a zero, and without settings of its own the topic has the client's.
        let topic = unsafe { native::rd_kafka_topic_new(native, name.as_ptr(), ptr::null_mut()) };
        let none = || KafkaError::ClientCreation("no topic of this name".to_owned());
        Ok(Self {
            topic: NonNull::new(topic).ok_or_else(none)?,
            producer: PhantomData,
        })
    }

    /// Hands these over, each to the partition that its key has. Records that are taken leave the batch, whether all of
    /// them are or not.
    ///
    /// # Errors
    /// The first record that was not taken, which is in the batch still, as are all others that were not.
    pub fn send(&self, batch: &mut Batch<'_>) -> Result<(), NotTaken> {
        let records = &mut batch.records;
        let count = i32::try_from(records.len()).unwrap_or(i32::MAX);
        // SAFETY: the topic is open, and so is its producer; there are `count` records, each with the bytes that it
        // borrows, which are copied and, for all that they are named `*mut`, not written to.
        unsafe {
            native::rd_kafka_produce_batch(
                self.topic.as_ptr(),
                BY_KEY,
                native::RD_KAFKA_MSG_F_COPY,
                records.as_mut_ptr(),
                count,
            )
        };
        records.retain(|record| record.err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
        records.first().map_or(Ok(()), |record| {
            Err(NotTaken {
                opaque: record._private as usize,
                error: KafkaError::MessageProduction(RDKafkaErrorCode::from(record.err)),
            })
        })
    }
}

/// Has the producer send at once the records that linger for more, and waits until the brokers have everything that it
/// was given: no longer than `patience`, in whole milliseconds. Returns whether they have it. A record counts as in
/// flight until its delivery report is polled, so where reports may be there, the caller polls in between.
///
/// The crate's own flush gives librdkafka no time to wait, so that lingering records may not notice it, and looks again
/// only a tenth of a second later.
pub fn flush<C: ProducerContext>(producer: &Client<C>, patience: Duration) -> bool {
    let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the client is open for as long as it is borrowed; of one that is no producer, nothing is done.
    let flushed = unsafe { native::rd_kafka_flush(producer.native_ptr(), patience) };
    flushed == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
}

impl Drop for Topic<'_> {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, and before its producer, which it borrows.
        unsafe { native::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}

/// Value of librdkafka's `RD_KAFKA_PARTITION_UA`, a macro that the crate has no name for: the partitioner chooses.
const BY_KEY: i32 = -1;
