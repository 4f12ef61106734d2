//! The ways in which providers sign their requests.

use axum::http::HeaderName;

/// The way in which a provider signs its requests. All are HMAC-SHA256 of the body, some with more before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// GitHub: `X-Hub-Signature-256`, `sha256=` and hexadecimal digits, of the body.
    GitHub,
    /// Stripe: `Stripe-Signature`, `t=…,v1=…`, of the time and the body.
    Stripe,
    /// [Standard Webhooks](https://www.standardwebhooks.com): `webhook-signature`, of the id, the time and the body.
    Standard,
    /// Slack: `X-Slack-Signature`, `v0=…`, of the time and the body.
    Slack,
    /// Shopify: `X-Shopify-Hmac-Sha256`, base64, of the body.
    Shopify,
    /// Any provider that puts an HMAC-SHA256 of the body into a header.
    Hmac {
        /// The header.
        header: HeaderName,
        /// The form of its value.
        encoding: Encoding,
    },
    /// Nothing is signed: every request is taken.
    None,
}

/// The form of an HMAC in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits, after `sha256=` or not.
    Hex,
    /// Base64, padded or not.
    Base64,
}

impl Scheme {
    /// Returns the scheme of any provider that puts an HMAC-SHA256 of the body into this header.
    ///
    /// # Errors
    ///
    /// A name that no header can have.
    pub fn hmac(header: &str, encoding: Encoding) -> Result<Self, String> {
        match header.parse() {
            Ok(header) => Ok(Self::Hmac { header, encoding }),
            Err(_) => Err(format!("`{header}` is no name of a header")),
        }
    }

    /// Returns its name in settings.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::Stripe => "stripe",
            Self::Standard => "standard",
            Self::Slack => "slack",
            Self::Shopify => "shopify",
            Self::Hmac { .. } => "hmac",
            Self::None => "none",
        }
    }

    /// Tells whether the time of a request is signed, too. Where it is not, whoever has recorded a request can send it
    /// again at any time.
    pub const fn signs_time(&self) -> bool {
        matches!(self, Self::Stripe | Self::Standard | Self::Slack)
    }
}
