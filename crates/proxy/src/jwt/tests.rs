use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use semel_conformance::TestClock;
use serde_json::json;

use super::*;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A secret, an Ed25519 key and a key on P-256, with the set of their public halves and an RSA key's.
struct Issuer {
    clock: TestClock,
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
    random: SystemRandom,
}

const SECRET: &[u8] = b"a secret of thirty-two bytes, ok";

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        Self {
            clock: TestClock::new(),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).expect("a key"),
            ec: EcdsaKeyPair::from_pkcs8(kind, ec.as_ref(), &random).expect("a key"),
            random,
        }
    }

    fn set(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "oct", "kid": "s", "k": encoded(SECRET) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encoded(self.ed.public_key()) },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "x": encoded(&point[1..33]), "y": encoded(&point[33..]) },
            { "kty": "RSA", "kid": "rsa-1", "use": "sig", "n": RSA_N, "e": "AQAB" },
            { "kty": "RSA", "use": "enc" },
            { "kty": "EC", "crv": "secp256k1" },
        ] })
    }

    fn verifier(&self, issuer: Option<&str>, audience: Option<&str>) -> JwtVerifier {
        let set = self.set().to_string();
        let clock = Arc::new(self.clock.clone());
        JwtVerifier::new(set.as_bytes(), issuer, audience, clock).expect("a set of keys")
    }

    fn signature(&self, algorithm: &str, text: &str) -> Vec<u8> {
        match algorithm {
            "HS256" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
                hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
            }
            "EdDSA" => self.ed.sign(text.as_bytes()).as_ref().to_vec(),
            "ES256" => {
                let signed = self.ec.sign(&self.random, text.as_bytes());
                signed.expect("signed").as_ref().to_vec()
            }
            _ => Vec::new(),
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let text = format!(
            "{}.{}",
            encoded(header.to_string()),
            encoded(claims.to_string())
        );
        let algorithm = header["alg"].as_str().expect("an algorithm");
        format!("{text}.{}", encoded(self.signature(algorithm, &text)))
    }

    /// A token with these claims, which is good for an hour.
    fn with(&self, more: Value) -> String {
        let mut claims = json!({ "org": "acme", "exp": self.now() + 3_600 });
        let (Some(all), Value::Object(more)) = (claims.as_object_mut(), more) else {
            panic!("members");
        };
        all.extend(more);
        all.retain(|_, value| !value.is_null());
        self.token(&json!({ "alg": "EdDSA" }), &claims)
    }

    fn now(&self) -> u64 {
        self.clock.now().as_millis() / 1_000
    }
}

#[test]
fn a_token_that_a_key_has_signed_names_its_tenant() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier(None, None);
    let claims = json!({ "org": "acme", "exp": issuer.now() + 1, "number": 17, "list": ["a"] });
    let acme = Ok(Some("acme".to_owned()));
    for header in [
        json!({ "alg": "HS256" }),
        json!({ "alg": "EdDSA", "typ": "JWT" }),
        json!({ "alg": "ES256", "kid": "ec" }),
    ] {
        let token = issuer.token(&header, &claims);
        assert_eq!(verifier.text_claim(&token, "org"), acme, "{header}");
        let number = verifier.text_claim(&token, "number");
        assert_eq!(number, Ok(Some("17".to_owned())));
        for none in ["list", "sub", ""] {
            assert_eq!(verifier.text_claim(&token, none), Ok(None), "{none}");
        }
    }
    // What another program has signed.
    assert_eq!(verifier.text_claim(RSA_TOKEN, "org"), acme);
}

#[test]
fn a_token_that_was_changed_or_signed_by_nobody_proves_nothing() {
    let issuer = Issuer::new();
    let verifier = issuer.verifier(None, None);
    let good = issuer.with(json!({}));
    let parts: Vec<_> = good.split('.').collect();
    let [head, body, signature] = &*parts else {
        panic!("{good}");
    };
    let other = encoded(json!({ "org": "other", "exp": issuer.now() + 9 }).to_string());
    let with_alg = |alg: &str| encoded(json!({ "alg": alg }).to_string());
    let none = with_alg("none");
    // A public key is no secret.
    let confused = {
        let text = format!("{}.{body}", with_alg("HS256"));
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.ed.public_key().as_ref());
        let signature = hmac::sign(&key, text.as_bytes());
        format!("{text}.{}", encoded(signature.as_ref()))
    };
    let others_kid = issuer.token(
        &json!({ "alg": "EdDSA", "kid": "ec" }),
        &json!({ "org": "acme", "exp": issuer.now() + 9 }),
    );
    for token in [
        format!("{head}.{other}.{signature}"),
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        format!("{head}.{body}."),
        format!("{}.{body}.{signature}", with_alg("ES256")),
        confused,
        others_kid,
    ] {
        let found = verifier.text_claim(&token, "org");
        assert_eq!(found, Err(JwtFault::Signature), "{token}");
    }
    for token in [
        String::new(),
        "a".to_owned(),
        format!("{head}.{body}"),
        format!("{head}.{body}.{signature}=="),
        format!("{head}.{body}.{signature}.x"),
        issuer.token(&json!({ "alg": "EdDSA", "crit": ["x"] }), &json!({})),
        issuer.with(json!({ "exp": null })),
        issuer.with(json!({ "exp": "soon" })),
    ] {
        let found = verifier.text_claim(&token, "org");
        assert_eq!(found, Err(JwtFault::Shape), "{token}");
    }
}

