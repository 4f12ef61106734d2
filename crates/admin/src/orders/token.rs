//! The token of a plan: the order as it was sent, who sent it and when, and a digest of what it would change. It holds
//! all of that itself, so that it outlives the worker, and any worker on the same store takes it. It proves nothing and
//! grants nothing: the order is read, allowed and planned again, and only the comparison of the digests rests on it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use semel_core::Timestamp;
use semel_http::Caller;

use super::Bounds;
use super::plan::Plan;
use super::request::Action;

/// The token of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlanToken {
    caller: Vec<u8>,
    action: Vec<u8>,
    order: Vec<u8>,
    at: Timestamp,
    until: Option<Timestamp>,
    digest: [u8; 32],
}

/// A token that is shown where it does not belong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// It is one of another action, which has this path.
    OtherAction(String),
    /// Somebody else made the plan.
    OtherCaller,
}

impl PlanToken {
    /// Makes the token of a plan.
    pub(super) fn new(caller: &Caller, action: Action, order: &[u8], plan: &Plan) -> Self {
        Self {
            caller: name_of(caller),
            action: action.path().into(),
            order: order.to_vec(),
            at: plan.at,
            until: plan.until,
            digest: plan.digest,
        }
    }

    pub(super) fn to_text(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&[0; CHECKSUM]);
        bytes.extend_from_slice(&self.at.as_millis().to_le_bytes());
        let until = self.until.map_or(u64::MAX, Timestamp::as_millis);
        bytes.extend_from_slice(&until.to_le_bytes());
        bytes.extend_from_slice(&self.digest);
        for part in [&self.caller, &self.action] {
            let len = u16::try_from(part.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&part[..usize::from(len)]);
        }
        bytes.extend_from_slice(&self.order);
        let checksum = crc32fast::hash(&bytes[1 + CHECKSUM..]);
        bytes[1..=CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token.
    ///
    /// # Errors
    ///
    /// It is none, or not whole.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NO_TOKEN)?;
        Self::parts(&bytes).ok_or(NO_TOKEN)
    }

    fn parts(bytes: &[u8]) -> Option<Self> {
        let (&version, rest) = bytes.split_first()?;
        let (checksum, rest) = rest.split_first_chunk::<CHECKSUM>()?;
        let is_whole = version == VERSION && *checksum == crc32fast::hash(rest).to_le_bytes();
        let (at, rest) = rest.split_first_chunk().filter(|_| is_whole)?;
        let (until, rest) = rest.split_first_chunk()?;
        let (digest, mut rest) = rest.split_first_chunk()?;
        let mut part = || {
            let (len, after) = rest.split_first_chunk()?;
            let (part, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = after;
            Some(part.to_vec())
        };
        let (caller, action) = (part()?, part()?);
        let until = Some(u64::from_le_bytes(*until)).filter(|it| *it != u64::MAX);
        Some(Self {
            caller,
            action,
            order: rest.to_vec(),
            at: Timestamp::from_millis(u64::from_le_bytes(*at)),
            until: until.map(Timestamp::from_millis),
            digest: *digest,
        })
    }

    /// Checks that it was made by this caller for this action.
    pub(super) fn is_for(&self, caller: &Caller, action: Action) -> Result<(), Misuse> {
        if self.action != action.path().as_bytes() {
            let other = String::from_utf8_lossy(&self.action);
            return Err(Misuse::OtherAction(
                other.chars().take(MOST_LETTERS).collect(),
            ));
        }
        if self.caller != name_of(caller) {
            return Err(Misuse::OtherCaller);
        }
        Ok(())
    }

    /// The body of the request for the plan.
    pub(super) fn order(&self) -> &[u8] {
        &self.order
    }

    /// The digest of what was planned.
    pub(super) const fn digest(&self) -> [u8; 32] {
        self.digest
    }

    pub(super) const fn bounds(&self) -> Bounds {
        Bounds {
            at: self.at,
            until: self.until,
        }
    }

    /// Tells whether the plan is too old to be meant, or of a time that no worker can have made it at.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.at.plus(LIFETIME) < now || now.plus(SKEW) < self.at
    }
}

/// The caller by its name and its tenant.
fn name_of(caller: &Caller) -> Vec<u8> {
    let tenant = caller.tenant.as_ref().map(semel_http::Tenant::as_str);
    let tenant = tenant.map(|it| format!("\0{it}")).unwrap_or_default();
    format!("{}{tenant}", caller.name).into_bytes()
}

const VERSION: u8 = 1;
const CHECKSUM: usize = 4;
const MOST_LETTERS: usize = 64;
const NO_TOKEN: &str = "this is no token of a plan; send the one that the plan has, whole";
/// The time for which a plan can be carried out. A person looks things up at a provider meanwhile.
pub(super) const LIFETIME: Duration = Duration::from_secs(3_600);

/// The most by which the clock of another worker is ahead.
pub(super) const SKEW: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn token(until: Option<u64>) -> PlanToken {
        PlanToken {
            caller: b"ada\0acme".to_vec(),
            action: b"keys/hold".to_vec(),
            order: br#"{"keys":["pay-1"]}"#.to_vec(),
            at: Timestamp::from_millis(7),
            until: until.map(Timestamp::from_millis),
            digest: [9; 32],
        }
    }

    #[test]
    fn a_token_comes_back_whole_and_none_that_was_changed_does() {
        for token in [token(None), token(Some(5))] {
            let text = token.to_text();
            assert_eq!(PlanToken::read(&text).as_ref(), Ok(&token));
            for at in 0..text.len() {
                assert!(PlanToken::read(&text[..at]).is_err(), "cut at {at}");
                let other = if &text[at..=at] == "A" { "B" } else { "A" };
                let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                assert_ne!(PlanToken::read(&changed).as_ref(), Ok(&token), "{at}");
            }
        }
        for text in ["", "semel", "no token", "AAAA"] {
            assert_eq!(PlanToken::read(text), Err(NO_TOKEN), "{text}");
        }
    }

    #[test]
    fn a_token_is_of_one_caller_and_one_action() {
        let caller = |tenant: Option<&str>| Caller {
            name: "ada".into(),
            role: semel_http::Role::Operator,
            tenant: tenant.map(semel_http::Tenant::new),
        };
        let token = token(None);
        assert_eq!(token.is_for(&caller(Some("acme")), Action::Hold), Ok(()));
        for other in [None, Some("other"), Some("")] {
            let refused = token.is_for(&caller(other), Action::Hold);
            assert_eq!(refused, Err(Misuse::OtherCaller), "{other:?}");
        }
        let refused = token.is_for(&caller(Some("acme")), Action::Forget);
        assert_eq!(refused, Err(Misuse::OtherAction("keys/hold".to_owned())));
    }

    #[test]
    fn a_plan_is_good_for_an_hour() {
        let token = token(None);
        let end = token.at.plus(LIFETIME);
        assert!(!token.has_expired(end));
        assert!(token.has_expired(end.plus(Duration::from_millis(1))));
        let token = PlanToken {
            at: end.plus(SKEW),
            ..token
        };
        assert!(!token.has_expired(end));
        assert!(token.has_expired(end.minus(Duration::from_millis(1))));
    }
}
