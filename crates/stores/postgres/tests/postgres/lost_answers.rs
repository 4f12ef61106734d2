//! Answers that are lost, one by one: the error is true, and asking again tells the rest.
//!
//! Each call is repeated on keys of its own, with the connection cut before its first answer, then
//! before its second, and so on, until there is none left to cut.

pub(crate) mod rig;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::port::transactional::TransactionalStore;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Certainty, ClaimId, Mark, ParkedId, Recovery, Renewal, Renewed, Settled, State,
    StateKind, Step, Store,
};

use self::rig::{Rig, all, broken, named, note, only_the_commit_is_in_doubt, parked, released};
use crate::lab::{
    Lab, claim, completion, count, gated, is_done, message, operation, record, report, request,
    settle, state, statements, take, text,
};

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_resumed_by_its_claim_id() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "key",
            async |_| {},
            async |store, key| {
                let answer = store.claim([request(key, 1)].into()).await?.remove(0);
                Ok(matches!(answer, Admission::Granted(claim) if claim.attempt == 1))
            },
            async |key| state(&rig.direct, key).await.is_some(),
        )
        .await;
    // One statement that commits by itself.
    assert_eq!(cuts, [(Certainty::MaybeApplied, true)]);
    let again = claim(&rig.direct, &request("key-1", 1)).await;
    assert!(again.resumed, "{again:?}");
    let other = rig.direct.claim([request("key-1", 2)].into()).await;
    assert!(matches!(
        &other.expect("an answer")[..],
        [Admission::Busy { .. }]
    ));
}

#[tokio::test]
async fn a_takeover_whose_answer_is_lost_happened_once() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "key",
            async |key| {
                take(&rig.direct, &request(key, 1)).await;
                let released = report(key, 1, released());
                assert_eq!(settle(&rig.direct, &released).await, StateKind::Released);
            },
            async |store, key| {
                let answer = store.claim([request(key, 2)].into()).await?.remove(0);
                Ok(matches!(answer, Admission::Granted(claim) if claim.attempt == 2))
            },
            async |key| state(&rig.direct, key).await == Some(StateKind::Claimed),
        )
        .await;
    // It reads and draws a token, then compares and sets.
    assert_eq!(
        cuts,
        [
            (Certainty::MaybeApplied, false),
            (Certainty::MaybeApplied, true)
        ]
    );
}

#[tokio::test]
async fn a_gated_claim_is_undone_or_whole_wherever_it_is_cut() {
    let rig = Rig::new().await;
    let gated = |key: &str, id| gated(key, id, &format!("cart-{key}"), 1);
    let cuts = rig
        .cut_everywhere(
            "key",
            async |_| {},
            async |store, key| {
                let answer = store.claim([gated(key, 1)].into()).await?.remove(0);
                Ok(matches!(answer, Admission::Granted(_)))
            },
            async |key| state(&rig.direct, key).await.is_some(),
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
    // Record and entity agree: a later claim of the entity is busy, and is not let past.
    for nth in 1..=cuts.len() {
        let key = format!("key-{nth}");
        let entity = format!("cart-{key}");
        let other = crate::lab::gated("other", nth as u128 + 100, &entity, 2);
        let other = semel_core::ClaimRequest {
            operation: operation(&format!("other-{nth}")),
            ..other
        };
        let answers = rig.direct.claim([other].into()).await.expect("an answer");
        assert!(
            matches!(&answers[..], [Admission::Busy { .. }]),
            "{answers:?}"
        );
    }
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_written_once() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "key",
            async |key| take(&rig.direct, &request(key, 1)).await,
            async |store, key| {
                let answer = store
                    .settle([completion(key, 1, b"paid")].into())
                    .await?
                    .remove(0);
                Ok(matches!(answer, Settled::Now(StateKind::Completed)))
            },
            async |key| state(&rig.direct, key).await == Some(StateKind::Completed),
        )
        .await;
    assert_eq!(cuts, [(Certainty::MaybeApplied, true)]);
    let other = rig
        .direct
        .settle([completion("key-1", 2, b"other")].into())
        .await;
    assert!(matches!(
        &other.expect("an answer")[..],
        [Settled::Fenced { .. }]
    ));
    let record = record(&rig.direct, "key-1").await.expect("a record");
    assert_eq!(
        record.outcome,
        Some(semel_conformance::steps::outcome("paid"))
    );
}

