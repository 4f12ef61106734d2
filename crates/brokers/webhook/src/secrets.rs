//! The secrets that a provider may sign with: several while one replaces another.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::scheme::Scheme;

/// The secrets of one provider, as the keys of signatures. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secrets(Arc<[Box<[u8]>]>);

impl Secrets {
    /// No secret.
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    /// Reads secrets, one a line; blanks around them and empty lines do not count.
    ///
    /// # Errors
    ///
    /// A line that is no secret of this scheme, by its number.
    pub(crate) fn read(scheme: &Scheme, text: &str) -> Result<Self, InvalidSecret> {
        let lines = text.lines().map(str::trim).zip(1..);
        let keys = lines
            .filter(|(line, _)| !line.is_empty())
            .map(|(line, number)| match scheme {
                Scheme::Standard => of_standard(line).ok_or(InvalidSecret::NotBase64 { number }),
                Scheme::GitHub
                | Scheme::Stripe
                | Scheme::Slack
                | Scheme::Shopify
                | Scheme::Hmac { .. }
                | Scheme::None => Ok(line.as_bytes().into()),
            });
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(InvalidSecret::Nothing);
        }
        Ok(Self(keys.into()))
    }

    /// The keys, in the order of their lines.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|key| &**key)
    }
}

/// Decodes a secret of Standard Webhooks: base64, after `whsec_`.
fn of_standard(line: &str) -> Option<Box<[u8]>> {
    let text = line.strip_prefix("whsec_").unwrap_or(line);
    let key = LENIENT.decode(text).ok()?;
    (!key.is_empty()).then(|| key.into())
}

/// The usual alphabet; padding may be there or not.
pub(crate) const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A text that holds no secrets. It is shown without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidSecret {
    /// There is none.
    Nothing,
    /// A secret of Standard Webhooks is base64.
    NotBase64 {
        /// The line, from 1.
        number: usize,
    },
}

impl fmt::Display for InvalidSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("holds no secret; it holds one a line"),
            Self::NotBase64 { number } => write!(
                f,
                "line {number} is no secret of Standard Webhooks: `whsec_` and then base64"
            ),
        }
    }
}

impl std::error::Error for InvalidSecret {}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_line_by_line_and_never_shown() {
        let read = Secrets::read(&Scheme::GitHub, "old one\r\n\n  new one  \n").expect("two");
        assert_eq!(read.keys().collect::<Vec<_>>(), [b"old one", b"new one"]);
        assert_eq!(format!("{read:?}"), "2 secrets");
        let read = Secrets::read(&Scheme::Standard, "whsec_AAEC\nAAECAw==\n").expect("two");
        assert_eq!(
            read.keys().collect::<Vec<_>>(),
            [&[0, 1, 2][..], &[0, 1, 2, 3]]
        );
    }

    #[test]
    fn a_text_without_a_secret_is_refused_without_being_shown() {
        for text in ["", " \n\t\n"] {
            let refused = Secrets::read(&Scheme::Stripe, text);
            assert_eq!(refused, Err(InvalidSecret::Nothing));
        }
        for (text, number) in [("whsec_geheim!", 1), ("AAEC\n\nwhsec_", 3)] {
            let refused = Secrets::read(&Scheme::Standard, text).expect_err("no base64");
            assert_eq!(refused, InvalidSecret::NotBase64 { number });
            assert!(!refused.to_string().contains("geheim"), "{refused}");
        }
    }
}
