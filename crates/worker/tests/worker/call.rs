//! A call as the engine would make it.

use bytes::Bytes;
use semel_core::{Claim, ClaimId, FencingToken, Key, Operation, Scope, Timestamp};
use semel_engine::effect::Call;

/// A call with `payload`, for the operation `payments` and the key `pay-1`.
pub(crate) fn call(payload: impl Into<Bytes>) -> Call {
    let scope = Scope::new("", "payments").expect("a scope");
    Call {
        claim: Claim {
            operation: Operation::new(scope, Key::parse("pay-1").expect("a key")),
            claim_id: ClaimId::from_u128(1),
            token: FencingToken::new(7),
            lease_until: Timestamp::EPOCH,
            attempt: 2,
            takeover: false,
            resumed: false,
            formerly_expired: false,
            possible_repeat: false,
            first_started_at: None,
        },
        payload: payload.into(),
        headers: Vec::new(),
        coordinates: "in.ndjson:1".into(),
        span: None,
    }
}
