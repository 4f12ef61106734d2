//! Operators' orders: the changes that a person may make to a record, and the refusals.

use std::time::Duration;

use semel_core::decide::{Directed, Order, Refusal, Verdict};
use semel_core::{Admission, Certainty, Claim, Operation, Recovery, StateKind, Step};

use crate::lab::Lab;
use crate::steps::{
    LONG_WINDOW, complete, complete_for, fail, limits_of, outcome, release, release_unsure,
};

/// No record, no order.
pub async fn every_order_about_an_absent_key_is_refused(lab: Lab) {
    let operation = lab.request("pay-1", 1).operation;
    for order in every_order() {
        refused(&lab, &operation, order, Refusal::Absent).await;
    }
    assert_eq!(lab.get(&operation).await, None);
}

/// A person says that it happened, and gives the result.
pub async fn a_doubt_resolved_as_applied_is_completed(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    lab.ordered(&claim.operation, applied(), Some(StateKind::Completed))
        .await;
    lab.replays(&lab.request("pay-1", 2), &outcome("seen at the bank"))
        .await;
    assert_eq!(lab.record(&claim.operation).await.doubt, None);
}

/// The window of the verdict counts from the verdict.
pub async fn a_verdict_brings_its_own_window(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let window = lab.window();
    let verdict = Verdict::Applied {
        outcome: outcome("seen"),
        window,
    };
    lab.ordered(
        &claim.operation,
        Order::Resolve(verdict),
        Some(StateKind::Completed),
    )
    .await;
    lab.replays(&lab.request("pay-1", 2), &outcome("seen"))
        .await;
    lab.outlast_grace().await;
    assert_eq!(lab.grant(&lab.request("pay-1", 3)).await.attempt, 1);
}

/// A person says that it did not happen, and nothing can still land.
pub async fn a_doubt_resolved_as_not_applied_is_attempted_again(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    lab.outlast_lease().await;
    let quiet = lab.lease();
    lab.ordered(
        &claim.operation,
        not_applied(quiet),
        Some(StateKind::Released),
    )
    .await;
    let again = lab.grant(&lab.marked("pay-1", 2, Recovery::Park)).await;
    assert_eq!(
        (again.attempt, again.possible_repeat),
        (1, false),
        "attempts are counted anew"
    );
    lab.settles(&again, complete("done"), StateKind::Completed)
        .await;
}

/// While the old call could still land, "not applied" is refused.
pub async fn not_applied_is_refused_before_it_is_quiet(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let quiet = lab.lease() * 4;
    let since = lab.record(&claim.operation).await;
    let semel_core::State::InDoubt { since } = since.state else {
        panic!("not in doubt")
    };
    let refusal = Refusal::NotQuiet {
        until: since.plus(quiet),
    };
    refused(&lab, &claim.operation, not_applied(quiet), refusal).await;
    lab.outlast_lease().await;
    refused(&lab, &claim.operation, not_applied(quiet), refusal).await;
    lab.advance(quiet).await;
    lab.ordered(
        &claim.operation,
        not_applied(quiet),
        Some(StateKind::Released),
    )
    .await;
}

/// Evidence from before it was quiet says nothing afterwards, however late it arrives.
pub async fn evidence_from_before_it_was_quiet_is_refused(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let quiet = lab.lease() * 4;
    let told_at = |answer| match answer {
        Admission::Parked { now, .. } => now,
        answer => panic!("expected parked, got {answer:?}"),
    };
    let before = told_at(lab.claim(&lab.request("pay-1", 2)).await);
    let semel_core::State::InDoubt { since } = lab.record(&claim.operation).await.state else {
        panic!("not in doubt")
    };
    assert!(since <= before, "in doubt since {since}, told at {before}");
    lab.advance(quiet).await;
    let refusal = Refusal::NotQuiet {
        until: since.plus(quiet),
    };
    let asked = |at| {
        Order::Resolve(Verdict::NotApplied {
            quiet,
            asked: Some(at),
        })
    };
    if before < since.plus(quiet) {
        refused(&lab, &claim.operation, asked(before), refusal).await;
    }
    let after = told_at(lab.claim(&lab.request("pay-1", 2)).await);
    lab.ordered(&claim.operation, asked(after), Some(StateKind::Released))
        .await;
}

/// A person gives up on finding out.
pub async fn an_abandoned_doubt_is_dead(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let abandon = Order::Resolve(Verdict::Abandon {
        window: LONG_WINDOW,
    });
    lab.ordered(&claim.operation, abandon, Some(StateKind::Dead))
        .await;
    lab.parked(&lab.request("pay-1", 2), StateKind::Dead).await;
    lab.fenced(&claim.operation, claim.claim_id, complete("late"))
        .await;
}

