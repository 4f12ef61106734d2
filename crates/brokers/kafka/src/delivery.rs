//! A record as a delivery: its coordinates, and the headers that are the source's own.

use std::sync::Arc;

use rdkafka::message::{Headers, Message, Timestamp as RecordTime};
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{ByteString, Timestamp};

use crate::arena::Arena;
use crate::options::Options;
use crate::record::{CREATE_TIME, KEY};

pub(crate) type Record = (Arc<str>, i32, i64, Delivery);

/// Names that records of a batch have in common.
#[derive(Default)]
pub(crate) struct Names {
    topic: Option<Arc<str>>,
    /// Coordinates without the offset, and the partition that they belong to.
    prefix: String,
    partition: Option<i32>,
}

impl Names {
    fn topic(&mut self, topic: &str) -> Arc<str> {
        match &self.topic {
            Some(known) if **known == *topic => Arc::clone(known),
            Some(_) | None => {
                self.partition = None;
                Arc::clone(self.topic.insert(topic.into()))
            }
        }
    }

    /// Returns the coordinates of a record of the topic that was named last.
    fn coordinates(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        arena: &mut Arena,
    ) -> ByteString {
        if self.partition != Some(partition) {
            self.partition = Some(partition);
            self.prefix = format!("kafka:{topic}:{partition}:");
        }
        let mut digits = [0; 20];
        arena.keep_texts([&self.prefix, decimal(offset.unsigned_abs(), &mut digits)])
    }
}

/// Returns the partition of a record of `topic` that has these coordinates; `None` if it is none of that topic's.
pub fn partition_of(coordinates: &str, topic: &str) -> Option<i32> {
    let rest = coordinates.strip_prefix("kafka:")?.strip_prefix(topic)?;
    let (partition, _offset) = rest.strip_prefix(':')?.split_once(':')?;
    partition.parse().ok()
}

/// Writes the digits of a number.
fn decimal(number: u64, digits: &mut [u8; 20]) -> &str {
    let (mut rest, mut from) = (number, digits.len());
    loop {
        from -= 1;
        digits[from] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 || from == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[from..]).unwrap_or_default()
}

pub(crate) fn record(
    message: &impl Message,
    options: &Options,
    names: &mut Names,
    arena: &mut Arena,
) -> Record {
    let topic = names.topic(message.topic());
    let (partition, offset) = (message.partition(), message.offset());
    let payload = message.payload().unwrap_or_default();
    let is_long = payload.len() > options.max_message_bytes;
    let kept = if is_long {
        &payload[..payload.len().min(HEAD_BYTES)]
    } else {
        payload
    };
    let sent = message.headers();
    let count = sent.map_or(0, Headers::count);
    let mut headers: Vec<_> = Vec::with_capacity(2 + count);
    if let Some(key) = message.key() {
        headers.push((ByteString::from_static(KEY), arena.keep(key)));
    }
    let appended_at = match message.timestamp() {
        RecordTime::LogAppendTime(millis) => Some(Timestamp::from_millis(millis.cast_unsigned())),
        RecordTime::CreateTime(millis) => {
            let mut digits = [0; 20];
            let time = match u64::try_from(millis) {
                Ok(millis) => arena.keep(decimal(millis, &mut digits).as_bytes()),
                // A time before 1970: from a producer without a clock.
                Err(_) => millis.to_string().into(),
            };
            headers.push((ByteString::from_static(CREATE_TIME), time));
            None
        }
        RecordTime::NotAvailable => None,
    };
    if let Some(sent) = sent {
        headers.extend(sent.iter().map(|header| {
            let value = arena.keep(header.value.unwrap_or_default());
            (arena.keep_text(header.key), value)
        }));
    }
    let kept = arena.keep(kept);
    let coordinates = names.coordinates(&topic, partition, offset, arena);
    // The id is set when the record is fetched.
    let mut delivery = Delivery::new(DeliveryId(0), kept, coordinates);
    delivery.headers = headers;
    delivery.appended_at = appended_at;
    delivery.oversize_bytes = is_long.then_some(payload.len() as u64);
    (topic, partition, offset, delivery)
}

/// Bytes that are kept of a message that is too long.
const HEAD_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_those_of_each_record() {
        let (mut names, mut arena) = (Names::default(), Arena::default());
        for (topic, partition, offset) in [
            ("a", 0, 0),
            ("a", 0, 17),
            ("a", 12, 1_000),
            ("b", 12, i64::MAX),
            ("a", 12, 9),
        ] {
            let name = names.topic(topic);
            assert_eq!(&*name, topic);
            let expected = format!("kafka:{topic}:{partition}:{offset}");
            let coordinates = names.coordinates(&name, partition, offset, &mut arena);
            assert_eq!(coordinates, expected);
            assert_eq!(partition_of(&expected, topic), Some(partition));
            assert_eq!(partition_of(&expected, "other"), None);
        }
        let mut digits = [0; 20];
        assert_eq!(decimal(u64::MAX, &mut digits), u64::MAX.to_string());
    }
}
