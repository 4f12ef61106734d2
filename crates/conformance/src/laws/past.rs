//! Past attempts: each that ended without completing is kept with its end.

use std::time::Duration;

use semel_core::decide::{Order, Verdict};
use semel_core::{
    AttemptEnd, Claim, ClaimRequest, PastAttempt, Record, Recovery, State, StateKind, Step,
};

use crate::lab::Lab;
use crate::steps::{
    capped, complete, complete_for, fail, give_back, limits_of, release, release_after,
    release_unsure, start,
};

/// An operation that completes at its first attempt has no past.
pub async fn an_attempt_that_completes_leaves_no_past(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let granted = lab.record(&claim.operation).await;
    assert_eq!(
        (granted.claimed_at, &*granted.past),
        (granted.created_at, &[][..])
    );
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    assert_eq!(lab.record(&claim.operation).await.past, []);
}

/// A counted release of an effect that surely did not happen: its claim, its time, and its reason.
pub async fn a_release_is_remembered(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let granted = lab.record(&claim.operation).await;
    let backoff = lab.lease();
    lab.settles(&claim, release_after(backoff), StateKind::Released)
        .await;
    let record = lab.record(&claim.operation).await;
    let [past] = &*record.past else {
        panic!("one attempt is over: {record:?}")
    };
    let expected = PastAttempt {
        error: Some("503 from the provider".into()),
        ..ended(&claim, &granted, AttemptEnd::NotApplied, past)
    };
    assert_eq!(*past, expected);
    let State::Released { not_before } = record.state else {
        panic!("not released: {record:?}")
    };
    assert_eq!(
        past.ended_at.plus(backoff),
        not_before,
        "it ended just then"
    );
}

/// A release that may have been applied, whether it leaves a doubt or not.
pub async fn an_unsure_release_is_remembered_as_such(lab: Lab) {
    for (key, request) in [
        ("rerun", lab.marked("rerun", 1, Recovery::Rerun)),
        ("unmarked", lab.request("unmarked", 1)),
    ] {
        let claim = lab.grant(&request).await;
        lab.settles(&claim, release_unsure(), StateKind::Released)
            .await;
        let past = lab.record(&claim.operation).await.past;
        assert_eq!(ends(&past), [(1, AttemptEnd::MaybeApplied)], "{key}");
    }
    let doubt = lab.doubt("park").await;
    let record = lab.record(&doubt.operation).await;
    assert_eq!(ends(&record.past), [(1, AttemptEnd::MaybeApplied)]);
    let State::InDoubt { since } = record.state else {
        panic!("not in doubt: {record:?}")
    };
    assert_eq!(record.past[0].ended_at, since);
}

/// Work given back is recorded, and its number is used again.
pub async fn work_given_back_is_remembered(lab: Lab) {
    for claimant in 1..=2 {
        let claim = lab.grant(&lab.request("pay-1", claimant)).await;
        lab.settles(&claim, give_back(), StateKind::Released).await;
    }
    let claim = lab.grant(&lab.request("pay-1", 3)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    let past = lab.record(&claim.operation).await.past;
    let expected = [
        (1, AttemptEnd::GivenBack),
        (1, AttemptEnd::GivenBack),
        (1, AttemptEnd::NotApplied),
    ];
    assert_eq!(ends(&past), expected);
}

/// A failure for good, dead at once.
pub async fn a_failure_is_remembered(lab: Lab) {
    let claim = lab.death("pay-1").await;
    let record = lab.record(&claim.operation).await;
    let [past] = &*record.past else {
        panic!("one attempt is over: {record:?}")
    };
    let State::Dead { at, .. } = record.state else {
        panic!("not dead: {record:?}")
    };
    assert_eq!((past.end, past.ended_at), (AttemptEnd::Failed, at));
    assert_eq!(past.error.as_deref(), Some("400 from the provider"));
}

/// A vanished claim ended with its lease, as renewed, without a reason.
pub async fn a_vanished_claim_ended_with_its_lease(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    let granted = lab.record(&first.operation).await;
    let until = lab.extended(&first, lab.lease() * 2).await;
    lab.advance(lab.lease() * 3).await;
    assert_eq!(
        lab.record(&first.operation).await.past,
        [],
        "nobody has found out"
    );
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.takeover);
    let record = lab.record(&first.operation).await;
    let [past] = &*record.past else {
        panic!("one attempt is over: {record:?}")
    };
    let expected = PastAttempt {
        ended_at: until,
        error: None,
        ..ended(&first, &granted, AttemptEnd::Vanished, past)
    };
    assert_eq!(*past, expected);
}

