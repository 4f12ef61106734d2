//! Messages that leave if, and only if, the transaction that wrote them commits; and the shares of the relays that
//! publish them. Not for reading or publishing them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use bytestring::ByteString;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{Document, Kind, write_string};

/// The identity of a message of an outbox: a UUID, the same at every try to publish it. It says nothing of the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId(u128);

impl OutboxId {
    /// The id with these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for OutboxId {
    /// The text of a UUID, in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (one, two, three) = (&digits[..8], &digits[8..12], &digits[12..16]);
        write!(
            f,
            "{one}-{two}-{three}-{}-{}",
            &digits[16..20],
            &digits[20..]
        )
    }
}

impl fmt::Debug for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutboxId({self})")
    }
}

impl FromStr for OutboxId {
    type Err = NotUuid;

    fn from_str(text: &str) -> Result<Self, NotUuid> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let is_sound = |(at, byte): (usize, u8)| {
            if is_dash(at) {
                byte == b'-'
            } else {
                byte.is_ascii_hexdigit()
            }
        };
        if text.len() != 36 || !text.bytes().enumerate().all(is_sound) {
            return Err(NotUuid);
        }
        let bits = u128::from_str_radix(&text.replace('-', ""), 16);
        bits.map(Self).map_err(|_| NotUuid)
    }
}

/// A text that is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUuid;

impl fmt::Display for NotUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no UUID; write 32 hexadecimal digits as 8-4-4-4-12")
    }
}

impl std::error::Error for NotUuid {}

/// A message that a transaction writes into an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxMessage {
    /// The id; made by the database where there is none.
    pub id: Option<OutboxId>,
    /// The stream, which a relay publishes.
    pub stream: Box<str>,
    /// The value by which messages are kept in order; without it, a message is in no order.
    pub order_key: Option<Box<str>>,
    /// Headers, in this order.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The message, byte for byte.
    pub payload: Bytes,
}

impl OutboxMessage {
    /// Returns a message for this stream, without an order and without headers.
    pub fn new(stream: impl Into<Box<str>>, payload: impl Into<Bytes>) -> Self {
        Self {
            id: None,
            stream: stream.into(),
            order_key: None,
            headers: Vec::new(),
            payload: payload.into(),
        }
    }

    /// Returns the same message, which goes out after all earlier ones with this order key.
    #[must_use]
    pub fn ordered_by(self, order_key: impl Into<Box<str>>) -> Self {
        Self {
            order_key: Some(order_key.into()),
            ..self
        }
    }

    /// Returns the same message with one header more.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Box<str>>, value: impl Into<Box<str>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the same message under an id of the caller's.
    #[must_use]
    pub fn with_id(self, id: OutboxId) -> Self {
        Self {
            id: Some(id),
            ..self
        }
    }

    /// Refuses what no outbox takes, before a transaction is lost to it.
    ///
    /// # Errors
    /// `InvalidInput`: no stream, a stream of more than 255 bytes, an order key of more than 1,024, a text with U+0000, a
    /// header without a name
    pub fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::new(ErrorKind::InvalidInput, what).not_applied());
        if self.stream.is_empty() || self.stream.len() > 255 {
            return refused("the stream of a message has from 1 to 255 bytes");
        }
        if self.order_key.as_ref().is_some_and(|key| key.len() > 1_024) {
            return refused("the order key of a message has at most 1,024 bytes");
        }
        let has_nul = |text: &str| text.contains('\0');
        let mut headers = self.headers.iter();
        if has_nul(&self.stream)
            || self.order_key.as_deref().is_some_and(has_nul)
            || headers.any(|(name, value)| has_nul(name) || has_nul(value))
        {
            return refused(
                "stream, order key and headers of a message have no U+0000; leave it out",
            );
        }
        if self.headers.iter().any(|(name, _)| name.is_empty()) {
            return refused("a header of a message has no name");
        }
        Ok(())
    }
}

/// Returns the headers as a JSON object, as the column of an outbox has them; nothing if there are none.
pub fn headers_to_json(headers: &[(Box<str>, Box<str>)]) -> Option<String> {
    if headers.is_empty() {
        return None;
    }
    let mut text = Vec::from(b"{");
    for (at, (name, value)) in headers.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_string(name, &mut text);
        text.push(b':');
        write_string(value, &mut text);
    }
    text.push(b'}');
    String::from_utf8(text).ok()
}

/// Reads the headers of an outbox's column: an object whose values are texts, numbers, `true` or `false`.
///
/// # Errors
/// The reason why they cannot be sent, one line without any of the values.
pub fn headers_of_json(text: &str) -> Result<Vec<(ByteString, Bytes)>, Box<str>> {
    let document = Document::parse(text.as_bytes());
    let document = document.map_err(|error| format!("the headers are no JSON: {error}"))?;
    if document.root().kind() != Kind::Object {
        return Err("the headers are no JSON object; write {\"name\": \"value\"}".into());
    }
    let read = document.root().members().map(|(name, value)| {
        let is_plain = matches!(value.kind(), Kind::Text | Kind::Number | Kind::Bool(_));
        if !is_plain || name.text().is_empty() {
            let name: String = name.text().escape_debug().take(64).collect();
            return Err(format!("the header `{name}` is no name with a text as its value").into());
        }
        let name = ByteString::from(name.text().into_owned());
        Ok((name, Bytes::from(value.text().into_owned())))
    });
    read.collect()
}

