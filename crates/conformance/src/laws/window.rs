//! Windows: how long a finished key is remembered, and what protects it afterwards.

use std::time::Duration;

use semel_core::decide::{Directed, Order, Refusal};
use semel_core::{Admission, Claim, ClaimRequest, Recovery, State, StateKind, Store, Timestamp};

use crate::lab::{Lab, answered};
use crate::steps::{complete, complete_for, fail_for, outcome, release};

/// Inside the window a duplicate replays, swept or not.
pub async fn a_finished_key_replays_inside_its_window(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete_for("done", lab.window()))
        .await;
    for _ in 0..3 {
        lab.advance(lab.window().duration() / 4).await;
        assert_eq!(
            lab.sweep().await.removed,
            0,
            "nothing has passed its window"
        );
        lab.replays(&lab.request("pay-1", 2), &outcome("done"))
            .await;
    }
}

/// Inside the window a dead operation stays dead.
pub async fn a_dead_key_stays_parked_inside_its_window(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, fail_for(lab.window()), StateKind::Dead)
        .await;
    lab.advance(lab.window().duration() * 3 / 4).await;
    assert_eq!(lab.sweep().await.removed, 0);
    lab.parked(&lab.request("pay-1", 2), StateKind::Dead).await;
}

/// The window begins with the completion, not with the claim.
pub async fn the_window_begins_with_the_completion(lab: Lab) {
    let request = ClaimRequest {
        lease: LONG_LEASE,
        ..lab.request("pay-1", 1)
    };
    let claim = lab.grant(&request).await;
    lab.advance(lab.window().duration() * 3 / 4).await;
    let step = complete_for("done", lab.window());
    lab.settles(&claim, step, StateKind::Completed).await;
    lab.advance(lab.window().duration() * 3 / 4).await;
    lab.sweep().await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// A duplicate does not prolong the window.
pub async fn a_replay_does_not_prolong_the_window(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete_for("done", lab.window()))
        .await;
    lab.advance(lab.window().duration() * 3 / 4).await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
    let window = lab.window();
    let finished = Timestamp::EPOCH.plus(window.duration() / 4);
    lab.advance(
        window
            .forgotten_at(finished)
            .since(Timestamp::EPOCH.plus(window.duration())),
    )
    .await;
    lab.outlast_lease().await;
    assert_eq!(lab.grant(&lab.request("pay-1", 3)).await.attempt, 1);
}

/// Windows are per record: a short one ends, a long one goes on.
pub async fn each_record_has_its_own_window(lab: Lab) {
    lab.finish(
        &lab.request("short", 1),
        complete_for("short", lab.window()),
    )
    .await;
    lab.finish(&lab.request("long", 1), complete("long")).await;
    lab.outlast_grace().await;
    lab.sweep().await;
    lab.replays(&lab.request("long", 2), &outcome("long")).await;
    lab.grant(&lab.request("short", 2)).await.attempt_is(1);
}

/// A completed record counts as absent after its grace, even without a sweep.
pub async fn a_finished_key_is_forgotten_without_a_sweep(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    assert_eq!(lab.get(&request.operation).await, None);
    let claim = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(!claim.takeover);
    claim.attempt_is(1);
    let record = lab.stands(&request.operation, StateKind::Claimed).await;
    assert_eq!(
        (record.outcome, record.vanished),
        (None, 0),
        "nothing of the old record is left"
    );
}

/// A completed record is gone after its grace and a sweep.
pub async fn a_finished_key_is_forgotten_after_a_sweep(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    lab.sweep().await;
    assert_eq!(lab.get(&request.operation).await, None);
    lab.grant(&lab.request("pay-1", 2)).await.attempt_is(1);
}

/// A dead record is forgotten as well.
pub async fn a_dead_key_is_forgotten_too(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, fail_for(lab.window()), StateKind::Dead)
        .await;
    lab.outlast_grace().await;
    let claim = lab.grant(&lab.request("pay-1", 2)).await;
    claim.attempt_is(1);
    assert_eq!(lab.record(&claim.operation).await.last_error, None);
}

/// A claim that was forgotten with its record owns nothing any more.
pub async fn a_forgotten_claim_is_fenced(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let step = complete_for("done", lab.window());
    lab.settles(&claim, step, StateKind::Completed).await;
    lab.outlast_grace().await;
    lab.fenced(&claim.operation, claim.claim_id, complete("again"))
        .await;
    lab.lost(&claim).await;
}

