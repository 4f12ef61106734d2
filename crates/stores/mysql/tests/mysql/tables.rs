//! Stored values are the given ones, byte for byte, whatever the server makes of text and time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mysql_async::prelude::Queryable;
use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Code, Key, Mark, Outcome, Parked, Recovery, Scope, Start,
    State, Store, Timestamp, Window,
};
use semel_store_mysql::{MysqlStore, Options};

use crate::lab::{Lab, claim, complete, grant, record, request, scope};

#[tokio::test]
async fn spaces_at_the_end_tell_scopes_keys_and_marks_apart() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    for (number, operation) in ["pay", "pay ", "PAY", "pay\u{0}"].into_iter().enumerate() {
        let Ok(scope) = Scope::new("", operation) else {
            continue;
        };
        let key = Key::parse("a").expect("a key");
        let request = ClaimRequest::new(scope.clone(), key, ClaimId::from_u128(number as u128));
        let _ = grant(&store, &request).await;
        let query = ListQuery {
            limit: 10,
            ..ListQuery::in_scope(&scope)
        };
        let listed = store.list(&query).await.expect("a list");
        assert_eq!(listed.items.len(), 1, "{operation:?}");
    }
    for (value, name) in (1..).zip(["out", "out ", "OUT", "öut", "o\u{308}ut"]) {
        let mark = Mark {
            name: name.into(),
            value,
        };
        let together = store.settle_with([].into(), &mark).await.expect("a mark");
        assert!(matches!(together, Together::Applied(_)));
        assert_eq!(store.mark(name).await.expect("a mark"), Some(value));
    }
    assert_eq!(store.mark("out").await.expect("a mark"), Some(1));
}

#[tokio::test]
async fn every_byte_comes_back_however_long_the_value() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    // Quotes and backslashes in every neighbourhood, at lengths around where the literal changes.
    for len in [0, 1, 255, 1_023, 1_024, 1_025, 70_000] {
        let key = format!("k{len}");
        let bytes: Vec<u8> = all
            .iter()
            .chain(b"\\'\\\\''\"\\")
            .copied()
            .cycle()
            .take(len)
            .collect();
        let mut request = request(&key, 1);
        request.transport = Some(bytes.clone().into());
        let _ = grant(&store, &request).await;
        let mut completion = complete(&key, 1);
        let outcome = Outcome::raw(bytes.clone().into(), usize::MAX);
        completion.step = semel_core::Step::Complete {
            outcome: outcome.clone(),
            window: Window::DEFAULT,
        };
        let settled = store.settle([completion].into()).await.expect("answers");
        assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
        let record = record(&store, &key).await.expect("a record");
        assert_eq!(record.transport.as_deref(), Some(&bytes[..]), "{len}");
        assert_eq!(record.outcome, Some(outcome), "{len}");
    }
}

#[tokio::test]
async fn outcomes_that_differ_within_one_batch_stay_with_their_keys() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let keys: Vec<_> = (0..300_u32).map(|number| format!("k{number}")).collect();
    let batch: Vec<_> = keys.iter().map(|key| request(key, 1)).collect();
    assert_eq!(store.claim(batch.into()).await.expect("answers").len(), 300);
    let outcome = |number: usize| match number % 3 {
        0 => Outcome::raw(format!("outcome {number}").into(), 100),
        1 => Outcome::empty(),
        _ => Outcome::raw(vec![b'x'; 50].into(), 10),
    };
    let settlements: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| semel_core::Settlement {
            step: semel_core::Step::Complete {
                outcome: outcome(number),
                window: Window::new(Duration::from_secs(60 + number as u64 % 2)),
            },
            ..complete(key, 1)
        })
        .collect();
    let settled = store.settle(settlements.into()).await.expect("answers");
    assert!(
        settled
            .iter()
            .all(|it| matches!(it, semel_core::Settled::Now(_)))
    );
    for (number, key) in keys.iter().enumerate() {
        let record = record(&store, key).await.expect("a record");
        assert_eq!(record.outcome, Some(outcome(number)), "{key}");
        let State::Completed { window, .. } = record.state else {
            panic!("not completed: {record:?}")
        };
        assert_eq!(
            window,
            Window::new(Duration::from_secs(60 + number as u64 % 2))
        );
    }
}