/// A committed message that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The id.
    pub id: OutboxId,
    /// The partition that the order key falls into.
    pub partition: u16,
    /// The place in the order of its stream.
    pub place: i64,
    /// The order key, if there is one.
    pub order_key: Option<ByteString>,
    /// The headers, or the reason why they cannot be sent.
    pub headers: Result<Vec<(ByteString, Bytes)>, Box<str>>,
    /// The message, byte for byte.
    pub payload: Bytes,
    /// The number of earlier tries that failed and were counted.
    pub attempts: u32,
}

/// The right of one relay process to publish a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLease {
    /// The partition.
    pub partition: u16,
    /// The fencing token, which rises whenever the partition changes hands.
    pub token: i64,
}

/// The holder of a partition, in the view of one relay process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The process itself, even if its lease has run out.
    Own,
    /// Nobody, or a process whose lease has run out.
    Nobody,
    /// Another process.
    Other,
}

/// The partitions that a relay process keeps, takes and gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that it holds and renews.
    pub keep: Vec<u16>,
    /// Those that nobody holds and it takes.
    pub take: Vec<u16>,
    /// Those that it holds beyond its share, and leaves to others.
    pub give: Vec<u16>,
}

impl Share {
    /// Divides the partitions, each with its holder, among so many live processes of one relay, of which this is one.
    ///
    /// # Shape   each process ends with the same number, up to one; what another one holds is never taken
    pub fn of(holders: &[Holder], processes: usize) -> Self {
        let most = holders.len().div_ceil(processes.max(1));
        let mut share = Self::default();
        for (partition, _) in Self::held_by(holders, Holder::Own) {
            if share.keep.len() < most {
                share.keep.push(partition);
            } else {
                share.give.push(partition);
            }
        }
        for (partition, _) in Self::held_by(holders, Holder::Nobody) {
            if share.keep.len() + share.take.len() < most {
                share.take.push(partition);
            }
        }
        share
    }

    fn held_by(holders: &[Holder], by: Holder) -> impl Iterator<Item = (u16, Holder)> {
        let numbered = (0..).zip(holders.iter().copied());
        numbered.filter(move |(_, holder)| *holder == by)
    }
}

/// The number of partitions of a stream, which is part of the format of an outbox.
pub const PARTITIONS: u16 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read_as_a_uuid() {
        let text = "0190a6f1-2b3c-7d4e-8f50-112233445566";
        let id: OutboxId = text.parse().expect("a UUID");
        assert_eq!(id.to_string(), text);
        assert_eq!(OutboxId::from_u128(id.as_u128()), id);
        assert_eq!(OutboxId::from_u128(1).to_string().len(), 36);
        for wrong in [
            "",
            "0190a6f12b3c7d4e8f50112233445566",
            "0190a6f1-2b3c-7d4e-8f50-11223344556",
            "0190a6f1-2b3c-7d4e-8f50-1122334455zz",
            "0190a6f1+2b3c-7d4e-8f50-112233445566",
        ] {
            assert_eq!(wrong.parse::<OutboxId>(), Err(NotUuid), "{wrong}");
        }
    }

    #[test]
    fn what_no_outbox_takes_is_refused_before_the_statement() {
        let sound = || OutboxMessage::new("orders", "x");
        assert!(
            sound()
                .ordered_by("k")
                .with_header("a", "b")
                .check()
                .is_ok()
        );
        for wrong in [
            OutboxMessage::new("", "x"),
            OutboxMessage::new("s".repeat(256), "x"),
            OutboxMessage::new("a\0b", "x"),
            sound().ordered_by("k".repeat(1_025)),
            sound().ordered_by("\0"),
            sound().with_header("a", "\0"),
            sound().with_header("", "b"),
        ] {
            let error = wrong.check().expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong:?}");
        }
    }

    #[test]
    fn headers_keep_their_order_and_what_is_no_header_is_refused() {
        let headers: [(Box<str>, Box<str>); 2] =
            [("b".into(), "1 \"2\"".into()), ("a".into(), "é".into())];
        let text = headers_to_json(&headers).expect("headers");
        let read = headers_of_json(&text).expect("the same headers");
        let read: Vec<_> = read
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(read, [("b", &b"1 \"2\""[..]), ("a", "é".as_bytes())]);
        assert_eq!(headers_to_json(&[]), None);
        let plain = headers_of_json("{\"n\": 7, \"is\": true}").expect("plain values");
        assert_eq!((&*plain[0].1, &*plain[1].1), (&b"7"[..], &b"true"[..]));
        for (wrong, why) in [
            ("[1]", "no JSON object"),
            ("{", "no JSON"),
            ("{\"a\": null}", "`a`"),
            ("{\"a\": {\"secret\": 1}}", "`a`"),
            ("{\"\": \"x\"}", "``"),
        ] {
            let refused = headers_of_json(wrong).expect_err(wrong);
            assert!(
                refused.contains(why) && !refused.contains("secret"),
                "{refused}"
            );
        }
    }

    #[test]
    fn processes_share_the_partitions_evenly_and_take_nothing_from_another() {
        use Holder::{Nobody, Other, Own};
        let alone = Share::of(&[Nobody; 4], 1);
        assert_eq!(alone.take, [0, 1, 2, 3]);
        let joined = Share::of(&[Own; 4], 2);
        assert_eq!((joined.keep, joined.give), (vec![0, 1], vec![2, 3]));
        let second = Share::of(&[Other, Other, Nobody, Nobody], 2);
        assert_eq!((second.keep, second.take), (vec![], vec![2, 3]));
        let late = Share::of(&[Other; 4], 2);
        assert_eq!(late, Share::default());
        let odd = Share::of(&[Own, Nobody, Other, Nobody, Nobody], 2);
        assert_eq!((odd.keep, odd.take), (vec![0], vec![1, 3]));
        assert_eq!(Share::of(&[Own], 0).keep, [0]);
    }
}
