//! The rows of `claim`.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::claim::{Admission, AttemptLimits, Claim, Duplicate, Start};
use crate::decide;
use crate::fingerprint::Fingerprint;
use crate::record::StateKind;

#[test]
fn absent_is_granted_as_the_first_attempt() {
    let decision = decide(None, &request(OTHER));
    let claim = granted(&decision);
    assert_eq!(
        (claim.attempt, claim.token, claim.claim_id),
        (1, NEW_TOKEN, OTHER)
    );
    assert_eq!(claim.lease_until, NOW.plus(LEASE));
    assert_eq!(marks(claim), [false; 4]);
    let record = written(&decision);
    assert_eq!(record.state, claimed(NOW.plus(LEASE)));
    assert_eq!((record.attempts, record.created_at), (1, NOW));
}

#[test]
fn absent_and_marked_is_started_at_once() {
    let marked = ClaimRequest {
        start: Start::Marked(Recovery::Park),
        ..request(OTHER)
    };
    let decision = decide(None, &marked);
    assert_eq!(granted(&decision).first_started_at, Some(NOW));
    let record = written(&decision);
    assert_eq!(record.state, started(NOW.plus(LEASE), Recovery::Park));
    assert_eq!(record.first_started_at, Some(NOW));
}

#[test]
fn absent_and_as_old_as_the_gate_is_granted() {
    let edge = NOW.minus(WINDOW.duration()).plus(WINDOW.margin());
    granted(&decide(
        None,
        &ClaimRequest {
            birth: Some(edge),
            ..request(OTHER)
        },
    ));
}

#[test]
fn absent_and_a_millisecond_older_is_too_old() {
    let edge = NOW.minus(WINDOW.duration()).plus(WINDOW.margin());
    let birth = Some(edge.minus(Duration::from_millis(1)));
    let decision = decide(
        None,
        &ClaimRequest {
            birth,
            ..request(OTHER)
        },
    );
    assert!(matches!(decision.answer, Admission::TooOld));
    unchanged(&decision);
}

#[test]
fn absent_without_a_birth_or_from_the_future_is_granted() {
    for birth in [None, Some(NOW.plus(Duration::from_secs(999)))] {
        granted(&decide(
            None,
            &ClaimRequest {
                birth,
                ..request(OTHER)
            },
        ));
    }
}

#[test]
fn the_same_claim_is_resumed_live_or_over() {
    for state in [
        claimed(LATER),
        claimed(EARLIER),
        started(LATER, Recovery::Park),
        started(EARLIER, Recovery::Park),
    ] {
        let decision = decide(Some(record(state)), &request(MINE));
        let claim = granted(&decision);
        assert_eq!(marks(claim), [false, true, false, false], "{state:?}");
        assert_eq!((claim.token, claim.attempt), (OLD_TOKEN, 1));
        unchanged(&decision);
    }
}

#[test]
fn a_claim_is_not_resumed_past_its_providers_window() {
    let window = Duration::from_secs(60);
    let within = Recovery::RerunWithin(window);
    let at = |state, first| Record {
        first_started_at: Some(first),
        doubt: Some(within),
        ..record(state)
    };
    let ask = |record| {
        let request = ClaimRequest {
            start: Start::Marked(within),
            ..request(MINE)
        };
        decide(Some(record), &request)
    };
    let over = NOW.minus(window);
    for until in [LATER, EARLIER] {
        for state in [claimed(until), started(until, within)] {
            let inside = ask(at(state, LATER.minus(window)));
            assert!(granted(&inside).resumed, "{state:?}");
        }
    }
    // An earlier attempt may have used the key, which the provider may have forgotten: DBT-3.
    for state in [claimed(LATER), started(LATER, within)] {
        let decision = ask(at(state, over));
        assert_eq!(busy(&decision), LATER);
        unchanged(&decision);
    }
    for state in [claimed(EARLIER), started(EARLIER, within)] {
        let decision = ask(at(state, over));
        assert_eq!(parked(&decision), StateKind::InDoubt, "{state:?}");
        assert_eq!(written(&decision).vanished, 1);
    }
    let never_started = Record {
        first_started_at: None,
        ..record(claimed(EARLIER))
    };
    assert!(granted(&ask(never_started)).resumed, "nothing was sent yet");
}

