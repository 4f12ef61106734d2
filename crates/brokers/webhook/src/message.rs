//! A request as a message: its identity at the provider, and the headers that selectors see.

use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use semel_core::ByteString;
use semel_core::port::source::{Delivery, DeliveryId};
use serde::Deserialize;

use super::HEAD_BYTES;
use super::scheme::Scheme;
use super::signature::{GITHUB, SHOPIFY, SLACK, STANDARD, STANDARD_ID, STRIPE};

/// A message, which may be handed over several times.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    payload: Bytes,
    headers: Vec<(ByteString, Bytes)>,
    coordinates: ByteString,
    oversize_bytes: Option<u64>,
}

impl Message {
    /// Makes a message of a request; of a body that is longer than `max_bytes`, its beginning.
    pub(crate) fn new(
        scheme: &Scheme,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
        max_bytes: usize,
    ) -> Self {
        let coordinates = coordinates(scheme, path, headers, &body);
        let length = body.len();
        let (payload, oversize_bytes) = if length > max_bytes {
            // A slice would keep the whole body in memory.
            let head = Bytes::copy_from_slice(&body[..length.min(HEAD_BYTES)]);
            (head, u64::try_from(length).ok())
        } else {
            (body, None)
        };
        Self {
            payload,
            headers: kept(scheme, headers),
            coordinates,
            oversize_bytes,
        }
    }

    pub(crate) fn delivery(&self, id: DeliveryId) -> Delivery {
        let mut delivery = Delivery::new(id, self.payload.clone(), self.coordinates.clone());
        delivery.headers.clone_from(&self.headers);
        delivery.oversize_bytes = self.oversize_bytes;
        delivery
    }
}

/// Returns the place of a message: the same each time that the provider sends it.
fn coordinates(scheme: &Scheme, path: &str, headers: &HeaderMap, body: &[u8]) -> ByteString {
    let id = id_of_provider(scheme, headers, body);
    let is_usable =
        |id: &String| (1..=MAX_ID_BYTES).contains(&id.len()) && !id.chars().any(char::is_control);
    match id.filter(is_usable) {
        Some(id) => format!("webhook:{path}:{id}").into(),
        None => format!("webhook-hash:{path}:{}", blake3::hash(body).to_hex()).into(),
    }
}

/// Returns the provider's word for which message it is.
fn id_of_provider(scheme: &Scheme, headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let of_header = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
    match scheme {
        Scheme::GitHub => of_header(GITHUB_ID),
        Scheme::Standard => of_header(STANDARD_ID),
        Scheme::Shopify => of_header(SHOPIFY_ID),
        Scheme::Stripe => serde_json::from_slice::<StripeEvent>(body).ok()?.id,
        Scheme::Slack => serde_json::from_slice::<SlackEvent>(body).ok()?.event_id,
        Scheme::Hmac { .. } | Scheme::None => None,
    }
}

#[derive(Deserialize)]
struct StripeEvent {
    id: Option<String>,
}

#[derive(Deserialize)]
struct SlackEvent {
    event_id: Option<String>,
}

/// Returns the text with which Slack tries an address, to be sent back: a request that is no event.
pub(crate) fn slack_challenge(scheme: &Scheme, body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Request {
        r#type: String,
        challenge: String,
    }
    if *scheme != Scheme::Slack {
        return None;
    }
    let request: Request = serde_json::from_slice(body).ok()?;
    (request.r#type == "url_verification").then_some(request.challenge)
}

/// Returns the headers that a message keeps, in their order: neither signatures and credentials, nor what was about
/// the connection, nor Semel's own, which nobody outside may set.
pub(crate) fn kept(scheme: &Scheme, headers: &HeaderMap) -> Vec<(ByteString, Bytes)> {
    let is_signature =
        |name: &HeaderName| matches!(scheme, Scheme::Hmac { header, .. } if header == name);
    let is_kept = |name: &HeaderName| {
        !LEFT_OUT.contains(name) && !is_signature(name) && !name.as_str().starts_with(OWN)
    };
    let kept = headers.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, value)| {
        let value = Bytes::copy_from_slice(value.as_bytes());
        (ByteString::from(name.as_str()), value)
    })
    .collect()
}

