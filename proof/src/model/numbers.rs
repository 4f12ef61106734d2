//! The small numbers of the model, and the core's value for each.

use std::time::Duration;

use bytes::Bytes;
use semel_core::{ClaimId, Fingerprint, Key, Operation, Outcome, Scope, Timestamp, Window};

use super::setup::{MOST_OPERATIONS, Setup};

/// No instant, no claim.
pub(crate) const NONE: u8 = u8::MAX;

/// Milliseconds of a tick. With eight seconds the margin and the forgetting of a window fall between
/// two ticks.
const TICK_MILLIS: u64 = 8_000;

pub(crate) fn window(setup: &Setup) -> Window {
    Window::new(ticks(setup.window))
}

pub(crate) fn ticks(ticks: u8) -> Duration {
    Duration::from_millis(u64::from(ticks) * TICK_MILLIS)
}

pub(crate) fn instant(tick: u8) -> Timestamp {
    Timestamp::from_millis(u64::from(tick) * TICK_MILLIS)
}

pub(crate) fn tick(at: Timestamp) -> u8 {
    small(at.as_millis() / TICK_MILLIS)
}

pub(crate) fn claim_id(number: u8) -> ClaimId {
    ClaimId::from_u128(number.into())
}

pub(crate) fn claim_number(id: ClaimId) -> u64 {
    id.to_bytes()[15].into()
}

/// The operations that the messages are about.
pub(crate) fn operations() -> Option<[Operation; MOST_OPERATIONS]> {
    let scope = Scope::new("", "model").ok()?;
    let of = |key| Some(Operation::new(scope.clone(), Key::new(key).ok()?));
    Some([of("1")?, of("2")?])
}

pub(crate) fn fingerprint(other_request: bool) -> Fingerprint {
    Fingerprint {
        scheme: 1,
        digest: [u8::from(other_request); 16],
    }
}

static NUMBERS: [u8; 64] = {
    let mut numbers = [0; 64];
    let mut at = 0;
    while at < 64 {
        #[expect(clippy::cast_possible_truncation, reason = "below 64")]
        {
            numbers[at] = at as u8;
        }
        at += 1;
    }
    numbers
};

pub(crate) fn outcome(number: u8) -> Outcome {
    let at = usize::from(number) % NUMBERS.len();
    Outcome::Kept {
        codec: 0,
        bytes: Bytes::from_static(&NUMBERS[at..=at]),
    }
}

pub(crate) fn outcome_number(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Kept { bytes, .. } => bytes.first().copied().unwrap_or_default(),
        Outcome::TooLarge { .. } => NONE,
    }
}

/// Numbers of the model are small; one that is not would be a fault of the model, and shows.
pub(crate) fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(NONE)
}
