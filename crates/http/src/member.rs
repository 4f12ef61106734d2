//! The members of a request, read strictly: one that is unknown, occurs twice or has a value that cannot be meant is
//! refused, with the JSON pointer to it.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use semel_core::fingerprint::{FingerprintSelector, Reading};
use semel_core::json::{Document, JsonError, Kind, Node, number};
use semel_core::select::{Message, View};
use semel_core::units;
use semel_core::{ClaimId, Code, Key, Timestamp, Unusable, birth};

use crate::problem::Problem;

/// A request that cannot be meant.
#[derive(Debug)]
pub struct Fault {
    pointer: String,
    detail: String,
}

impl Fault {
    /// A fault of the value that `pointer` leads to.
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.into(),
        }
    }
}

impl From<Fault> for Problem {
    fn from(Fault { pointer, detail }: Fault) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, detail).with("pointer", pointer)
    }
}

/// The code of every request that cannot be meant.
pub const INVALID: &str = Code::InvalidInput.as_str();

/// Scans a body.
///
/// # Errors
///
/// It is not JSON.
pub fn document(body: &[u8]) -> Result<Document<'_>, Fault> {
    // A call without members may be made without a body.
    let text = if body.is_empty() { b"{}" } else { body };
    Document::parse(text).map_err(|error| Fault::new("", format!("the body is not JSON: {error}")))
}

/// Takes the members of an object apart, each in the place of its name.
///
/// # Errors
///
/// It is no object, or has a member of another name, or one of them twice.
pub fn members<'n, const N: usize>(
    node: Node<'n>,
    base: &'n str,
    names: [&'static str; N],
) -> Result<[Option<Member<'n>>; N], Fault> {
    if node.kind() != Kind::Object {
        return Err(Fault::new(base, "this must be an object"));
    }
    let mut found = [const { None }; N];
    for (name, node) in node.members() {
        let name = name.text();
        let Some(index) = names.iter().position(|known| *known == name) else {
            let pointer = format!("{base}/{}", token(&name));
            return Err(Fault::new(pointer, "there is no member of this name"));
        };
        let name = names[index];
        let member = Member { base, name, node };
        if found[index].replace(member).is_some() {
            return Err(member.fault("the member occurs twice"));
        }
    }
    Ok(found)
}

/// The token of a JSON pointer that means the member of this name; of a long name only the beginning.
fn token(name: &str) -> String {
    let mut token = String::new();
    for (count, letter) in name.chars().enumerate() {
        match letter {
            _ if count == TOKEN_CHARS => {
                token.push('…');
                break;
            }
            '~' => token.push_str("~0"),
            '/' => token.push_str("~1"),
            other => token.push(other),
        }
    }
    token
}

const TOKEN_CHARS: usize = 64;

/// One member of a request.
#[derive(Clone, Copy, Debug)]
pub struct Member<'n> {
    base: &'n str,
    name: &'static str,
    node: Node<'n>,
}

impl<'n> Member<'n> {
    /// A fault of the member.
    pub fn fault(&self, detail: impl Into<String>) -> Fault {
        Fault::new(self.pointer(), detail)
    }

    /// The JSON pointer to the member.
    pub fn pointer(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn text(&self) -> Result<Cow<'n, str>, Fault> {
        if self.node.kind() == Kind::Text {
            Ok(self.node.text())
        } else {
            Err(self.fault("this must be a string"))
        }
    }

    /// Reads a string with at least one character and at most `most_bytes` bytes.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn text_within(&self, most_bytes: usize) -> Result<Cow<'n, str>, Fault> {
        let text = self.text()?;
        if text.is_empty() || text.len() > most_bytes {
            return Err(self.fault(format!("this must have from 1 to {most_bytes} bytes")));
        }
        Ok(text)
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn boolean(&self) -> Result<bool, Fault> {
        match self.node.kind() {
            Kind::Bool(value) => Ok(value),
            _ => Err(self.fault("this must be true or false")),
        }
    }

