//! The form of a batch of messages in a journal: one block of bytes, which says its version.

use bytes::Bytes;
use bytestring::ByteString;

use super::ProducerMessage;

const VERSION: u8 = 1;
const HAS_ID: u8 = 1;
const HAS_ORDER: u8 = 2;

/// Writes messages one behind the other.
pub fn encode(messages: &[ProducerMessage]) -> Bytes {
    let size = |it: &ProducerMessage| it.payload.len() + it.headers.len() * 32 + 64;
    let mut bytes = Vec::with_capacity(1 + messages.iter().map(size).sum::<usize>());
    bytes.push(VERSION);
    for message in messages {
        let has = |is: bool, flag| if is { flag } else { 0 };
        let (id, order) = (&message.id, &message.order);
        bytes.push(has(id.is_some(), HAS_ID) | has(order.is_some(), HAS_ORDER));
        if let Some(id) = id {
            put(&mut bytes, id.as_bytes());
        }
        if let Some(order) = order {
            put(&mut bytes, order);
        }
        number(&mut bytes, message.headers.len());
        for (name, value) in &message.headers {
            put(&mut bytes, name.as_bytes());
            put(&mut bytes, value);
        }
        put(&mut bytes, &message.payload);
    }
    bytes.into()
}

/// Reads what [`encode`] wrote, without copying it; nothing if it is not that.
pub fn decode(body: &Bytes) -> Option<Vec<ProducerMessage>> {
    let mut rest = body.clone();
    if byte(&mut rest)? != VERSION {
        return None;
    }
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let flags = byte(&mut rest)?;
        if flags & !(HAS_ID | HAS_ORDER) != 0 {
            return None;
        }
        let text = |bytes| ByteString::try_from(bytes).ok();
        let id = match flags & HAS_ID {
            0 => None,
            _ => Some(text(take(&mut rest)?)?),
        };
        let order = match flags & HAS_ORDER {
            0 => None,
            _ => Some(take(&mut rest)?),
        };
        let mut headers = Vec::new();
        for _ in 0..length(&mut rest)? {
            headers.push((text(take(&mut rest)?)?, take(&mut rest)?));
        }
        let payload = take(&mut rest)?;
        messages.push(ProducerMessage {
            id,
            order,
            headers,
            payload,
        });
    }
    Some(messages)
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) {
    number(bytes, value.len());
    bytes.extend_from_slice(value);
}

fn number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

fn byte(rest: &mut Bytes) -> Option<u8> {
    let first = *rest.first()?;
    *rest = rest.slice(1..);
    Some(first)
}

fn length(rest: &mut Bytes) -> Option<usize> {
    let mut length = 0;
    for shift in (0..u32::BITS).step_by(7) {
        let next = byte(rest)?;
        length |= usize::from(next & 0x7f).checked_shl(shift)?;
        if next < 0x80 {
            return Some(length);
        }
    }
    None
}

fn take(rest: &mut Bytes) -> Option<Bytes> {
    let length = length(rest)?;
    (length <= rest.len()).then(|| rest.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_nothing_else_is_read() {
        let messages = [
            ProducerMessage::new("plain"),
            ProducerMessage {
                id: Some("order-7".into()),
                order: Some(Bytes::from_static(b"\xff\0")),
                headers: vec![("a".into(), Bytes::new()), ("é".into(), "1".into())],
                payload: vec![7; 70_000].into(),
            },
            ProducerMessage::new(""),
        ];
        let body = encode(&messages);
        assert_eq!(decode(&body).expect("messages"), messages);
        assert_eq!(decode(&encode(&[])).expect("none"), []);
        for cut in [0, 3, 40, body.len() - 1] {
            assert_eq!(decode(&body.slice(..cut)), None, "{cut}");
        }
        assert_eq!(decode(&Bytes::from_static(b"\x02")), None);
        assert_eq!(decode(&Bytes::from_static(b"\x01\x08\x00\x00")), None);
    }
}