/// Between window and grace a record may be there or not; if it is, it counts.
pub async fn evidence_wins_while_it_is_there(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete_for("done", lab.window()))
        .await;
    lab.outlast_window().await;
    match lab.claim(&lab.request("pay-1", 2)).await {
        Admission::Replay { outcome: found, .. } => assert_eq!(found, Some(outcome("done"))),
        Admission::Granted(claim) => claim.attempt_is(1),
        other => panic!("the record should be believed or gone, got {other:?}"),
    }
}

/// No record, and older than the window → too old, and no record is made.
pub async fn an_old_message_without_a_record_is_too_old(lab: Lab) {
    let now = lab.now().await;
    let old = born(&lab, 1, now.minus(lab.window().duration()));
    lab.too_old(&old).await;
    assert_eq!(lab.get(&old.operation).await, None);
    lab.too_old(&old).await;
}

/// The gate closes a margin before the window ends.
pub async fn the_age_gate_closes_a_margin_early(lab: Lab) {
    let now = lab.now().await;
    let window = lab.window();
    let horizon = now.minus(window.duration());
    lab.too_old(&born(&lab, 1, horizon.plus(window.margin() / 2)))
        .await;
    let young = born(&lab, 2, horizon.plus(window.margin() * 3));
    lab.grant(&young).await.attempt_is(1);
}

/// A message from the future counts as new, one without a birth is not gated.
pub async fn a_birth_ahead_or_unknown_is_new(lab: Lab) {
    let now = lab.now().await;
    let ahead = ClaimRequest {
        birth: Some(now.plus(lab.window().duration() * 9)),
        ..lab.request("ahead", 1)
    };
    lab.grant(&ahead).await.attempt_is(1);
    lab.grant(&lab.request("unknown", 1)).await.attempt_is(1);
}

/// The gate applies to absent records only: an old message that has one is a duplicate.
pub async fn an_old_message_with_a_record_is_a_duplicate(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    let ancient = born(&lab, 2, Timestamp::EPOCH);
    lab.replays(&ancient, &outcome("done")).await;
    lab.grant(&lab.request("pay-2", 1)).await.attempt_is(1);
    let ancient = ClaimRequest {
        operation: lab.request("pay-2", 1).operation,
        ..ancient
    };
    lab.busy(&ancient).await;
}

/// Forgetting fails closed: the redelivery of a forgotten message is too old, never new.
pub async fn a_forgotten_message_is_too_old(lab: Lab) {
    let now = lab.now().await;
    let request = born(&lab, 1, now);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    lab.too_old(&born(&lab, 2, now)).await;
    lab.sweep().await;
    lab.too_old(&born(&lab, 3, now)).await;
}

