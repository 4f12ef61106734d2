//! Moving: an exported operation is decided after its import as it was before.

use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::{Order, Verdict};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::Item;
use semel_core::{
    ClaimRequest, Fingerprint, Key, Operation, Parked, Recovery, StateKind, Timestamp,
};

use super::contents::{every_message, every_outcome, everything, finished};
use super::export::texts;
use super::past::ends;
use crate::lab::{Lab, gate, scope_of};
use crate::laws::members::{first_of, members, printed};
use crate::steps::{
    LONG_WINDOW, complete, complete_for, give_back, outcome, release_after, release_unsure,
};

/// Every record is read at the copy as at the origin: claims, times, and past attempts included.
pub async fn records_move_as_they_are(lab: Lab) {
    everything(&lab).await;
    lab.outlast_lease().await;
    let copy = lab.moved().await;
    let query = ListQuery {
        limit: 100,
        ..ListQuery::default()
    };
    let listed = lab.list(&query).await;
    assert!(listed.len() > 10);
    for listed in listed {
        let here = lab.record(&listed.operation).await;
        assert_eq!(copy.record(&listed.operation).await, here);
    }
}

/// Outcomes of every kind are replayed at the copy, byte for byte.
pub async fn outcomes_move(lab: Lab) {
    let outcomes = every_outcome();
    for (number, outcome) in outcomes.iter().enumerate() {
        let step = semel_core::Step::Complete {
            outcome: outcome.clone(),
            window: LONG_WINDOW,
        };
        lab.finish(&lab.request(&format!("pay-{number}"), 1), step)
            .await;
    }
    let copy = lab.moved().await;
    for (number, outcome) in outcomes.iter().enumerate() {
        copy.replays(&copy.request(&format!("pay-{number}"), 2), outcome)
            .await;
    }
}

/// A key is bound to its request at the copy, and its duplicates are told apart.
pub async fn a_reused_key_conflicts_at_the_copy(lab: Lab) {
    let printed = |digest, event: &'static str| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: u32::MAX,
            digest: [digest; 16],
        }),
        transport: Some(Bytes::from_static(event.as_bytes())),
        ..lab.request("pay-1", u128::from(digest))
    };
    lab.finish(&printed(1, "event"), complete("done")).await;
    let copy = lab.moved().await;
    let duplicate = copy.conflicts(&printed(2, "event")).await;
    assert_eq!(duplicate, semel_core::Duplicate::Redelivery);
    let duplicate = copy.conflicts(&printed(3, "another")).await;
    assert_eq!(duplicate, semel_core::Duplicate::Republish);
    copy.replays(&printed(1, "event"), &outcome("done")).await;
}

/// Members move with their records.
pub async fn members_are_moved(lab: Lab) {
    lab.finish(&printed(&lab, "pay-1", 1, 10), complete("done"))
        .await;
    let bare = ClaimRequest {
        members: None,
        ..printed(&lab, "pay-2", 1, 10)
    };
    let _ = lab.grant(&bare).await;
    let copy = lab.moved().await;
    assert_eq!(
        first_of(&copy.claim(&printed(&copy, "pay-1", 2, 99)).await),
        members(10)
    );
    assert_eq!(
        first_of(&copy.claim(&printed(&copy, "pay-2", 2, 99)).await),
        None
    );
}

/// A live claim goes on at the copy: busy for others until its lease ends, and its own.
pub async fn a_live_claim_moves(lab: Lab) {
    let requests = [
        lab.request("claimed", 1),
        lab.marked("started", 1, Recovery::Rerun),
    ]
    .map(|request| ClaimRequest {
        lease: Duration::from_secs(3_600),
        ..request
    });
    let vanishing = lab.grant(&lab.request("vanishing", 1)).await;
    let mut claims = Vec::new();
    for request in &requests {
        claims.push(lab.grant(request).await);
    }
    let copy = lab.moved().await;
    for (request, claim) in requests.iter().zip(&claims) {
        let other = copy.request(request.operation.key.as_str(), 2);
        assert_eq!(copy.busy(&other).await, claim.lease_until);
        let again = copy.grant(request).await;
        assert!(again.resumed && again.token == claim.token);
        copy.extended(claim, Duration::from_secs(3_600)).await;
        copy.settles(claim, complete("done"), StateKind::Completed)
            .await;
    }
    copy.outlast_lease().await;
    let second = copy.grant(&copy.request("vanishing", 2)).await;
    assert!(second.takeover && second.attempt == 2);
    copy.fenced(&vanishing.operation, vanishing.claim_id, complete("stale"))
        .await;
}