/// The last claim that may vanish is recorded like those before it.
pub async fn a_vanished_claim_at_its_cap_is_remembered(lab: Lab) {
    let limited = |claimant| ClaimRequest {
        limits: limits_of(5, 2),
        ..lab.request("pay-1", claimant)
    };
    let first = lab.grant(&limited(1)).await;
    lab.outlast_lease().await;
    let _ = lab.grant(&limited(2)).await;
    lab.outlast_lease().await;
    lab.parked(&limited(3), StateKind::Dead).await;
    lab.parked(&limited(4), StateKind::Dead).await;
    let past = lab.record(&first.operation).await.past;
    let vanished = AttemptEnd::Vanished;
    assert_eq!(ends(&past), [(1, vanished), (2, vanished)]);
}

/// A vanished park, found by the next claim, is recorded once.
pub async fn a_vanished_park_is_remembered_once(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    for claimant in 2..4 {
        lab.parked(
            &lab.marked("pay-1", claimant, Recovery::Park),
            StateKind::InDoubt,
        )
        .await;
        lab.sweep().await;
    }
    let past = lab.record(&claim.operation).await.past;
    assert_eq!(ends(&past), [(1, AttemptEnd::Vanished)]);
    assert_eq!(past[0].ended_at, claim.lease_until);
}

/// A vanished park that a sweep finds is recorded as if a claim had found it.
pub async fn a_vanished_park_that_a_sweep_finds_is_remembered(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    let granted = lab.record(&claim.operation).await;
    lab.outlast_lease().await;
    assert_eq!(lab.sweep().await.doubted, 1);
    lab.parked(&lab.marked("pay-1", 2, Recovery::Park), StateKind::InDoubt)
        .await;
    let record = lab.record(&claim.operation).await;
    let [past] = &*record.past else {
        panic!("one attempt is over: {record:?}")
    };
    let expected = PastAttempt {
        ended_at: claim.lease_until,
        error: None,
        ..ended(&claim, &granted, AttemptEnd::Vanished, past)
    };
    assert_eq!(*past, expected);
}

/// Past attempts are listed oldest first, whatever their ends; completing adds and removes none.
pub async fn past_attempts_are_in_their_order(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    lab.outlast_lease().await;
    let third = lab.grant(&lab.marked("pay-1", 3, Recovery::Rerun)).await;
    lab.settles(&third, release_unsure(), StateKind::Released)
        .await;
    let fourth = lab.grant(&lab.marked("pay-1", 4, Recovery::Rerun)).await;
    lab.settles(&fourth, give_back(), StateKind::Released).await;
    let last = lab.grant(&lab.marked("pay-1", 5, Recovery::Rerun)).await;
    lab.settles(&last, complete("done"), StateKind::Completed)
        .await;
    let past = lab.record(&first.operation).await.past;
    let expected = [
        (1, AttemptEnd::NotApplied),
        (2, AttemptEnd::Vanished),
        (3, AttemptEnd::MaybeApplied),
        (4, AttemptEnd::GivenBack),
    ];
    assert_eq!(ends(&past), expected);
    for (past, claim) in past.iter().zip([first, second, third, fourth]) {
        assert_eq!((past.claim_id, past.token), (claim.claim_id, claim.token));
        assert!(past.claimed_at <= past.ended_at);
    }
    assert!(past.is_sorted_by_key(|past| (past.token, past.ended_at)));
}

