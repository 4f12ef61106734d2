//! Admitting: claimed, written and completed in one step, or nothing of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::decide::Order;
use semel_core::{
    Admission, ClaimRequest, Duplicate, Fingerprint, Outcome, StateKind, Store, Timestamp,
};

use super::checkpoint::mark;
use super::output::{admit, admitted, records, to};
use super::past::ends;
use crate::lab::{Lab, answered, gate};
use crate::steps::{complete, release_after};

/// A new operation is granted, and completed when the answer comes, together with the mark.
pub async fn what_is_admitted_is_complete(lab: Lab) {
    let batch: Vec<_> = (0..20)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let answers = admitted(&lab, &batch, 4_096).await;
    assert_eq!(mark(&lab, "out").await, Some(4_096));
    let mut last = None;
    for (request, answer) in batch.iter().zip(&answers) {
        let Admission::Granted(claim) = answer else {
            panic!("should be granted, got {answer:?}")
        };
        assert!(claim.operation == request.operation && claim.claim_id == request.claim_id);
        assert!(claim.attempt == 1 && !claim.takeover && !claim.resumed);
        assert!(Some(claim.token) > last, "tokens rise within a batch");
        last = Some(claim.token);
        let record = lab.stands(&claim.operation, StateKind::Completed).await;
        assert_eq!(record.outcome, Some(Outcome::empty()));
        assert_eq!((record.token, record.attempts), (claim.token, 1));
        assert_eq!(record.past, []);
        lab.replays(
            &lab.request(request.operation.key.as_str(), 2),
            &Outcome::empty(),
        )
        .await;
    }
}

/// The written answers are those that the caller gets, in the order of the batch.
pub async fn the_answers_are_written_before_they_are_given(lab: Lab) {
    lab.finish(&lab.request("done", 9), complete("done")).await;
    let _ = lab.grant(&lab.request("claimed", 9)).await;
    let batch = ["new", "done", "claimed", "new", "newer"].map(|key| lab.request(key, 1));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let write = {
        let seen = Arc::clone(&seen);
        move |answers: &[Admission]| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(format!("{answers:?}"));
            Ok(to("out", 1))
        }
    };
    let answers = admit(&lab, &batch, write).await;
    let answers = answers.unwrap_or_else(|error| panic!("admit_with failed: {error:?}"));
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(*seen, [format!("{answers:?}")], "written once, as answered");
}

/// A batch in which nothing is new is written, too: the mark moves on.
pub async fn a_batch_of_duplicates_moves_the_mark(lab: Lab) {
    let batch = ["one", "two"].map(|key| lab.request(key, 1));
    admitted(&lab, &batch, 1).await;
    let before = records(&lab, &batch).await;
    let answers = admitted(&lab, &batch, 2).await;
    let own = |answer: &Admission| {
        matches!(answer, Admission::Replay { duplicate: Duplicate::Own, outcome: Some(kept) }
            if *kept == Outcome::empty())
    };
    assert!(answers.iter().all(own), "{answers:?}");
    assert_eq!(mark(&lab, "out").await, Some(2));
    assert!(admitted(&lab, &[], 3).await.is_empty());
    assert_eq!(mark(&lab, "out").await, Some(3));
    assert_eq!(records(&lab, &batch).await, before);
}

/// One key twice in a batch: the second finds the first complete.
pub async fn a_key_twice_in_a_batch_is_admitted_once(lab: Lab) {
    let printed = |digest| {
        Some(Fingerprint {
            scheme: 1,
            digest: [digest; 16],
        })
    };
    let first = ClaimRequest {
        fingerprint: printed(1),
        transport: Some("event-1".into()),
        ..lab.request("pay-1", 1)
    };
    let again = ClaimRequest {
        claim_id: semel_core::ClaimId::from_u128(2),
        ..first.clone()
    };
    let other = ClaimRequest {
        fingerprint: printed(2),
        transport: Some("event-2".into()),
        ..again.clone()
    };
    let silent = ClaimRequest {
        wants_outcome: false,
        ..first.clone()
    };
    let answers = admitted(&lab, &[first, again, other, silent], 1).await;
    assert!(matches!(answers[0], Admission::Granted(_)), "{answers:?}");
    let Admission::Replay { outcome, duplicate } = &answers[1] else {
        panic!("the second should be replayed: {answers:?}")
    };
    assert_eq!(
        (outcome, *duplicate),
        (&Some(Outcome::empty()), Duplicate::Redelivery)
    );
    assert!(
        matches!(
            answers[2],
            Admission::Conflict {
                duplicate: Duplicate::Republish,
                ..
            }
        ),
        "{answers:?}"
    );
    assert!(
        matches!(
            &answers[3],
            Admission::Replay {
                outcome: None,
                duplicate: Duplicate::Own
            }
        ),
        "{answers:?}"
    );
}

