//! The parts of a request: its fingerprint, its birth, its version, its tenant, its type.

use bytes::Bytes;
use semel_core::{Advice, Duplicate, StateKind, Store, Timestamp};
use semel_engine::once::{Answered, Error, Failure, Happened, Op, Unreadable};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{declared, process, secs};
use crate::world::{LEASE, WINDOW, World};

async fn works(_: Op) -> Result<(), Failure> {
    Ok(())
}

async fn must_not_run(_: Op) -> Result<(), Failure> {
    panic!("this effect must not run")
}

#[derive(Serialize)]
struct Payment {
    cents: u64,
    currency: &'static str,
}

const TEN: Payment = Payment {
    cents: 1_000,
    currency: "EUR",
};

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_with_another_request_is_a_conflict() {
    let world = World::new();
    let (site, _) = process(&world);
    let first = declared(&site).request(&TEN).once("a", works).await;
    assert!(first.is_ok());
    let same = declared(&site).request_bytes(br#"{ "currency": "EUR", "cents": 1000.0 }"#);
    assert!(
        same.once("a", must_not_run)
            .await
            .is_ok_and(|receipt| receipt.is_replay())
    );
    let other = Payment {
        cents: 2_000,
        ..TEN
    };
    let conflict = declared(&site)
        .request(&other)
        .once("a", must_not_run)
        .await;
    let conflict = conflict.expect_err("another request");
    assert!(matches!(conflict, Error::Conflict { .. }));
    assert_eq!(
        conflict.to_string(),
        "the key was used with another request: json:/cents differs"
    );
    assert_eq!((conflict.happened(), conflict.ran()), (Happened::No, false));
    assert_eq!(
        (conflict.advice(), conflict.code()),
        (Advice::Fix, "fingerprint-conflict")
    );
    let unbound = declared(&site).once("a", must_not_run).await;
    assert!(unbound.is_ok(), "who brings no request is not compared");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_compared_is_refused_before_anything_runs() {
    let world = World::new();
    let (site, _) = process(&world);
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    let twice = br#"{"a":1,"a":2}"#;
    for operation in [
        declared(&site).request(&unwritable),
        declared(&site).request_bytes(twice),
        declared(&site).version(" ", 1),
        declared(&site).tenant("a\nb"),
        declared(&site).lease(secs(0)),
        declared(&site).window(secs(0)),
        site.operation(""),
    ] {
        let refused = operation
            .once("a", must_not_run)
            .await
            .expect_err("refused");
        assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
        assert_eq!((refused.happened(), refused.ran()), (Happened::No, false));
        assert_eq!(refused.code(), "invalid-input");
        assert!(refused.operation_id().is_none());
    }
    let blank = declared(&site).once("  ", must_not_run).await;
    assert!(matches!(blank, Err(Error::Invalid { .. })));
    assert_eq!(world.watch.all(), [], "the store was not asked");
}

#[tokio::test(start_paused = true)]
async fn transport_ids_tell_a_redelivery_from_a_republish() {
    let world = World::new();
    let (site, _) = process(&world);
    let delivered = |id: &'static str| declared(&site).transport(id);
    assert!(delivered("evt_1").once("a", works).await.is_ok());
    for (id, expected) in [
        ("evt_1", Duplicate::Redelivery),
        ("evt_2", Duplicate::Republish),
    ] {
        let receipt = delivered(id).once("a", works).await.expect("a replay");
        let duplicate = expected;
        assert_eq!(receipt.answered(), Answered::Replayed { duplicate });
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_older_than_the_window_is_too_old_unless_it_is_on_record() {
    let world = World::new();
    let (site, _) = process(&world);
    let birth = Timestamp::from_millis(1_795_255_200_000);
    let operation = declared(&site).birth(birth);
    assert!(operation.once("a", works).await.is_ok());
    sleep(WINDOW.duration()).await;
    assert!(
        operation.once("a", must_not_run).await.is_ok(),
        "it is on record"
    );
    let old = operation
        .once("b", must_not_run)
        .await
        .expect_err("too old");
    assert!(matches!(old, Error::TooOld { .. }));
    assert_eq!((old.happened(), old.code()), (Happened::Maybe, "too-old"));
    sleep(WINDOW.duration()).await;
    let forgotten = operation.once("a", must_not_run).await;
    assert!(
        matches!(forgotten, Err(Error::TooOld { .. })),
        "forgotten, and not taken for new"
    );
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    let ancient = declared(&site)
        .birth_at(epoch)
        .once("c", must_not_run)
        .await;
    assert!(matches!(ancient, Err(Error::TooOld { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_older_version_of_an_entity_is_stale() {
    let world = World::new();
    let (site, _) = process(&world);
    let version = |version| declared(&site).version("account-1", version);
    assert!(version(5).once("five", works).await.is_ok());
    let stale = version(4)
        .once("four", must_not_run)
        .await
        .expect_err("stale");
    assert!(matches!(stale, Error::Stale { applied: 5, .. }));
    assert_eq!(
        (stale.happened(), stale.advice()),
        (Happened::No, Advice::Stop)
    );
    assert!(version(6).once("six", works).await.is_ok());
    assert!(
        version(5).once("five", must_not_run).await.is_ok(),
        "a replay is no version"
    );
}

#[tokio::test(start_paused = true)]
async fn tenants_and_names_keep_their_keys_apart() {
    let world = World::new();
    let (site, _) = process(&world);
    let mut ids = Vec::new();
    for operation in [
        declared(&site),
        declared(&site).tenant("acme"),
        declared(&site).tenant("globex"),
        site.operation("refund"),
    ] {
        let receipt = operation.once("a", works).await.expect("it ran");
        assert!(!receipt.is_replay());
        ids.push(receipt.operation_id());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_of_another_type_is_an_error_and_not_a_second_run() {
    let world = World::new();
    let (site, _) = process(&world);
    assert!(declared(&site).once("a", async |_| Ok(7_u64)).await.is_ok());
    let effect = async |_| -> Result<String, Failure> { panic!("this effect must not run") };
    let other = declared(&site)
        .once("a", effect)
        .await
        .expect_err("another type");
    assert!(matches!(other, Error::Unreadable { .. }), "{other:?}");
    assert_eq!((other.happened(), other.ran()), (Happened::Yes, false));
    assert_eq!(
        (other.advice(), other.code()),
        (Advice::Fix, "outcome-unreadable")
    );
    let effect = async |_| -> Result<Bytes, Failure> { panic!("this effect must not run") };
    assert!(declared(&site).once("a", effect).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_outcome_over_the_limit_reaches_the_first_caller_only() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Long(String);

    impl semel_engine::once::Typed for Long {
        const TYPE: &'static str = "long";
        const VERSION: u32 = 1;
    }

    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site).outcome_limit_bytes(100);
    let first = operation
        .once("a", async |_| Ok(Long("x".repeat(1_000))))
        .await;
    let first = first.expect("the first caller gets it whole");
    assert!(!first.is_kept());
    assert_eq!(first.value().0.len(), 1_000);
    let effect = async |_| -> Result<Long, Failure> { panic!("this effect must not run") };
    let second = operation
        .once("a", effect)
        .await
        .expect_err("it was not kept");
    let Error::Unreadable { source, .. } = &second else {
        panic!("unreadable: {second:?}");
    };
    assert!(
        matches!(
            source,
            Unreadable::TooLarge {
                len_bytes: 1_038,
                ..
            }
        ),
        "{source:?}"
    );
    assert_eq!(second.happened(), Happened::Yes);
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_an_inbox_is_not_marked_as_started() {
    let world = World::new();
    let (site, _) = process(&world);
    let request = declared(&site).claim_request("a").expect("a request");
    assert_eq!(request.start, semel_core::Start::Unmarked);
    assert_eq!((request.lease, request.window), (LEASE, WINDOW));
    let asked = world.store.claim([request].into()).await;
    assert!(matches!(
        asked.as_deref(),
        Ok([semel_core::Admission::Granted(_)])
    ));
    let record = declared(&site)
        .record("a")
        .await
        .expect("the store answers");
    assert_eq!(
        record.map(|record| record.state.kind()),
        Some(StateKind::Claimed)
    );
}