/// Evidence that comes after the verdict changes nothing.
pub async fn a_verdict_is_final(lab: Lab) {
    let applied_one = lab.doubt("applied").await;
    lab.ordered(
        &applied_one.operation,
        applied(),
        Some(StateKind::Completed),
    )
    .await;
    lab.settles(&applied_one, complete("late"), StateKind::Completed)
        .await;
    lab.replays(&lab.request("applied", 2), &outcome("seen at the bank"))
        .await;
    let not_applied_one = lab.doubt("not applied").await;
    let order = not_applied(Duration::ZERO);
    lab.ordered(&not_applied_one.operation, order, Some(StateKind::Released))
        .await;
    lab.fenced(
        &not_applied_one.operation,
        not_applied_one.claim_id,
        complete("late"),
    )
    .await;
}

/// Only a doubt can be resolved.
pub async fn a_verdict_on_anything_else_is_refused(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        for order in every_order() {
            if matches!(order, Order::Resolve(_)) {
                refused(&lab, &claim.operation, order, Refusal::State(state)).await;
            }
        }
    }
}

/// A dead operation runs again, its attempts counted anew.
pub async fn a_requeued_operation_is_attempted_anew(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    lab.settles(&second, fail(), StateKind::Dead).await;
    lab.ordered(&second.operation, Order::Requeue, Some(StateKind::Released))
        .await;
    let record = lab.record(&second.operation).await;
    assert_eq!((record.attempts, record.vanished), (0, 0));
    let strict = semel_core::ClaimRequest {
        limits: limits_of(1, 1),
        ..lab.request("pay-1", 3)
    };
    let third = lab.grant(&strict).await;
    assert!(third.attempt == 1 && third.token > second.token);
}

/// Only a dead operation can be requeued.
pub async fn requeuing_anything_else_is_refused(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        if state != StateKind::Dead {
            refused(
                &lab,
                &claim.operation,
                Order::Requeue,
                Refusal::State(state),
            )
            .await;
        }
    }
    let claim = lab.doubt("in doubt").await;
    let refusal = Refusal::State(StateKind::InDoubt);
    refused(&lab, &claim.operation, Order::Requeue, refusal).await;
}

/// A possible repeat stays listed when an operator lets the operation run again.
pub async fn a_requeued_operation_keeps_its_possible_repeats(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    lab.settles(&second, fail(), StateKind::InDoubt).await;
    lab.ordered(
        &second.operation,
        not_applied(Duration::ZERO),
        Some(StateKind::Released),
    )
    .await;
    let third = lab.grant(&lab.marked("pay-1", 3, Recovery::Rerun)).await;
    assert!(!third.possible_repeat, "a person has spoken");
    assert_eq!(lab.record(&third.operation).await.possible_repeats, 1);
}

/// Inside the provider's window the same key may be sent again; the window counts from the first start, whatever
/// happened in between.
pub async fn a_retried_doubt_is_attempted_inside_its_window_only(lab: Lab) {
    let within = Recovery::RerunWithin(lab.lease() * 8);
    let strict = semel_core::ClaimRequest {
        limits: limits_of(1, 1),
        ..lab.marked("pay-1", 1, within)
    };
    let first = lab.grant(&strict).await;
    lab.settles(&first, release_capped(), StateKind::InDoubt)
        .await;
    let started = lab.record(&first.operation).await.first_started_at;
    lab.ordered(&first.operation, Order::Retry, Some(StateKind::Released))
        .await;
    let record = lab.record(&first.operation).await;
    assert_eq!((record.attempts, record.vanished), (0, 0));
    assert_eq!(
        (record.doubt, record.first_started_at),
        (Some(within), started)
    );
    let again = semel_core::ClaimRequest {
        claim_id: lab.marked("pay-1", 2, within).claim_id,
        ..strict
    };
    let second = lab.grant(&again).await;
    assert_eq!(
        (
            second.attempt,
            second.first_started_at,
            second.possible_repeat
        ),
        (1, started, false)
    );
    lab.settles(&second, release_capped(), StateKind::InDoubt)
        .await;
    lab.advance(lab.lease() * 9).await;
    let refusal = Refusal::State(StateKind::InDoubt);
    refused(&lab, &second.operation, Order::Retry, refusal).await;
}

/// If a repeat is accepted, another attempt is one more of them, and listed.
pub async fn a_retried_rerun_counts_its_possible_repeat(lab: Lab) {
    let strict = semel_core::ClaimRequest {
        limits: limits_of(1, 1),
        ..lab.marked("pay-1", 1, Recovery::Rerun)
    };
    let first = lab.grant(&strict).await;
    lab.settles(&first, release_capped(), StateKind::InDoubt)
        .await;
    lab.ordered(&first.operation, Order::Retry, Some(StateKind::Released))
        .await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    assert!(second.possible_repeat && second.attempt == 1);
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 1);
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 1);
}

