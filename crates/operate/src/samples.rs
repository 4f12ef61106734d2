//! Records for tests.

use std::time::Duration;

use semel_core::{ClaimId, Clock, FencingToken, Key, Operation, Record, Scope, State, Timestamp};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_000_000);
pub(crate) const EARLIER: Timestamp = Timestamp::from_millis(999_999);
pub(crate) const LATER: Timestamp = Timestamp::from_millis(1_000_001);

/// A clock that stands at [`NOW`].
pub(crate) struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The key `pay-1` of the pipeline `payments`.
pub(crate) fn operation() -> Operation {
    let scope = Scope::new("", "payments").expect("a scope");
    Operation::new(scope, Key::parse("pay-1").expect("a key"))
}

/// A record in `state` with one attempt behind it.
pub(crate) const fn record(state: State) -> Record {
    Record {
        state,
        fingerprint: None,
        members: None,
        transport: None,
        claim_id: ClaimId::from_u128(1),
        token: FencingToken::new(1),
        attempts: 1,
        claimed_at: Timestamp::EPOCH,
        vanished: 0,
        possible_repeats: 0,
        past: Vec::new(),
        doubt: None,
        created_at: Timestamp::EPOCH,
        first_started_at: None,
        last_error: None,
        gate: None,
        held: false,
        outcome: None,
    }
}
