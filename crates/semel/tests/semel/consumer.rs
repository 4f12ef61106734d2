//! Handlers over a source, as an author would write and test them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::testing::{Fault, ListSource, StoreCall, Testbed};
use semel::{Failure, Fate, Message, OnDoubt, Summary};

fn fates(summary: &Summary) -> Vec<(Fate, u64)> {
    let all = [
        Fate::Applied,
        Fate::Replayed,
        Fate::Stale,
        Fate::Conflict,
        Fate::TooOld,
        Fate::Released,
        Fate::Dead,
        Fate::InDoubt,
        Fate::Quarantined,
    ];
    let counted = all.into_iter().map(|fate| (fate, summary.of(fate)));
    counted.filter(|(_, count)| *count > 0).collect()
}

#[tokio::test(start_paused = true)]
async fn every_message_meets_one_fate_and_is_acknowledged_once() {
    let bed = Testbed::new();
    let source = ListSource::new([
        r#"{"id":1,"does":"works"}"#,
        r#"{"id":1,"does":"works"}"#,
        r#"{"id":1,"does":"other"}"#,
        r#"{"id":2,"does":"dies"}"#,
        r#"{"id":3,"does":"panics"}"#,
        r#"{"id":4,"does":"hangs"}"#,
        r#"{"id":5,"does":"breaks"}"#,
        r#"{"id":6,"does":"waits"}"#,
        r#"{"does":"works"}"#,
    ]);
    let acknowledged = source.acknowledged();
    let summary = bed
        .semel()
        .consumer("jobs", source)
        .expect("open")
        .key("json:/id")
        .expect("a selector")
        .run(async |message: Message| {
            let parsed: serde_json::Value = message.json()?;
            match parsed["does"].as_str() {
                Some("dies") => Err(Failure::dead("no")),
                Some("panics") => panic!("on purpose"),
                Some("hangs") => std::future::pending().await,
                Some("breaks") => Err(std::io::Error::other("reset"))?,
                Some("waits") if message.attempt() < 3 => Err(Failure::not_applied("later")),
                _ => Ok("done"),
            }
        })
        .await
        .expect("it runs to the end");
    assert_eq!(
        fates(&summary),
        [
            (Fate::Applied, 2),
            (Fate::Replayed, 1),
            (Fate::Conflict, 1),
            (Fate::Dead, 1),
            (Fate::InDoubt, 3),
            (Fate::Quarantined, 1),
        ]
    );
    assert_eq!(acknowledged.places(), (0..9).collect::<Vec<_>>());
    assert!(acknowledged.is_once_each());
}