/// A released message is attempted again, however old it has become.
pub async fn a_released_message_never_grows_too_old(lab: Lab) {
    let now = lab.now().await;
    let claim = lab.grant(&born(&lab, 1, now)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    lab.outlast_grace().await;
    lab.grant(&born(&lab, 2, now)).await.attempt_is(2);
}

/// Claimed, released, started and doubtful records outlive every window and sweep.
pub async fn unresolved_records_are_never_swept(lab: Lab) {
    let kept = [
        lab.grant(&windowed(lab.request("claimed", 1), &lab)).await,
        lab.grant(&windowed(lab.request("released", 1), &lab)).await,
        lab.grant(&windowed(lab.marked("started", 1, Recovery::Rerun), &lab))
            .await,
        lab.doubt("in doubt").await,
    ];
    lab.settles(&kept[1], release(), StateKind::Released).await;
    lab.outlast_grace().await;
    let swept = lab.sweep().await;
    assert_eq!((swept.removed, swept.doubted), (0, 0));
    let states = [
        StateKind::Claimed,
        StateKind::Released,
        StateKind::Started,
        StateKind::InDoubt,
    ];
    for (claim, state) in kept.iter().zip(states) {
        lab.stands(&claim.operation, state).await;
    }
}

/// A held record outlives its window; once it is no longer held it is forgotten.
pub async fn a_held_record_outlives_its_window(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.ordered(
        &request.operation,
        Order::Hold(true),
        Some(StateKind::Completed),
    )
    .await;
    lab.outlast_grace().await;
    assert_eq!(lab.sweep().await.removed, 0);
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
    lab.ordered(
        &request.operation,
        Order::Hold(false),
        Some(StateKind::Completed),
    )
    .await;
    lab.grant(&lab.request("pay-1", 3)).await.attempt_is(1);
}

/// A window that an operator made longer counts from the end, as the first one did.
pub async fn an_extended_record_outlives_its_first_window(lab: Lab) {
    let first = lab.window();
    let longer = first.resized(Duration::from_secs(86_400));
    let done = lab.request("done", 1);
    lab.finish(&done, complete_for("done", lab.window())).await;
    let dead = lab.grant(&lab.request("dead", 1)).await;
    lab.settles(&dead, fail_for(lab.window()), StateKind::Dead)
        .await;
    // In this order: a shorter window changes nothing.
    for duration in [longer.duration(), first.duration() / 2] {
        let order = Order::Extend(duration);
        let completed = Some(StateKind::Completed);
        lab.ordered(&done.operation, order.clone(), completed).await;
        lab.ordered(&dead.operation, order, Some(StateKind::Dead))
            .await;
    }
    lab.outlast_grace().await;
    assert_eq!(lab.sweep().await.removed, 0);
    lab.replays(&lab.request("done", 2), &outcome("done")).await;
    lab.parked(&lab.request("dead", 2), StateKind::Dead).await;
    for operation in [&done.operation, &dead.operation] {
        let record = lab.record(operation).await;
        let (State::Completed { window, .. } | State::Dead { window, .. }) = record.state else {
            panic!("it stands as {:?}", record.state);
        };
        assert_eq!(window, longer);
    }
}

/// An operation that runs, waits or is in doubt has no window that could be extended.
pub async fn only_a_finished_record_is_extended(lab: Lab) {
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    let order = Order::Extend(lab.window().duration() * 2);
    let answer = lab.order(&claimed.operation, order.clone()).await;
    assert!(
        matches!(
            answer,
            Directed::Refused(Refusal::State(StateKind::Claimed))
        ),
        "{answer:?}"
    );
    let absent = lab.request("absent", 1);
    let answer = lab.order(&absent.operation, order).await;
    assert!(
        matches!(answer, Directed::Refused(Refusal::Absent)),
        "{answer:?}"
    );
}

/// A sweep visits about as many records as it may, and says whether there are more.
pub async fn a_sweep_is_bounded(lab: Lab) {
    let requests: Vec<_> = (0..40)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    for request in &requests {
        lab.finish(request, complete_for("done", lab.window()))
            .await;
    }
    lab.outlast_grace().await;
    let mut rounds = 0;
    loop {
        let swept = answered(lab.store().sweep(7).await, "sweep");
        assert!(swept.removed <= 40);
        rounds += 1;
        if !swept.more {
            break;
        }
        assert!(rounds < 100, "the sweep does not end");
    }
    assert_eq!(lab.stats().await.records, [0; 6]);
}

/// A sweep marks a vanished start as in doubt if its recovery is to park, and nothing else.
pub async fn a_sweep_finds_vanished_parks(lab: Lab) {
    let park = lab.grant(&lab.marked("park", 1, Recovery::Park)).await;
    let rerun = lab.grant(&lab.marked("rerun", 1, Recovery::Rerun)).await;
    let within = Recovery::RerunWithin(lab.lease() / 4);
    let within = lab.grant(&lab.marked("within", 1, within)).await;
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    assert_eq!(lab.sweep().await.doubted, 0, "no lease is over yet");
    lab.outlast_lease().await;
    assert_eq!(lab.sweep().await.doubted, 1);
    let record = lab.stands(&park.operation, StateKind::InDoubt).await;
    assert_eq!((record.vanished, record.claim_id), (1, park.claim_id));
    lab.stands(&rerun.operation, StateKind::Started).await;
    lab.stands(&within.operation, StateKind::Started).await;
    lab.stands(&claimed.operation, StateKind::Claimed).await;
    assert_eq!(lab.sweep().await.doubted, 0, "a doubt is found once");
}

trait AttemptIs {
    fn attempt_is(&self, expected: u32);
}

impl AttemptIs for Claim {
    fn attempt_is(&self, expected: u32) {
        assert_eq!(
            self.attempt, expected,
            "the attempt of {}",
            self.operation.key
        );
    }
}

/// A request for `pay-1` whose message was born at `birth`.
fn born(lab: &Lab, claimant: u128, birth: Timestamp) -> ClaimRequest {
    windowed(
        ClaimRequest {
            birth: Some(birth),
            ..lab.request("pay-1", claimant)
        },
        lab,
    )
}

fn windowed(request: ClaimRequest, lab: &Lab) -> ClaimRequest {
    ClaimRequest {
        window: lab.window(),
        ..request
    }
}

const LONG_LEASE: std::time::Duration = std::time::Duration::from_secs(3_600);
