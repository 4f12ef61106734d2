//! The identity of messages by the headers of their request.

use axum::http::{HeaderMap, HeaderName};
use semel_core::ByteString;
use semel_core::ingest::{HIGHEST, Numbering, UNNUMBERED};
use semel_core::producer::ProducerName;
use semel_http::Problem;

use super::answer;

/// The identity of the messages of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Their producer numbers them.
    Producer {
        producer: ProducerName,
        epoch: u64,
        first: u64,
    },
    /// They come again under the same key.
    Key(Box<[u8]>),
    /// They have none.
    None,
}

impl Identity {
    /// Reads the identity; refuses one that is incomplete, ambiguous or malformed, and none where one `is_required`.
    pub(crate) fn read(headers: &HeaderMap, is_required: bool) -> Result<Self, Problem> {
        let [producer, epoch, sequence] =
            [PRODUCER, EPOCH, SEQUENCE].map(|name| one(headers, &name));
        let (producer, epoch, sequence) = (producer?, epoch?, sequence?);
        match (producer, epoch, sequence) {
            (Some(producer), Some(epoch), Some(sequence)) => Ok(Self::Producer {
                producer: name(producer)?,
                epoch: number(epoch, &EPOCH)?,
                first: number(sequence, &SEQUENCE)?,
            }),
            (None, None, None) => match one(headers, &KEY)? {
                Some(key) if key.is_empty() || key.len() > MAX_KEY_BYTES => {
                    let what = "has from 1 to 255 bytes";
                    Err(answer::malformed(&KEY, what))
                }
                Some(key) => Ok(Self::Key(key.into())),
                None if is_required => Err(answer::missing()),
                None => Ok(Self::None),
            },
            (None, _, _) => Err(answer::incomplete(&PRODUCER)),
            (Some(_), None, _) => Err(answer::incomplete(&EPOCH)),
            (Some(_), Some(_), None) => Err(answer::incomplete(&SEQUENCE)),
        }
    }

    /// Returns the place of the messages in the order of their producer. `content` is what a key stands for: under the same
    /// key with another content, they are other messages, and their pipeline tells of the conflict.
    pub(crate) fn numbering(&self, is_any_first: bool, content: &[u8]) -> Numbering {
        match self {
            Self::Producer {
                producer,
                epoch,
                first,
            } => Numbering::Sender {
                producer: producer.clone(),
                epoch: *epoch,
                first: *first,
                is_any_first,
            },
            Self::Key(key) => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_be_bytes());
                hasher.update(key);
                hasher.update(content);
                let digest = Some(*hasher.finalize().as_bytes());
                Numbering::Arrival { digest }
            }
            Self::None => Numbering::Arrival { digest: None },
        }
    }
}

impl Identity {
    /// Returns the id of a message that its sender gave none: what has a key alone is told apart by key and place, whichever
    /// body comes with the key.
    pub(crate) fn id_of(&self, at: usize) -> Option<ByteString> {
        let Self::Key(key) = self else {
            return None;
        };
        let digest = blake3::hash(key).to_hex();
        Some(ByteString::from(format!("{}-{}", &digest[..32], at + 1)))
    }
}

/// Returns the only value of a header, if there is one.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h [u8]>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|it| it.as_bytes().trim_ascii());
    match values.next() {
        None => Ok(first),
        Some(_) => Err(answer::malformed(name, "is there more than once")),
    }
}

fn name(value: &[u8]) -> Result<ProducerName, Problem> {
    let text = std::str::from_utf8(value).ok();
    let name = text.and_then(|it| ProducerName::of_sender(it).ok());
    let name = name.filter(|it| it.as_str() != UNNUMBERED);
    name.ok_or_else(|| {
        let what = "has from 1 to 97 printable characters of ASCII, without spaces, and is no name of Semel's own";
        answer::malformed(&PRODUCER, what)
    })
}