#[test]
fn a_live_lease_is_busy_until_it_ends() {
    for state in [claimed(LATER), started(LATER, Recovery::Rerun)] {
        let decision = decide(Some(record(state)), &request(OTHER));
        assert_eq!(busy(&decision), LATER);
        unchanged(&decision);
    }
}

#[test]
fn a_lease_that_ends_now_is_taken_over() {
    let decision = decide(Some(record(claimed(NOW))), &request(OTHER));
    let claim = granted(&decision);
    assert_eq!(marks(claim), [true, false, false, false]);
    assert_eq!((claim.token, claim.attempt), (NEW_TOKEN, 2));
    let record = written(&decision);
    assert_eq!((record.claim_id, record.vanished), (OTHER, 1));
    assert_eq!(
        record.created_at,
        Timestamp::EPOCH,
        "the record is the same one"
    );
}

#[test]
fn vanished_below_the_cap_is_taken_over() {
    let before = Record {
        vanished: 18,
        attempts: 19,
        ..record(claimed(NOW))
    };
    granted(&decide(Some(before), &request(OTHER)));
}

#[test]
fn vanished_at_the_cap_is_dead() {
    let before = Record {
        vanished: 19,
        attempts: 20,
        ..record(claimed(NOW))
    };
    let decision = decide(Some(before), &request(OTHER));
    assert_eq!(parked(&decision), StateKind::Dead);
    let record = written(&decision);
    assert_eq!((record.state, record.vanished), (dead(NOW), 20));
}

#[test]
fn vanished_at_the_cap_after_a_start_is_in_doubt() {
    for recovery in [
        Recovery::Rerun,
        Recovery::RerunWithin(Duration::from_secs(9_999)),
    ] {
        let before = Record {
            vanished: 19,
            first_started_at: Some(EARLIER),
            ..record(started(NOW, recovery))
        };
        let decision = decide(Some(before), &request(OTHER));
        assert_eq!(parked(&decision), StateKind::InDoubt, "{recovery:?}");
        assert_eq!(written(&decision).doubt, Some(recovery));
    }
}

#[test]
fn a_started_park_that_vanished_is_in_doubt() {
    let decision = decide(Some(record(started(NOW, Recovery::Park))), &request(OTHER));
    assert_eq!(parked(&decision), StateKind::InDoubt);
    let record = written(&decision);
    assert_eq!(
        (record.state, record.claim_id, record.vanished),
        (in_doubt(NOW), MINE, 1)
    );
    assert_eq!(record.token, OLD_TOKEN, "no token is used up");
}

#[test]
fn a_started_rerun_that_vanished_is_a_possible_repeat() {
    let before = Record {
        possible_repeats: 3,
        ..record(started(NOW, Recovery::Rerun))
    };
    let decision = decide(Some(before), &request(OTHER));
    assert_eq!(marks(granted(&decision)), [true, false, false, true]);
    let record = written(&decision);
    assert_eq!(
        (record.possible_repeats, record.doubt),
        (4, Some(Recovery::Rerun))
    );
}

#[test]
fn a_keyed_effect_is_rerun_until_the_providers_window_ends() {
    let window = Duration::from_secs(60);
    let at = |first| Record {
        first_started_at: Some(first),
        ..record(started(NOW, Recovery::RerunWithin(window)))
    };
    let decision = decide(
        Some(at(LATER.minus(window))),
        &marked(Recovery::RerunWithin(window)),
    );
    let claim = granted(&decision);
    assert_eq!(
        marks(claim),
        [true, false, false, false],
        "the provider recognises the key"
    );
    assert_eq!(
        claim.first_started_at,
        Some(LATER.minus(window)),
        "the first start stands"
    );
    let decision = decide(
        Some(at(NOW.minus(window))),
        &marked(Recovery::RerunWithin(window)),
    );
    assert_eq!(
        parked(&decision),
        StateKind::InDoubt,
        "at its end the window is over"
    );
}

