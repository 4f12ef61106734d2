//! Contents of a store, with something of every kind, for the laws about moving it.

use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::Order;
use semel_core::{
    ClaimRequest, Fingerprint, Outcome, Parked, Recovery, StateKind, Store, Timestamp, Window,
};

use super::audit::note;
use crate::lab::{Lab, answered, gate, scope, scope_of, text_key};
use crate::steps::{complete, give_back, outcome, release, release_unsure};

/// Something of every kind, in every state, with live claims.
pub(super) async fn everything(lab: &Lab) {
    finished(lab).await;
    let _ = lab.grant(&lab.request("claimed", 1)).await;
    let within = Recovery::RerunWithin(Duration::from_millis(86_400_123));
    for (number, recovery) in [Recovery::Rerun, Recovery::Park, within]
        .into_iter()
        .enumerate()
    {
        let _ = lab
            .grant(&lab.marked(&format!("started-{number}"), 1, recovery))
            .await;
    }
    let holder = ClaimRequest {
        gate: Some(gate("order", 1)),
        ..lab.request("holds an entity", 1)
    };
    let _ = lab.grant(&holder).await;
}

/// Something of every kind, with no claim that is live.
pub(super) async fn finished(lab: &Lab) {
    for (number, outcome) in every_outcome().into_iter().enumerate() {
        let step = semel_core::Step::Complete {
            outcome,
            window: Window::new(Duration::from_millis(3_600_001))
                .with_margin(Duration::from_millis(17)),
        };
        let request = ClaimRequest {
            fingerprint: Some(Fingerprint {
                scheme: 7,
                digest: [0xfe; 16],
            }),
            transport: Some(Bytes::from_static(b"\x00\xff event")),
            ..lab.request(&format!("outcome-{number}"), 1)
        };
        lab.finish(&request, step).await;
    }
    let versioned = ClaimRequest {
        gate: Some(gate("cart", u64::MAX)),
        ..lab.request("versioned", 1)
    };
    lab.finish(&versioned, complete("done")).await;
    for (claimant, step) in (1..).zip([release(), release_unsure(), give_back(), release()]) {
        let claim = lab
            .grant(&lab.marked("released", claimant, Recovery::Rerun))
            .await;
        lab.settles(&claim, step, StateKind::Released).await;
    }
    let dead = lab.death("dead").await.operation;
    let _ = lab.doubt("doubt").await;
    for message in every_message() {
        assert!(lab.park(&message).await);
    }
    for (number, held) in [true, false, true].into_iter().enumerate() {
        let why = note("on call", &format!("reason {number}"));
        let _ = lab.order_noted(&dead, Order::Hold(held), &why).await;
    }
    let ids = [every_message()[0].id()];
    let why = note("on call", "handled by hand");
    let dropped = lab.store().drop_parked(ids.into(), Some(&why)).await;
    answered(dropped, "drop_parked");
}

pub(super) fn every_outcome() -> [Outcome; 5] {
    let large: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    [
        Outcome::empty(),
        outcome((0..=255).collect::<Vec<u8>>()),
        outcome(large),
        Outcome::Kept {
            codec: u16::MAX,
            bytes: Bytes::from_static(b"{}"),
        },
        Outcome::TooLarge {
            len_bytes: u64::from(u32::MAX) + 9,
            digest: [0xfe; 32],
        },
    ]
}

pub(super) fn every_message() -> [Parked; 3] {
    let whole = Parked {
        scope: scope_of("acmé %", "páy 'x'"),
        key: Some(text_key("pay 'ä'")),
        reason: "fingerprint-conflict".into(),
        detail: "it's \"another\" request \u{1f4a5}\\".into(),
        transport: Some(Bytes::from_static(b"\x00\xff event")),
        coordinates: "orders/3@42".into(),
        headers: vec![
            ("event-id".into(), Bytes::from_static(b"\xff\x00evt")),
            ("".into(), Bytes::new()),
        ],
        payload: Bytes::from((0..=255).collect::<Vec<u8>>()),
        since: Timestamp::EPOCH,
    };
    let letter = Parked {
        reason: "dead".into(),
        ..whole.clone()
    };
    let bare = Parked {
        scope: scope(),
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: "file:1".into(),
        headers: Vec::new(),
        payload: Bytes::new(),
        since: Timestamp::EPOCH,
    };
    [whole, letter, bare]
}