/// Of twenty attempts, the latest sixteen.
pub async fn the_latest_sixteen_are_kept(lab: Lab) {
    let mut operation = None;
    for claimant in 1..=20 {
        let request = ClaimRequest {
            limits: limits_of(100, 100),
            ..lab.request("pay-1", claimant)
        };
        let claim = lab.grant(&request).await;
        lab.settles(&claim, capped(release(), 100), StateKind::Released)
            .await;
        operation = Some(claim.operation);
    }
    let Some(operation) = operation else { return };
    let past = lab.record(&operation).await.past;
    let numbers: Vec<u32> = past.iter().map(|past| past.attempt).collect();
    assert_eq!(numbers, (5..=20).collect::<Vec<_>>());
    assert_eq!(past.len(), Record::MAX_PAST);
}

/// From a full past, the earlier of two in a row that were given back is dropped, or the oldest if there
/// are no two.
pub async fn of_two_given_back_in_a_row_the_earlier_goes_first(lab: Lab) {
    let gone = [(17, 4), (18, 5), (19, 1), (20, 19), (21, 2)];
    let mut kept = Vec::new();
    for claimant in 1..=21 {
        let request = ClaimRequest {
            limits: limits_of(100, 100),
            ..lab.request("pay-1", claimant)
        };
        let claim = lab.grant(&request).await;
        let step = match claimant {
            2 | 4..=6 | 19 | 20 => give_back(),
            _ => release(),
        };
        lab.settles(&claim, capped(step, 100), StateKind::Released)
            .await;
        kept.push((claimant, claim.claim_id));
        if let Some((_, gone)) = gone.iter().find(|(at, _)| *at == claimant) {
            kept.retain(|(claimant, _)| claimant != gone);
        }
        let past = lab.record(&claim.operation).await.past;
        let claimants = past.iter().map(|past| {
            let mut kept = kept.iter().filter(|(_, id)| *id == past.claim_id);
            kept.next().map(|(claimant, _)| *claimant)
        });
        let expected = kept.iter().map(|(claimant, _)| Some(*claimant));
        assert!(claimants.eq(expected), "after {claimant}: {past:?}");
        assert!(past.len() <= Record::MAX_PAST, "{past:?}");
    }
}

/// A long error is cut to its beginning, between characters; the last one stays whole.
pub async fn a_long_error_is_remembered_by_its_beginning(lab: Lab) {
    let errors = [
        "it's \"50%\" \\ \u{1f4a5}".to_owned(),
        "\u{20ac}".repeat(500),
    ];
    for (claimant, error) in (1..).zip(&errors) {
        let claim = lab.grant(&lab.request("pay-1", claimant)).await;
        lab.settles(&claim, because(error), StateKind::Released)
            .await;
        let record = lab.record(&claim.operation).await;
        assert_eq!(record.last_error.as_deref(), Some(&**error));
        let kept = record.past.last().and_then(|past| past.error.as_deref());
        let kept = kept.unwrap_or_default();
        assert!(error.starts_with(kept) && kept.len() <= 200, "{kept}");
        assert!(kept.len() > 197 || kept == error, "{kept}");
    }
}

/// The answer was lost, so the same report comes again.
pub async fn a_repeated_report_is_remembered_once(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    for step in [release(), release(), give_back()] {
        lab.settles(&claim, step, StateKind::Released).await;
    }
    assert_eq!(lab.record(&claim.operation).await.past.len(), 1);
    let dead = lab.death("dead").await;
    lab.settles(&dead, fail(), StateKind::Dead).await;
    lab.settles(&dead, release(), StateKind::Dead).await;
    assert_eq!(lab.record(&dead.operation).await.past.len(), 1);
    let doubt = lab.doubt("doubt").await;
    lab.settles(&doubt, release_unsure(), StateKind::InDoubt)
        .await;
    assert_eq!(lab.record(&doubt.operation).await.past.len(), 1);
}