/// An operation that is parked, or not in doubt at all, is not attempted again by a retry.
pub async fn retrying_what_may_not_run_again_is_refused(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        refused(&lab, &claim.operation, Order::Retry, Refusal::State(state)).await;
    }
    let claim = lab.doubt("in doubt").await;
    let refusal = Refusal::State(StateKind::InDoubt);
    refused(&lab, &claim.operation, Order::Retry, refusal).await;
    lab.parked(&lab.request("in doubt", 2), StateKind::InDoubt)
        .await;
}

/// A finished or released operation can be forgotten, and is new after that.
pub async fn a_forgotten_operation_is_new(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        use StateKind::{Completed, Dead, Released};
        if matches!(state, Completed | Dead | Released) {
            lab.ordered(&claim.operation, Order::Forget, None).await;
            assert_eq!(lab.get(&claim.operation).await, None);
            let request = lab.request(claim.operation.key.as_str(), 9);
            let again = lab.grant(&request).await;
            assert!(again.attempt == 1 && !again.takeover && !again.resumed);
        }
    }
}

/// A running operation, or one in doubt, cannot be forgotten.
pub async fn forgetting_what_is_unresolved_is_refused(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        if matches!(state, StateKind::Claimed | StateKind::Started) {
            refused(&lab, &claim.operation, Order::Forget, Refusal::State(state)).await;
        }
    }
    let claim = lab.doubt("in doubt").await;
    refused(
        &lab,
        &claim.operation,
        Order::Forget,
        Refusal::State(StateKind::InDoubt),
    )
    .await;
}

/// Holding changes nothing but the window, in any state.
pub async fn holding_changes_nothing_else(lab: Lab) {
    for (claim, state) in one_of_each_but_doubt(&lab).await {
        let before = lab.record(&claim.operation).await;
        lab.ordered(&claim.operation, Order::Hold(true), Some(state))
            .await;
        let held = lab.record(&claim.operation).await;
        assert_eq!(
            held,
            semel_core::Record {
                held: true,
                ..before.clone()
            }
        );
        lab.ordered(&claim.operation, Order::Hold(false), Some(state))
            .await;
        assert_eq!(lab.record(&claim.operation).await, before);
    }
}

/// A record that is held while it runs is kept after it is done.
pub async fn a_hold_outlives_the_completion(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.ordered(
        &claim.operation,
        Order::Hold(true),
        Some(StateKind::Claimed),
    )
    .await;
    let step = complete_for("done", lab.window());
    lab.settles(&claim, step, StateKind::Completed).await;
    lab.outlast_grace().await;
    lab.sweep().await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// A forgotten record takes no orders, swept or not.
pub async fn an_order_about_a_forgotten_record_is_refused(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    refused(&lab, &request.operation, Order::Hold(true), Refusal::Absent).await;
}

/// Checks that an order is refused with this reason and changes nothing.
async fn refused(lab: &Lab, of: &Operation, order: Order, expected: Refusal) {
    let before = lab.get(of).await;
    let shown = format!("{order:?}");
    match lab.order(of, order).await {
        Directed::Refused(refusal) => assert_eq!(refusal, expected, "{shown}"),
        other => panic!("{shown} should be refused, got {other:?}"),
    }
    assert_eq!(lab.get(of).await, before, "a refused order changes nothing");
}

async fn one_of_each_but_doubt(lab: &Lab) -> Vec<(Claim, StateKind)> {
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    let started = lab.grant(&lab.marked("started", 1, Recovery::Park)).await;
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, release(), StateKind::Released).await;
    let completed = lab.grant(&lab.request("completed", 1)).await;
    lab.settles(&completed, complete("done"), StateKind::Completed)
        .await;
    let dead = lab.death("dead").await;
    [claimed, started, released, completed, dead]
        .into_iter()
        .zip(StateKind::ALL)
        .collect()
}

fn every_order() -> [Order; 9] {
    [
        applied(),
        not_applied(Duration::ZERO),
        Order::Resolve(Verdict::Abandon {
            window: LONG_WINDOW,
        }),
        Order::Release,
        Order::Requeue,
        Order::Retry,
        Order::Hold(true),
        Order::Hold(false),
        Order::Forget,
    ]
}

/// A release after the one allowed attempt, whose result nobody knows.
fn release_capped() -> Step {
    Step::Release {
        error: "no answer from the provider".into(),
        certainty: Certainty::MaybeApplied,
        after: Duration::ZERO,
        counted: true,
        limits: limits_of(1, 1),
        window: LONG_WINDOW,
    }
}

fn applied() -> Order {
    let outcome = outcome("seen at the bank");
    Order::Resolve(Verdict::Applied {
        outcome,
        window: LONG_WINDOW,
    })
}

const fn not_applied(quiet: Duration) -> Order {
    Order::Resolve(Verdict::NotApplied { quiet, asked: None })
}