#[test]
fn a_token_is_good_within_its_times_for_its_issuer_and_its_audience() {
    let issuer = Issuer::new();
    let strict = issuer.verifier(Some("https://id.example"), Some("pay"));
    let sound = json!({ "iss": "https://id.example", "aud": ["other", "pay"] });
    let good = issuer.with(sound.clone());
    assert!(strict.text_claim(&good, "org").is_ok());
    let fault = |more: Value| {
        let mut claims = sound.clone();
        for (name, value) in more.as_object().expect("members") {
            claims[name] = value.clone();
        }
        strict.text_claim(&issuer.with(claims), "org").err()
    };
    let now = issuer.now();
    for (more, expected) in [
        (json!({ "aud": "pay" }), None),
        (json!({ "aud": "other" }), Some(JwtFault::Audience)),
        (json!({ "aud": null }), Some(JwtFault::Audience)),
        (json!({ "iss": "https://other" }), Some(JwtFault::Issuer)),
        (json!({ "iss": null }), Some(JwtFault::Issuer)),
        (json!({ "exp": now - 59 }), None),
        (json!({ "exp": now - 60 }), Some(JwtFault::Expired)),
        (json!({ "nbf": now + 60 }), None),
        (json!({ "nbf": now + 61 }), Some(JwtFault::Early)),
    ] {
        assert_eq!(fault(more.clone()), expected, "{more}");
    }
    issuer.clock.advance(Duration::from_secs(3_600 + 60));
    let found = strict.text_claim(&good, "org");
    assert_eq!(found, Err(JwtFault::Expired));
}

#[test]
fn a_set_without_a_key_that_is_safe_is_refused() {
    let new = |set: &str| {
        let clock = Arc::new(TestClock::new());
        let made = JwtVerifier::new(set.as_bytes(), None, None, clock);
        made.expect_err(set).to_string()
    };
    for (set, why) in [
        ("", "no set of keys"),
        ("[]", "no set of keys"),
        ("{\"keys\":[]}", "no key that signatures"),
        (
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\",\"alg\":\"ECDH-ES\"}]}",
            "no key that signatures",
        ),
        (
            "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2hvcnQ\"}]}",
            "less than 32 bytes",
        ),
        (
            "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
            "less than 2048 bits",
        ),
        (
            "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\"}]}",
            "without `n`",
        ),
        ("{\"keys\":[{\"kid\":\"x\"}]}", "none as in RFC 7517"),
    ] {
        assert!(new(set).contains(why), "{set}: {}", new(set));
    }
}

/// The modulus of a key that `openssl genrsa` made, and a token that `openssl dgst` signed with it; its end is
/// 2026-11-21T10:40:00Z.
const RSA_N: &str = "ncECmQbFJMUqqmfeCmfiPGp6DFAuR5HZD_WA67po70OiI7xeyJGFE5UssqEBf77o0yo2hj_cijtZ3IC5XMc32y-aQYtPlN7I\
                     6nfDKcYTMiPxPvBc8FYpm7GSYdqMPT2KRODL02wMD8u-hiSxePaT_-sWtn06MgFrQZp2q9y24RbDVoah5CvYZjKi6ihW0SlCnR\
                     4g7K5UQ68U1l8wahduUycS9Z_pZ4glnTYvZqw9a1UnC35Av2bhpa6YqSSAZ1BAY9qXES3xvthV71ZR8PBzFvY9tM--8TpTVDq2\
                     Jhz7UwshvSMgfcuhD6bu-sbcM0u-gfRTcvfAy5ZTsOJHFrpBeQ";
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYS0xIn0.eyJvcmciOiJhY21lIiwiZXhwIjoxNzk1MjU3NjAwfQ.TyH7mG4emFWm6j\
                         DlDBue-RgFb4NQZiUk4D7iTNQvN8LAftCNDIlgAnaR3sOZtkZWR0Qg-punrb3C996-9fSwUzd4vqeTomNZefNAq3WE467CW9iv\
                         Db2hYr6LxyUrEGgOnUCV-pNKEt38P-l0pYwPmxmzl2-rvn5Xe0et3Y6PonurY21P8z4blLABDOIOQHdoPu5GKm579rKUIHSRY-\
                         u8Ws2_yEgjQZQzGoE5QJ76ot9Z9KiSFimjGBZ2qXqlgsLt1qP3cMyK96zoAAgpZ8UP5Yul1O01YOUQOaQQ3JvrcTZgpL8FnMlc\
                         -8QLfAY-I-HSHJ5xQQNW1nbOf_mx9Pegmw";