#[test]
fn a_keyed_effect_without_a_known_start_is_in_doubt() {
    let within = Recovery::RerunWithin(Duration::from_secs(9_999));
    let decision = decide(Some(record(started(NOW, within))), &request(OTHER));
    assert_eq!(parked(&decision), StateKind::InDoubt);
}

#[test]
fn released_before_its_backoff_is_busy() {
    let decision = decide(Some(record(released(LATER))), &request(MINE));
    assert_eq!(busy(&decision), LATER);
    unchanged(&decision);
}

#[test]
fn released_after_its_backoff_is_granted_and_no_takeover() {
    let decision = decide(Some(record(released(NOW))), &request(OTHER));
    assert_eq!(marks(granted(&decision)), [false; 4]);
    assert_eq!(
        (written(&decision).attempts, written(&decision).vanished),
        (2, 0)
    );
}

#[test]
fn released_at_the_claimants_cap_is_dead() {
    let before = Record {
        attempts: 7,
        vanished: 2,
        ..record(released(NOW))
    };
    let limits = |failed| AttemptLimits {
        failed: NonZeroU32::new(failed).expect("positive"),
        ..AttemptLimits::default()
    };
    let below = ClaimRequest {
        limits: limits(6),
        ..request(OTHER)
    };
    granted(&decide(Some(before.clone()), &below));
    let at = ClaimRequest {
        limits: limits(5),
        ..request(OTHER)
    };
    let decision = decide(Some(before), &at);
    assert_eq!(
        parked(&decision),
        StateKind::Dead,
        "vanished attempts are no failed ones"
    );
}

#[test]
fn released_after_an_unsure_keyed_attempt_is_in_doubt_past_the_window() {
    let window = Duration::from_secs(60);
    let at = |first| Record {
        doubt: Some(Recovery::RerunWithin(window)),
        first_started_at: Some(first),
        ..record(released(NOW))
    };
    granted(&decide(Some(at(LATER.minus(window))), &request(OTHER)));
    let decision = decide(Some(at(NOW.minus(window))), &request(OTHER));
    assert_eq!(parked(&decision), StateKind::InDoubt);
}

#[test]
fn released_after_an_unsure_rerun_is_a_possible_repeat() {
    let before = Record {
        doubt: Some(Recovery::Rerun),
        ..record(released(NOW))
    };
    let decision = decide(Some(before), &request(OTHER));
    assert_eq!(marks(granted(&decision)), [false, false, false, true]);
    assert_eq!(written(&decision).possible_repeats, 1);
}

#[test]
fn completed_replays_with_the_outcome_only_if_it_is_wanted() {
    let before = Record {
        outcome: Some(outcome("done")),
        ..record(completed(NOW))
    };
    for (wants_outcome, expected) in [(true, Some(outcome("done"))), (false, None)] {
        let asked = ClaimRequest {
            wants_outcome,
            ..request(OTHER)
        };
        let decision = decide(Some(before.clone()), &asked);
        let Admission::Replay { outcome, .. } = &decision.answer else {
            panic!("{:?}", decision.answer)
        };
        assert_eq!(*outcome, expected);
        unchanged(&decision);
    }
}

#[test]
fn completed_past_its_window_is_believed_while_it_is_there() {
    let almost = NOW.minus(Duration::from_millis(90_999));
    let asked = ClaimRequest {
        birth: Some(Timestamp::EPOCH),
        ..request(OTHER)
    };
    let decision = decide(Some(record(completed(almost))), &asked);
    assert!(
        matches!(decision.answer, Admission::Replay { .. }),
        "evidence wins over the gate"
    );
}

#[test]
fn completed_or_dead_past_its_grace_counts_as_absent() {
    let past = NOW.minus(Duration::from_secs(91));
    for state in [completed(past), dead(past)] {
        let decision = decide(Some(record(state)), &request(OTHER));
        assert_eq!(marks(granted(&decision)), [false, false, true, false]);
        assert_eq!(
            written(&decision).created_at,
            NOW,
            "it is a record of its own"
        );
    }
}