/// The headers by which Semel marks messages, such as those of a replay.
const OWN: &str = "semel-";
const LEFT_OUT: [HeaderName; 18] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    GITHUB,
    // GitHub's older signature, with SHA-1, which it still sends.
    HeaderName::from_static("x-hub-signature"),
    STRIPE,
    STANDARD,
    SLACK,
    SHOPIFY,
];
const GITHUB_ID: HeaderName = HeaderName::from_static("x-github-delivery");
const SHOPIFY_ID: HeaderName = HeaderName::from_static("x-shopify-webhook-id");
/// The longest id that coordinates carry.
const MAX_ID_BYTES: usize = 255;

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    fn place(scheme: &Scheme, headers: &HeaderMap, body: &'static str) -> String {
        let message = Message::new(scheme, "/in", headers, body.into(), 1_000);
        message.coordinates.to_string()
    }

    #[test]
    fn the_place_of_a_message_is_the_id_that_its_provider_repeats() {
        let ids = headers(&[
            ("x-github-delivery", "72d3"),
            ("webhook-id", "msg_1"),
            ("x-shopify-webhook-id", "b54"),
        ]);
        let stripe = r#"{"id":"evt_1","object":"event"}"#;
        let slack = r#"{"event_id":"Ev1","type":"event_callback"}"#;
        for (scheme, body, expected) in [
            (Scheme::GitHub, "{}", "webhook:/in:72d3"),
            (Scheme::Standard, "{}", "webhook:/in:msg_1"),
            (Scheme::Shopify, "{}", "webhook:/in:b54"),
            (Scheme::Stripe, stripe, "webhook:/in:evt_1"),
            (Scheme::Slack, slack, "webhook:/in:Ev1"),
        ] {
            assert_eq!(place(&scheme, &ids, body), expected);
        }
    }

    #[test]
    fn a_message_without_an_id_goes_by_its_body() {
        let none = HeaderMap::new();
        let all = [Scheme::None, Scheme::GitHub, Scheme::Stripe, Scheme::Slack];
        for scheme in all {
            let one = place(&scheme, &none, r#"{"id":7}"#);
            assert!(one.starts_with("webhook-hash:/in:"), "{one}");
            assert_eq!(one, place(&scheme, &none, r#"{"id":7}"#));
            assert_ne!(one, place(&scheme, &none, r#"{"id":8}"#));
        }
        let bad = r#"{"id":"evt\n1"}"#;
        assert!(place(&Scheme::Stripe, &none, bad).starts_with("webhook-hash:"));
    }

    #[test]
    fn neither_credentials_nor_marks_of_semel_become_headers_of_a_message() {
        let sent = headers(&[
            ("x-github-event", "push"),
            ("authorization", "Basic Z2VoZWlt"),
            ("cookie", "geheim"),
            ("x-hub-signature-256", "sha256=00"),
            ("semel-replay-id", "r-1"),
            ("content-type", "application/json"),
            ("content-length", "2"),
        ]);
        let message = Message::new(&Scheme::GitHub, "/in", &sent, "{}".into(), 1_000);
        let delivery = message.delivery(DeliveryId(1));
        let names: Vec<_> = delivery.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["x-github-event", "content-type"]);
    }

    #[test]
    fn the_signature_of_any_provider_is_no_header_of_a_message() {
        let sent = headers(&[
            ("x-signature", "757107ea"),
            ("x-hub-signature", "sha1=757107ea"),
            ("x-event", "push"),
        ]);
        let scheme = Scheme::hmac("X-Signature", crate::Encoding::Hex).expect("a name");
        let message = Message::new(&scheme, "/in", &sent, "{}".into(), 1_000);
        let delivery = message.delivery(DeliveryId(1));
        let names: Vec<_> = delivery.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["x-event"]);
    }

    #[test]
    fn of_a_message_that_is_too_long_only_the_head_is_kept() {
        let body = Bytes::from(vec![b'x'; 100_000]);
        let of = |most| {
            let message = Message::new(&Scheme::None, "/", &HeaderMap::new(), body.clone(), most);
            message.delivery(DeliveryId(1))
        };
        let whole = of(100_000);
        assert_eq!((whole.payload.len(), whole.oversize_bytes), (100_000, None));
        let head = of(99_999);
        assert_eq!(head.payload.len(), HEAD_BYTES);
        assert_eq!(head.oversize_bytes, Some(100_000));
        assert_eq!(head.coordinates, whole.coordinates);
    }

    #[test]
    fn only_the_trial_of_an_address_by_slack_is_a_challenge() {
        let trial = br#"{"type":"url_verification","token":"t","challenge":"3eZb"}"#;
        let challenge = slack_challenge(&Scheme::Slack, trial);
        assert_eq!(challenge.as_deref(), Some("3eZb"));
        assert_eq!(slack_challenge(&Scheme::GitHub, trial), None);
        let event = br#"{"type":"event_callback","challenge":"3eZb"}"#;
        assert_eq!(slack_challenge(&Scheme::Slack, event), None);
    }
}
