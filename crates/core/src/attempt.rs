//! Attempts: how many there may be, what a record keeps of those that ended, and the form in which stores keep it.

use std::fmt;
use std::num::NonZeroU32;

use crate::ids::{ClaimId, FencingToken};
use crate::time::Timestamp;

/// An attempt that ended without completing its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// Its number, from 1. Work given back is no attempt, so its number is used again.
    pub attempt: u32,
    /// Its claim id, which names its claimant.
    pub claim_id: ClaimId,
    /// Its fencing token.
    pub token: FencingToken,
    /// The time of the grant.
    pub claimed_at: Timestamp,
    /// The time at which its end was reported, or at which its lease ended.
    pub ended_at: Timestamp,
    /// The way in which it ended.
    pub end: AttemptEnd,
    /// The reason, one line; only the beginning of a long one.
    pub error: Option<Box<str>>,
}

/// The end of an attempt that did not complete its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptEnd {
    /// The effect surely did not happen.
    NotApplied,
    /// Nobody knows whether the effect happened.
    MaybeApplied,
    /// This attempt surely did not apply the effect, and no other would.
    Failed,
    /// The worker gave it back: at a shutdown, or while its pipeline waited for its target.
    GivenBack,
    /// The lease ended without a report.
    Vanished,
}

impl AttemptEnd {
    /// Every end.
    pub const ALL: [Self; 5] = [
        Self::NotApplied,
        Self::MaybeApplied,
        Self::Failed,
        Self::GivenBack,
        Self::Vanished,
    ];

    /// The name as printed: `maybe_applied`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::MaybeApplied => "maybe_applied",
            Self::Failed => "failed",
            Self::GivenBack => "given_back",
            Self::Vanished => "vanished",
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of attempts after which an operation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Attempts that end with a failure; with 5, the effect is called five times.
    pub failed: NonZeroU32,
    /// Attempts that vanish with their worker; this limit ends crash loops.
    pub vanished: NonZeroU32,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        const TEN: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
        const TWENTY: NonZeroU32 = NonZeroU32::MIN.saturating_add(19);
        Self {
            failed: TEN,
            vanished: TWENTY,
        }
    }
}

/// Past attempts as stores keep them. All numbers are little-endian; per attempt: number (4), claim
/// id (16), token (8), granted and ended (8 each, milliseconds), end (1, from 0 in the order of
/// [`AttemptEnd::ALL`]), length of the error plus one or 0 for none (2), the error.
pub fn past_to_bytes(past: &[PastAttempt]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(past.len() * 64);
    for attempt in past {
        bytes.extend_from_slice(&attempt.attempt.to_le_bytes());
        bytes.extend_from_slice(&attempt.claim_id.to_bytes());
        bytes.extend_from_slice(&attempt.token.get().to_le_bytes());
        bytes.extend_from_slice(&attempt.claimed_at.as_millis().to_le_bytes());
        bytes.extend_from_slice(&attempt.ended_at.as_millis().to_le_bytes());
        bytes.push(attempt.end as u8);
        let error = attempt.error.as_deref().map(beginning);
        let len = error.map_or(0, |error| u16::try_from(error.len() + 1).unwrap_or(0));
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(error.unwrap_or_default().as_bytes());
    }
    bytes
}

/// The past attempts that [`past_to_bytes`] wrote, or nothing if the bytes are none.
pub fn past_from_bytes(mut bytes: &[u8]) -> Option<Vec<PastAttempt>> {
    let mut past = Vec::new();
    while !bytes.is_empty() {
        past.push(take_attempt(&mut bytes)?);
    }
    Some(past)
}

fn take_attempt(bytes: &mut &[u8]) -> Option<PastAttempt> {
    let attempt = u32::from_le_bytes(take(bytes)?);
    let claim_id = ClaimId::from_bytes(take(bytes)?);
    let token = FencingToken::new(u64::from_le_bytes(take(bytes)?));
    let claimed_at = Timestamp::from_millis(u64::from_le_bytes(take(bytes)?));
    let ended_at = Timestamp::from_millis(u64::from_le_bytes(take(bytes)?));
    let [end] = take(bytes)?;
    let end = *AttemptEnd::ALL.get(usize::from(end))?;
    let error = match usize::from(u16::from_le_bytes(take(bytes)?)).checked_sub(1) {
        None => None,
        Some(len) => {
            let (error, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Some(std::str::from_utf8(error).ok()?.into())
        }
    };
    Some(PastAttempt {
        attempt,
        claim_id,
        token,
        claimed_at,
        ended_at,
        end,
        error,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// The part of an error that a past attempt keeps.
pub(crate) fn beginning(error: &str) -> &str {
    let end = (0..=MAX_ERROR_BYTES.min(error.len())).rev();
    let mut boundaries = end.filter(|&at| error.is_char_boundary(at));
    &error[..boundaries.next().unwrap_or(0)]
}

/// The most bytes of an error that a past attempt keeps; the record has the last error whole.
const MAX_ERROR_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn past(end: AttemptEnd, error: Option<&str>) -> PastAttempt {
        PastAttempt {
            attempt: 3,
            claim_id: ClaimId::from_u128(7),
            token: FencingToken::new(u64::MAX),
            claimed_at: Timestamp::from_millis(1_000),
            ended_at: Timestamp::from_millis(2_000),
            end,
            error: error.map(Into::into),
        }
    }

    #[test]
    fn an_end_is_shown_by_its_name() {
        let names = AttemptEnd::ALL.map(|end| end.to_string());
        let expected = [
            "not_applied",
            "maybe_applied",
            "failed",
            "given_back",
            "vanished",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn past_attempts_come_back_as_they_were() {
        let errors = [None, Some(""), Some("card declined"), Some("über"), None];
        let all: Vec<_> = AttemptEnd::ALL
            .into_iter()
            .zip(errors)
            .map(|(end, error)| past(end, error))
            .collect();
        let bytes = past_to_bytes(&all);
        assert_eq!(past_from_bytes(&bytes), Some(all));
        assert_eq!(past_from_bytes(&[]), Some(Vec::new()));
        for end in 1..bytes.len() {
            let cut = past_from_bytes(&bytes[..end]);
            assert!(cut.is_none_or(|past| past.len() < 5), "cut at {end}");
        }
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let long = "ü".repeat(MAX_ERROR_BYTES);
        let bytes = past_to_bytes(&[past(AttemptEnd::Failed, Some(&long))]);
        let back = past_from_bytes(&bytes).expect("past attempts");
        assert_eq!(
            back[0].error.as_deref(),
            Some(&*"ü".repeat(MAX_ERROR_BYTES / 2))
        );
    }
}
