//! One operation at a time. The time between the claim and the start is tested here, because a
//! consumer's marked claims leave nothing in between.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::AnyStore;
use semel_core::{
    Admission, Certainty, ClaimId, ClaimRequest, Duplicate, ErrorKind, Outcome, Recovery, Renewed,
    Settled, StateKind, StoreExt,
};
use semel_engine::attempt::{Admitted, Attempt, Reports};

use crate::world::crash::Crash;
use crate::world::fault::{Fault, Method, Plan};
use crate::world::faulty::Faulty;
use crate::world::{LEASE, PROVIDER_WINDOW, World};

type FaultyStore = Faulty<Arc<AnyStore>>;

/// A store that fails as planned, and a request with its own claim id.
fn asking(world: &World, claim: u128) -> (FaultyStore, Arc<Plan>, ClaimRequest) {
    let plan = Arc::new(Plan::new(Crash::new(), world.clock));
    let operation = world.operation("a");
    let request = ClaimRequest::new(operation.scope, operation.key, ClaimId::from_u128(claim));
    (Faulty::new(Arc::clone(&world.store), &plan), plan, request)
}

async fn begin(world: &World, claim: u128) -> Admitted<FaultyStore> {
    let (store, _, request) = asking(world, claim);
    Attempt::begin(store, request)
        .await
        .expect("the store answers")
}

/// Begins an attempt that must be granted.
async fn run(world: &World, claim: u128) -> Attempt<FaultyStore> {
    match begin(world, claim).await {
        Admitted::Run(attempt) => attempt,
        Admitted::Not(admission) => panic!("not granted: {admission:?}"),
    }
}