/// Of one entity in a batch, each version finds the one before it applied.
pub async fn versions_in_a_batch_follow_each_other(lab: Lab) {
    let batch =
        [(1, "a"), (3, "b"), (3, "c"), (2, "d"), (4, "e")].map(|(version, key)| ClaimRequest {
            gate: Some(gate("cart", version)),
            ..lab.request(key, 1)
        });
    let answers = admitted(&lab, &batch, 1).await;
    let granted = answers
        .iter()
        .map(|answer| matches!(answer, Admission::Granted(_)));
    assert_eq!(
        granted.collect::<Vec<_>>(),
        [true, true, false, false, true]
    );
    for answer in &answers[2..4] {
        assert!(
            matches!(answer, Admission::Stale { applied: 3 }),
            "{answer:?}"
        );
    }
    let older = ClaimRequest {
        gate: Some(gate("cart", 4)),
        ..lab.request("f", 1)
    };
    lab.stale(&older, 4).await;
}

/// Every answer but a grant is that of a claim, and changes nothing.
pub async fn what_is_not_granted_changes_nothing(lab: Lab) {
    let batch = refused_in_every_way(&lab).await;
    let expected: Vec<_> = {
        let claims = lab.store().claim(batch.clone().into()).await;
        answered(claims, "claim")
    };
    let before = records(&lab, &batch).await;
    let answers = admitted(&lab, &batch, 7).await;
    let kinds =
        |answers: &[Admission]| -> Vec<_> { answers.iter().map(std::mem::discriminant).collect() };
    assert_eq!(kinds(&answers), kinds(&expected), "{answers:?}");
    assert!(
        answers
            .iter()
            .all(|answer| !matches!(answer, Admission::Granted(_)))
    );
    assert_eq!(records(&lab, &batch).await, before);
    assert_eq!(mark(&lab, "out").await, Some(7));
}

/// An operation that was released or has vanished is attempted again, and completed at once.
pub async fn what_was_attempted_before_is_admitted(lab: Lab) {
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, crate::steps::release(), StateKind::Released)
        .await;
    let vanished = lab.grant(&lab.request("vanished", 1)).await;
    lab.outlast_lease().await;
    let batch = ["released", "vanished"].map(|key| lab.request(key, 2));
    let answers = admitted(&lab, &batch, 1).await;
    for (answer, takeover) in answers.iter().zip([false, true]) {
        let Admission::Granted(claim) = answer else {
            panic!("should be granted, got {answer:?}")
        };
        assert_eq!((claim.attempt, claim.takeover), (2, takeover));
        let record = lab.stands(&claim.operation, StateKind::Completed).await;
        assert_eq!(ends(&record.past).len(), 1);
    }
    lab.fenced(&vanished.operation, vanished.claim_id, complete("stale"))
        .await;
}

/// The window is that of the request, and begins with the completion.
pub async fn an_admitted_record_has_the_window_of_its_request(lab: Lab) {
    let window = lab.window();
    let short = ClaimRequest {
        window,
        ..lab.request("short", 1)
    };
    admitted(&lab, &[short, lab.request("long", 1)], 1).await;
    for key in ["short", "long"] {
        lab.replays(&lab.request(key, 2), &Outcome::empty()).await;
    }
    lab.outlast_grace().await;
    assert_eq!(lab.grant(&lab.request("short", 3)).await.attempt, 1);
    lab.replays(&lab.request("long", 3), &Outcome::empty())
        .await;
}

