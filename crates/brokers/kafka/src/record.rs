//! What a record has besides its payload: the key and the headers of whatever is published.

use rdkafka::message::{Header, OwnedHeaders};
use semel_core::port::sink::Publication;

/// The header that holds a record's key.
pub(crate) const KEY: &str = "kafka-key";
/// The header that holds the producer's time of a record, in milliseconds.
pub(crate) const CREATE_TIME: &str = "kafka-create-time";
/// The header that holds the id of what was published.
const ID: &str = "semel-id";

/// The key and the headers of a record. Those that a source of ours made of another record's key, time and id
/// say nothing of this one: its key is taken for the key, and the rest is left out.
pub(crate) fn parts(publication: &Publication) -> (Option<&[u8]>, OwnedHeaders) {
    let mut headers = OwnedHeaders::new_with_capacity(publication.headers.len() + 1);
    headers = headers.insert(Header {
        key: ID,
        value: Some(&*publication.id),
    });
    let mut key = publication.order.as_deref();
    for (name, value) in &publication.headers {
        match &**name {
            KEY => key = Some(&value[..]),
            CREATE_TIME | ID => {}
            name => {
                headers = headers.insert(Header {
                    key: name,
                    value: Some(&value[..]),
                });
            }
        }
    }
    (key, headers)
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;

    #[test]
    fn a_record_has_its_id_its_key_and_no_other_record_s() {
        let header = |name: &str, value: &'static str| (name.into(), value.into());
        let publication = Publication {
            id: "op-1".into(),
            order: Some("cart-1".into()),
            payload: "x".into(),
            headers: vec![
                header("reason", "dead"),
                header(CREATE_TIME, "17"),
                header(ID, "op-0"),
            ],
        };
        let (key, headers) = parts(&publication);
        let names: Vec<_> = headers.iter().map(|it| (it.key, it.value)).collect();
        let (id, reason) = (&b"op-1"[..], &b"dead"[..]);
        assert_eq!(key, Some(&b"cart-1"[..]));
        assert_eq!(names, [(ID, Some(id)), ("reason", Some(reason))]);
        let kept = Publication {
            headers: vec![header(KEY, "pay-1")],
            ..publication
        };
        assert_eq!(parts(&kept).0, Some(&b"pay-1"[..]));
    }
}