#[tokio::test(start_paused = true)]
async fn a_message_shows_what_the_handler_passes_on() {
    let bed = Testbed::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&seen);
    let source = ListSource::new(["one"]);
    let summary =
        bed.semel()
            .consumer("lines", source)
            .expect("open")
            .run(move |message: Message| {
                let seen = Arc::clone(&seeing);
                async move {
                    assert_eq!(
                        message.idempotency_key(),
                        message.operation_id().to_string()
                    );
                    assert_eq!(
                        (message.payload().as_ref(), message.coordinates()),
                        (&b"one"[..], "list:0")
                    );
                    assert!(message.header("none").is_none() && !message.is_possible_repeat());
                    seen.lock()
                        .expect("no panic")
                        .push((message.key().to_string(), message.attempt()));
                    Ok(())
                }
            });
    assert_eq!(
        fates(&summary.await.expect("it runs")),
        [(Fate::Applied, 1)]
    );
    assert_eq!(*seen.lock().expect("no panic"), [("one".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_and_a_call_share_their_records() {
    let bed = Testbed::new();
    let semel = bed.semel();
    assert!(semel.once("charge", 7, async |_| Ok(())).await.is_ok());
    let source = ListSource::new([r#"{"id":7}"#, r#"{"id":8}"#]);
    let summary = semel
        .consumer("charge", source)
        .expect("open")
        .key("json:/id")
        .expect("a selector")
        .run(async |_: Message| Ok("charged"))
        .await;
    let expected = [(Fate::Applied, 1), (Fate::Replayed, 1)];
    assert_eq!(fates(&summary.expect("it runs")), expected);
    // Handlers keep raw bytes.
    let replay = semel
        .once("charge", 8, async |_| Ok(bytes::Bytes::new()))
        .await;
    assert_eq!(replay.expect("a replay").value().as_ref(), b"charged");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_runs_no_handler_twice() {
    for call in [StoreCall::Claim, StoreCall::Settle] {
        for fault in [Fault::Cut, Fault::LoseAnswer, Fault::Refuse] {
            let bed = Testbed::new();
            let (semel, faults) = bed.failing();
            faults.next(call, fault);
            let source = ListSource::new(["a"]);
            let acknowledged = source.acknowledged();
            let calls = Arc::new(Mutex::new(0));
            let counting = Arc::clone(&calls);
            let consumer = semel.consumer("lines", source).expect("open");
            let summary = consumer.unkeyed(OnDoubt::Repeat).run(move |_: Message| {
                *counting.lock().expect("no panic") += 1;
                async { Ok(()) }
            });
            assert_eq!(
                fates(&summary.await.expect("it runs")),
                [(Fate::Applied, 1)]
            );
            assert_eq!(*calls.lock().expect("no panic"), 1, "{call:?} {fault:?}");
            assert_eq!(acknowledged.places(), [0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_good_ends_the_run_and_acknowledges_nothing() {
    let bed = Testbed::new();
    let (semel, faults) = bed.failing();
    faults.always(Fault::Poison);
    let source = ListSource::new(["a"]);
    let acknowledged = source.acknowledged();
    let consumer = semel.consumer("lines", source).expect("open");
    let error = consumer
        .run(async |_: Message| Ok(()))
        .await
        .expect_err("poisoned");
    assert_eq!(error.code(), semel::Code::StorePoisoned);
    assert!(acknowledged.places().is_empty());
}

#[tokio::test(start_paused = true)]
async fn settings_are_refused_where_they_are_wrong() {
    let bed = Testbed::new();
    let semel = bed.semel();
    let nothing = || ListSource::new(Vec::<String>::new());
    let builder = || semel.consumer("lines", nothing()).expect("open");
    for (built, words) in [
        (builder().key("jsn:/id"), "did you mean"),
        (builder().joined_key(&[]), "at least one"),
        (builder().fingerprint(&["json:id"]), "json:/id"),
        (builder().transport(""), "unknown selector"),
        (builder().birth("cel:1"), "not supported"),
        (builder().order("field:0"), "field"),
        (builder().version("json:/a", "b"), "unknown selector"),
        (builder().tenant("a\nb"), "control character"),
    ] {
        let error = built.expect_err(words);
        assert_eq!(error.code(), semel::Code::InvalidInput, "{words}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let lease = builder()
        .lease(Duration::ZERO)
        .run(async |_: Message| Ok(()));
    assert!(lease.await.is_err());
    let unnamed = semel.consumer("", nothing()).expect("open");
    assert!(unnamed.run(async |_: Message| Ok(())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_gives_back_what_hangs() {
    let bed = Testbed::new();
    let source = ListSource::new(["quick", "hangs"]);
    let acknowledged = source.acknowledged();
    let consumer = bed.semel().consumer("lines", source).expect("open");
    let summary = consumer
        .timeout(None)
        .unkeyed(OnDoubt::Repeat)
        .stop_when(tokio::time::sleep(Duration::from_secs(5)))
        .patience(Duration::from_secs(5))
        .run(async |message: Message| {
            if message.payload() == "hangs" {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
        .await
        .expect("it stops");
    assert_eq!(fates(&summary), [(Fate::Applied, 1), (Fate::Released, 1)]);
    assert_eq!(acknowledged.places(), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_past_its_window_is_swept_beside_a_consumer() {
    let bed = Testbed::new();
    let first = bed.semel().once("lines", "old", async |_| Ok(())).await;
    assert!(first.is_ok());
    // Past its window, and not so long that it counts as absent without being removed.
    bed.clock().advance(Duration::from_secs(7 * 86_400 + 3_600));
    let semel = semel::Semel::builder()
        .clock(bed.clock().clone())
        .sweep_every(Duration::from_secs(60))
        .with_store(bed.store());
    let summary = semel
        .consumer("lines", ListSource::new(["new"]))
        .expect("open")
        .timeout(None)
        .run(async |_: Message| {
            tokio::time::sleep(Duration::from_secs(120)).await;
            Ok(())
        })
        .await;
    assert_eq!(fates(&summary.expect("it runs")), [(Fate::Applied, 1)]);
    let query = semel::port::store::ListQuery {
        limit: 10,
        ..Default::default()
    };
    let page = semel::Store::list(&bed.store(), &query)
        .await
        .expect("the store answers");
    let keys: Vec<_> = page
        .items
        .iter()
        .map(|listed| listed.operation.key.as_str())
        .collect();
    assert_eq!(keys, ["new"]);
}
