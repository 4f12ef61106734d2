//! Outcomes: written once, given to every duplicate.

use std::sync::Arc;

use bytes::Bytes;
use semel_core::{Admission, ClaimRequest, Duplicate, Outcome, Recovery, StateKind, Step};

use crate::lab::Lab;
use crate::steps::{LONG_WINDOW, complete, outcome, release};

/// The answer to a completion was lost, so it is sent again.
pub async fn completing_twice_keeps_the_first_outcome(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, complete("first"), StateKind::Completed)
        .await;
    lab.settles(&claim, complete("second"), StateKind::Completed)
        .await;
    assert_eq!(
        lab.record(&claim.operation).await.outcome,
        Some(outcome("first"))
    );
}

/// Repeating a completion does not begin the window anew.
pub async fn completing_twice_keeps_the_first_window(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    let before = lab.record(&claim.operation).await;
    lab.advance(lab.lease()).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    assert_eq!(lab.record(&claim.operation).await, before);
}

/// Sixteen reports of the same claim at once leave one outcome.
pub async fn completing_16_times_at_once_leaves_one_outcome(lab: Lab) {
    let lab = Arc::new(lab);
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let mut found = lab
        .race(16, |lab, number| {
            let claim = claim.clone();
            async move {
                lab.settles(
                    &claim,
                    complete(format!("outcome {number}")),
                    StateKind::Completed,
                )
                .await;
                lab.record(&claim.operation).await.outcome
            }
        })
        .await;
    found.dedup();
    assert_eq!(found.len(), 1, "everybody reads the same outcome");
    assert!(found[0].is_some());
}

/// A completion may follow a start, or not.
pub async fn a_started_effect_completes(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let start = crate::steps::start(Recovery::Park);
    lab.settles(&claim, start, StateKind::Started).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// A success leaves no error behind.
pub async fn a_completion_clears_the_last_error(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    assert!(lab.record(&first.operation).await.last_error.is_some());
    lab.finish(&lab.request("pay-1", 2), complete("done")).await;
    assert_eq!(lab.record(&first.operation).await.last_error, None);
}

/// Completed → replay, to the same claimant and to others.
pub async fn a_duplicate_gets_the_outcome(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    for claimant in [1, 2, 3] {
        lab.replays(&lab.request("pay-1", claimant), &outcome("done"))
            .await;
    }
}

/// 32 duplicates at once get the same bytes.
pub async fn duplicates_at_once_get_the_same_outcome(lab: Lab) {
    let lab = Arc::new(lab);
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    lab.race(32, |lab, number| async move {
        lab.replays(
            &lab.request("pay-1", 100 + u128::from(number)),
            &outcome("done"),
        )
        .await;
    })
    .await;
}

/// No bytes are bytes, too.
pub async fn an_empty_outcome_is_replayed(lab: Lab) {
    replayed(&lab, Outcome::empty()).await;
}

/// Every byte value, zeros and invalid UTF-8 included, at both ends.
pub async fn every_byte_value_is_replayed(lab: Lab) {
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    replayed(&lab, outcome(bytes)).await;
}

/// The longest outcome that is kept by default.
pub async fn an_outcome_of_one_mebibyte_is_replayed(lab: Lab) {
    let pattern: Vec<u8> = (0..=250)
        .cycle()
        .take(Outcome::DEFAULT_LIMIT_BYTES)
        .collect();
    replayed(&lab, outcome(pattern)).await;
}

/// An outcome that was too large to keep says so, with its length and digest.
pub async fn a_too_large_outcome_is_replayed_as_such(lab: Lab) {
    replayed(
        &lab,
        Outcome::TooLarge {
            len_bytes: u64::from(u32::MAX) + 9,
            digest: [7; 32],
        },
    )
    .await;
}

/// The codec comes back with the bytes.
pub async fn the_codec_is_kept(lab: Lab) {
    replayed(
        &lab,
        Outcome::Kept {
            codec: u16::MAX,
            bytes: Bytes::from_static(b"{}"),
        },
    )
    .await;
}

/// A claimant that does not want the outcome gets the replay without it.
pub async fn an_outcome_that_nobody_wants_is_left_out(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    let request = ClaimRequest {
        wants_outcome: false,
        ..lab.request("pay-1", 2)
    };
    match lab.claim(&request).await {
        Admission::Replay { outcome: None, .. } => {}
        other => panic!("the replay should come without its outcome, got {other:?}"),
    }
}

/// A replay says whether the broker handed the same message over again.
pub async fn a_replay_names_the_duplicate(lab: Lab) {
    let sent = |claimant, transport: Option<&'static str>| ClaimRequest {
        transport: transport.map(Bytes::from),
        ..lab.request("pay-1", claimant)
    };
    lab.finish(&sent(1, Some("event-1")), complete("done"))
        .await;
    for (transport, expected) in [
        (Some("event-1"), Duplicate::Redelivery),
        (Some("event-2"), Duplicate::Republish),
        (Some("EVENT-1"), Duplicate::Republish),
        (None, Duplicate::Unknown),
    ] {
        match lab.claim(&sent(2, transport)).await {
            Admission::Replay { duplicate, .. } => assert_eq!(duplicate, expected, "{transport:?}"),
            other => panic!("a finished key should replay, got {other:?}"),
        }
    }
}

/// A claimant whose own answer was lost learns that: its replay is no duplicate.
pub async fn a_replay_to_its_own_claim_says_so(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete("done")).await;
    for (claimant, expected) in [(1, Duplicate::Own), (2, Duplicate::Unknown)] {
        match lab.claim(&lab.request("pay-1", claimant)).await {
            Admission::Replay { duplicate, .. } => assert_eq!(duplicate, expected),
            other => panic!("a finished key should replay, got {other:?}"),
        }
    }
}

/// The transport id is that of the message that claimed first.
pub async fn the_first_transport_id_is_kept(lab: Lab) {
    let sent = |claimant, transport: &'static str| ClaimRequest {
        transport: Some(Bytes::from(transport)),
        ..lab.request("pay-1", claimant)
    };
    let first = lab.grant(&sent(1, "event-1")).await;
    lab.settles(&first, release(), StateKind::Released).await;
    lab.finish(&sent(2, "event-2"), complete("done")).await;
    let record = lab.record(&first.operation).await;
    assert_eq!(record.transport.as_deref(), Some(&b"event-1"[..]));
}

/// Keys with outcomes of their own keep them apart.
pub async fn outcomes_of_many_keys_stay_apart(lab: Lab) {
    for number in 0..50_u32 {
        let request = lab.request(&format!("pay-{number}"), 1);
        lab.finish(&request, complete(format!("outcome {number}")))
            .await;
    }
    for number in (0..50_u32).rev() {
        let request = lab.request(&format!("pay-{number}"), 2);
        lab.replays(&request, &outcome(format!("outcome {number}")))
            .await;
    }
}

/// Checks that this outcome comes back as it was, by replay and by reading.
async fn replayed(lab: &Lab, expected: Outcome) {
    let step = Step::Complete {
        outcome: expected.clone(),
        window: LONG_WINDOW,
    };
    let request = lab.request("pay-1", 1);
    lab.finish(&request, step).await;
    lab.replays(&lab.request("pay-1", 2), &expected).await;
    assert!(lab.record(&request.operation).await.outcome == Some(expected));
}
