//! A message of the broker as a delivery, and a publication as a message of the broker.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery as Raw;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use semel_core::port::sink::Publication;
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{ByteString, Error, ErrorKind, Result};
use serde_json::{Value, json};

use crate::address::SHORT_BYTES;

/// Bytes of a message that is too long that its delivery carries.
pub const HEAD_BYTES: usize = 64 << 10;

/// Prefix of the headers that stand for properties.
const PROPERTY: &str = "amqp-";
/// The header in which a quorum queue says how often it handed a message over before.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Headers by which the broker routes a message on; it closes the channel if their type is not its own.
const ROUTING: [&str; 2] = ["CC", "BCC"];
/// Delivery mode of a message that is written to disk.
const PERSISTENT: u8 = 2;

/// Returns the delivery of `raw`, of this queue.
pub(crate) fn delivery(id: DeliveryId, queue: &str, raw: Raw, max_bytes: usize) -> Delivery {
    let coordinates = coordinates(queue, &raw);
    let headers = headers(&raw.properties);
    let received = received(&raw);
    let length = raw.data.len();
    let is_oversize = length > max_bytes;
    let payload = if is_oversize {
        // Copied, so that the rest of it leaves the memory.
        Bytes::copy_from_slice(&raw.data[..HEAD_BYTES.min(length)])
    } else {
        Bytes::from(raw.data)
    };
    let mut delivery = Delivery::new(id, payload, coordinates);
    delivery.headers = headers;
    delivery.oversize_bytes = is_oversize.then_some(length as u64);
    delivery.received = received;
    delivery
}

/// A classic queue says only whether it is the first time; a quorum queue counts the times before. A first
/// delivery may carry the count of a queue that it was in before.
fn received(raw: &Raw) -> Option<u32> {
    if !raw.redelivered {
        return Some(1);
    }
    let table = raw.properties.headers().as_ref()?;
    let before = match table.inner().get(DELIVERY_COUNT)? {
        AMQPValue::LongLongInt(count) => u32::try_from(*count).ok()?,
        AMQPValue::LongInt(count) => u32::try_from(*count).ok()?,
        AMQPValue::LongUInt(count) => *count,
        _ => return None,
    };
    before.checked_add(1)
}

/// Builds the coordinates, which the broker does not have. The publisher's id of the message stands for them; without
/// one, a hash of the message and where it was published, which equal messages share.
fn coordinates(queue: &str, raw: &Raw) -> String {
    if let Some(id) = short(raw.properties.message_id().as_ref()) {
        return format!("amqp:{queue}:{id}");
    }
    let key = raw.routing_key.as_str();
    let mut hash = blake3::Hasher::new();
    hash.update(&(key.len() as u64).to_le_bytes());
    hash.update(key.as_bytes());
    hash.update(&raw.data);
    format!("amqp-hash:{queue}:{}", hash.finalize().to_hex())
}

/// Collects the headers: the properties first, then the table, which has an order of its own: that of its names.
fn headers(properties: &BasicProperties) -> Vec<(ByteString, Bytes)> {
    let named = [
        ("message-id", properties.message_id()),
        ("correlation-id", properties.correlation_id()),
        ("type", properties.kind()),
        ("app-id", properties.app_id()),
        ("content-type", properties.content_type()),
    ];
    let named = named.into_iter().filter_map(|(name, value)| {
        let value = short(value.as_ref())?.to_owned();
        Some((format!("{PROPERTY}{name}").into(), Bytes::from(value)))
    });
    let table = properties.headers().iter().flat_map(FieldTable::inner);
    let table = table.map(|(name, value)| (name.as_str().into(), bytes(value)));
    named.chain(table).collect()
}

fn short(value: Option<&ShortString>) -> Option<&str> {
    let text = value?.as_str();
    (!text.is_empty()).then_some(text)
}