#[tokio::test]
async fn other_settlements_and_renewals_can_be_asked_again() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "start",
            async |key| take(&rig.direct, &request(key, 1)).await,
            async |store, key| {
                let step = Step::Start {
                    recovery: Recovery::Park,
                    has_begun: false,
                };
                let answer = store.settle([report(key, 1, step)].into()).await?.remove(0);
                Ok(matches!(answer, Settled::Now(StateKind::Started)))
            },
            async |key| state(&rig.direct, key).await == Some(StateKind::Started),
        )
        .await;
    assert_eq!(
        cuts,
        [
            (Certainty::MaybeApplied, false),
            (Certainty::MaybeApplied, true)
        ]
    );
    let lease = Duration::from_secs(3_000);
    let cuts = rig
        .cut_everywhere(
            "renew",
            async |key| take(&rig.direct, &request(key, 1)).await,
            async |store, key| {
                let renewal = Renewal {
                    operation: operation(key),
                    claim_id: ClaimId::from_u128(1),
                    lease,
                };
                let answer = store.renew([renewal].into()).await?.remove(0);
                Ok(matches!(answer, Renewed::Until(_)))
            },
            async |key| {
                let record = record(&rig.direct, key).await.expect("a record");
                match record.state {
                    State::Claimed { lease_until } => {
                        lease_until > record.created_at.plus(lease / 2)
                    }
                    other => panic!("{other:?}"),
                }
            },
        )
        .await;
    assert_eq!(cuts, [(Certainty::MaybeApplied, true)]);
}

#[tokio::test]
async fn a_gated_settlement_is_undone_or_whole_wherever_it_is_cut() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "key",
            async |key| take(&rig.direct, &gated(key, 1, key, 1)).await,
            async |store, key| {
                let answer = store
                    .settle([completion(key, 1, b"paid")].into())
                    .await?
                    .remove(0);
                Ok(matches!(answer, Settled::Now(StateKind::Completed)))
            },
            async |key| state(&rig.direct, key).await == Some(StateKind::Completed),
        )
        .await;
    let (found, rest) = cuts.split_first().expect("the first statement");
    assert_eq!(
        *found,
        (Certainty::MaybeApplied, false),
        "it commits by itself"
    );
    only_the_commit_is_in_doubt(rest);
    // The entity knows which version was applied.
    for nth in 1..=cuts.len() {
        let entity = format!("key-{nth}");
        let late = gated(&format!("late-{nth}"), 9, &entity, 1);
        let answers = rig.direct.claim([late].into()).await.expect("an answer");
        assert!(
            matches!(&answers[..], [Admission::Stale { applied: 1 }]),
            "{answers:?}"
        );
    }
}

