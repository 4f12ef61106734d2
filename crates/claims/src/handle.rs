//! The name of a claim, with all that a later call about it needs, so that the server remembers nothing.
//!
//! Not a secret and not a proof: whoever settles must know the claim id in it, which is 128 random bits.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use semel_core::{ClaimId, FencingToken, Key, Operation, Recovery, Scope, Start};

/// The name of a claim. As text it is opaque: base64url of version, checksum and parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) operation: Operation,
    pub(crate) claim_id: ClaimId,
    /// The way in which the effect begins, by its class.
    pub(crate) start: Start,
    /// The lease that was asked for.
    pub(crate) lease: Duration,
    /// The window that the claim asked for; none is that of the configuration.
    pub(crate) window: Option<Duration>,
    /// The fencing token of the claim.
    pub(crate) token: FencingToken,
}

impl Handle {
    /// The recovery that a start of the effect declares. The careful one where there is no class: nobody has said that
    /// the effect may be repeated.
    pub(crate) const fn recovery(&self) -> Recovery {
        match self.start {
            Start::Marked(recovery) => recovery,
            Start::Unmarked => Recovery::Park,
        }
    }

    /// Returns the text.
    pub(crate) fn encode(&self) -> String {
        let (tag, provider_millis) = match self.start {
            Start::Unmarked => (0, 0),
            Start::Marked(Recovery::Rerun) => (1, 0),
            Start::Marked(Recovery::RerunWithin(window)) => (2, millis(window)),
            Start::Marked(Recovery::Park) => (3, 0),
        };
        let Operation { scope, key } = &self.operation;
        let mut parts = Vec::with_capacity(128 + key.as_bytes().len());
        parts.extend_from_slice(&self.claim_id.to_bytes());
        parts.push(tag);
        for number in [
            provider_millis,
            millis(self.lease),
            self.window.map_or(0, millis),
            self.token.get(),
        ] {
            parts.extend_from_slice(&number.to_le_bytes());
        }
        for text in [scope.tenant(), scope.operation()] {
            parts.extend_from_slice(&(text.len() as u64).to_le_bytes());
            parts.extend_from_slice(text.as_bytes());
        }
        parts.extend_from_slice(key.as_bytes());
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&crc32fast::hash(&parts).to_le_bytes());
        bytes.extend_from_slice(&parts);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads the text; nothing if it is none.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let rest = &mut bytes.strip_prefix(&[VERSION])?;
        let checksum = u32::from_le_bytes(take(rest)?);
        if crc32fast::hash(rest) != checksum {
            return None;
        }
        let claim_id = ClaimId::from_bytes(take(rest)?);
        let [tag] = take(rest)?;
        let provider = take_duration(rest)?;
        let lease = take_duration(rest)?;
        let window = take_duration(rest)?;
        let token = FencingToken::new(take_number(rest)?);
        let start = match tag {
            0 => Start::Unmarked,
            1 => Start::Marked(Recovery::Rerun),
            2 => Start::Marked(Recovery::RerunWithin(provider)),
            3 => Start::Marked(Recovery::Park),
            _ => return None,
        };
        let tenant = take_text(rest)?;
        let operation = take_text(rest)?;
        let key = Key::from_canonical(Bytes::copy_from_slice(rest))?;
        if lease.is_zero() || key.as_bytes().is_empty() || key.as_bytes().len() > Key::MAX_BYTES {
            return None;
        }
        Some(Self {
            operation: Operation::new(Scope::new(tenant, operation).ok()?, key),
            claim_id,
            start,
            lease,
            window: Some(window).filter(|window| !window.is_zero()),
            token,
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

fn take_duration(rest: &mut &[u8]) -> Option<Duration> {
    let millis = take_number(rest).filter(|millis| *millis <= MOST_MILLIS)?;
    Some(Duration::from_millis(millis))
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b str> {
    let len = usize::try_from(take_number(rest)?).ok()?;
    let (text, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    std::str::from_utf8(text).ok()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

const VERSION: u8 = 1;
/// A hundred years, the longest duration that anybody can ask for.
const MOST_MILLIS: u64 = 100 * 366 * 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(start: Start, window: Option<Duration>) -> Handle {
        let scope = Scope::new("acme", "charge").expect("a scope");
        Handle {
            operation: Operation::new(scope, Key::new("päy-1").expect("a key")),
            claim_id: ClaimId::from_u128(0x0123_4567_89ab_cdef),
            start,
            lease: Duration::from_secs(30),
            window,
            token: FencingToken::new(1 << 40),
        }
    }

    fn all() -> Vec<Handle> {
        let day = Duration::from_secs(86_400);
        [
            Start::Unmarked,
            Start::Marked(Recovery::Rerun),
            Start::Marked(Recovery::RerunWithin(day)),
            Start::Marked(Recovery::Park),
        ]
        .into_iter()
        .flat_map(|start| [handle(start, None), handle(start, Some(7 * day))])
        .collect()
    }

    #[test]
    fn a_handle_comes_back_as_it_was_and_is_safe_in_a_path() {
        for handle in all() {
            let text = handle.encode();
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            assert!(text.bytes().all(is_safe), "{text}");
            assert_eq!(Handle::decode(&text), Some(handle));
        }
    }

    #[test]
    fn a_handle_that_was_changed_or_cut_is_none() {
        for handle in all() {
            let text = handle.encode();
            for at in 0..text.len() {
                assert_eq!(Handle::decode(&text[..at]), None, "cut at {at}");
                let other = if &text[at..=at] == "A" { "B" } else { "A" };
                let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                assert_eq!(Handle::decode(&changed), None, "changed at {at}");
            }
            assert_eq!(Handle::decode(&format!("{text}A")), None);
        }
        assert_eq!(Handle::decode(""), None);
        assert_eq!(Handle::decode("batch"), None);
    }

    #[test]
    fn a_start_without_a_class_parks() {
        assert_eq!(handle(Start::Unmarked, None).recovery(), Recovery::Park);
        let within = Recovery::RerunWithin(Duration::from_secs(1));
        assert_eq!(handle(Start::Marked(within), None).recovery(), within);
    }
}