/// Returns texts and bytes as they are, other values as JSON writes them.
fn bytes(value: &AMQPValue) -> Bytes {
    match value {
        AMQPValue::LongString(text) => Bytes::copy_from_slice(text.as_bytes()),
        AMQPValue::ShortString(text) => Bytes::copy_from_slice(text.as_str().as_bytes()),
        AMQPValue::ByteArray(bytes) => Bytes::copy_from_slice(bytes.as_slice()),
        AMQPValue::Void => Bytes::new(),
        AMQPValue::Boolean(_)
        | AMQPValue::ShortShortInt(_)
        | AMQPValue::ShortShortUInt(_)
        | AMQPValue::ShortInt(_)
        | AMQPValue::ShortUInt(_)
        | AMQPValue::LongInt(_)
        | AMQPValue::LongUInt(_)
        | AMQPValue::LongLongInt(_)
        | AMQPValue::Float(_)
        | AMQPValue::Double(_)
        | AMQPValue::DecimalValue(_)
        | AMQPValue::Timestamp(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_) => Bytes::from(json(value).to_string()),
    }
}

fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(value) => json!(value),
        AMQPValue::ShortShortInt(value) => json!(value),
        AMQPValue::ShortShortUInt(value) => json!(value),
        AMQPValue::ShortInt(value) => json!(value),
        AMQPValue::ShortUInt(value) => json!(value),
        AMQPValue::LongInt(value) => json!(value),
        AMQPValue::LongUInt(value) => json!(value),
        AMQPValue::LongLongInt(value) => json!(value),
        AMQPValue::Float(value) => json!(value),
        AMQPValue::Double(value) => json!(value),
        AMQPValue::DecimalValue(value) => {
            json!(f64::from(value.value) / 10_f64.powi(value.scale.into()))
        }
        AMQPValue::Timestamp(seconds) => json!(seconds),
        AMQPValue::ShortString(text) => json!(text.as_str()),
        AMQPValue::LongString(text) => json!(String::from_utf8_lossy(text.as_bytes())),
        AMQPValue::ByteArray(bytes) => json!(String::from_utf8_lossy(bytes.as_slice())),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => {
            let entries = table.inner().iter();
            let entries = entries.map(|(name, value)| (name.as_str().to_owned(), json(value)));
            Value::Object(entries.collect())
        }
        AMQPValue::Void => Value::Null,
    }
}

/// Builds the properties of a publication: persistent, with its id as the message's. Headers that the source made of
/// properties become those again. `frame_bytes`: the size of one frame, into which they must fit.
///
/// # Errors
///
/// `InvalidInput`: a name or a value that the protocol cannot carry
pub(crate) fn properties(publication: &Publication, frame_bytes: usize) -> Result<BasicProperties> {
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(name("the id", &publication.id)?);
    let mut table = FieldTable::default();
    // The fixed fields, with room to spare.
    let mut bytes = 64 + publication.id.len();
    for (header, value) in &publication.headers {
        if ROUTING.contains(&&**header) {
            return Err(refused(format!(
                "the header {header} has a meaning of its own in AMQP: give it another name"
            )));
        }
        bytes += header.len() + value.len() + 8;
        let property = header.strip_prefix(PROPERTY);
        let text = std::str::from_utf8(value).ok();
        match (
            property,
            text.and_then(|text| ShortString::try_new(text).ok()),
        ) {
            // The id of the publication stands in its place.
            (Some("message-id"), _) => {}
            (Some("correlation-id"), Some(text)) => {
                properties = properties.with_correlation_id(text);
            }
            (Some("type"), Some(text)) => properties = properties.with_type(text),
            (Some("app-id"), Some(text)) => properties = properties.with_app_id(text),
            (Some("content-type"), Some(text)) => properties = properties.with_content_type(text),
            (_, _) => {
                let value = AMQPValue::LongString(LongString::from(value.to_vec()));
                table.insert(name("the name of a header", header)?, value);
            }
        }
    }
    if bytes > frame_bytes {
        return Err(refused(format!(
            "the headers have {bytes} bytes, and the broker takes {frame_bytes}"
        )));
    }
    Ok(properties.with_headers(table))
}

fn name(what: &str, text: &str) -> Result<ShortString> {
    ShortString::try_new(text).map_err(|_| {
        refused(format!(
            "{what} has {} bytes, and AMQP takes {SHORT_BYTES}",
            text.len()
        ))
    })
}

fn refused(words: String) -> Error {
    Error::new(ErrorKind::InvalidInput, words)
}

#[cfg(test)]
mod tests;