/// A backoff goes on at the copy, and the attempts before it count.
pub async fn a_backoff_moves(lab: Lab) {
    let backoff = lab.lease() * 4;
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, release_after(backoff), StateKind::Released)
        .await;
    let copy = lab.moved().await;
    let there = copy.request("pay-1", 2);
    let until = copy.busy(&there).await;
    assert_eq!(lab.busy(&there).await, until);
    copy.advance(backoff + lab.lease()).await;
    let second = copy.grant(&there).await;
    assert_eq!((second.attempt, second.takeover), (2, false));
    let past = copy.record(&second.operation).await.past;
    assert_eq!(ends(&past).len(), 1);
}

/// The dead and the doubtful are parked at the copy, and resolved there.
pub async fn the_dead_and_the_doubtful_move(lab: Lab) {
    let dead = lab.death("dead").await;
    let doubts = [lab.doubt("late").await, lab.doubt("verdict").await];
    let copy = lab.moved().await;
    copy.parked(&copy.request("dead", 2), StateKind::Dead).await;
    copy.parked(&copy.request("late", 2), StateKind::InDoubt)
        .await;
    copy.ordered(&dead.operation, Order::Requeue, Some(StateKind::Released))
        .await;
    assert_eq!(copy.grant(&copy.request("dead", 2)).await.attempt, 1);
    copy.settles(&doubts[0], complete("late"), StateKind::Completed)
        .await;
    let verdict = Order::Resolve(Verdict::NotApplied {
        quiet: Duration::ZERO,
        asked: None,
    });
    copy.ordered(&doubts[1].operation, verdict, Some(StateKind::Released))
        .await;
}

/// The copy knows what a takeover does, and what may be repeated.
pub async fn recoveries_move(lab: Lab) {
    let within = Recovery::RerunWithin(lab.lease() * 8);
    let rerun = lab.grant(&lab.marked("rerun", 1, Recovery::Rerun)).await;
    lab.settles(&rerun, release_unsure(), StateKind::Released)
        .await;
    let keyed = lab.grant(&lab.marked("keyed", 1, within)).await;
    let _ = lab.grant(&lab.marked("park", 1, Recovery::Park)).await;
    let copy = lab.moved().await;
    let again = copy.grant(&copy.marked("rerun", 2, Recovery::Rerun)).await;
    assert!(again.possible_repeat);
    assert_eq!(copy.record(&again.operation).await.possible_repeats, 1);
    copy.outlast_lease().await;
    assert_eq!(copy.sweep().await.doubted, 1);
    copy.parked(&copy.request("park", 2), StateKind::InDoubt)
        .await;
    let second = copy.grant(&copy.marked("keyed", 2, within)).await;
    assert!(second.takeover && second.first_started_at == keyed.first_started_at);
    copy.advance(lab.lease() * 8).await;
    copy.parked(&copy.marked("keyed", 3, within), StateKind::InDoubt)
        .await;
}

/// A window goes on at the copy: kept inside it, forgotten after it, held where it is held.
pub async fn windows_and_holds_move(lab: Lab) {
    let window = lab.window();
    for key in ["short", "held"] {
        lab.finish(&lab.request(key, 1), complete_for("done", window))
            .await;
    }
    lab.finish(&lab.request("long", 1), complete("done")).await;
    let held = lab.request("held", 1).operation;
    lab.ordered(&held, Order::Hold(true), Some(StateKind::Completed))
        .await;
    lab.advance(window.duration() / 2).await;
    let copy = lab.moved().await;
    copy.replays(&copy.request("short", 2), &outcome("done"))
        .await;
    copy.outlast_grace().await;
    copy.sweep().await;
    assert_eq!(copy.grant(&copy.request("short", 3)).await.attempt, 1);
    copy.replays(&copy.request("held", 3), &outcome("done"))
        .await;
    copy.replays(&copy.request("long", 3), &outcome("done"))
        .await;
}

/// An old message without a record is too old at the copy as well, one with a record a duplicate.
pub async fn the_age_gate_is_kept_at_the_copy(lab: Lab) {
    let aged = |key: &str, claimant| ClaimRequest {
        birth: Some(Timestamp::EPOCH),
        ..lab.request(key, claimant)
    };
    lab.finish(&lab.request("known", 1), complete("done")).await;
    let copy = lab.moved().await;
    copy.too_old(&aged("unknown", 2)).await;
    copy.replays(&aged("known", 2), &outcome("done")).await;
}