/// The time at which the latest claim was granted: no start, renewal or resumption moves it, a takeover
/// does.
pub async fn a_record_says_when_its_claim_was_granted(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let claim = lab.grant(&request).await;
    let granted = lab.record(&claim.operation).await;
    assert_eq!(granted.claimed_at.plus(lab.lease()), claim.lease_until);
    lab.advance(lab.lease() / 4).await;
    assert!(lab.grant(&request).await.resumed);
    lab.extended(&claim, lab.lease()).await;
    lab.settles(&claim, start(Recovery::Rerun), StateKind::Started)
        .await;
    let record = lab.record(&claim.operation).await;
    assert_eq!(record.claimed_at, granted.claimed_at);
    lab.outlast_lease().await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    let taken = lab.record(&claim.operation).await;
    assert_eq!(taken.claimed_at.plus(lab.lease()), second.lease_until);
    assert_eq!(taken.created_at, granted.created_at);
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
    let done = lab.record(&claim.operation).await;
    assert_eq!(done.claimed_at, taken.claimed_at);
}

/// Operators reset the count of attempts, and late evidence ends a doubt; the past stays.
pub async fn the_past_outlives_orders_and_late_evidence(lab: Lab) {
    let dead = lab.death("dead").await;
    lab.ordered(&dead.operation, Order::Requeue, Some(StateKind::Released))
        .await;
    let again = lab.grant(&lab.request("dead", 2)).await;
    lab.settles(&again, release(), StateKind::Released).await;
    let past = lab.record(&dead.operation).await.past;
    let expected = [(1, AttemptEnd::Failed), (1, AttemptEnd::NotApplied)];
    assert_eq!(ends(&past), expected, "attempts are counted anew");
    let verdict = Order::Resolve(Verdict::NotApplied {
        quiet: Duration::ZERO,
        asked: None,
    });
    for key in ["verdict", "evidence"] {
        let doubt = lab.doubt(key).await;
        if key == "verdict" {
            lab.ordered(&doubt.operation, verdict.clone(), Some(StateKind::Released))
                .await;
        } else {
            lab.settles(&doubt, complete("late"), StateKind::Completed)
                .await;
        }
        let past = lab.record(&doubt.operation).await.past;
        assert_eq!(ends(&past), [(1, AttemptEnd::MaybeApplied)], "{key}");
    }
}

/// The next life of a forgotten key has no past.
pub async fn a_new_record_has_no_past(lab: Lab) {
    let window = lab.window();
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    lab.finish(&lab.request("pay-1", 2), complete_for("done", window))
        .await;
    assert_eq!(lab.record(&first.operation).await.past.len(), 1);
    lab.outlast_grace().await;
    let _ = lab.grant(&lab.request("pay-1", 3)).await;
    assert_eq!(lab.record(&first.operation).await.past, []);
}

/// Numbers and ends, in their order.
pub(super) fn ends(past: &[PastAttempt]) -> Vec<(u32, AttemptEnd)> {
    past.iter().map(|past| (past.attempt, past.end)).collect()
}

/// The past attempt that `claim` leaves, with the time and the reason of `seen`.
fn ended(claim: &Claim, granted: &Record, end: AttemptEnd, seen: &PastAttempt) -> PastAttempt {
    PastAttempt {
        attempt: claim.attempt,
        claim_id: claim.claim_id,
        token: claim.token,
        claimed_at: granted.claimed_at,
        end,
        ..seen.clone()
    }
}

fn because(why: &str) -> Step {
    let mut step = release();
    if let Step::Release { error, .. } = &mut step {
        *error = why.into();
    }
    step
}
