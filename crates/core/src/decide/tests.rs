//! One named case per row of the guard table in `docs/spec/protocol.md`, edges included.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a case hands over what it made"
)]

mod claim;
mod operate;
mod past;
mod settle;

use std::time::Duration;

use super::{Change, Decision};
use crate::claim::{ClaimId, ClaimRequest, FencingToken};
use crate::entity::{EntityRecord, VersionGate};
use crate::error::Certainty;
use crate::key::{Key, Scope};
use crate::outcome::Outcome;
use crate::record::{Record, Recovery, State};
use crate::settle::{Settlement, Step};
use crate::time::Timestamp;
use crate::window::Window;

/// The claim that the record names.
const MINE: ClaimId = ClaimId::from_u128(1);
/// Any other claim.
const OTHER: ClaimId = ClaimId::from_u128(2);
const OLD_TOKEN: FencingToken = FencingToken::new(41);
const NEW_TOKEN: FencingToken = FencingToken::new(42);
const NOW: Timestamp = Timestamp::from_millis(1_000_000);
/// The millisecond after and before now.
const LATER: Timestamp = Timestamp::from_millis(1_000_001);
const EARLIER: Timestamp = Timestamp::from_millis(999_999);
const LEASE: Duration = Duration::from_secs(30);
/// Kept for 80 s, gated at 70 s, forgotten at 91 s.
const WINDOW: Window = Window::new(Duration::from_secs(80));

/// A record in `state` with one attempt behind it.
fn record(state: State) -> Record {
    Record {
        state,
        fingerprint: None,
        members: None,
        transport: None,
        claim_id: MINE,
        token: OLD_TOKEN,
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

const fn claimed(lease_until: Timestamp) -> State {
    State::Claimed { lease_until }
}

const fn started(lease_until: Timestamp, recovery: Recovery) -> State {
    State::Started {
        lease_until,
        recovery,
    }
}

const fn released(not_before: Timestamp) -> State {
    State::Released { not_before }
}

const fn completed(at: Timestamp) -> State {
    State::Completed { at, window: WINDOW }
}

const fn dead(at: Timestamp) -> State {
    State::Dead { at, window: WINDOW }
}

const fn in_doubt(since: Timestamp) -> State {
    State::InDoubt { since }
}

/// Every state, with its lease live and its window open.
fn every_state() -> [State; 6] {
    [
        claimed(LATER),
        started(LATER, Recovery::Park),
        released(NOW),
        completed(NOW),
        dead(NOW),
        in_doubt(NOW),
    ]
}

fn request(claim_id: ClaimId) -> ClaimRequest {
    let scope = Scope::new("", "payments").expect("a scope");
    let key = Key::parse("pay-1").expect("a key");
    ClaimRequest {
        lease: LEASE,
        window: WINDOW,
        ..ClaimRequest::new(scope, key, claim_id)
    }
}

fn settlement(claim_id: ClaimId, step: Step) -> Settlement {
    Settlement {
        operation: request(claim_id).operation,
        claim_id,
        step,
    }
}

fn gate(version: u64) -> VersionGate {
    VersionGate {
        entity: Key::parse("cart").expect("a key"),
        version,
    }
}

const fn entity(applied: Option<u64>, holder: Option<(ClaimId, Timestamp)>) -> EntityRecord {
    EntityRecord { applied, holder }
}

fn outcome(text: &'static str) -> Outcome {
    Outcome::Kept {
        codec: 0,
        bytes: text.into(),
    }
}

fn complete() -> Step {
    Step::Complete {
        outcome: outcome("done"),
        window: WINDOW,
    }
}

fn release(certainty: Certainty, counted: bool) -> Step {
    Step::Release {
        error: "no answer".into(),
        certainty,
        after: Duration::from_secs(5),
        counted,
        limits: crate::claim::AttemptLimits::default(),
        window: WINDOW,
    }
}

fn fail() -> Step {
    Step::Fail {
        error: "refused".into(),
        decisive: false,
        window: WINDOW,
    }
}

/// A failure that speaks for the earlier attempts as well.
fn fail_decisively() -> Step {
    Step::Fail {
        error: "the stored answer: refused".into(),
        decisive: true,
        window: WINDOW,
    }
}

/// The record that is written, or a panic.
fn written<A: std::fmt::Debug>(decision: &Decision<A>) -> &Record {
    match &decision.change {
        Change::Put(record) => record,
        other => panic!("{:?} should be written, got {other:?}", decision.answer),
    }
}

/// Checks that neither the record nor the entity is written.
fn unchanged<A: std::fmt::Debug>(decision: &Decision<A>) {
    assert_eq!(decision.change, Change::Keep, "{:?}", decision.answer);
    assert_eq!(decision.entity, None, "{:?}", decision.answer);
}
