//! Tokens: secrets by which callers are known, each with a name, a role and perhaps a tenant. Of a secret, only its
//! hash is kept. In the place of a secret, a token can have the subject of a certificate, whose holder it is for.

mod file;
mod watch;

pub use file::TokenFile;
pub use watch::{TokenNotice, watch};

use std::fmt::Write;

use semel_core::{Clock, Entropy, Timestamp};

use super::caller::{Caller, Role, Tenant};

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name, unique among the tokens of a file.
    pub name: Box<str>,
    /// The rights that it gives.
    pub role: Role,
    /// The only tenant that it gives them for; without one, every tenant.
    pub tenant: Option<Tenant>,
    /// The time at which it was made.
    pub created: Timestamp,
    /// The time from which it is refused.
    pub expires: Option<Timestamp>,
    proof: Proof,
}

/// The thing by which the holder of a token is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    /// The secret of this hash.
    Secret(blake3::Hash),
    /// A certificate of this subject, as RFC 4514 writes it.
    Subject(Box<str>),
}

/// A secret that was just made; nothing keeps it.
pub struct Secret(String);

/// The tokens that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<Token>);

/// The answer to a secret or a certificate that somebody shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It is that of this caller.
    Known(Caller),
    /// It was right once.
    Expired,
    /// It is no token.
    Unknown,
}

impl Shown {
    fn of(found: Option<&Token>, now: Timestamp) -> Self {
        match found {
            Some(token) if token.is_expired(now) => Self::Expired,
            Some(token) => Self::Known(token.caller()),
            None => Self::Unknown,
        }
    }
}

impl Token {
    /// Makes a token, and the secret that it is the hash of.
    pub fn new(
        name: &str,
        role: Role,
        tenant: Option<Tenant>,
        expires: Option<Timestamp>,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> (Self, Secret) {
        let mut bytes = [0; SECRET_BYTES];
        entropy.fill(&mut bytes);
        let mut secret = PREFIX.to_owned();
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(secret, "{byte:02x}");
        }
        let token = Self {
            name: name.into(),
            role,
            tenant,
            created: clock.now(),
            expires,
            proof: Proof::Secret(hash(&secret)),
        };
        (token, Secret(secret))
    }

    /// Makes a token for the holder of a certificate with this subject, as [`ClientCertificate::subject`] writes it.
    ///
    /// [`ClientCertificate::subject`]: crate::ClientCertificate::subject
    pub fn of_subject(
        name: &str,
        role: Role,
        tenant: Option<Tenant>,
        expires: Option<Timestamp>,
        clock: &dyn Clock,
        subject: &str,
    ) -> Self {
        Self {
            name: name.into(),
            role,
            tenant,
            created: clock.now(),
            expires,
            proof: Proof::Subject(subject.into()),
        }
    }

    /// The subject of the certificate whose holder it is for; none if it is for who knows its secret.
    pub fn subject(&self) -> Option<&str> {
        match &self.proof {
            Proof::Subject(subject) => Some(subject),
            Proof::Secret(_) => None,
        }
    }

    /// Returns whether it is refused since its time is over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| now >= end)
    }

    fn caller(&self) -> Caller {
        Caller {
            name: self.name.clone(),
            role: self.role,
            tenant: self.tenant.clone(),
        }
    }
}

impl Secret {
    /// The text that a client sends.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tokens {
    /// Every token, in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.0.iter()
    }

    /// The number of tokens, the expired ones included.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Looks a secret up. Hashes are compared in constant time, and with each of the tokens.
    pub fn find(&self, secret: &str, now: Timestamp) -> Shown {
        let hash = hash(secret);
        let mut found = None;
        for token in &self.0 {
            if matches!(&token.proof, Proof::Secret(known) if *known == hash) {
                found = Some(token);
            }
        }
        Shown::of(found, now)
    }

    /// Looks up the holder of a certificate with this subject. Of several tokens for it, the first that has not expired
    /// counts.
    pub fn find_subject(&self, subject: &str, now: Timestamp) -> Shown {
        let is_its = |token: &&Token| token.subject() == Some(subject);
        let good = { self.0.iter() }.find(|it| is_its(it) && !it.is_expired(now));
        Shown::of(good.or_else(|| self.0.iter().find(is_its)), now)
    }
}

/// The hash that is kept of a secret. The secret is 256 random bits, so a fast hash is as good as a slow one.
fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}

/// The beginning of every secret, by which scanners know one that was published.
const PREFIX: &str = "semel_";
const SECRET_BYTES: usize = 32;

#[cfg(test)]
mod tests;
