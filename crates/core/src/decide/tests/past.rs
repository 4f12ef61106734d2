//! The trace that each end of an attempt leaves on the record. ATT-3.

use super::*;
use crate::attempt::{AttemptEnd, PastAttempt};
use crate::claim::{Admission, Start};
use crate::decide::{self, Directed, Order};
use crate::record::StateKind;

#[test]
fn a_grant_says_when_and_begins_without_a_past() {
    let decision = decide::claim(None, None, &request(MINE), NOW, NEW_TOKEN);
    let record = written(&decision);
    assert_eq!((record.claimed_at, &*record.past), (NOW, &[][..]));
}

#[test]
fn each_way_to_release_is_remembered_by_its_name() {
    for (step, end) in [
        (release(Certainty::NotApplied, true), AttemptEnd::NotApplied),
        (
            release(Certainty::MaybeApplied, true),
            AttemptEnd::MaybeApplied,
        ),
        (release(Certainty::NotApplied, false), AttemptEnd::GivenBack),
        (
            release(Certainty::MaybeApplied, false),
            AttemptEnd::GivenBack,
        ),
    ] {
        for state in [claimed(LATER), started(EARLIER, Recovery::Park)] {
            let after = settled(&running(state), step.clone());
            assert_eq!(after.past, [ended(NOW, end, Some("no answer"))]);
        }
    }
}

#[test]
fn what_was_given_back_again_and_again_pushes_out_nothing_that_tells() {
    let mut record = running(claimed(LATER));
    let settle = |record: &Record, step| Record {
        state: claimed(LATER),
        ..settled(record, step)
    };
    let telling = [AttemptEnd::MaybeApplied, AttemptEnd::Failed];
    record = settle(&record, release(Certainty::MaybeApplied, true));
    record = settle(&record, fail());
    for _ in 0..40 {
        record = settle(&record, release(Certainty::NotApplied, false));
    }
    let ends = |record: &Record| -> Vec<_> { record.past.iter().map(|it| it.end).collect() };
    let expected = [&telling[..], &[AttemptEnd::GivenBack; 14]].concat();
    assert_eq!(ends(&record), expected);
    // Those in a row are dropped before any other.
    for _ in 0..13 {
        record = settle(&record, release(Certainty::NotApplied, true));
    }
    let expected = [
        &telling[..],
        &[AttemptEnd::GivenBack],
        &[AttemptEnd::NotApplied; 13],
    ];
    assert_eq!(ends(&record), expected.concat());
    record = settle(&record, release(Certainty::NotApplied, true));
    assert_eq!(ends(&record)[0], AttemptEnd::Failed, "then the oldest");
    assert_eq!(record.past.len(), Record::MAX_PAST);
}

#[test]
fn a_failure_is_remembered() {
    let after = settled(&running(claimed(LATER)), fail());
    let expected = ended(NOW, AttemptEnd::Failed, Some("refused"));
    assert_eq!(after.past, [expected]);
}

#[test]
fn starting_and_completing_leave_the_past_alone() {
    let recovery = Recovery::Park;
    let start = Step::Start {
        recovery,
        has_begun: false,
    };
    for step in [start, complete()] {
        let before = running(claimed(LATER));
        let after = settled(&before, step);
        assert_eq!((&after.past, after.claimed_at), (&before.past, EARLIER));
    }
    let doubt = ended(EARLIER, AttemptEnd::MaybeApplied, None);
    let before = Record {
        past: vec![doubt.clone()],
        ..running(in_doubt(EARLIER))
    };
    assert_eq!(settled(&before, complete()).past, [doubt]);
}

#[test]
fn a_takeover_remembers_that_the_claim_before_vanished_when_its_lease_ended() {
    for state in [claimed(EARLIER), started(EARLIER, Recovery::Rerun)] {
        let after = claimed_again(&running(state), &request(OTHER), true);
        let expected = ended(EARLIER, AttemptEnd::Vanished, None);
        assert_eq!((after.past, after.claimed_at), (vec![expected], NOW));
    }
}

#[test]
fn a_claim_that_gives_up_remembers_the_one_that_vanished() {
    let capped = ClaimRequest {
        limits: crate::claim::AttemptLimits {
            vanished: std::num::NonZeroU32::MIN,
            ..crate::claim::AttemptLimits::default()
        },
        ..request(OTHER)
    };
    for (state, request) in [
        (claimed(EARLIER), capped),
        (started(EARLIER, Recovery::Park), request(OTHER)),
    ] {
        let after = claimed_again(&running(state), &request, false);
        let expected = ended(EARLIER, AttemptEnd::Vanished, None);
        assert_eq!((after.past, after.claimed_at), (vec![expected], EARLIER));
    }
}

