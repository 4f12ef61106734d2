//! Values of the life: keys, claims, messages, all from short names.

use std::time::Duration;

use bytes::Bytes;
use semel_core::port::store::Listed;
use semel_core::port::transfer::Item;
use semel_core::{
    Audited, ClaimId, ClaimRequest, FencingToken, Key, Mark, Note, Operation, Outcome, Parked,
    Record, Recovery, Scope, Settlement, Start, State, Step, Timestamp, VersionGate, Window,
};

pub(crate) fn operation(key: &str) -> Operation {
    let scope = Scope::new("tenant", "payments").expect("a scope");
    Operation::new(scope, Key::new(key).expect("a key"))
}

fn claim_id(key: &str) -> ClaimId {
    ClaimId::from_u128(key.bytes().fold(7, |id, byte| id * 257 + u128::from(byte)))
}

pub(crate) fn request(key: &str, is_marked: bool) -> ClaimRequest {
    let Operation { scope, key: named } = operation(key);
    let start = if is_marked {
        Start::Marked(Recovery::Rerun)
    } else {
        Start::Unmarked
    };
    ClaimRequest {
        start,
        window: WINDOW,
        transport: Some(Bytes::from(format!("transport-{key}"))),
        ..ClaimRequest::new(scope, named, claim_id(key))
    }
}

pub(crate) fn gated(key: &str, version: u64) -> ClaimRequest {
    let entity = Key::new("account").expect("a key");
    ClaimRequest {
        gate: Some(VersionGate { entity, version }),
        ..request(key, false)
    }
}

pub(crate) fn settlement(key: &str, step: Step) -> Settlement {
    Settlement {
        operation: operation(key),
        claim_id: claim_id(key),
        step,
    }
}

pub(crate) fn start() -> Step {
    Step::Start {
        recovery: Recovery::Rerun,
        has_begun: false,
    }
}

pub(crate) fn complete(bytes: &Bytes) -> Step {
    let outcome = Outcome::Kept {
        codec: 0,
        bytes: bytes.clone(),
    };
    Step::Complete {
        outcome,
        window: WINDOW,
    }
}

pub(crate) fn parked(number: u64) -> Parked {
    Parked {
        scope: Scope::new("tenant", "payments").expect("a scope"),
        key: None,
        reason: "key-blank".into(),
        detail: "json:/id".into(),
        transport: None,
        coordinates: number.to_string().into(),
        headers: vec![("event-id".into(), Bytes::from_static(b"\xff\x00evt"))],
        payload: Bytes::from(format!("{number} ").repeat(100)),
        since: Timestamp::EPOCH,
    }
}

pub(crate) fn note() -> Note {
    Note {
        by: "on call".into(),
        reason: "so that it is told".into(),
    }
}

/// Returns items that another store would hand over: one finished, one started, a mark.
pub(crate) fn moved_records(round: u64, at: Timestamp) -> Vec<Item> {
    let listed = |key: String, state, outcome| {
        let record = Record {
            state,
            fingerprint: None,
            members: None,
            transport: None,
            claim_id: claim_id(&key),
            token: FencingToken::new(3),
            claimed_at: at,
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: at,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome,
        };
        let operation = operation(&key);
        Item::Record(Box::new(Listed { operation, record }))
    };
    let outcome = Outcome::Kept {
        codec: 0,
        bytes: Bytes::from_static(b"moved"),
    };
    let completed = State::Completed { at, window: WINDOW };
    let started = State::Started {
        lease_until: at.plus(Duration::from_secs(5)),
        recovery: Recovery::Rerun,
    };
    vec![
        listed(format!("{round}i"), completed, Some(outcome)),
        listed(format!("{round}j"), started, None),
        Item::Mark(Mark {
            name: "moved".into(),
            value: round,
        }),
    ]
}

pub(crate) fn moved_audit(round: u64, at: Timestamp) -> Item {
    Item::Audited(Box::new(Audited {
        at,
        note: note(),
        action: "import".into(),
        scope: None,
        key: None,
        before: "elsewhere".into(),
        after: round.to_string().into(),
    }))
}

/// Returns an entry of the audit trail as the model puts it.
pub(crate) fn told(action: &str, key: Option<&str>, after: &str) -> String {
    format!("{action} {} -> {after}", key.unwrap_or("-"))
}

pub(crate) fn all_keys() -> Vec<String> {
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "v", "z"];
    let mut keys: Vec<_> = (0..ROUNDS)
        .flat_map(|round| letters.map(|letter| format!("{round}{letter}")))
        .collect();
    keys.push("later".to_owned());
    keys
}

pub(crate) const ROUNDS: u64 = 8;
pub(crate) const WINDOW: Window = Window::new(Duration::from_secs(20));
