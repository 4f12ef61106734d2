//! Key and headers of a published record.

use bytes::Bytes;
use rdkafka::message::{Header, OwnedHeaders};
use semel_core::ByteString;

/// The header that holds a record's key.
pub(crate) const KEY: &str = "kafka-key";
/// The header that holds the producer's time of a record, in milliseconds.
pub(crate) const CREATE_TIME: &str = "kafka-create-time";
/// The header that holds the id of a published message.
const ID: &str = "semel-id";

/// Returns the key that headers hold, and the headers that go out: the id, where there is one, and these. Headers that
/// a source of ours made of another record's key, time and id say nothing of this one: its key is taken for the key,
/// and the rest is left out. Where none is left there are none, which costs nothing.
pub(crate) fn parts<'h>(
    id: Option<&str>,
    headers: &'h [(ByteString, Bytes)],
) -> (Option<&'h [u8]>, Option<OwnedHeaders>) {
    let mut key = None;
    let mut out: Option<OwnedHeaders> = None;
    let mut add = |name: &str, value: &[u8]| {
        let so_far = out.take();
        let so_far = so_far.unwrap_or_else(|| OwnedHeaders::new_with_capacity(headers.len() + 1));
        out = Some(so_far.insert(Header {
            key: name,
            value: Some(value),
        }));
    };
    if let Some(id) = id {
        add(ID, id.as_bytes());
    }
    for (name, value) in headers {
        match &**name {
            KEY => key = Some(&value[..]),
            CREATE_TIME | ID => {}
            name => add(name, value),
        }
    }
    (key, out)
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;

    #[test]
    fn a_record_has_its_id_its_key_and_no_other_record_s() {
        let header = |name: &str, value: &'static str| (name.into(), value.into());
        let mut headers = vec![
            header("reason", "dead"),
            header(CREATE_TIME, "17"),
            header(ID, "op-0"),
        ];
        let (key, out) = parts(Some("op-1"), &headers);
        let out = out.expect("headers");
        let names: Vec<_> = out.iter().map(|it| (it.key, it.value)).collect();
        let (id, reason) = (&b"op-1"[..], &b"dead"[..]);
        assert_eq!(key, None);
        assert_eq!(names, [(ID, Some(id)), ("reason", Some(reason))]);
        headers[0] = header(KEY, "pay-1");
        let (key, out) = parts(None, &headers);
        assert_eq!(key, Some(&b"pay-1"[..]));
        assert!(out.is_none(), "nothing is left to go out");
    }
}