#[test]
fn a_claim_of_the_released_adds_nothing_to_the_past() {
    let past = vec![ended(EARLIER, AttemptEnd::NotApplied, Some("no answer"))];
    let before = Record {
        past: past.clone(),
        ..running(released(NOW))
    };
    let after = claimed_again(&before, &request(OTHER), true);
    assert_eq!((after.past, after.claimed_at), (past, NOW));
}

#[test]
fn a_claim_that_is_not_granted_leaves_no_trace_of_the_vanished_one() {
    let stale = ClaimRequest {
        gate: Some(gate(5)),
        ..request(OTHER)
    };
    let known = entity(Some(5), None);
    let before = running(claimed(EARLIER));
    let decision = decide::claim(Some(&before), Some(&known), &stale, NOW, NEW_TOKEN);
    assert!(matches!(decision.answer, Admission::Stale { applied: 5 }));
    unchanged(&decision);
}

#[test]
fn a_resumed_or_renewed_claim_was_granted_when_it_was() {
    let before = running(claimed(EARLIER));
    let marked = ClaimRequest {
        start: Start::Marked(Recovery::Park),
        ..request(MINE)
    };
    unchanged(&decide::claim(Some(&before), None, &marked, NOW, NEW_TOKEN));
    let renewal = crate::settle::Renewal {
        operation: request(MINE).operation,
        claim_id: MINE,
        lease: LEASE,
    };
    let decision = decide::renew(Some(&before), None, &renewal, NOW);
    let after = written(&decision);
    assert_eq!((after.claimed_at, &*after.past), (EARLIER, &[][..]));
}

#[test]
fn a_sweep_remembers_the_park_that_vanished() {
    let Change::Put(after) = decide::sweep(&running(started(EARLIER, Recovery::Park)), NOW) else {
        panic!("it is found")
    };
    let expected = ended(EARLIER, AttemptEnd::Vanished, None);
    assert_eq!((after.past, after.state), (vec![expected], in_doubt(NOW)));
}

#[test]
fn orders_keep_the_past() {
    let past = vec![ended(EARLIER, AttemptEnd::Failed, Some("refused"))];
    let not_applied = decide::Verdict::NotApplied {
        quiet: Duration::ZERO,
        asked: None,
    };
    for (state, order) in [
        (dead(NOW), Order::Requeue),
        (in_doubt(EARLIER), Order::Resolve(not_applied)),
        (released(LATER), Order::Release),
        (completed(NOW), Order::Hold(true)),
    ] {
        let before = Record {
            past: past.clone(),
            ..running(state)
        };
        let decision = decide::operate(Some(&before), None, &order, NOW);
        assert!(matches!(decision.answer, Directed::Now(Some(_))));
        assert_eq!(written(&decision).past, past, "{order:?}");
    }
}

#[test]
fn the_seventeenth_end_pushes_out_the_first() {
    let mut record = running(claimed(LATER));
    for number in 1..=17 {
        record.attempts = number;
        record.state = claimed(LATER);
        record = settled(&record, fail());
    }
    let numbers: Vec<u32> = record.past.iter().map(|past| past.attempt).collect();
    assert_eq!(numbers, (2..=17).collect::<Vec<_>>());
}

/// The record of a claim that was granted earlier.
fn running(state: State) -> Record {
    Record {
        claimed_at: EARLIER,
        ..record(state)
    }
}

/// The end of the claim of [`running`].
fn ended(ended_at: Timestamp, end: AttemptEnd, error: Option<&str>) -> PastAttempt {
    PastAttempt {
        attempt: 1,
        claim_id: MINE,
        token: OLD_TOKEN,
        claimed_at: EARLIER,
        ended_at,
        end,
        error: error.map(Into::into),
    }
}

fn settled(before: &Record, step: Step) -> Record {
    let settlement = settlement(MINE, step);
    let decision = decide::settle(Some(before), None, &settlement, NOW);
    written(&decision).clone()
}

/// The record after a claim that is granted, or finds the operation spent.
fn claimed_again(before: &Record, request: &ClaimRequest, is_granted: bool) -> Record {
    let decision = decide::claim(Some(before), None, request, NOW, NEW_TOKEN);
    match &decision.answer {
        Admission::Granted(claim) => assert!(is_granted && claim.token == NEW_TOKEN),
        Admission::Parked { state, .. } => {
            assert!(!is_granted && matches!(state, StateKind::Dead | StateKind::InDoubt));
        }
        other => panic!("unexpected: {other:?}"),
    }
    written(&decision).clone()
}
