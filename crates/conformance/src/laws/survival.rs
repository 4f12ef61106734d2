//! Durability, beyond the record itself: counts, versions, tokens, windows, orders, messages.

use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::Order;
use semel_core::port::store::ListQuery;
use semel_core::{AttemptEnd, ClaimRequest, Fingerprint, Parked, Recovery, StateKind, Timestamp};

use crate::lab::{Lab, gate, scope, text_key};
use crate::laws::members::{first_of, marked, members, printed};
use crate::steps::{
    complete, complete_for, give_back, outcome, release, release_after, release_unsure,
};

/// Possible repeats are still counted and listed.
pub async fn possible_repeats_survive(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let lab = lab.reopen().await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    assert!(second.possible_repeat);
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
    let lab = lab.reopen().await;
    let repeated = ListQuery {
        repeated: true,
        limit: 9,
        ..ListQuery::default()
    };
    assert_eq!(lab.list(&repeated).await.len(), 1);
}

/// A reused key is still seen.
pub async fn a_fingerprint_survives(lab: Lab) {
    let printed = |lab: &Lab, claimant: u8| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: u32::MAX,
            digest: [claimant; 16],
        }),
        ..lab.request("pay-1", u128::from(claimant))
    };
    lab.finish(&printed(&lab, 1), complete("done")).await;
    let lab = lab.reopen().await;
    lab.conflicts(&printed(&lab, 2)).await;
    lab.replays(&printed(&lab, 1), &outcome("done")).await;
}

/// Members survive the end of the process.
pub async fn members_survive(lab: Lab) {
    lab.finish(&printed(&lab, "pay-1", 1, 10), complete("done"))
        .await;
    let open = lab.grant(&marked(printed(&lab, "pay-2", 1, 11))).await;
    let lab = lab.reopen().await;
    let other = printed(&lab, "pay-1", 2, 99);
    assert_eq!(first_of(&lab.claim(&other).await), members(10));
    assert_eq!(lab.record(&open.operation).await.members, members(11));
}

/// Versions are remembered without their records.
pub async fn a_version_survives(lab: Lab) {
    let gated = |lab: &Lab, key: &str, version| ClaimRequest {
        gate: Some(gate("cart", version)),
        ..lab.request(key, u128::from(version))
    };
    let request = gated(&lab, "first", 7);
    lab.finish(&request, complete("done")).await;
    let lab = lab.reopen().await;
    lab.stale(&gated(&lab, "second", 6), 7).await;
    lab.ordered(&request.operation, Order::Forget, None).await;
    let lab = lab.reopen().await;
    lab.stale(&gated(&lab, "third", 7), 7).await;
    lab.finish(&gated(&lab, "fourth", 8), complete("done"))
        .await;
}

/// Tokens continue from the highest one, whatever was forgotten meanwhile.
pub async fn tokens_rise_over_reopening(mut lab: Lab) {
    let mut last = None;
    for claimant in 1..=6_u32 {
        let request = lab.marked(
            &format!("pay-{claimant}"),
            u128::from(claimant),
            Recovery::Park,
        );
        let claim = lab.grant(&request).await;
        assert!(Some(claim.token) > last, "{:?} after {last:?}", claim.token);
        last = Some(claim.token);
        lab.settles(&claim, complete("done"), StateKind::Completed)
            .await;
        if claimant % 2 == 0 {
            lab.ordered(&claim.operation, Order::Forget, None).await;
        }
        lab = lab.reopen().await;
    }
}

/// Tokens of claims that never were durable do not come back either.
pub async fn tokens_of_unmarked_claims_do_not_come_back(mut lab: Lab) {
    let mut last = None;
    for claimant in 1..=4_u32 {
        let request = lab.request(&format!("pay-{claimant}"), u128::from(claimant));
        let token = Some(lab.grant(&request).await.token);
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        lab = lab.reopen().await;
    }
}

/// A held record stays held, and outlives its window.
pub async fn a_hold_survives(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.ordered(
        &request.operation,
        Order::Hold(true),
        Some(StateKind::Completed),
    )
    .await;
    let lab = lab.reopen().await;
    lab.outlast_grace().await;
    lab.sweep().await;
    let lab = lab.reopen().await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// Operators' orders stand.
pub async fn orders_survive(lab: Lab) {
    let dead = lab.death("requeued").await;
    lab.ordered(&dead.operation, Order::Requeue, Some(StateKind::Released))
        .await;
    let forgotten = lab.death("forgotten").await;
    lab.ordered(&forgotten.operation, Order::Forget, None).await;
    let lab = lab.reopen().await;
    lab.stands(&dead.operation, StateKind::Released).await;
    assert_eq!(lab.get(&forgotten.operation).await, None);
}

/// The window goes on over reopening: kept inside it, forgotten after it.
pub async fn a_window_goes_on_over_reopening(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete_for("done", lab.window()))
        .await;
    lab.advance(lab.window().duration() / 2).await;
    let lab = lab.reopen().await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
    lab.outlast_grace().await;
    let lab = lab.reopen().await;
    assert_eq!(lab.grant(&lab.request("pay-1", 3)).await.attempt, 1);
}

/// A swept record stays swept, and a kept one stays kept.
pub async fn a_sweep_survives(lab: Lab) {
    lab.finish(&lab.request("short", 1), complete_for("done", lab.window()))
        .await;
    lab.finish(&lab.request("long", 1), complete("done")).await;
    let doubt = lab.doubt("doubt").await;
    lab.outlast_grace().await;
    lab.sweep().await;
    let lab = lab.reopen().await;
    assert_eq!(lab.get(&lab.request("short", 1).operation).await, None);
    lab.replays(&lab.request("long", 2), &outcome("done")).await;
    lab.stands(&doubt.operation, StateKind::InDoubt).await;
}