/// Versions are remembered without their records, and an entity is held until its lease ends.
pub async fn the_version_gate_moves(lab: Lab) {
    let versioned = |entity: &str, key: &str, version| ClaimRequest {
        gate: Some(gate(entity, version)),
        ..lab.request(key, 1)
    };
    let highest = versioned("cart", "first", u64::MAX);
    lab.finish(&highest, complete("done")).await;
    lab.ordered(&highest.operation, Order::Forget, None).await;
    let lease = lab.lease() * 8;
    let holder = ClaimRequest {
        lease,
        ..versioned("order", "second", 1)
    };
    let _ = lab.grant(&holder).await;
    let copy = lab.moved().await;
    copy.stale(&versioned("cart", "third", 7), u64::MAX).await;
    let next = ClaimRequest {
        gate: Some(gate("order", 2)),
        ..copy.request("fourth", 2)
    };
    copy.busy(&next).await;
    copy.advance(lease).await;
    copy.outlast_lease().await;
    let _ = copy.grant(&next).await;
}

/// Tokens of the copy rise above those of the origin.
pub async fn tokens_rise_beyond_the_origin(lab: Lab) {
    let mut last = lab.grant(&lab.request("pay-0", 1)).await.token;
    for number in 1..20 {
        let claim = lab.grant(&lab.request(&format!("pay-{number}"), 1)).await;
        lab.settles(&claim, give_back(), StateKind::Released).await;
        lab.ordered(&claim.operation, Order::Forget, None).await;
        last = claim.token;
    }
    let copy = lab.moved().await;
    assert!(copy.grant(&copy.request("new", 1)).await.token > last);
}

/// Messages that were set aside move whole, and are not new at the copy.
pub async fn parked_messages_move(lab: Lab) {
    let messages = every_message();
    for message in &messages {
        assert!(lab.park(message).await);
    }
    lab.outlast_lease().await;
    let copy = lab.moved().await;
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let mut there = copy.list_parked(&query).await;
    there.sort_by_key(Parked::id);
    let mut here = lab.list_parked(&query).await;
    here.sort_by_key(Parked::id);
    assert_eq!(there, here);
    for message in &messages {
        assert!(!copy.park(message).await, "it is there already");
        assert!(copy.drop_parked(message.id()).await);
    }
}

/// The audit trail moves, in its order.
pub async fn the_audit_trail_moves(lab: Lab) {
    everything(&lab).await;
    let here = lab.audit().await;
    assert!(here.len() > 2);
    assert_eq!(lab.moved().await.audit().await, here);
}

/// Keys that look alike stay apart at the copy.
pub async fn identities_move(lab: Lab) {
    let keys = [
        "1", "json:1", "a", "A", "a ", "\u{e9}", "e\u{301}", "", "a\0b", "%",
    ];
    let scopes = [
        scope_of("", "laws"),
        scope_of("t", "laws"),
        scope_of("", "LAWS"),
    ];
    let request = |lab: &Lab, scope: &semel_core::Scope, key: &str, claimant| {
        let Ok(key) = Key::parse(key) else {
            panic!("{key:?} should be a key")
        };
        ClaimRequest {
            operation: Operation::new(scope.clone(), key),
            ..lab.request("pay-1", claimant)
        }
    };
    for (number, scope) in scopes.iter().enumerate() {
        for key in keys {
            let step = complete(format!("{number} {key}"));
            lab.finish(&request(&lab, scope, key, 1), step).await;
        }
    }
    let copy = lab.moved().await;
    for (number, scope) in scopes.iter().enumerate() {
        for key in keys {
            let expected = outcome(format!("{number} {key}"));
            copy.replays(&request(&copy, scope, key, 2), &expected)
                .await;
        }
    }
}

/// Imported items are there after reopening.
pub async fn an_import_survives(lab: Lab) {
    finished(&lab).await;
    let copy = lab.moved().await.reopen().await;
    let mut there = texts(&copy.export(100).await);
    let mut here = texts(&lab.export(100).await);
    // Tokens may skip numbers when a store is opened.
    there.retain(|text| !text.starts_with("Token"));
    here.retain(|text| !text.starts_with("Token"));
    assert_eq!(there, here);
}

/// Tokens of a reopened copy rise above those of the origin, whatever it imported last.
pub async fn imported_tokens_survive(lab: Lab) {
    let last = lab
        .grant(&lab.marked("pay-1", 1, Recovery::Rerun))
        .await
        .token;
    let copy = lab.beside().await;
    let items = lab.export(100).await;
    let token: Vec<_> = items
        .iter()
        .filter(|item| matches!(item, Item::Token(_)))
        .cloned()
        .collect();
    copy.import(&token).await;
    let copy = copy.reopen().await;
    assert!(copy.grant(&copy.request("pay-2", 1)).await.token > last);
}
