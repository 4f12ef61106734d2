use std::time::Duration;

use bytes::Bytes;
use semel_core::{
    AttemptEnd, Change, ClaimId, ClaimRequest, Key, PastAttempt, Scope, Start, StateKind,
    VersionGate, decide,
};

use super::*;

fn operation() -> Operation {
    let scope = Scope::new("acmé %", "páy 'x'").expect("a scope");
    Operation::new(scope, Key::parse("json:[\"ä\",1]").expect("a key"))
}

/// Returns a record with something in every field.
fn full(state: State, held: bool) -> Record {
    Record {
        state,
        fingerprint: Some(Fingerprint {
            scheme: 7,
            digest: [0xfe; 16],
        }),
        members: Members::from_bytes(&[1, 2, 3, 4, 5]),
        transport: Some(Bytes::from_static(b"\x00\xff event")),
        claim_id: ClaimId::from_u128(u128::MAX - 1),
        token: token(1_795_255_200_000_123, 1_023),
        claimed_at: Timestamp::from_millis(2_000),
        attempts: u32::MAX,
        vanished: 3,
        possible_repeats: 2,
        doubt: Some(Recovery::RerunWithin(Duration::new(9, 1))),
        past: vec![PastAttempt {
            attempt: 1,
            claim_id: ClaimId::from_u128(7),
            token: FencingToken::new(9),
            claimed_at: Timestamp::from_millis(500),
            ended_at: Timestamp::from_millis(900),
            end: AttemptEnd::MaybeApplied,
            error: Some("über".into()),
        }],
        created_at: Timestamp::from_millis(1_000),
        first_started_at: Some(Timestamp::from_millis(400)),
        last_error: Some("card declined".into()),
        gate: Some(VersionGate {
            entity: Key::parse("cart").expect("a key"),
            version: u64::MAX,
        }),
        held,
        outcome: None,
    }
}

fn states() -> Vec<State> {
    let at = Timestamp::from_millis(3_000);
    let late = Timestamp::from_millis(u64::MAX);
    let window = Window::new(Duration::new(3_600, 1)).with_margin(Duration::from_millis(17));
    let endless = Window::new(Duration::MAX);
    vec![
        State::Claimed { lease_until: at },
        State::Claimed { lease_until: late },
        State::Claimed {
            lease_until: Timestamp::EPOCH,
        },
        State::Started {
            lease_until: at,
            recovery: Recovery::Rerun,
        },
        State::Started {
            lease_until: late,
            recovery: Recovery::Park,
        },
        State::Started {
            lease_until: at,
            recovery: Recovery::RerunWithin(Duration::MAX),
        },
        State::Released { not_before: at },
        State::Completed { at, window },
        State::Completed {
            at,
            window: endless,
        },
        State::Dead { at: late, window },
        State::Dead { at, window },
        State::InDoubt { since: at },
    ]
}

/// Returns the value that `commit.lua` makes of one.
fn committed(value: &[u8], revision: u64, created: u64) -> Vec<u8> {
    let (times, rest) = value.split_at(26);
    [
        &[1],
        &revision.to_be_bytes()[..],
        times,
        &created.to_be_bytes(),
        rest,
    ]
    .concat()
}

#[test]
fn a_record_comes_back_as_it_was() {
    let outcomes = [
        None,
        Some(Outcome::empty()),
        Some(Outcome::Kept {
            codec: u16::MAX,
            bytes: Bytes::from_static(b"\x00\xff"),
        }),
        Some(Outcome::TooLarge {
            len_bytes: u64::MAX,
            digest: [0xfe; 32],
        }),
    ];
    for now in [0, 1_234, u64::MAX] {
        for (state, held) in states().into_iter().zip([true, false].into_iter().cycle()) {
            for outcome in &outcomes {
                let record = Record {
                    outcome: outcome.clone(),
                    ..full(state, held)
                };
                let value = put(&operation(), &record, Timestamp::from_millis(now));
                let value = committed(&value, 5, 3);
                let stored = decode(&value).expect("a record");
                assert_eq!(
                    (stored.revision, stored.created, stored.is_cut),
                    (5, 3, false)
                );
                assert_eq!(stored.operation, operation());
                assert_eq!(stored.record, record);
            }
        }
    }
}

#[test]
fn a_bare_record_comes_back_without_anything_made_up() {
    let record = Record {
        fingerprint: None,
        members: None,
        transport: None,
        doubt: None,
        past: Vec::new(),
        first_started_at: None,
        last_error: None,
        gate: None,
        ..full(
            State::Released {
                not_before: Timestamp::EPOCH,
            },
            false,
        )
    };
    let empty = Record {
        transport: Some(Bytes::new()),
        last_error: Some("".into()),
        ..record.clone()
    };
    for record in [record, empty] {
        let value = committed(&put(&operation(), &record, Timestamp::EPOCH), 1, 1);
        assert_eq!(decode(&value).expect("a record").record, record);
    }
}