#[tokio::test]
async fn settlements_with_a_mark_are_undone_or_whole_wherever_they_are_cut() {
    let rig = Rig::new().await;
    let value = AtomicU64::new(0);
    let cuts = rig
        .cut_everywhere(
            "key",
            async |key| {
                take(&rig.direct, &request(key, 1)).await;
                value.fetch_add(1, Ordering::Relaxed);
            },
            async |store, key| {
                let mark = Mark {
                    name: "output".into(),
                    value: value.load(Ordering::Relaxed),
                };
                let batch = [completion(key, 1, b"")];
                let answer = store.settle_with(batch.into(), &mark).await?;
                Ok(matches!(answer, Together::Applied(_)))
            },
            async |key| {
                let is_complete = state(&rig.direct, key).await == Some(StateKind::Completed);
                let mark = rig.direct.mark("output").await.expect("an answer");
                let is_marked = mark == Some(value.load(Ordering::Relaxed));
                assert_eq!(is_complete, is_marked, "{key}: both or neither");
                is_complete
            },
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
}

#[tokio::test]
async fn an_order_and_its_audit_entry_are_undone_or_whole_wherever_they_are_cut() {
    let rig = Rig::new().await;
    let cuts = rig
        .cut_everywhere(
            "key",
            async |key| take(&rig.direct, &request(key, 1)).await,
            async |store, key| {
                let order = Directive {
                    operation: operation(key),
                    order: Order::Hold(true),
                    note: Some(note()),
                };
                let answer = store.operate([order].into()).await?.remove(0);
                Ok(matches!(answer, Directed::Now(_) | Directed::Refused(_)))
            },
            async |key| {
                let is_held = record(&rig.direct, key).await.is_some_and(|it| it.held);
                let page = rig.direct.list_audit(&all()).await;
                let entries = page.expect("a page").items;
                let named = entries.iter().filter_map(|entry| entry.key.as_ref());
                let is_told = named.into_iter().any(|it| it.to_string() == key);
                assert_eq!(is_held, is_told, "{key}: both or neither");
                is_held
            },
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
}

#[tokio::test]
async fn an_effect_is_there_once_wherever_its_transaction_is_cut() {
    let rig = Rig::new().await;
    let user = rig.lab.client().await;
    user.batch_execute("CREATE TABLE payments (key text)")
        .await
        .expect("a table");
    let statements = statements(&["INSERT INTO payments VALUES (:key)"], &["key"]);
    let rows = async |key: &str| -> i64 {
        let count = "SELECT count(*) FROM payments WHERE key = $1";
        user.query_one(count, &[&key])
            .await
            .expect("a count")
            .get(0)
    };
    let cuts = rig
        .cut_everywhere(
            "key",
            async |_| {},
            async |store, key| {
                let batch = [message(key, 1, vec![text(key)])];
                Ok(is_done(&store.apply(&statements, batch.into()).await?[0]))
            },
            async |key| {
                let is_complete = state(&rig.direct, key).await == Some(StateKind::Completed);
                assert_eq!(
                    rows(key).await,
                    i64::from(is_complete),
                    "{key}: both or neither"
                );
                is_complete
            },
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
    assert!(cuts.len() > 4, "{cuts:?}");
}

#[tokio::test]
async fn an_admission_with_a_mark_is_undone_or_whole_wherever_it_is_cut() {
    let rig = Rig::new().await;
    let value = AtomicU64::new(0);
    let cuts = rig
        .cut_everywhere(
            "key",
            async |_| {
                let _ = value.fetch_add(1, Ordering::Relaxed);
            },
            async |store, key| {
                let mark = Mark {
                    name: "output".into(),
                    value: value.load(Ordering::Relaxed),
                };
                let write = Box::new(move |_: &[Admission]| Ok(mark));
                let answers = store.admit_with(vec![request(key, 1)], write).await?;
                Ok(matches!(
                    &answers[..],
                    [Admission::Granted(_) | Admission::Replay { .. }]
                ))
            },
            async |key| {
                let is_complete = state(&rig.direct, key).await == Some(StateKind::Completed);
                let mark = rig.direct.mark("output").await.expect("an answer");
                let is_marked = mark == Some(value.load(Ordering::Relaxed));
                assert_eq!(is_complete, is_marked, "{key}: both or neither");
                is_complete
            },
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
}

#[tokio::test]
async fn a_parked_message_is_kept_once_and_dropped_once_wherever_a_call_is_cut() {
    let rig = Rig::new().await;
    let is_kept = async |key: &str| {
        let page = rig.direct.list_parked(&all()).await;
        let kept = page.expect("a page").items;
        let same = kept.iter().filter(|it| *it.coordinates == *key).count();
        assert!(same <= 1, "{key} is kept {same} times");
        same == 1
    };
    let cuts = rig
        .cut_everywhere(
            "park",
            async |_| {},
            async |store, key| store.park([parked(key)].into()).await.map(|_| true),
            &is_kept,
        )
        .await;
    assert_eq!(cuts, [(Certainty::MaybeApplied, true)]);
    let cuts = rig
        .cut_everywhere(
            "drop",
            async |key| {
                let new = rig
                    .direct
                    .park([parked(key)].into())
                    .await
                    .expect("an answer");
                assert_eq!(new, [true]);
            },
            async |store, key| {
                let id: ParkedId = parked(key).id();
                store
                    .drop_parked([id].into(), Some(&note()))
                    .await
                    .map(|_| true)
            },
            async |key| !is_kept(key).await,
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
    let trail = rig.direct.list_audit(&all()).await;
    let dropped = trail.expect("a page").items.len();
    // Each round drops one to warm up and one that is cut, the last one too.
    assert_eq!(dropped, 2 * (cuts.len() + 1), "one entry for each");
}

#[tokio::test]
async fn an_import_is_undone_or_whole_wherever_it_is_cut() {
    let rig = Rig::new().await;
    let source = Lab::new();
    let from = source.store().await;
    take(&from, &request("key", 1)).await;
    settle(&from, &completion("key", 1, b"paid")).await;
    let page = from.export(None, 100).await.expect("a page");
    let cuts = rig
        .cut_everywhere(
            "key",
            async |_| {},
            async |store, key| {
                let items: Vec<Item> = page.items.iter().map(|item| named(item, key)).collect();
                store.import(items.into()).await.map(|_| true)
            },
            async |key| state(&rig.direct, key).await.is_some(),
        )
        .await;
    only_the_commit_is_in_doubt(&cuts);
}

#[tokio::test]
async fn a_request_that_never_arrived_whole_changed_nothing() {
    let rig = Rig::new().await;
    let user = rig.lab.client().await;
    user.batch_execute("CREATE TABLE payments (key text)")
        .await
        .expect("a table");
    let statements = statements(&["INSERT INTO payments VALUES (:key)"], &["key"]);
    // Far less than a claim, and far less than the statements behind a transaction's BEGIN.
    for cut in [0, 1, 4, 5, 60, 150] {
        let key = format!("claimed-{cut}");
        rig.warm().await;
        rig.proxy.cut_after_client_bytes(cut);
        let error = rig.through.claim([request(&key, 1)].into()).await;
        broken(&error.expect_err("a cut"));
        assert_eq!(state(&rig.direct, &key).await, None, "cut after {cut}");
        let again = claim(&rig.through, &request(&key, 1)).await;
        assert!(!again.resumed);

        let key = format!("applied-{cut}");
        let batch = [message(&key, 1, vec![text(&key)])];
        rig.warm().await;
        rig.proxy.cut_after_client_bytes(cut);
        let error = rig.through.apply(&statements, batch.clone().into()).await;
        broken(&error.expect_err("a cut"));
        assert_eq!(state(&rig.direct, &key).await, None, "cut after {cut}");
        let answers = rig.through.apply(&statements, batch.into()).await;
        assert!(is_done(&answers.expect("an answer")[0]));
    }
    assert_eq!(count(&user, "payments").await, 6);
}
