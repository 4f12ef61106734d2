//! JSON Web Tokens (RFC 7519) as proof of who calls: signed by one of a set of keys, and within their times.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use semel_core::{Clock, Error, ErrorKind, Result, planted};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The check of tokens: whose signatures are good, and what a token must say.
///
/// The algorithm of a signature is that of its key, never that which the token chooses. A token must have an end
/// (`exp`). Clocks may differ by a minute.
pub struct JwtVerifier {
    keys: Vec<Verifying>,
    issuer: Option<Box<str>>,
    audience: Option<Box<str>>,
    clock: Arc<dyn Clock>,
}

/// The reason why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JwtFault {
    Shape,
    Signature,
    Expired,
    Early,
    Issuer,
    Audience,
}

impl fmt::Display for JwtFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "the token is no JWT that is signed and has an end",
            Self::Signature => "the token is signed by none of the keys that are known",
            Self::Expired => "the time of the token is over",
            Self::Early => "the token is not good yet",
            Self::Issuer => "the token is of another issuer",
            Self::Audience => "the token is for another audience",
        })
    }
}

/// A key that signatures are checked with.
struct Verifying {
    id: Option<Box<str>>,
    /// The algorithms that it is for.
    algorithms: Vec<&'static str>,
    material: Material,
}

enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point(&'static dyn VerificationAlgorithm, Vec<u8>),
    Secret(Vec<u8>),
}

/// A set of keys (RFC 7517).
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// A key of a set. Kinds and curves that are not known are left out.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<Box<str>>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<Box<str>>,
    crit: Option<Value>,
}

impl JwtVerifier {
    /// Reads the set of keys, as JSON, of which one must have signed a token; with an issuer or an audience, a token must
    /// name it.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: it is no set of keys, or has none that a signature can be checked with
    pub fn new(
        key_set: &[u8],
        issuer: Option<&str>,
        audience: Option<&str>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let set: KeySet = serde_json::from_slice(key_set)
            .map_err(|error| wrong("is no set of keys as in RFC 7517").with_source(error))?;
        let mut keys = Vec::new();
        for key in set.keys {
            let jwk: Jwk = serde_json::from_value(key)
                .map_err(|_| wrong("has a key that is none as in RFC 7517"))?;
            keys.extend(Verifying::of(&jwk)?);
        }
        if keys.is_empty() {
            return Err(wrong(
                "has no key that signatures can be checked with: RSA from 2048 bits, EC on P-256 or P-384, OKP Ed25519, \
                 or oct from 32 bytes",
            ));
        }
        Ok(Self {
            keys,
            issuer: issuer.map(Into::into),
            audience: audience.map(Into::into),
            clock,
        })
    }