#[test]
fn forgotten_and_older_than_the_gate_is_too_old() {
    let past = NOW.minus(Duration::from_secs(91));
    let asked = ClaimRequest {
        birth: Some(past),
        ..request(OTHER)
    };
    let decision = decide(Some(record(completed(past))), &asked);
    assert!(matches!(decision.answer, Admission::TooOld));
    unchanged(&decision);
}

#[test]
fn held_is_never_forgotten() {
    let before = Record {
        held: true,
        ..record(completed(Timestamp::EPOCH))
    };
    let decision = decide(Some(before), &request(OTHER));
    assert!(matches!(decision.answer, Admission::Replay { .. }));
}

#[test]
fn dead_and_in_doubt_are_parked() {
    for (state, kind) in [
        (dead(NOW), StateKind::Dead),
        (in_doubt(NOW), StateKind::InDoubt),
    ] {
        for claim_id in [MINE, OTHER] {
            let decision = decide(Some(record(state)), &request(claim_id));
            assert_eq!(parked(&decision), kind);
            unchanged(&decision);
        }
    }
}

#[test]
fn another_fingerprint_conflicts_in_every_state() {
    for state in every_state() {
        let before = Record {
            fingerprint: Some(fingerprint(1, 1)),
            ..record(state)
        };
        for claim_id in [MINE, OTHER] {
            let asked = ClaimRequest {
                fingerprint: Some(fingerprint(1, 2)),
                ..request(claim_id)
            };
            let decision = decide(Some(before.clone()), &asked);
            assert!(
                matches!(decision.answer, Admission::Conflict { .. }),
                "{state:?}"
            );
            unchanged(&decision);
        }
    }
}

#[test]
fn another_scheme_or_none_never_conflicts() {
    for (stored, asked) in [
        (Some(fingerprint(1, 1)), Some(fingerprint(2, 2))),
        (Some(fingerprint(1, 1)), Some(fingerprint(1, 1))),
        (Some(fingerprint(1, 1)), None),
        (None, Some(fingerprint(1, 1))),
        (None, None),
    ] {
        let before = Record {
            fingerprint: stored,
            ..record(completed(NOW))
        };
        let asked = ClaimRequest {
            fingerprint: asked,
            ..request(OTHER)
        };
        assert!(matches!(
            decide(Some(before), &asked).answer,
            Admission::Replay { .. }
        ));
    }
}

#[test]
fn a_duplicate_is_named_by_claim_and_transport() {
    let sent = |id: Option<&'static str>| id.map(Bytes::from);
    for (claim_id, stored, asked, expected) in [
        (MINE, Some("a"), Some("b"), Duplicate::Own),
        (OTHER, Some("a"), Some("a"), Duplicate::Redelivery),
        (OTHER, Some("a"), Some("b"), Duplicate::Republish),
        (OTHER, Some("a"), None, Duplicate::Unknown),
        (OTHER, None, Some("a"), Duplicate::Unknown),
        (OTHER, None, None, Duplicate::Unknown),
    ] {
        let before = Record {
            transport: sent(stored),
            ..record(completed(NOW))
        };
        let asked = ClaimRequest {
            transport: sent(asked),
            ..request(claim_id)
        };
        let decision = decide(Some(before), &asked);
        let Admission::Replay { duplicate, .. } = decision.answer else {
            panic!("{:?}", decision.answer)
        };
        assert_eq!(duplicate, expected);
    }
}

#[test]
fn a_gate_holds_its_entity_for_the_lease() {
    let decision = decide_gated(None, None, 5);
    granted(&decision);
    assert_eq!(
        decision.entity,
        Some(entity(None, Some((OTHER, NOW.plus(LEASE)))))
    );
    assert_eq!(written(&decision).gate, Some(gate(5)));
}

#[test]
fn a_version_above_the_applied_one_is_granted_an_equal_one_is_stale() {
    let applied = Some(entity(Some(5), None));
    granted(&decide_gated(None, applied.clone(), 6));
    for version in [5, 4] {
        let decision = decide_gated(None, applied.clone(), version);
        assert!(matches!(decision.answer, Admission::Stale { applied: 5 }));
        unchanged(&decision);
    }
}

