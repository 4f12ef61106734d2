//! The signature of a request: read from its headers, compared with one that is made with a secret.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use semel_core::Timestamp;
use sha2::Sha256;

use super::refusal::Refusal;
use super::scheme::{Encoding, Scheme};
use super::secrets::LENIENT;

/// The signatures that a request carries.
pub(crate) struct Signed {
    /// The header that they are in.
    pub(crate) header: HeaderName,
    /// The bytes that are signed before the body.
    before: Vec<u8>,
    /// One is enough: a provider that changes its secret signs with the old and the new one.
    tags: Vec<Tag>,
    /// The time at which it was signed, if that is signed, too.
    pub(crate) at: Option<Timestamp>,
}

type Tag = [u8; TAG_BYTES];
const TAG_BYTES: usize = 32;

impl Signed {
    /// Begins to compare the signatures with one that is made with this key.
    pub(crate) fn comparison(&self, key: &[u8]) -> Option<Comparison> {
        // A key may have any length.
        let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        Some(Comparison(mac.chain_update(&self.before)))
    }

    /// Tells whether one of the signatures is that of the body which was added; in a time that does not depend on how far
    /// they agree.
    pub(crate) fn is_that_of(&self, comparison: &Comparison) -> bool {
        let mac = &comparison.0;
        self.tags
            .iter()
            .any(|tag| mac.clone().verify_slice(tag).is_ok())
    }
}

/// A signature that is made of a body as it arrives.
pub(crate) struct Comparison(Hmac<Sha256>);

impl Comparison {
    /// Adds what has arrived of the body.
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }
}

/// Reads the signatures of a request; nothing if the scheme has none.
pub(crate) fn read(scheme: &Scheme, headers: &HeaderMap) -> Result<Option<Signed>, Refusal> {
    Ok(Some(match scheme {
        Scheme::GitHub => github(headers)?,
        Scheme::Stripe => stripe(headers)?,
        Scheme::Standard => standard(headers)?,
        Scheme::Slack => slack(headers)?,
        Scheme::Shopify => of_body(headers, SHOPIFY, Encoding::Base64)?,
        Scheme::Hmac { header, encoding } => of_body(headers, header.clone(), *encoding)?,
        Scheme::None => return Ok(None),
    }))
}

fn github(headers: &HeaderMap) -> Result<Signed, Refusal> {
    let text = one(headers, &GITHUB)?;
    let malformed = Refusal::Malformed(GITHUB, "must be `sha256=` and 64 hexadecimal digits");
    let tag = text
        .strip_prefix(SHA256)
        .and_then(of_hex)
        .ok_or(malformed)?;
    Ok(Signed {
        header: GITHUB,
        before: Vec::new(),
        tags: vec![tag],
        at: None,
    })
}

fn stripe(headers: &HeaderMap) -> Result<Signed, Refusal> {
    let malformed = |why| Refusal::Malformed(STRIPE, why);
    let mut seconds = None;
    let mut tags = Vec::new();
    for part in one(headers, &STRIPE)?.split(',') {
        match part.trim().split_once('=') {
            // Two times could not both have been signed.
            Some(("t", _)) if seconds.is_some() => return Err(malformed("has two times")),
            Some(("t", text)) => seconds = Some(text),
            Some(("v1", text)) => tags.extend(of_hex(text)),
            // Other versions are for others.
            Some(_) | None => {}
        }
    }
    let seconds = seconds.ok_or_else(|| malformed("has no time `t=`"))?;
    let at = time(seconds).ok_or_else(|| malformed("has a time that is no number of seconds"))?;
    if tags.is_empty() {
        return Err(malformed("has no signature `v1=` of 64 hexadecimal digits"));
    }
    Ok(Signed {
        header: STRIPE,
        before: [seconds.as_bytes(), b"."].concat(),
        tags,
        at: Some(at),
    })
}