#[tokio::test]
async fn durations_keep_their_nanoseconds_and_the_longest_are_no_overflow() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let odd = Duration::new(7, 123_456_789);
    let mut marked = request("odd", 1);
    marked.start = Start::Marked(Recovery::RerunWithin(odd));
    let _ = grant(&store, &marked).await;
    let State::Started { recovery, .. } = record(&store, "odd").await.expect("a record").state
    else {
        panic!("not started")
    };
    assert_eq!(recovery, Recovery::RerunWithin(odd));
    let mut long = request("long", 1);
    (long.lease, long.window) = (Duration::MAX, Window::new(Duration::MAX));
    let claim = grant(&store, &long).await;
    assert_eq!(claim.lease_until, Timestamp::from_millis(u64::MAX));
    let mut completion = complete("long", 1);
    completion.step = semel_core::Step::Complete {
        outcome: Outcome::empty(),
        window: Window::new(Duration::MAX),
    };
    let settled = store.settle([completion].into()).await.expect("answers");
    assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
    let state = record(&store, "long").await.expect("a record").state;
    assert!(matches!(state, State::Completed { window, .. } if window.duration() == Duration::MAX));
    assert_eq!(store.stats().await.expect("counts").records[3], 1);
    assert_eq!(store.sweep(10).await.expect("a sweep").removed, 0);
}

#[tokio::test]
async fn the_clock_is_the_servers_and_in_milliseconds_since_1970() {
    let lab = Lab::new().await;
    let store = MysqlStore::connect(&lab.database.url(), Options::default())
        .await
        .expect("a store");
    let _ = grant(&store, &request("a", 1)).await;
    let created = record(&store, "a").await.expect("a record").created_at;
    #[expect(clippy::disallowed_methods, reason = "compared with the server's")]
    let here = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let here = Timestamp::from_millis(u64::try_from(here.as_millis()).expect("a time"));
    let apart = here.since(created).max(created.since(here));
    assert!(
        apart < Duration::from_secs(60),
        "{created} is {apart:?} away from {here}"
    );
}