/// Unresolved records outlive every window over reopening.
pub async fn unresolved_records_outlive_windows_over_reopening(lab: Lab) {
    let window = lab.window();
    let start = lab.marked("started", 1, Recovery::Rerun);
    let started = lab.grant(&ClaimRequest { window, ..start }).await;
    let released = ClaimRequest {
        window,
        ..lab.request("released", 1)
    };
    let released = lab.grant(&released).await;
    lab.settles(&released, release(), StateKind::Released).await;
    lab.outlast_grace().await;
    let lab = lab.reopen().await;
    lab.sweep().await;
    let lab = lab.reopen().await;
    lab.stands(&started.operation, StateKind::Started).await;
    lab.stands(&released.operation, StateKind::Released).await;
}

/// Parked messages survive whole, dropped ones stay dropped.
pub async fn parked_messages_survive(lab: Lab) {
    let message = |number: u8| Parked {
        scope: scope(),
        key: Some(text_key("pay 'ä'")),
        reason: "fingerprint-conflict".into(),
        detail: "another request".into(),
        transport: Some(Bytes::from(vec![number, 0, 255])),
        coordinates: format!("file:{number}").into(),
        headers: vec![("event-id".into(), Bytes::from_static(b"\xff\x00evt"))],
        payload: Bytes::from((0..=255).collect::<Vec<u8>>()),
        since: Timestamp::EPOCH,
    };
    let [kept, dropped] = [message(1), message(2)];
    assert!(lab.park(&kept).await && lab.park(&dropped).await);
    assert!(lab.drop_parked(dropped.id()).await);
    let all = ListQuery {
        limit: 9,
        ..ListQuery::default()
    };
    let before = lab.list_parked(&all).await;
    let lab = lab.reopen().await;
    assert_eq!(lab.list_parked(&all).await, before);
    assert_eq!(
        Parked {
            since: Timestamp::EPOCH,
            ..before[0].clone()
        },
        kept
    );
    assert!(!lab.park(&kept).await, "it is not new after reopening");
}

/// Past attempts are as before, over reopening after each.
pub async fn the_past_survives(mut lab: Lab) {
    let steps = [release(), release_unsure(), give_back(), release()];
    for (claimant, step) in (1..).zip(steps) {
        let claim = lab
            .grant(&lab.marked("pay-1", claimant, Recovery::Rerun))
            .await;
        lab.settles(&claim, step, StateKind::Released).await;
        let before = lab.record(&claim.operation).await;
        lab = lab.reopen().await;
        assert_eq!(lab.record(&claim.operation).await, before);
    }
    let vanished = lab.grant(&lab.marked("pay-1", 5, Recovery::Rerun)).await;
    let granted = lab.record(&vanished.operation).await;
    lab = lab.reopen().await;
    let reopened = lab.record(&vanished.operation).await;
    assert_eq!(reopened.claimed_at, granted.claimed_at);
    lab.outlast_lease().await;
    lab.finish(&lab.marked("pay-1", 6, Recovery::Rerun), complete("done"))
        .await;
    let before = lab.record(&vanished.operation).await;
    lab = lab.reopen().await;
    assert_eq!(lab.record(&vanished.operation).await, before);
    let ends = before.past.iter().map(|past| past.end);
    let expected = [
        AttemptEnd::NotApplied,
        AttemptEnd::MaybeApplied,
        AttemptEnd::GivenBack,
        AttemptEnd::NotApplied,
        AttemptEnd::Vanished,
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

/// A wait that an order ended stays ended.
pub async fn an_ended_wait_survives(lab: Lab) {
    let hour = Duration::from_secs(3_600);
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, release_after(hour), StateKind::Released)
        .await;
    let marked = lab.marked("started", 1, Recovery::Rerun);
    let started = ClaimRequest {
        lease: hour,
        ..marked
    };
    let started = lab.grant(&started).await;
    for (claim, state) in [
        (&released, StateKind::Released),
        (&started, StateKind::Started),
    ] {
        lab.ordered(&claim.operation, Order::Release, Some(state))
            .await;
    }
    let lab = lab.reopen().await;
    assert_eq!(lab.grant(&lab.request("released", 2)).await.attempt, 2);
    assert!(lab.grant(&lab.request("started", 2)).await.takeover);
}

/// Entries of the audit trail stay there, and new entries follow them.
pub async fn the_audit_trail_survives(mut lab: Lab) {
    let dead = lab.death("dead").await.operation;
    for number in 0..4 {
        let why = super::audit::note("on call", &number.to_string());
        let _ = lab
            .order_noted(&dead, Order::Hold(number % 2 == 0), &why)
            .await;
        let before = lab.audit().await;
        lab = lab.reopen().await;
        assert_eq!((before.len(), lab.audit().await), (number + 1, before));
    }
}

/// Keys that look alike stay apart over reopening.
pub async fn identities_survive(lab: Lab) {
    let keys = [
        "1", "json:1", "a", "A", "a ", "\u{e9}", "e\u{301}", "", "a\0b", "%",
    ];
    let request = |lab: &Lab, key: &str, claimant| {
        let Ok(key) = semel_core::Key::parse(key) else {
            panic!("{key:?} should be a key")
        };
        let operation = semel_core::Operation::new(scope(), key);
        ClaimRequest {
            operation,
            ..lab.request("pay-1", claimant)
        }
    };
    for key in keys {
        lab.finish(&request(&lab, key, 1), complete(key)).await;
    }
    let lab = lab.reopen().await;
    for key in keys {
        lab.replays(&request(&lab, key, 2), &outcome(key)).await;
    }
}