#[test]
fn no_beginning_of_a_record_is_taken_for_one() {
    let record = Record {
        outcome: Some(Outcome::Kept {
            codec: 0,
            bytes: Bytes::from_static(b"outcome"),
        }),
        ..full(states()[7], false)
    };
    let value = committed(&put(&operation(), &record, Timestamp::EPOCH), 1, 1);
    let without_outcome = value.len() - b"outcome".len();
    for end in 0..value.len() {
        match decode(&value[..end]) {
            Ok(stored) => {
                assert!(end == without_outcome && stored.is_cut, "cut at {end}");
                assert_eq!(
                    stored.record,
                    Record {
                        outcome: None,
                        ..record.clone()
                    }
                );
            }
            Err(error) => assert_eq!(error.code(), semel_core::Code::RecordCorrupt),
        }
    }
    let longer = [&value[..], b"x"].concat();
    assert!(decode(&longer).is_err());
    let newer = [&[2], &value[1..]].concat();
    assert!(decode(&newer).is_err());
}

/// A claim that is made ready before the time is known is the one that `decide` makes afterwards.
#[test]
fn a_claim_that_was_made_ready_is_the_one_that_is_granted() {
    for start in [
        Start::Unmarked,
        Start::Marked(Recovery::Park),
        Start::Marked(Recovery::RerunWithin(Duration::from_secs(9))),
    ] {
        let mut request =
            ClaimRequest::new(operation().scope, operation().key, ClaimId::from_u128(7));
        request.start = start;
        request.lease = Duration::from_millis(30_001);
        request.transport = Some(Bytes::from_static(b"event"));
        let grant = |now, token| {
            let decision = decide::claim(None, None, &request, now, token);
            let Change::Put(record) = decision.change else {
                panic!("a grant writes its record")
            };
            record
        };
        let ready = grant(Timestamp::EPOCH, FencingToken::new(5));
        let (moving, rest) = fresh(&operation(), &ready);
        // As `claim.lua` puts it together.
        let (stamp, now) = (
            1_795_255_200_000_123_u64,
            Timestamp::from_millis(1_795_255_200_000),
        );
        let times = now.as_millis().to_be_bytes();
        let stamps = [stamp.to_be_bytes(), stamp.to_be_bytes()].concat();
        let value = [
            &[1],
            &stamp.to_be_bytes()[..],
            &times,
            &moving,
            &stamps,
            &times,
            &rest,
        ]
        .concat();
        let stored = decode(&value).expect("a record");
        assert_eq!(stored.record, grant(now, token(stamp, 5)));
        assert_eq!((stored.revision, stored.created), (stamp, stamp));
        assert_eq!(moving[16], state_number(stored.record.state.kind()));
        assert_eq!(
            moving[17] & WATCHED != 0,
            start == Start::Marked(Recovery::Park)
        );
    }
}

/// The completion that `complete.lua` makes of a claim is the one that `decide` makes of it.
#[test]
fn a_completion_is_the_one_that_is_decided() {
    let window = Window::new(Duration::from_secs(60)).with_margin(Duration::from_secs(3));
    let outcome = Outcome::Kept {
        codec: 3,
        bytes: Bytes::from_static(b"done"),
    };
    let claimed = Record {
        possible_repeats: 0,
        gate: None,
        ..full(states()[3], false)
    };
    let before = committed(
        &put(&operation(), &claimed, Timestamp::from_millis(2_500)),
        4,
        3,
    );
    let kept = 4 + u32::from_be_bytes(before[77..81].try_into().expect("four bytes")) as usize;
    let now = Timestamp::from_millis(9_000);
    let (keep, state) = completion(&outcome, window).expect("countable");
    let after = [
        &[1],
        &8_u64.to_be_bytes()[..],
        &now.as_millis().to_be_bytes(),
        &[0; 8],
        &(now.as_millis() + keep).to_be_bytes(),
        &[3, 0],
        &before[35..77 + kept],
        &state,
    ]
    .concat();
    let settlement = semel_core::Settlement {
        operation: operation(),
        claim_id: claimed.claim_id,
        step: semel_core::Step::Complete { outcome, window },
    };
    let decision = decide::settle(Some(&claimed), None, &settlement, now);
    let Change::Put(expected) = decision.change else {
        panic!("a completion is written")
    };
    assert_eq!(now.as_millis() + keep, forget(&expected));
    let direct = committed(&put(&operation(), &expected, now), 8, 3);
    assert_eq!(after, direct, "byte for byte");
    assert_eq!(decode(&after).expect("a record").record, expected);
}

#[test]
fn what_scripts_cannot_count_is_kept_for_ever() {
    let endless = Window::new(Duration::MAX);
    assert!(completion(&Outcome::empty(), endless).is_none());
    let record = full(
        State::Completed {
            at: Timestamp::EPOCH,
            window: endless,
        },
        false,
    );
    assert_eq!(forget(&record), 0);
    assert!(!is_countable(Duration::MAX) && is_countable(Duration::from_secs(1 << 40)));
}

#[test]
fn tokens_are_counted_within_their_stamp() {
    let stamp = 1_795_255_200_000_123;
    assert_eq!(token_parts(token(stamp, 1_023)), Some((stamp, 1_023)));
    assert!(token(stamp, 1_023) < token(stamp + 1, 0));
    assert_eq!(token_parts(FencingToken::new(u64::MAX)), None);
    let kinds = StateKind::ALL.map(|kind| state_kind(state_number(kind)));
    assert_eq!(kinds, StateKind::ALL.map(Some));
}