    /// Returns a claim of a token that is good: a text, or a whole number as a text. Nothing if it has no such claim.
    pub(crate) fn text_claim(
        &self,
        token: &str,
        claim: &str,
    ) -> std::result::Result<Option<String>, JwtFault> {
        let claims = self.claims(token)?;
        Ok(match claims.get(claim) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            Some(Value::Number(number)) if !number.is_f64() => Some(number.to_string()),
            _ => None,
        })
    }

    /// Checks a token, and returns what it says.
    fn claims(&self, token: &str) -> std::result::Result<Map<String, Value>, JwtFault> {
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtFault::Shape)?;
        let (head, body) = signed.split_once('.').ok_or(JwtFault::Shape)?;
        let header: Header = json(head)?;
        // It asks for what is not known here.
        if header.crit.is_some() {
            return Err(JwtFault::Shape);
        }
        let signature = bytes(signature).ok_or(JwtFault::Shape)?;
        let is_its = |key: &&Verifying| {
            let is_named = header.kid.is_none() || key.id.is_none() || header.kid == key.id;
            is_named && key.algorithms.contains(&&*header.alg)
        };
        let mut keys = self.keys.iter().filter(is_its);
        let is_signed = keys.any(|key| key.has_signed(&header.alg, signed.as_bytes(), &signature));
        if !is_signed && !planted("H18") {
            return Err(JwtFault::Signature);
        }
        let claims: Map<String, Value> = json(body)?;
        self.check(&claims)?;
        Ok(claims)
    }

    fn check(&self, claims: &Map<String, Value>) -> std::result::Result<(), JwtFault> {
        let now = self.clock.now().as_millis() / 1_000;
        let seconds = |name| match claims.get(name) {
            None => Ok(None),
            Some(time) => time.as_f64().map(Some).ok_or(JwtFault::Shape),
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "a second more or less does not matter"
        )]
        let now = now as f64;
        let end = seconds("exp")?.ok_or(JwtFault::Shape)?;
        if now >= end + LEEWAY_SECS && !planted("H19") {
            return Err(JwtFault::Expired);
        }
        if seconds("nbf")?.is_some_and(|begin| now + LEEWAY_SECS < begin) {
            return Err(JwtFault::Early);
        }
        let is = |value: &Value, name: &str| value.as_str() == Some(name);
        if let Some(issuer) = &self.issuer
            && !claims.get("iss").is_some_and(|it| is(it, issuer))
        {
            return Err(JwtFault::Issuer);
        }
        if let Some(audience) = &self.audience {
            let is_for = match claims.get("aud") {
                Some(Value::Array(all)) => all.iter().any(|it| is(it, audience)),
                Some(one) => is(one, audience),
                None => false,
            };
            if !is_for {
                return Err(JwtFault::Audience);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier")
            .field("keys", &self.keys.len())
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl Verifying {
    /// The key; nothing if it is of a kind that is not known, or for something else.
    fn of(jwk: &Jwk) -> Result<Option<Self>> {
        if jwk.purpose.as_deref().is_some_and(|it| it != "sig") {
            return Ok(None);
        }
        let part = |text: &Option<String>, name: &str| {
            let bytes = text.as_deref().and_then(bytes);
            bytes.ok_or_else(|| wrong(format!("has a key of kind {} without `{name}`", jwk.kty)))
        };
        let point = || -> Result<Vec<u8>> {
            Ok([vec![4], part(&jwk.x, "x")?, part(&jwk.y, "y")?].concat())
        };
        let curve = jwk.crv.as_deref().unwrap_or_default();
        let (algorithms, material) = match (&*jwk.kty, curve) {
            ("RSA", _) => {
                let n = part(&jwk.n, "n")?;
                let zeros = n.iter().take_while(|byte| **byte == 0).count();
                let (n, e) = (n[zeros..].to_vec(), part(&jwk.e, "e")?);
                if n.len() < SHORTEST_RSA_BYTES {
                    return Err(wrong("has an RSA key of less than 2048 bits"));
                }
                let known: &[_] = &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
                (known, Material::Rsa { n, e })
            }
            ("EC", "P-256") => {
                let known: &[_] = &["ES256"];
                (known, Material::Point(&ECDSA_P256_SHA256_FIXED, point()?))
            }
            ("EC", "P-384") => {
                let known: &[_] = &["ES384"];
                (known, Material::Point(&ECDSA_P384_SHA384_FIXED, point()?))
            }
            ("OKP", "Ed25519") => {
                let known: &[_] = &["EdDSA", "Ed25519"];
                (known, Material::Point(&ED25519, part(&jwk.x, "x")?))
            }
            ("oct", _) => {
                let secret = part(&jwk.k, "k")?;
                if secret.len() < SHORTEST_SECRET_BYTES {
                    return Err(wrong(
                        "has a secret of less than 32 bytes, which can be guessed",
                    ));
                }
                let known: &[_] = &["HS256", "HS384", "HS512"];
                (known, Material::Secret(secret))
            }
            _ => return Ok(None),
        };
        let is_its = |it: &&&'static str| jwk.alg.as_deref().is_none_or(|alg| alg == **it);
        let algorithms: Vec<_> = algorithms.iter().filter(is_its).copied().collect();
        // One that is for encryption, as RSA-OAEP, or for another algorithm than its kind has.
        Ok((!algorithms.is_empty()).then(|| Self {
            id: jwk.kid.clone(),
            algorithms,
            material,
        }))
    }

    /// Tells whether it has signed this text, with an algorithm that it is for.
    fn has_signed(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                let Some(parameters) = rsa(algorithm) else {
                    return false;
                };
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, text, signature).is_ok()
            }
            Material::Point(kind, point) => {
                let key = UnparsedPublicKey::new(*kind, point);
                key.verify(text, signature).is_ok()
            }
            Material::Secret(secret) => {
                let kind = match algorithm {
                    "HS256" => hmac::HMAC_SHA256,
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => return false,
                };
                let key = hmac::Key::new(kind, secret);
                hmac::verify(&key, text, signature).is_ok()
            }
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn json<T: for<'t> Deserialize<'t>>(part: &str) -> std::result::Result<T, JwtFault> {
    let text = bytes(part).ok_or(JwtFault::Shape)?;
    serde_json::from_slice(&text).map_err(|_| JwtFault::Shape)
}

fn wrong(why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("the set of keys {why}"))
}

/// The most seconds by which two clocks differ.
const LEEWAY_SECS: f64 = 60.0;
const SHORTEST_RSA_BYTES: usize = 256;
const SHORTEST_SECRET_BYTES: usize = 32;