/// Claims and admissions of one key at once: one is granted, and nothing is granted twice.
pub async fn claims_and_admissions_at_once_grant_each_key_once(lab: Lab) {
    let lab = Arc::new(lab);
    let granted = lab
        .race(16, |lab, number| async move {
            let claimant = u128::from(number) + 1;
            let batch = [0, 1, 2].map(|key| lab.request(&format!("pay-{key}"), claimant));
            let answers = if number % 2 == 0 {
                let name = format!("out-{number}");
                let written = admit(&lab, &batch, move |_| Ok(to(&name, 1))).await;
                answered(written, "admit_with")
            } else {
                let claims = lab.store().claim(batch.into()).await;
                answered(claims, "claim")
            };
            let granted = answers
                .iter()
                .filter(|it| matches!(it, Admission::Granted(_)));
            granted.count()
        })
        .await;
    assert_eq!(granted.iter().sum::<usize>(), 3);
    for number in (0..16).step_by(2) {
        assert_eq!(mark(&lab, &format!("out-{number}")).await, Some(1));
    }
}

/// Concurrent admissions are written one after the other: what one grants, the next finds
/// completed.
pub async fn admissions_at_once_are_written_one_by_one(lab: Lab) {
    let lab = Arc::new(lab);
    let output = Arc::new(Mutex::new(Vec::<String>::new()));
    lab.race(8, |lab, number| {
        let output = Arc::clone(&output);
        async move {
            let keys = (0..10).map(|key| (key + number) % 10);
            let batch: Vec<_> = keys
                .map(|key| lab.request(&format!("pay-{key}"), u128::from(number) + 1))
                .collect();
            let write = move |answers: &[Admission]| {
                let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                for answer in answers {
                    if let Admission::Granted(claim) = answer {
                        output.push(claim.operation.key.to_string());
                    }
                }
                Ok(to("out", output.len() as u64))
            };
            let answers = answered(admit(&lab, &batch, write).await, "admit_with");
            let decided = answers
                .iter()
                .all(|it| matches!(it, Admission::Granted(_) | Admission::Replay { .. }));
            assert!(decided, "{answers:?}");
        }
    })
    .await;
    assert_eq!(mark(&lab, "out").await, Some(10));
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let keys: std::collections::BTreeSet<_> = output.iter().collect();
    assert_eq!((output.len(), keys.len()), (10, 10));
}

/// Records and mark survive reopening together.
pub async fn an_admission_survives(mut lab: Lab) {
    let batch = ["one", "two"].map(|key| ClaimRequest {
        gate: Some(gate(key, 5)),
        ..lab.request(key, 1)
    });
    admitted(&lab, &batch, u64::MAX).await;
    for claimant in 2..4 {
        let before = records(&lab, &batch).await;
        lab = lab.reopen().await;
        assert_eq!(mark(&lab, "out").await, Some(u64::MAX));
        assert_eq!(records(&lab, &batch).await, before);
        for key in ["one", "two"] {
            lab.replays(&lab.request(key, claimant), &Outcome::empty())
                .await;
            let stale = ClaimRequest {
                gate: Some(gate(key, 5)),
                ..lab.request("other", claimant)
            };
            lab.stale(&stale, 5).await;
        }
    }
    admitted(&lab, &batch, 9).await;
    let lab = lab.reopen().await;
    assert_eq!(mark(&lab, "out").await, Some(9));
}

/// One request for each answer that is no grant.
async fn refused_in_every_way(lab: &Lab) -> Vec<ClaimRequest> {
    let hour = Duration::from_secs(3_600);
    let printed = |digest| {
        Some(Fingerprint {
            scheme: 1,
            digest: [digest; 16],
        })
    };
    let done = ClaimRequest {
        fingerprint: printed(1),
        gate: Some(gate("cart", 5)),
        ..lab.request("completed", 1)
    };
    lab.finish(&done, complete("done")).await;
    lab.ordered(
        &done.operation,
        Order::Hold(true),
        Some(StateKind::Completed),
    )
    .await;
    let _ = lab
        .grant(&ClaimRequest {
            lease: hour,
            ..lab.request("claimed", 1)
        })
        .await;
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, release_after(hour), StateKind::Released)
        .await;
    let _ = lab.death("dead").await;
    let _ = lab.doubt("doubt").await;
    let simple = ["completed", "claimed", "released", "dead", "doubt"];
    let mut batch: Vec<_> = simple.iter().map(|key| lab.request(key, 2)).collect();
    batch.push(ClaimRequest {
        fingerprint: printed(2),
        ..lab.request("completed", 2)
    });
    batch.push(ClaimRequest {
        gate: Some(gate("cart", 5)),
        ..lab.request("stale", 2)
    });
    batch.push(ClaimRequest {
        birth: Some(Timestamp::EPOCH),
        ..lab.request("too old", 2)
    });
    batch
}
