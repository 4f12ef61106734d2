//! Admissions that cannot be written leave nothing behind.

use std::sync::{Arc, Mutex, PoisonError};

use semel_core::{Admission, ClaimRequest, Error, ErrorKind, Outcome, Recovery, StateKind};

use super::checkpoint::mark;
use super::output::{admit, admitted, records, to};
use crate::lab::{Lab, gate};
use crate::steps::complete;

/// A vanished effect that must not run again is given up, together with the mark.
pub async fn what_is_given_up_is_given_up_with_the_mark(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    let before = lab.record(&claim.operation).await;
    let batch = [lab.request("pay-1", 2), lab.request("pay-2", 2)];
    refused(&lab, &batch).await;
    assert_eq!(lab.record(&claim.operation).await, before);
    let answers = admitted(&lab, &batch, 1).await;
    assert!(
        matches!(
            answers[0],
            Admission::Parked {
                state: StateKind::InDoubt,
                ..
            }
        ),
        "{answers:?}"
    );
    lab.stands(&claim.operation, StateKind::InDoubt).await;
}

/// Nothing changes if the write failed: no record, no mark, no version.
pub async fn a_failed_write_changes_nothing(lab: Lab) {
    admitted(&lab, &[lab.request("before", 1)], 7).await;
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, crate::steps::release(), StateKind::Released)
        .await;
    let vanished = lab.grant(&lab.request("vanished", 1)).await;
    lab.outlast_lease().await;
    let versioned = |key: &str, version| ClaimRequest {
        gate: Some(gate("cart", version)),
        ..lab.request(key, 2)
    };
    let batch = [
        lab.request("new", 2),
        lab.request("released", 2),
        lab.request("vanished", 2),
        versioned("version 1", 1),
        versioned("version 2", 2),
        lab.request("new", 3),
    ];
    let before = (records(&lab, &batch).await, lab.stats().await.records);
    refused(&lab, &batch).await;
    assert_eq!(mark(&lab, "out").await, Some(7));
    let after = (records(&lab, &batch).await, lab.stats().await.records);
    assert_eq!(after, before);
    lab.settles(&vanished, complete("after all"), StateKind::Completed)
        .await;
    let first = lab.grant(&versioned("version 1", 1)).await;
    assert_eq!((first.attempt, first.resumed), (1, false));
    lab.settles(&first, complete("done"), StateKind::Completed)
        .await;
    let answers = admitted(&lab, &batch[..2], 8).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Admission::Granted(_))),
        "{answers:?}"
    );
}

/// Tokens rise over a write that failed, too.
pub async fn tokens_rise_over_a_failed_write(lab: Lab) {
    let before = lab.grant(&lab.request("before", 1)).await;
    refused(&lab, &["one", "two"].map(|key| lab.request(key, 1))).await;
    let after = lab.grant(&lab.request("after", 1)).await;
    assert!(after.token > before.token);
    let answers = admitted(&lab, &[lab.request("one", 2)], 1).await;
    let Admission::Granted(claim) = &answers[0] else {
        panic!("should be granted, got {answers:?}")
    };
    assert!(claim.token > after.token && !claim.resumed);
}

/// A request that marks its effect as started is refused, with all of its batch, unwritten.
pub async fn a_marked_request_is_refused(lab: Lab) {
    admitted(&lab, &[], 7).await;
    let batch = [
        lab.request("one", 1),
        lab.marked("two", 1, Recovery::Rerun),
        lab.request("three", 1),
    ];
    let written = Arc::new(Mutex::new(false));
    let write = {
        let written = Arc::clone(&written);
        move |_: &[Admission]| {
            *written.lock().unwrap_or_else(PoisonError::into_inner) = true;
            Ok(to("out", 8))
        }
    };
    let Err(error) = admit(&lab, &batch, write).await else {
        panic!("a marked request was admitted")
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!*written.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(mark(&lab, "out").await, Some(7));
    assert_eq!(records(&lab, &batch).await, [None, None, None]);
}

/// An admission that was not written is not there after reopening either.
pub async fn a_failed_admission_leaves_nothing(lab: Lab) {
    admitted(&lab, &[lab.request("before", 1)], 7).await;
    let batch = ["one", "two"].map(|key| ClaimRequest {
        gate: Some(gate(key, 5)),
        ..lab.request(key, 1)
    });
    refused(&lab, &batch).await;
    let lab = lab.reopen().await;
    assert_eq!(mark(&lab, "out").await, Some(7));
    assert_eq!(records(&lab, &batch).await, [None, None]);
    admitted(&lab, &batch, 8).await;
    let lab = lab.reopen().await;
    for request in &batch {
        lab.stands(&request.operation, StateKind::Completed).await;
    }
    lab.replays(&lab.request("before", 2), &Outcome::empty())
        .await;
}

/// Admits with a write that fails, and expects that error.
async fn refused(lab: &Lab, batch: &[ClaimRequest]) {
    let write = |_: &[Admission]| Err(Error::new(ErrorKind::Unavailable, "the disk is full"));
    match admit(lab, batch, write).await {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(error.to_string(), "the disk is full");
        }
        Ok(answers) => panic!("the write failed, and the answer is {answers:?}"),
    }
}
