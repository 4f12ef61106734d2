//! Values that can be the key of an operation.

use std::borrow::Cow;

use semel_core::json::write_string;
use semel_core::{Key, Unusable};

/// A value that names one intended effect.
///
/// Strings, whole numbers, [`Key`]s, references to them, and tuples of two or three of them, which
/// are joined without ever running into each other. Values carry their type, as everywhere in
/// Semel: `7` and `"7"` are two keys.
///
/// ```
/// use semel_engine::once::ToKey;
///
/// # fn main() -> Result<(), semel_core::Unusable> {
/// assert_eq!("pay-1".to_key()?.as_str(), "pay-1");
/// assert_eq!(7_u64.to_key()?.as_str(), "json:7");
/// assert_eq!(("acme", 7).to_key()?.as_str(), r#"json:["acme",7]"#);
/// assert!(" ".to_key().is_err());
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key",
    note = "keys are strings, whole numbers, `semel::Key`, and tuples of two or three of them",
    note = "a uuid is a key as its text: `&id.to_string()`"
)]
pub trait ToKey {
    /// Returns the key.
    ///
    /// # Errors
    ///
    /// blank, over 1 KiB, or with a control character
    fn to_key(&self) -> Result<Key, Unusable>;
}

impl ToKey for str {
    fn to_key(&self) -> Result<Key, Unusable> {
        Key::new(self)
    }
}

impl ToKey for String {
    fn to_key(&self) -> Result<Key, Unusable> {
        Key::new(self)
    }
}

impl ToKey for Cow<'_, str> {
    fn to_key(&self) -> Result<Key, Unusable> {
        Key::new(self)
    }
}

impl ToKey for Key {
    fn to_key(&self) -> Result<Key, Unusable> {
        Ok(self.clone())
    }
}

impl<K: ToKey + ?Sized> ToKey for &K {
    fn to_key(&self) -> Result<Key, Unusable> {
        K::to_key(self)
    }
}

macro_rules! whole_numbers {
    ($($number:ty)+) => {
        $(impl ToKey for $number {
            fn to_key(&self) -> Result<Key, Unusable> {
                Ok(typed(&self.to_string()))
            }
        })+
    };
}

whole_numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl<A: ToKey, B: ToKey> ToKey for (A, B) {
    fn to_key(&self) -> Result<Key, Unusable> {
        join(&[self.0.to_key()?, self.1.to_key()?])
    }
}

impl<A: ToKey, B: ToKey, C: ToKey> ToKey for (A, B, C) {
    fn to_key(&self) -> Result<Key, Unusable> {
        join(&[self.0.to_key()?, self.1.to_key()?, self.2.to_key()?])
    }
}

/// Returns the key of several parts, as a pipeline with several selectors makes it.
fn join(parts: &[Key]) -> Result<Key, Unusable> {
    let mut json = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        json.push(if index == 0 { b'[' } else { b',' });
        match part.as_str().strip_prefix(TYPED) {
            Some(value) => json.extend_from_slice(value.as_bytes()),
            None => write_string(part.as_str(), &mut json),
        }
    }
    json.push(b']');
    if TYPED.len() + json.len() > Key::MAX_BYTES {
        let at = "the joined key".into();
        return Err(Unusable::KeyTooLong { at });
    }
    Ok(typed(&String::from_utf8_lossy(&json)))
}

/// Returns the key of a JSON value that can be one.
fn typed(json: &str) -> Key {
    Key::parse(&format!("{TYPED}{json}"))
        .unwrap_or_else(|_| unreachable!("numbers, strings and lists of them are keys"))
}

const TYPED: &str = "json:";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: impl ToKey) -> String {
        key.to_key().expect("a key").to_string()
    }

    #[test]
    fn values_of_different_types_are_different_keys() {
        assert_eq!(text("7"), "7");
        assert_eq!(text(7), "json:7");
        assert_eq!(text(-7_i64), "json:-7");
        assert_eq!(text(u128::MAX), format!("json:{}", u128::MAX));
        assert_eq!(text("json:7"), r#"json:"json:7""#);
        assert_eq!(text(String::from("a")), text("a"));
    }

    #[test]
    fn joined_keys_never_run_into_each_other() {
        assert_eq!(text(("a", "b\"c")), r#"json:["a","b\"c"]"#);
        assert_ne!(text(("a", "b,c")), text(("a,b", "c")));
        assert_ne!(text(("1", 1)), text((1, "1")));
        assert_eq!(text(("json:1", 2)), r#"json:["json:1",2]"#);
        assert_eq!(text((1, (2, "x"), 3_u8)), r#"json:[1,[2,"x"],3]"#);
    }

    #[test]
    fn a_pipeline_with_two_selectors_makes_the_same_key() {
        use bytes::Bytes;
        use semel_core::key::KeySelector;
        use semel_core::select::{Message, Selector, View};

        let selectors = ["json:/tenant", "json:/id"].map(str::parse::<Selector>);
        let selectors: Result<Vec<_>, _> = selectors.into_iter().collect();
        let selector = KeySelector::try_from(selectors.expect("selectors")).expect("two");
        let payload = Bytes::from_static(br#"{"tenant":"acme","id":7}"#);
        let message = Message {
            payload: &payload,
            headers: &[],
            coordinates: "",
        };
        let key = selector.key(&View::new(message)).expect("a key");
        assert_eq!(Ok(key), ("acme", 7).to_key());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!("".to_key().map_err(|why| why.code()), Err("key-blank"));
        assert_eq!(
            ("a", "").to_key().map_err(|why| why.code()),
            Err("key-blank")
        );
        let long = "x".repeat(600);
        let joined = (&long, &long).to_key();
        assert_eq!(joined.map_err(|why| why.code()), Err("key-too-long"));
    }
}