#[tokio::test]
async fn messages_that_grew_too_old_are_too_old_beside_new_ones() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let window = Window::new(Duration::from_secs(80));
    let born = |key: &str, birth: Timestamp| {
        let mut request = request(key, 1);
        (request.birth, request.window) = (Some(birth), window);
        request
    };
    let now = semel_core::Clock::now(&lab.clock);
    for round in 0..2 {
        let batch = [
            born(&format!("new {round}"), now),
            born(&format!("old {round}"), now.minus(Duration::from_secs(71))),
            born(&format!("just {round}"), now.minus(Duration::from_secs(70))),
            born(&format!("old {round}"), now),
        ];
        let answers = store.claim(batch.into()).await.expect("answers");
        assert!(
            matches!(
                &answers[..],
                [
                    Admission::Granted(_),
                    Admission::TooOld,
                    Admission::Granted(_),
                    Admission::Granted(_)
                ]
            ),
            "{answers:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_grew_too_old_while_its_call_waited_is_too_old() {
    let lab = Lab::new().await;
    let store = MysqlStore::connect(&lab.database.url(), Options::default())
        .await
        .expect("a store");
    let store = std::sync::Arc::new(store);
    let keys = crate::lab::in_lock_order(&["a", "b"]);
    let window = Window::new(Duration::from_millis(800));
    for key in &keys {
        let _ = grant(&store, &request(key, 9)).await;
    }
    let mut completion = complete(keys[1], 9);
    completion.step = semel_core::Step::Complete {
        outcome: Outcome::empty(),
        window,
    };
    let settled = store.settle([completion].into()).await.expect("answers");
    assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
    let State::Completed { at, .. } = record(&store, keys[1]).await.expect("a record").state else {
        panic!("not completed")
    };
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    let lock = format!(
        "SELECT 1 FROM semel_records WHERE id = {} FOR UPDATE",
        crate::lab::id_of(keys[0])
    );
    other.query_drop(lock).await.expect("a lock");
    // Young when it is asked for; it waits at the first key until the record of the second is swept.
    let mut late = request(keys[1], 1);
    (late.birth, late.window) = (Some(at), window);
    let (calling, batch) = (std::sync::Arc::clone(&store), [request(keys[0], 1), late]);
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    lab.waiting_session().await;
    while store.sweep(10).await.expect("a sweep").removed == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let answers = call.await.expect("a task").expect("answers");
    assert!(
        matches!(answers[..], [Admission::Busy { .. }, Admission::TooOld]),
        "{answers:?}"
    );
    assert_eq!(record(&store, keys[1]).await, None);
}

#[tokio::test]
async fn batches_of_duplicates_are_read_and_new_ones_inserted() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let batch = |from: u32, claimant| -> Vec<_> {
        (from..from + 100)
            .map(|number| request(&format!("k{number}"), claimant))
            .collect()
    };
    let granted = |answers: &[Admission]| {
        answers
            .iter()
            .filter(|it| matches!(it, Admission::Granted(_)))
            .count()
    };
    assert_eq!(
        granted(&store.claim(batch(0, 1).into()).await.expect("answers")),
        100
    );
    for _ in 0..2 {
        let answers = store.claim(batch(0, 2).into()).await.expect("answers");
        assert!(
            answers
                .iter()
                .all(|it| matches!(it, Admission::Busy { .. }))
        );
    }
    // The store expects duplicates, and half of them are.
    assert_eq!(
        granted(&store.claim(batch(50, 2).into()).await.expect("answers")),
        50
    );
    assert_eq!(
        granted(&store.claim(batch(150, 2).into()).await.expect("answers")),
        100
    );
}

#[tokio::test]
async fn what_does_not_fit_into_a_packet_is_refused_and_its_neighbours_are_not() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let parked = |len: usize| Parked {
        scope: scope(),
        key: None,
        reason: "not-json".into(),
        detail: "no value".into(),
        transport: None,
        coordinates: format!("file:{len}").into(),
        headers: Vec::new(),
        payload: vec![b'x'; len].into(),
        since: Timestamp::EPOCH,
    };
    // The default of the worker, and more than a server takes as it comes.
    assert_eq!(
        store.park([parked(8 << 20)].into()).await.expect("answers"),
        [true]
    );
    let error = store
        .park([parked(70 << 20)].into())
        .await
        .expect_err("too large");
    assert_eq!(error.code(), Code::InvalidInput);
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    assert_eq!(
        store.park([parked(3)].into()).await.expect("answers"),
        [true]
    );
}

#[tokio::test]
async fn a_row_that_lies_fails_alone() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    for key in ["good", "bad"] {
        let _ = grant(&store, &request(key, 9)).await;
    }
    let bad = crate::lab::id_of("bad");
    lab.database
        .run(&format!(
            "UPDATE semel_records SET state = 9 WHERE id = {bad}"
        ))
        .await;
    let answers = store
        .claim([request("bad", 1), request("good", 1), request("new", 1)].into())
        .await;
    let answers = answers.expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Failed(error), Admission::Busy { .. }, Admission::Granted(_)]
            if error.code() == Code::RecordCorrupt),
        "{answers:?}"
    );
    let settled = store
        .settle([complete("bad", 9), complete("good", 9)].into())
        .await
        .expect("answers");
    assert!(
        matches!(
            &settled[..],
            [semel_core::Settled::Failed(_), semel_core::Settled::Now(_)]
        ),
        "{settled:?}"
    );
    assert!(matches!(
        claim(&store, &request("good", 1)).await,
        Admission::Replay { .. }
    ));
}

#[tokio::test]
async fn a_page_with_a_filter_is_bounded() {
    let lab = Lab::new().await;
    semel_conformance::page_bounds::check(&lab.store().await).await;
}