async fn lease_passes() {
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_completed_attempt_answers_every_duplicate() {
    let world = World::new();
    let outcome = Outcome::raw(Bytes::from_static(b"receipt"), 100);
    run(&world, 1)
        .await
        .complete(outcome.clone())
        .await
        .expect("the claim is ours");
    let Admitted::Not(Admission::Replay {
        outcome: replayed,
        duplicate,
    }) = begin(&world, 2).await
    else {
        panic!("a completed operation is replayed");
    };
    assert_eq!((replayed, duplicate), (Some(outcome), Duplicate::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_lost_grant_is_found_again_by_its_claim_id() {
    let world = World::new();
    let (store, plan, request) = asking(&world, 1);
    plan.nth(Method::Claim, 1, Fault::LoseAnswer);
    let lost = Attempt::begin(store.clone(), request.clone()).await;
    assert_eq!(
        lost.err().map(|error| error.kind()),
        Some(ErrorKind::Unavailable)
    );
    let Ok(Admitted::Run(attempt)) = Attempt::begin(store, request).await else {
        panic!("the same claim id resumes the claim");
    };
    assert!(attempt.claim().resumed);
    assert_eq!(attempt.claim().attempt, 1);
    attempt
        .complete(Outcome::empty())
        .await
        .expect("the claim is ours");
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_was_lost_can_be_sent_again() {
    for fault in [Fault::Cut, Fault::LoseAnswer, Fault::Items] {
        let world = World::new();
        let (store, plan, request) = asking(&world, 1);
        plan.nth(Method::Settle, 1, fault);
        let Ok(Admitted::Run(attempt)) = Attempt::begin(store, request).await else {
            panic!("a fresh key is granted");
        };
        let unsettled = attempt
            .complete(Outcome::empty())
            .await
            .expect_err("the answer was lost");
        let attempt = unsettled.attempt.expect("the claim may still be ours");
        attempt
            .complete(Outcome::empty())
            .await
            .expect("the claim is ours");
        assert_eq!(
            world.state("a").await,
            Some(StateKind::Completed),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_can_neither_start_nor_renew_nor_complete() {
    let world = World::new();
    let mut zombie = run(&world, 1).await;
    lease_passes().await;
    let owner = run(&world, 2).await;
    assert!(owner.claim().takeover);
    assert!(owner.claim().token > zombie.claim().token);

    let started = zombie.start(Recovery::Park).await;
    assert_eq!(
        started.err().map(|error| error.kind()),
        Some(ErrorKind::ClaimLost)
    );
    let renewed = zombie.renew(LEASE).await;
    assert_eq!(
        renewed.err().map(|error| error.kind()),
        Some(ErrorKind::ClaimLost)
    );
    let unsettled = zombie
        .complete(Outcome::empty())
        .await
        .expect_err("another claim owns it");
    assert_eq!(unsettled.error.kind(), ErrorKind::ClaimLost);
    assert!(
        unsettled.attempt.is_none(),
        "there is nothing left to settle with"
    );
    owner
        .complete(Outcome::empty())
        .await
        .expect("the owner was not disturbed");
}

#[tokio::test(start_paused = true)]
async fn a_renewed_claim_is_not_taken_over() {
    let world = World::new();
    let mut attempt = run(&world, 1).await;
    for _ in 0..5 {
        tokio::time::sleep(LEASE * 2 / 3).await;
        let until = attempt.renew(LEASE).await.expect("the claim is ours");
        assert_eq!(attempt.claim().lease_until, until);
    }
    assert!(matches!(
        begin(&world, 2).await,
        Admitted::Not(Admission::Busy { .. })
    ));
    attempt
        .complete(Outcome::empty())
        .await
        .expect("the claim is ours");
}

/// S4 and S5a: dropped between the claim and the start, nothing can have been sent.
#[tokio::test(start_paused = true)]
async fn an_attempt_dropped_before_its_start_leaves_no_doubt() {
    for fault in [None, Some(Fault::Cut)] {
        let world = World::new();
        let (store, plan, request) = asking(&world, 1);
        let Ok(Admitted::Run(mut attempt)) = Attempt::begin(store, request).await else {
            panic!("a fresh key is granted");
        };
        if let Some(fault) = fault {
            plan.nth(Method::Settle, 1, fault);
            attempt
                .start(Recovery::Park)
                .await
                .expect_err("the start was cut off");
        }
        drop(attempt);
        lease_passes().await;
        let next = run(&world, 2).await;
        assert!(next.claim().takeover);
        assert!(!next.claim().possible_repeat);
        next.complete(Outcome::empty())
            .await
            .expect("the claim is ours");
    }
}

/// S5b: dropped after the start, the recovery decides.
#[tokio::test(start_paused = true)]
async fn an_attempt_dropped_after_its_start_leaves_what_its_recovery_says() {
    for fault in [None, Some(Fault::LoseAnswer)] {
        for recovery in [
            Recovery::Park,
            Recovery::Rerun,
            Recovery::RerunWithin(PROVIDER_WINDOW),
        ] {
            let world = World::new();
            let (store, plan, request) = asking(&world, 1);
            if let Some(fault) = fault {
                plan.nth(Method::Settle, 1, fault);
            }
            let Ok(Admitted::Run(mut attempt)) = Attempt::begin(store, request).await else {
                panic!("a fresh key is granted");
            };
            assert_eq!(attempt.start(recovery).await.is_err(), fault.is_some());
            drop(attempt);
            lease_passes().await;
            match (recovery, begin(&world, 2).await) {
                (Recovery::Park, Admitted::Not(Admission::Parked { state, .. })) => {
                    assert_eq!(state, StateKind::InDoubt);
                }
                (Recovery::Rerun, Admitted::Run(next)) => {
                    assert!(next.claim().possible_repeat);
                }
                (Recovery::RerunWithin(_), Admitted::Run(next)) => {
                    assert!(!next.claim().possible_repeat);
                }
                (recovery, admitted) => panic!("{recovery:?} led to {admitted:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_says_where_the_operation_stands() {
    let after = Duration::from_secs(5);
    for (recovery, certainty, expected) in [
        (Recovery::Park, Certainty::NotApplied, StateKind::Released),
        (Recovery::Park, Certainty::MaybeApplied, StateKind::InDoubt),
        (
            Recovery::Rerun,
            Certainty::MaybeApplied,
            StateKind::Released,
        ),
    ] {
        let world = World::new();
        let mut attempt = run(&world, 1).await;
        attempt.start(recovery).await.expect("the claim is ours");
        let state = attempt
            .release("503", certainty, after)
            .await
            .expect("the claim is ours");
        assert_eq!(state, expected, "{recovery:?} {certainty:?}");
        assert_eq!(world.state("a").await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_dead() {
    let world = World::new();
    let state = run(&world, 1)
        .await
        .fail("404", false)
        .await
        .expect("the claim is ours");
    assert_eq!(state, StateKind::Dead);
    let Admitted::Not(Admission::Parked { state, .. }) = begin(&world, 2).await else {
        panic!("a dead operation is not run again");
    };
    assert_eq!(state, StateKind::Dead);
}

/// An attempt that ends elsewhere: its claim is all that its reports need.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_may_have_applied_is_given_up_by_its_reports() {
    for (starts, state) in [(true, StateKind::InDoubt), (false, StateKind::Dead)] {
        let world = World::new();
        let (store, _, request) = asking(&world, 1);
        let (window, limits) = (request.window, request.limits);
        let mut attempt = run(&world, 1).await;
        if starts {
            attempt.start(Recovery::Rerun).await.expect("it is ours");
        }
        let reports = Reports {
            operation: request.operation,
            claim_id: request.claim_id,
            window,
            limits,
        };
        drop(attempt);
        for time in ["once", "twice"] {
            let settled = store.settle_one(reports.give_up("no answer")).await;
            let Ok(Settled::Now(now)) = settled else {
                panic!("{time}: {settled:?}");
            };
            assert_eq!(now, state, "{time}");
        }
        let renewed = store.renew_one(reports.renewal(LEASE)).await;
        assert!(matches!(renewed, Ok(Renewed::Lost { .. })), "{renewed:?}");
    }
}