#[test]
fn an_entity_held_by_another_claim_is_busy_until_its_lease_ends() {
    let decision = decide_gated(None, Some(entity(None, Some((MINE, LATER)))), 5);
    assert_eq!(busy(&decision), LATER);
    unchanged(&decision);
    granted(&decide_gated(
        None,
        Some(entity(None, Some((MINE, NOW)))),
        5,
    ));
    granted(&decide_gated(
        None,
        Some(entity(None, Some((OTHER, LATER)))),
        5,
    ));
}

#[test]
fn a_released_or_vanished_version_is_gated_again() {
    for state in [released(NOW), claimed(NOW)] {
        let before = Record {
            gate: Some(gate(5)),
            ..record(state)
        };
        let decision = decide_gated(Some(before), Some(entity(Some(6), None)), 5);
        assert!(
            matches!(decision.answer, Admission::Stale { applied: 6 }),
            "{state:?}"
        );
        unchanged(&decision);
    }
}

#[test]
fn a_duplicate_of_an_applied_version_replays() {
    let before = Record {
        gate: Some(gate(5)),
        ..record(completed(NOW))
    };
    let decision = decide_gated(Some(before), Some(entity(Some(6), None)), 5);
    assert!(matches!(decision.answer, Admission::Replay { .. }));
}

#[test]
fn a_claim_whose_entity_went_to_another_is_not_resumed() {
    let before = Record {
        gate: Some(gate(5)),
        ..record(claimed(EARLIER))
    };
    let asked = ClaimRequest {
        gate: Some(gate(5)),
        ..request(MINE)
    };
    let own = entity(None, Some((MINE, EARLIER)));
    assert!(
        granted(&decide::claim(
            Some(&before),
            Some(&own),
            &asked,
            NOW,
            NEW_TOKEN
        ))
        .resumed
    );
    let held = entity(None, Some((OTHER, LATER)));
    let decision = decide::claim(Some(&before), Some(&held), &asked, NOW, NEW_TOKEN);
    assert_eq!(busy(&decision), LATER);
    let applied = entity(Some(6), None);
    let decision = decide::claim(Some(&before), Some(&applied), &asked, NOW, NEW_TOKEN);
    assert!(matches!(decision.answer, Admission::Stale { applied: 6 }));
}

fn decide(record: Option<Record>, request: &ClaimRequest) -> Decision<Admission> {
    decide::claim(record.as_ref(), None, request, NOW, NEW_TOKEN)
}

fn decide_gated(
    record: Option<Record>,
    entity: Option<EntityRecord>,
    version: u64,
) -> Decision<Admission> {
    let request = ClaimRequest {
        gate: Some(gate(version)),
        ..request(OTHER)
    };
    decide::claim(record.as_ref(), entity.as_ref(), &request, NOW, NEW_TOKEN)
}

fn marked(recovery: Recovery) -> ClaimRequest {
    ClaimRequest {
        start: Start::Marked(recovery),
        ..request(OTHER)
    }
}

fn fingerprint(scheme: u32, digest: u8) -> Fingerprint {
    Fingerprint {
        scheme,
        digest: [digest; 16],
    }
}

fn granted(decision: &Decision<Admission>) -> &Claim {
    match &decision.answer {
        Admission::Granted(claim) => claim,
        other => panic!("should be granted, got {other:?}"),
    }
}

fn busy(decision: &Decision<Admission>) -> Timestamp {
    match decision.answer {
        Admission::Busy { until, now } => {
            assert_eq!(now, NOW);
            until
        }
        ref other => panic!("should be busy, got {other:?}"),
    }
}

fn parked(decision: &Decision<Admission>) -> StateKind {
    match decision.answer {
        Admission::Parked { state, .. } => state,
        ref other => panic!("should be parked, got {other:?}"),
    }
}

/// Takeover, resumed, formerly expired, possible repeat.
fn marks(claim: &Claim) -> [bool; 4] {
    [
        claim.takeover,
        claim.resumed,
        claim.formerly_expired,
        claim.possible_repeat,
    ]
}
