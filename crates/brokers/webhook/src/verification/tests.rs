use axum::http::{HeaderName, HeaderValue};

use super::*;
use crate::scheme::Encoding;

/// A request that its provider has published, or that was computed with another implementation.
struct Example {
    scheme: Scheme,
    secret: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
    /// The second at which it was signed; 0 where that is not signed.
    at: u64,
}

impl Example {
    fn headers(&self) -> HeaderMap {
        let pairs = self.headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    fn check(&self, headers: &HeaderMap, body: &str, at: u64) -> Result<(), Refusal> {
        let verification = Verification::new(self.scheme.clone(), self.secret).expect("a secret");
        let now = Timestamp::from_millis(at * 1_000);
        verification.check(headers, body.as_bytes(), now)
    }
}

/// From the documentation of GitHub.
fn github() -> Example {
    Example {
        scheme: Scheme::GitHub,
        secret: "It's a Secret to Everybody",
        headers: vec![(
            "x-hub-signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        )],
        body: "Hello, World!",
        at: 0,
    }
}

/// From the libraries of Standard Webhooks.
fn standard() -> Example {
    Example {
        scheme: Scheme::Standard,
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        headers: vec![
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            (
                "webhook-signature",
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ],
        body: "{\"test\": 2432232314}",
        at: 1_614_265_330,
    }
}

/// From the documentation of Slack.
fn slack() -> Example {
    Example {
        scheme: Scheme::Slack,
        secret: "8f742231b10e8888abcd99yyyzzz85a5",
        headers: vec![
            ("x-slack-request-timestamp", "1531420618"),
            (
                "x-slack-signature",
                "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            ),
        ],
        body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
               &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
               &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com\
               %2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
               &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
        at: 1_531_420_618,
    }
}

/// Computed as the documentation of Stripe says; signed with an old secret, too, and with a scheme for tests.
fn stripe() -> Example {
    Example {
        scheme: Scheme::Stripe,
        secret: "whsec_test_secret",
        headers: vec![(
            "stripe-signature",
            "t=1700000000,\
             v1=9119b75c4afa8bb5f71433cb34179a57aa261c58b80b417f1f537251b0cd38a8,\
             v1=0c8670ed117751cc551a20e35839447075c42800ea3cf3e8a2fbda99cd1e6edd,\
             v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39",
        )],
        body: "{\"id\":\"evt_1\",\"object\":\"event\"}",
        at: 1_700_000_000,
    }
}

fn shopify() -> Example {
    Example {
        scheme: Scheme::Shopify,
        secret: "hush",
        headers: vec![(
            "x-shopify-hmac-sha256",
            "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=",
        )],
        body: "{\"id\":820982911946154508}",
        at: 0,
    }
}

fn hmac(encoding: Encoding, value: &'static str) -> Example {
    Example {
        scheme: Scheme::hmac("X-Signature", encoding).expect("a name"),
        headers: vec![("x-signature", value)],
        ..shopify()
    }
}

fn all() -> Vec<Example> {
    let digits = "a81bebb1917b45f075892e815fa207a894e9e4bf75d4fee29ed9cf7933ec1f42";
    let named = "sha256=A81BEBB1917B45F075892E815FA207A894E9E4BF75D4FEE29ED9CF7933EC1F42";
    let unpadded = "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I";
    vec![
        github(),
        standard(),
        slack(),
        stripe(),
        shopify(),
        hmac(Encoding::Hex, digits),
        hmac(Encoding::Hex, named),
        hmac(Encoding::Base64, unpadded),
    ]
}

#[test]
fn what_providers_publish_is_genuine() {
    for example in all() {
        let checked = example.check(&example.headers(), example.body, example.at);
        assert_eq!(checked, Ok(()), "{:?}", example.headers);
    }
}

#[test]
fn another_body_or_another_secret_is_refused() {
    for mut example in all() {
        let headers = example.headers();
        let wrong = |checked: Result<(), Refusal>| matches!(checked, Err(Refusal::Wrong(_)));
        let longer = format!("{} ", example.body);
        for body in ["", &longer, &example.body[1..]] {
            let checked = example.check(&headers, body, example.at);
            assert!(wrong(checked), "{:?}", example.headers);
        }
        example.secret = "AAECAwQF";
        let checked = example.check(&headers, example.body, example.at);
        assert!(wrong(checked), "{:?}", example.headers);
    }
}

#[test]
fn one_bit_of_a_signature_matters_wherever_it_is() {
    let example = github();
    let value = example.headers[0].1;
    for at in "sha256=".len()..value.len() {
        let mut text = value.to_owned().into_bytes();
        text[at] = if text[at] == b'0' { b'1' } else { b'0' };
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(&text).expect("a value");
        headers.insert("x-hub-signature-256", value);
        let checked = example.check(&headers, example.body, 0);
        assert!(matches!(checked, Err(Refusal::Wrong(_))), "digit {at}");
    }
}

#[test]
fn the_id_and_the_time_are_signed_where_the_scheme_says_so() {
    for (example, header, other) in [
        (standard(), "webhook-id", "msg_other"),
        (standard(), "webhook-timestamp", "1614265331"),
        (slack(), "x-slack-request-timestamp", "1531420619"),
    ] {
        let mut headers = example.headers();
        headers.insert(header, HeaderValue::from_static(other));
        let checked = example.check(&headers, example.body, example.at);
        assert!(matches!(checked, Err(Refusal::Wrong(_))), "{header}");
    }
    let example = stripe();
    let value = example.headers[0].1.replace("t=1700000000", "t=1700000001");
    let mut headers = HeaderMap::new();
    headers.insert("stripe-signature", value.parse().expect("a value"));
    let checked = example.check(&headers, example.body, example.at);
    assert!(matches!(checked, Err(Refusal::Wrong(_))));
}

#[test]
fn a_request_of_another_time_is_refused_in_both_directions() {
    for example in [standard(), slack(), stripe()] {
        let headers = example.headers();
        let check = |at| example.check(&headers, example.body, at);
        for near in [example.at - 300, example.at + 300] {
            assert_eq!(check(near), Ok(()), "{:?}", example.headers);
        }
        for (far, ahead) in [(example.at - 301, true), (example.at + 301, false)] {
            let refused = check(far).expect_err("too far");
            let expected = Refusal::Untimely {
                off: Duration::from_secs(301),
                tolerance: Duration::from_secs(300),
                is_ahead: ahead,
            };
            assert_eq!(refused, expected);
        }
        // Whoever does not know the secret learns nothing about the clock.
        let forged = example.check(&headers, "{}", example.at + 301);
        assert!(matches!(forged, Err(Refusal::Wrong(_))));
    }
    let example = standard();
    let patient = Verification::new(Scheme::Standard, example.secret).expect("a secret");
    let patient = patient.with_tolerance(Duration::from_secs(301));
    let now = Timestamp::from_millis((example.at + 301) * 1_000);
    let checked = patient.check(&example.headers(), example.body.as_bytes(), now);
    assert_eq!(checked, Ok(()));
}

#[test]
fn each_secret_of_a_rotation_is_enough() {
    let example = github();
    let secrets = "the new one\nIt's a Secret to Everybody\n";
    let verification = Verification::new(Scheme::GitHub, secrets).expect("two secrets");
    let body = example.body.as_bytes();
    let checked = verification.check(&example.headers(), body, Timestamp::EPOCH);
    assert_eq!(checked, Ok(()));
}

#[test]
fn a_provider_that_rotates_signs_several_times() {
    let example = standard();
    let mut headers = example.headers();
    let several = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg== \
                   v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= \
                   v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    headers.insert("webhook-signature", HeaderValue::from_static(several));
    let checked = example.check(&headers, example.body, example.at);
    assert_eq!(checked, Ok(()));
}

#[test]
fn a_header_that_is_missing_or_there_twice_is_named() {
    for example in all() {
        let headers = example.headers();
        for (name, value) in &example.headers {
            let mut fewer = headers.clone();
            fewer.remove(*name);
            let refused = example.check(&fewer, example.body, example.at);
            let missing = Refusal::Missing(HeaderName::from_static(name));
            assert_eq!(refused, Err(missing));
            let mut more = headers.clone();
            more.append(*name, HeaderValue::from_static(value));
            let refused = example.check(&more, example.body, example.at);
            let twice = Refusal::Malformed(HeaderName::from_static(name), "is there twice");
            assert_eq!(refused, Err(twice));
        }
    }
}

#[test]
fn what_cannot_be_a_signature_is_told_apart_from_a_wrong_one() {
    let digits = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let sha1 = "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6";
    let long = format!("sha256={digits}00");
    let other = format!("t=1,t=1,v1={digits}");
    let old = format!("t=1,v0={digits}");
    let no_time = format!("v1={digits}");
    let bad_time = format!("t=+1,v1={digits}");
    for (example, name, value) in [
        (github(), "x-hub-signature-256", digits),
        (github(), "x-hub-signature-256", sha1),
        (github(), "x-hub-signature-256", &long),
        (github(), "x-hub-signature-256", "sha256="),
        (stripe(), "stripe-signature", ""),
        (stripe(), "stripe-signature", &other),
        (stripe(), "stripe-signature", &old),
        (stripe(), "stripe-signature", &no_time),
        (stripe(), "stripe-signature", &bad_time),
        (standard(), "webhook-signature", "v1,AAEC"),
        (standard(), "webhook-signature", "v2,AAEC"),
        (standard(), "webhook-timestamp", "yesterday"),
        (standard(), "webhook-id", ""),
        (slack(), "x-slack-signature", digits),
        (slack(), "x-slack-request-timestamp", "99999999999999999999"),
        (shopify(), "x-shopify-hmac-sha256", "qBvr"),
    ] {
        let mut headers = example.headers();
        headers.insert(name, value.parse().expect("a value"));
        let refused = example.check(&headers, example.body, example.at);
        let is_told = matches!(&refused, Err(Refusal::Malformed(header, _)) if header == name);
        assert!(is_told, "{name}: {value}: {refused:?}");
    }
}

/// Headers by chance, most of them close to genuine ones: no reader panics, and nothing that was not signed is accepted.
#[test]
fn nothing_that_was_forged_is_accepted_whatever_its_headers() {
    let mut chance = Chance(0x5eed);
    for example in all() {
        let own = example.headers();
        let names: Vec<_> = own.keys().cloned().collect();
        // The forger has a secret of its own, and knows what the provider has signed.
        let other = Verification::new(example.scheme.clone(), "Z2VoZWlt").expect("a secret");
        let now = Timestamp::from_millis(example.at * 1_000);
        for _ in 0..5_000 {
            let mut headers = own.clone();
            for _ in 0..=chance.below(2) {
                let name = &names[chance.below(names.len())];
                let mut value = headers[name].as_bytes().to_vec();
                chance.change(&mut value);
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.insert(name, value);
                }
            }
            let refused = other.check(&headers, example.body.as_bytes(), now);
            assert!(refused.is_err(), "{headers:?}");
            let mut body = example.body.as_bytes().to_vec();
            chance.change(&mut body);
            let own = Verification::new(example.scheme.clone(), example.secret);
            let checked = own.expect("a secret").check(&headers, &body, now);
            let is_same = body == example.body.as_bytes();
            assert!(checked.is_err() || is_same, "{headers:?}: {body:?}");
        }
    }
}

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let high = usize::try_from(self.0 >> 33).expect("31 bits");
        high % bound
    }

    /// Changes, cuts, repeats or lengthens a text somewhere.
    fn change(&mut self, text: &mut Vec<u8>) {
        const BYTES: &[u8] = b",=. \t:/+-_;vtV019afAFzZ\x80\xff";
        let at = self.below(text.len() + 1);
        let byte = BYTES[self.below(BYTES.len())];
        match self.below(5) {
            0 => text.truncate(at),
            1 => text.insert(at, byte),
            2 => text.extend_from_within(at..),
            3 if at < text.len() => text[at] = byte,
            _ => drop(text.drain(..at)),
        }
    }
}

#[test]
fn no_refusal_shows_a_secret_or_a_signature() {
    for mut example in all() {
        let headers = example.headers();
        example.secret = "Z2VoZWlt";
        let refused = example.check(&headers, example.body, example.at);
        let shown = refused.expect_err("another secret").to_string();
        assert!(!shown.contains("Z2VoZWlt"), "{shown}");
        let verification = Verification::new(example.scheme.clone(), example.secret);
        let shown = format!("{:?}", verification.expect("a secret"));
        assert!(!shown.contains("Z2VoZWlt"), "{shown}");
    }
}

#[test]
fn without_signatures_every_request_is_genuine() {
    let checked = Verification::none().check(&HeaderMap::new(), b"", Timestamp::EPOCH);
    assert_eq!(checked, Ok(()));
}
