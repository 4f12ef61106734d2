use std::time::Duration;

use semel_core::Timestamp;
use semel_core::attempt::{AttemptEnd, PastAttempt};

use super::*;

fn fullest() -> Record {
    Record {
        state: State::Completed {
            at: Timestamp::from_millis(1_795_257_180_123),
            window: Window::new(Duration::from_secs(80)).with_margin(Duration::from_nanos(7)),
        },
        fingerprint: Some(Fingerprint {
            scheme: 3,
            digest: [9; 16],
        }),
        members: Members::from_bytes(&[1, 2, 3, 4, 5]),
        transport: Some(Bytes::from_static(b"t-1")),
        claim_id: ClaimId::from_u128(5),
        token: FencingToken::new((7 << 40) + 3),
        claimed_at: Timestamp::from_millis(1_795_257_180_000),
        attempts: 2,
        vanished: 1,
        possible_repeats: 4,
        doubt: Some(Recovery::RerunWithin(Duration::from_millis(1_500))),
        past: vec![PastAttempt {
            attempt: 1,
            claim_id: ClaimId::from_u128(4),
            token: FencingToken::new(2),
            claimed_at: Timestamp::from_millis(11),
            ended_at: Timestamp::from_millis(15),
            end: AttemptEnd::MaybeApplied,
            error: Some("broken pipe".into()),
        }],
        created_at: Timestamp::from_millis(11),
        first_started_at: Some(Timestamp::from_millis(12)),
        last_error: Some("oh no".into()),
        gate: Some(VersionGate {
            entity: Key::from_canonical(Bytes::from_static(b"e")).expect("UTF-8"),
            version: 8,
        }),
        held: true,
        outcome: Some(Outcome::Kept {
            codec: 6,
            bytes: Bytes::from_static(b"done"),
        }),
    }
}

#[test]
fn every_field_comes_back() {
    let mut records = vec![fullest()];
    let at = Timestamp::from_millis(77);
    for state in [
        State::Claimed { lease_until: at },
        State::Started {
            lease_until: at,
            recovery: Recovery::Rerun,
        },
        State::Started {
            lease_until: at,
            recovery: Recovery::RerunWithin(Duration::from_secs(3)),
        },
        State::Started {
            lease_until: at,
            recovery: Recovery::Park,
        },
        State::Released { not_before: at },
        State::Dead {
            at,
            window: Window::DEFAULT,
        },
        State::InDoubt { since: at },
    ] {
        let outcome = Some(Outcome::TooLarge {
            len_bytes: 9,
            digest: [1; 32],
        });
        records.push(Record {
            state,
            outcome,
            ..fullest()
        });
        records.push(Record {
            state,
            fingerprint: None,
            members: None,
            transport: None,
            doubt: None,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome: None,
            past: Vec::new(),
            claimed_at: fullest().created_at,
            ..fullest()
        });
    }
    for (record, is_foreign) in records.iter().flat_map(|it| [(it, false), (it, true)]) {
        let record = record.clone();
        let mut meta = Vec::new();
        let mut identity = Vec::new();
        identity.put_bytes(b"tenant");
        identity.put_bytes(b"operation");
        identity.put_bytes(b"key");
        let tail = put_record(&mut meta, Identity(&identity), &record, is_foreign).to_vec();
        let body = RecordBody::new(&meta).expect("an identity");
        assert_eq!(body.identity, Identity(&identity));
        assert_eq!(body.state(), Some((record.state, record.held)));
        let is_leased = matches!(record.state.kind(), StateKind::Claimed | StateKind::Started);
        assert_eq!(body.has_foreign_lease(), is_foreign && is_leased);
        assert_eq!(body.record(Some(&tail)), Some(record.clone()));
        assert_eq!(
            body.record(None),
            Some(Record {
                outcome: None,
                ..record
            })
        );
        for cut in 0..meta.len() {
            let cut = RecordBody::new(&meta[..cut]).and_then(|body| body.record(Some(&tail)));
            assert_eq!(cut, None);
        }
    }
}

#[test]
fn the_first_attempt_costs_no_more_than_before_there_were_past_ones() {
    let record = Record {
        claimed_at: fullest().created_at,
        past: Vec::new(),
        members: None,
        ..fullest()
    };
    let mut meta = Vec::new();
    put_record(&mut meta, Identity(&[0, 0, 0]), &record, false);
    let again = Record {
        claimed_at: Timestamp::from_millis(12),
        ..record.clone()
    };
    let mut longer = Vec::new();
    put_record(&mut longer, Identity(&[0, 0, 0]), &again, false);
    assert_eq!(longer.len(), meta.len() + 1, "one small time");
    let flags = u16::from_le_bytes([meta[3], meta[4]]);
    assert_eq!(flags & (CLAIMED_AGAIN | MORE), 0);
}

#[test]
fn further_flags_that_nobody_knows_are_refused() {
    let mut meta = Vec::new();
    put_record(&mut meta, Identity(&[0, 0, 0]), &fullest(), false);
    assert_eq!(meta[5], PAST | MEMBERS);
    meta[5] |= 8;
    let body = RecordBody::new(&meta).expect("an identity");
    assert_eq!((body.record(None), body.state()), (None, None));
}