/// Reads a number from 1 on, in digits alone.
fn number(value: &[u8], name: &HeaderName) -> Result<u64, Problem> {
    let is_plain = value.iter().all(u8::is_ascii_digit) && value.first() != Some(&b'0');
    let text = std::str::from_utf8(value).ok().filter(|_| is_plain);
    let number = text.and_then(|it| it.parse().ok());
    let number = number.filter(|it| (1..=HIGHEST).contains(it));
    number.ok_or_else(|| answer::malformed(name, "is a whole number from 1 on, in digits alone"))
}

const PRODUCER: HeaderName = HeaderName::from_static("semel-producer");
const EPOCH: HeaderName = HeaderName::from_static("semel-epoch");
const SEQUENCE: HeaderName = HeaderName::from_static("semel-sequence");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_KEY_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(
        pairs: &[(&'static str, &str)],
        is_required: bool,
    ) -> Result<Identity, (u16, &'static str)> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.append(HeaderName::from_static(name), value);
        }
        Identity::read(&headers, is_required).map_err(|it| (it.status().as_u16(), it.code()))
    }

    #[test]
    fn an_identity_is_whole_or_refused() {
        let (producer, epoch, sequence) = (
            ("semel-producer", "billing-0a"),
            ("semel-epoch", "2"),
            ("semel-sequence", "18"),
        );
        let whole = Identity::Producer {
            producer: "billing-0a".parse().expect("a name"),
            epoch: 2,
            first: 18,
        };
        assert_eq!(read(&[producer, epoch, sequence], true), Ok(whole));
        for part in [
            &[producer][..],
            &[producer, epoch],
            &[producer, sequence],
            &[epoch, sequence],
            &[sequence, ("idempotency-key", "k")],
        ] {
            assert_eq!(
                read(part, false),
                Err((400, "producer-missing")),
                "{part:?}"
            );
        }
        let key = Identity::Key((*b"k-1").into());
        assert_eq!(read(&[("idempotency-key", "k-1")], true), Ok(key));
        assert_eq!(read(&[], false), Ok(Identity::None));
        assert_eq!(read(&[], true), Err((400, "producer-missing")));
    }

    #[test]
    fn a_malformed_header_is_refused() {
        let malformed = Err((400, "invalid-input"));
        for wrong in [
            "",
            "0",
            "-1",
            "+1",
            "1.0",
            "01",
            "x",
            "99999999999999999999",
            "é",
        ] {
            for name in ["semel-epoch", "semel-sequence"] {
                let mut all = vec![
                    ("semel-producer", "p"),
                    ("semel-epoch", "1"),
                    ("semel-sequence", "1"),
                ];
                all.retain(|(it, _)| *it != name);
                all.push((name, wrong));
                assert_eq!(read(&all, false), malformed, "{name}: {wrong}");
            }
        }
        let rest = [("semel-epoch", "1"), ("semel-sequence", "1")];
        for wrong in ["", "a b", "é", "semel-ingest", &"x".repeat(98)] {
            let all = [("semel-producer", wrong), rest[0], rest[1]];
            assert_eq!(read(&all, false), malformed, "{wrong}");
        }
        let twice = [
            ("semel-producer", "p"),
            ("semel-producer", "q"),
            rest[0],
            rest[1],
        ];
        assert_eq!(read(&twice, false), malformed);
        for wrong in ["", &"x".repeat(256)] {
            assert_eq!(read(&[("idempotency-key", wrong)], false), malformed);
        }
    }

    #[test]
    fn a_key_stands_for_its_content() {
        let of = |key: &str, content: &str| {
            let identity = Identity::Key(key.as_bytes().into());
            identity.numbering(false, content.as_bytes())
        };
        assert_eq!(of("k", "a"), of("k", "a"));
        assert_ne!(of("k", "a"), of("k", "b"));
        assert_ne!(of("k", "ab"), of("ka", "b"));
    }
}