    /// Reads a key: a string or a number.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn key(&self) -> Result<Key, Fault> {
        match self.node.kind() {
            Kind::Text => {
                let text = self.node.text();
                Key::new(&text).map_err(|why| self.fault(unusable(&why)))
            }
            Kind::Number => {
                let number = self.node.number().map_err(|error| self.json(error))?;
                Key::parse(&format!("json:{number}")).map_err(|why| self.fault(why.to_string()))
            }
            Kind::Null | Kind::Bool(_) | Kind::Array | Kind::Object => {
                Err(self.fault("a key is a string or a number"))
            }
        }
    }

    /// Reads a key as it is printed: a string is itself, `json:1` is the number 1.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn printed_key(&self) -> Result<Key, Fault> {
        printed_key(&self.text()?).map_err(|why| self.fault(why))
    }

    /// Reads a whole number from 0 to 2⁶⁴ − 1, by value: `3.0` is 3.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn whole_number(&self) -> Result<u64, Fault> {
        let whole = match self.node.kind() {
            Kind::Number => number::canonical(self.node.raw()).ok(),
            _ => None,
        };
        let whole = whole.and_then(|number| number.parse().ok());
        whole.ok_or_else(|| self.fault("this must be a whole number from 0 to 2^64 - 1"))
    }

    /// Reads a duration such as `30s`.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn duration(&self) -> Result<Duration, Fault> {
        units::duration(&self.text()?).map_err(|why| self.fault(why))
    }

    /// Reads a duration that is longer than none, and at most `most`.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn duration_within(&self, most: Duration) -> Result<Duration, Fault> {
        let duration = self.duration()?;
        if duration.is_zero() || duration > most {
            let most = units::duration_text(most);
            return Err(self.fault(format!("this must be longer than 0s and at most {most}")));
        }
        Ok(duration)
    }

    /// Reads a time as RFC 3339 writes it.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn instant(&self) -> Result<Timestamp, Fault> {
        let text = self.text()?;
        // Numbers that stand for times are for messages, which others wrote.
        let is_dated = text.contains(['T', 't', ' ']) && text.trim() == text;
        let millis = birth::millis_of_text(&text).filter(|_| is_dated);
        millis.map(Timestamp::from_millis).ok_or_else(|| {
            self.fault("this must be a time since 1970, such as 2026-11-20T10:00:00Z")
        })
    }

    /// Reads the claim id that a client made.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn claim_id(&self) -> Result<ClaimId, Fault> {
        let text = self.text()?;
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        bits.map(ClaimId::from_u128)
            .ok_or_else(|| self.fault("a claim id is 32 hexadecimal digits"))
    }

    /// Reads one of these words.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Fault> {
        let text = self.text()?;
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(format!("this must be one of: {}", words.join(", ")))
        })
    }

    /// Reads bytes in base64, with padding.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn base64(&self) -> Result<Bytes, Fault> {
        let bytes = STANDARD.decode(&*self.text()?);
        bytes
            .map(Bytes::from)
            .map_err(|why| self.fault(format!("this is not base64: {why}")))
    }

    /// Reads any value as the fingerprint of a request.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn fingerprint(&self) -> Result<Reading, Fault> {
        let payload = Bytes::from(self.json_text().into_owned());
        let view = View::new(Message {
            payload: &payload,
            headers: &[],
            coordinates: "",
        });
        let reading = FingerprintSelector::Payload.read(&view);
        let reading = reading.map_err(|why| self.fault(unusable(&why)))?;
        reading.ok_or_else(|| self.fault("this yields no fingerprint"))
    }

    /// Returns the value as it is written.
    pub fn json_text(&self) -> Cow<'n, str> {
        let raw = self.node.raw();
        if self.node.kind() == Kind::Text {
            Cow::Owned(format!("\"{raw}\""))
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// Returns the elements of an array of at most `most`.
    ///
    /// # Errors
    ///
    /// It is not that.
    pub fn elements(&self, most: usize) -> Result<Vec<Node<'n>>, Fault> {
        if self.node.kind() != Kind::Array {
            return Err(self.fault("this must be an array"));
        }
        let elements: Vec<_> = self.node.children().take(most + 1).collect();
        if elements.len() > most {
            return Err(self.fault(format!("this must have at most {most} elements")));
        }
        Ok(elements)
    }

    fn json(&self, error: JsonError) -> Fault {
        self.fault(error.fault.as_str())
    }
}

/// Reads a key as it is printed: a string is itself, `json:1` is the number 1.
///
/// # Errors
///
/// The reason why it is none, for the one who wrote it.
pub fn printed_key(text: &str) -> Result<Key, String> {
    let key = Key::parse(text)
        .map_err(|why| format!("{why}; a string is written as it is, a number as json:1"))?;
    if key.as_bytes().is_empty() || key.as_bytes().len() > Key::MAX_BYTES {
        return Err(format!("a key has from 1 to {} bytes", Key::MAX_BYTES));
    }
    Ok(key)
}

/// Refuses a request without a member that it must have.
///
/// # Errors
///
/// It is missing.
pub fn required<'n>(
    member: Option<Member<'n>>,
    base: &str,
    name: &str,
) -> Result<Member<'n>, Fault> {
    member.ok_or_else(|| Fault::new(format!("{base}/{name}"), "this member is missing"))
}

/// Says why a value is no key or no fingerprint, in the words of a request.
pub fn unusable(why: &Unusable) -> String {
    match why {
        Unusable::KeyBlank { .. } => "this is blank".to_owned(),
        Unusable::KeyTooLong { .. } => format!("this is over {} bytes long", Key::MAX_BYTES),
        Unusable::KeyControlCharacter { .. } => "this contains a control character".to_owned(),
        Unusable::MemberDuplicated { .. } => "a member occurs twice in it".to_owned(),
        Unusable::NumberTooLong { .. } => "a number in it has over 1,000 digits".to_owned(),
        other => other.to_string(),
    }
}