fn standard(headers: &HeaderMap) -> Result<Signed, Refusal> {
    let id = one(headers, &STANDARD_ID)?;
    let seconds = one(headers, &STANDARD_TIME)?;
    let no_time = || Refusal::Malformed(STANDARD_TIME, "must be a number of seconds");
    let at = time(seconds).ok_or_else(no_time)?;
    if id.is_empty() {
        return Err(Refusal::Malformed(STANDARD_ID, "is empty"));
    }
    let signatures = one(headers, &STANDARD)?.split(' ');
    // Other versions are for others.
    let tags: Vec<_> = signatures
        .filter_map(|one| of_base64(one.strip_prefix("v1,")?))
        .collect();
    if tags.is_empty() {
        let why = "has no signature `v1,` and 32 bytes as base64";
        return Err(Refusal::Malformed(STANDARD, why));
    }
    Ok(Signed {
        header: STANDARD,
        before: [id.as_bytes(), b".", seconds.as_bytes(), b"."].concat(),
        tags,
        at: Some(at),
    })
}

fn slack(headers: &HeaderMap) -> Result<Signed, Refusal> {
    let seconds = one(headers, &SLACK_TIME)?;
    let no_time = || Refusal::Malformed(SLACK_TIME, "must be a number of seconds");
    let at = time(seconds).ok_or_else(no_time)?;
    let malformed = || Refusal::Malformed(SLACK, "must be `v0=` and 64 hexadecimal digits");
    let text = one(headers, &SLACK)?.strip_prefix("v0=");
    let tag = text.and_then(of_hex).ok_or_else(malformed)?;
    Ok(Signed {
        header: SLACK,
        before: [b"v0:", seconds.as_bytes(), b":"].concat(),
        tags: vec![tag],
        at: Some(at),
    })
}

/// Reads an HMAC of the body alone.
fn of_body(headers: &HeaderMap, header: HeaderName, encoding: Encoding) -> Result<Signed, Refusal> {
    let text = one(headers, &header)?;
    let (tag, why) = match encoding {
        Encoding::Hex => {
            let digits = text.strip_prefix(SHA256).unwrap_or(text);
            (of_hex(digits), "must be 64 hexadecimal digits")
        }
        Encoding::Base64 => (of_base64(text), "must be 32 bytes as base64"),
    };
    let Some(tag) = tag else {
        return Err(Refusal::Malformed(header, why));
    };
    Ok(Signed {
        header,
        before: Vec::new(),
        tags: vec![tag],
        at: None,
    })
}

/// Returns the text of a header, of which there must be one.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h str, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Err(Refusal::Missing(name.clone()));
    };
    if values.next().is_some() {
        return Err(Refusal::Malformed(name.clone(), "is there twice"));
    }
    text_of(value).ok_or_else(|| Refusal::Malformed(name.clone(), "is not ASCII"))
}

fn text_of(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// Reads a time in seconds since the epoch: digits, and nothing else.
fn time(text: &str) -> Option<Timestamp> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = text.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1_000)?))
}

fn of_hex(text: &str) -> Option<Tag> {
    let digits = text.as_bytes();
    if digits.len() != 2 * TAG_BYTES {
        return None;
    }
    let mut tag = [0; TAG_BYTES];
    for (byte, pair) in tag.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(tag)
}

const fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => return None,
    })
}

fn of_base64(text: &str) -> Option<Tag> {
    LENIENT.decode(text).ok()?.try_into().ok()
}

/// The prefix of hexadecimal digits that names the hash.
const SHA256: &str = "sha256=";
pub(crate) const GITHUB: HeaderName = HeaderName::from_static("x-hub-signature-256");
pub(crate) const STRIPE: HeaderName = HeaderName::from_static("stripe-signature");
pub(crate) const STANDARD: HeaderName = HeaderName::from_static("webhook-signature");
pub(crate) const STANDARD_ID: HeaderName = HeaderName::from_static("webhook-id");
pub(crate) const STANDARD_TIME: HeaderName = HeaderName::from_static("webhook-timestamp");
pub(crate) const SLACK: HeaderName = HeaderName::from_static("x-slack-signature");
pub(crate) const SLACK_TIME: HeaderName = HeaderName::from_static("x-slack-request-timestamp");
pub(crate) const SHOPIFY: HeaderName = HeaderName::from_static("x-shopify-hmac-sha256");
