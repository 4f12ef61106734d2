//! Intents and their keys.

use std::fmt::Write;

use http::HeaderValue;
use semel_core::{Code, Entropy, Error, ErrorKind, Key, OpId, Operation, Result, Scope};
use semel_engine::once::ToKey;
use semel_engine::system::SystemEntropy;

/// One thing that a caller wants done once: a name, such as `charge`, and the value that tells it from others of that
/// name, such as the number of an order.
///
/// The idempotency key is derived from both, so the same intent has the same key on every retry, in every process and
/// after every restart, and two intents never share one. Put it among the extensions of a request, or hand it to
/// `send`.
///
/// ```
/// use semel_client::Intent;
///
/// # fn main() -> Result<(), semel_core::Error> {
/// let charge = Intent::of("charge", "order-1017")?;
/// assert_eq!(charge, Intent::of("charge", "order-1017")?);
/// assert_ne!(charge.idempotency_key(), Intent::of("refund", "order-1017")?.idempotency_key());
/// assert_ne!(Intent::fresh("charge")?, Intent::fresh("charge")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    operation: Operation,
}

impl Intent {
    /// Returns the intent of this name and value: a string, a whole number, or a tuple of these.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the name is empty or over its limit, or the value is blank, over 1 KiB or has a control character
    pub fn of(name: &str, value: impl ToKey) -> Result<Self> {
        let scope = Scope::new("", name).map_err(|why| invalid(why.to_string()))?;
        let key = value.to_key().map_err(|why| invalid(why.to_string()))?;
        Ok(Self::from_operation(Operation::new(scope, key)))
    }

    /// Returns an intent that is the same as no other: its value is random. To go on with it after a restart, save
    /// [`value`](Self::value) before the first request, and give it to [`of`](Self::of).
    ///
    /// # Errors
    ///
    /// `InvalidInput`, as [`of`](Self::of)
    pub fn fresh(name: &str) -> Result<Self> {
        Self::fresh_from(name, &SystemEntropy)
    }

    /// Returns an intent whose value is made of this entropy; see [`fresh`](Self::fresh).
    ///
    /// # Errors
    ///
    /// `InvalidInput`, as [`of`](Self::of)
    pub fn fresh_from(name: &str, entropy: &dyn Entropy) -> Result<Self> {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        let mut value = String::with_capacity(32);
        for byte in bytes {
            // Writing to a string never fails.
            let _ = write!(value, "{byte:02x}");
        }
        Self::of(name, value)
    }

    /// Returns the intent whose idempotency key is `key` itself, for a caller that has keys of its own.
    ///
    /// # Errors
    ///
    /// `InvalidInput` with code `key-invalid`: it is blank, over 255 bytes long, or not printable ASCII
    pub fn with_key(key: &str) -> Result<Self> {
        let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if key.trim() != key || key.is_empty() || key.len() > MAX_BYTES || !is_printable {
            let fault = "an idempotency key has 1 to 255 printable ASCII characters, and no blank at its ends";
            return Err(invalid(fault.to_owned()).with_code(Code::KeyInvalid));
        }
        Self::of(VERBATIM, key)
    }

    /// Returns the intent of a key as it stands in a header, with quotes or without.
    pub(crate) fn of_header(value: &str) -> Result<Self> {
        let quoted = value.trim().strip_prefix('"');
        match quoted.and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => Self::with_key(&text.replace("\\\"", "\"").replace("\\\\", "\\")),
            None => Self::with_key(value.trim()),
        }
    }

    pub(crate) const fn from_operation(operation: Operation) -> Self {
        Self { operation }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.operation.scope.operation()
    }

    /// Returns the value.
    pub fn value(&self) -> &Key {
        &self.operation.key
    }

    /// Returns the id under which a store of Semel knows it.
    pub fn operation_id(&self) -> OpId {
        self.operation.id()
    }

    /// Returns the idempotency key: 64 hexadecimal digits, or the key that it was [made with](Self::with_key).
    pub fn idempotency_key(&self) -> String {
        if self.name() == VERBATIM {
            return text_of(self.value());
        }
        self.operation_id().to_string()
    }

    /// Returns the key as the value of a header. With quotes, it is a string of RFC 8941.
    pub(crate) fn header_value(&self, with_quotes: bool) -> Option<HeaderValue> {
        let key = self.idempotency_key();
        let text = if with_quotes {
            format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
        } else {
            key
        };
        HeaderValue::try_from(text).ok()
    }
}

/// Returns a key as its caller wrote it. One that looks like a typed value is kept as JSON.
fn text_of(key: &Key) -> String {
    let text = key.as_str();
    let typed = text.strip_prefix("json:");
    let unquoted = typed.and_then(|json| serde_json::from_str(json).ok());
    unquoted.unwrap_or_else(|| text.to_owned())
}

fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

/// The name of intents whose key is the value itself.
const VERBATIM: &str = "idempotency-key";
/// The longest key that servers take.
const MAX_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_intent_has_the_same_key_and_another_one_has_another() {
        let key = |name, value: &str| Intent::of(name, value).map(|it| it.idempotency_key());
        let charge = key("charge", "1").expect("an intent");
        assert_eq!(charge, key("charge", "1").expect("an intent"));
        assert_ne!(charge, key("charge", "2").expect("an intent"));
        assert_ne!(charge, key("refund", "1").expect("an intent"));
        assert_eq!(charge.len(), 64);
        let number = Intent::of("charge", 1).expect("an intent");
        assert_ne!(
            charge,
            number.idempotency_key(),
            "7 and \"7\" are two values"
        );
        assert!(Intent::of("", "1").is_err() && Intent::of("charge", " ").is_err());
    }

    #[test]
    fn a_fresh_intent_never_has_the_key_of_another() {
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let fresh = Intent::fresh("charge").expect("an intent");
            assert!(keys.insert(fresh.idempotency_key()));
            let saved = fresh.value().to_string();
            assert_eq!(Intent::of("charge", saved).expect("an intent"), fresh);
        }
    }

    #[test]
    fn a_key_of_the_callers_own_is_sent_as_it_is() {
        for key in ["pay-1", "a\"b\\c", "json:1", "json:\"x\"", &"k".repeat(255)] {
            let intent = Intent::with_key(key).expect("a key");
            assert_eq!(intent.idempotency_key(), key);
            assert_eq!(intent.header_value(false).expect("a value"), key);
        }
        let quoted = Intent::with_key("a\"b\\c").expect("a key");
        assert_eq!(quoted.header_value(true).expect("a value"), r#""a\"b\\c""#);
        let header = quoted.header_value(true).expect("a value");
        let header = header.to_str().expect("text");
        assert_eq!(Intent::of_header(header).expect("a key"), quoted);
        for bad in ["", " ", " a", "zahlung-ü", "a\tb", &"k".repeat(256)] {
            let error = Intent::with_key(bad).expect_err("no key");
            assert_eq!(error.code(), Code::KeyInvalid, "{bad}");
        }
    }
}
