//! The answers that speak for the earlier attempts as well: those from behind the provider's own look-up of the
//! key.

use hyper::header::{HeaderMap, HeaderName};

use semel_core::{Error, ErrorKind, Result};

/// The status codes that a provider sends from behind its look-up of the key, and therefore keeps for it.
///
/// Only such a refusal says of the earlier attempts with the key that they did not apply the effect either. An
/// expired token, a wrong path or a proxy in between refuses before the provider has looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisive(Vec<u16>);

impl Decisive {
    /// The codes of a list such as `402` or `402,422`.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: no code, one outside of 400 to 499, or one that is never decisive
    pub fn parse(text: &str) -> Result<Self> {
        let mut codes = Vec::new();
        for word in text.split(',').map(str::trim) {
            let code = word
                .parse()
                .ok()
                .filter(|code| word.len() == 3 && (400..500).contains(code));
            let Some(code) = code else {
                let word = word.escape_debug();
                return Err(invalid(format!(
                    "`{word}` is no status code from 400 to 499; write codes and commas, as in \"402,422\""
                )));
            };
            if let Some((_, why)) = NEVER.iter().find(|(codes, _)| codes.contains(&code)) {
                return Err(invalid(format!("{code} never is decisive: {why}")));
            }
            codes.push(code);
        }
        codes.sort_unstable();
        codes.dedup();
        Ok(Self(codes))
    }

    /// The codes of both.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.dedup();
        self
    }

    /// Returns whether an answer with this status speaks for the earlier attempts.
    pub(super) fn has(&self, status: u16) -> bool {
        self.0.binary_search(&status).is_ok()
    }
}

impl std::fmt::Display for Decisive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, code) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{code}")?;
        }
        Ok(())
    }
}

/// Returns whether an answer says that it is the stored one, given to the first request with the key.
pub(super) fn is_stored(headers: &HeaderMap) -> bool {
    STORED.into_iter().any(|name| {
        let value = headers.get(HeaderName::from_static(name));
        value.is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true"))
    })
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// The headers of a stored answer: Stripe's (<https://docs.stripe.com/api/idempotent_requests>), and that of
/// Semel's own gateway.
const STORED: [&str; 2] = ["idempotent-replayed", "idempotency-replayed"];

/// Codes that say nothing about an earlier request with the key, and why.
const NEVER: [(&[u16], &str); 3] = [
    (
        &[401, 403, 404, 405, 407],
        "it comes from before anybody has looked for the key",
    ),
    (
        &[409],
        "it says that a request with the key is still under way",
    ),
    (&[408, 425, 429], "it asks for another try"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_in_any_order() {
        let codes = Decisive::parse("422, 402,402").expect("codes");
        assert_eq!(codes.to_string(), "402,422");
        assert!(codes.has(402) && !codes.has(400));
        let both = codes.with(&Decisive::parse("400").expect("a code"));
        assert_eq!(both.to_string(), "400,402,422");
    }

    #[test]
    fn what_speaks_for_no_earlier_attempt_is_refused() {
        for (text, why) in [
            ("", "no status code"),
            ("402,", "no status code"),
            ("4xx", "no status code"),
            ("+402", "no status code"),
            ("200", "no status code"),
            ("500", "no status code"),
            ("401", "before anybody has looked"),
            ("404", "before anybody has looked"),
            ("409", "still under way"),
            ("429", "another try"),
        ] {
            let error = Decisive::parse(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_stored_answer_says_so_in_a_header() {
        for (name, value, expected) in [
            ("Idempotent-Replayed", "true", true),
            ("Idempotency-Replayed", " True ", true),
            ("Idempotency-Replayed", "false", false),
            ("Idempotency-Key", "true", false),
        ] {
            let response = hyper::Response::builder().header(name, value).body(());
            let stored = is_stored(response.expect("an answer").headers());
            assert_eq!(stored, expected, "{name}: {value}");
        }
    }
}
