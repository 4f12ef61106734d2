//! The indexes beside the records agree with the records.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::decide::{Directive, Order, Verdict};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::TransferStore;
use semel_core::{
    AttemptLimits, Certainty, Note, Parked, Recovery, Renewal, Settlement, Start, StateKind, Step,
    Store, Timestamp, VersionGate, Window,
};
use semel_store_redis::RedisStore;

use crate::lab::{completion, connect, grant, request};
use crate::server::Server;

#[tokio::test]
async fn a_page_with_a_filter_is_bounded() {
    let server = Server::durable();
    semel_conformance::page_bounds::check(&connect(&server).await).await;
}

#[tokio::test]
async fn the_indexes_agree_with_the_records_after_every_kind_of_change() {
    let server = Server::durable();
    let store = connect(&server).await;
    work(&store).await;
    check(&server, &store).await;
    let copy = Server::durable();
    let other = connect(&copy).await;
    let mut after = None;
    loop {
        let page = store.export(after.as_deref(), 7).await.expect("a page");
        other
            .import(page.items.as_slice().into())
            .await
            .expect("imported");
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    check(&copy, &other).await;
    assert_eq!(
        other.stats().await.expect("counts").records,
        store.stats().await.expect("counts").records
    );
}

/// Brings records into every state, by every way that leads there.
pub(crate) async fn work(store: &RedisStore) {
    let many: Vec<_> = (0..300)
        .map(|number| request(&format!("many-{number}"), 1))
        .collect();
    let _ = store.claim(many.clone().into()).await.expect("claims");
    let done: Vec<_> = many.iter().step_by(2).map(completion).collect();
    let _ = store.settle(done.into()).await.expect("completions");
    let window = Window::DEFAULT;
    let release = |certainty, after| Step::Release {
        error: "an error".into(),
        certainty,
        after,
        counted: true,
        limits: AttemptLimits::default(),
        window,
    };
    let hour = std::time::Duration::from_secs(3_600);
    let steps = [
        (
            "start",
            Some(Step::Start {
                recovery: Recovery::Park,
                has_begun: false,
            }),
        ),
        ("release", Some(release(Certainty::NotApplied, hour))),
        (
            "again",
            Some(release(Certainty::NotApplied, std::time::Duration::ZERO)),
        ),
        ("doubt", Some(release(Certainty::MaybeApplied, hour))),
        (
            "fail",
            Some(Step::Fail {
                decisive: false,
                error: "no".into(),
                window,
            }),
        ),
        ("renew", None),
    ];
    for (name, step) in steps {
        for (number, start) in [
            Start::Unmarked,
            Start::Marked(Recovery::Park),
            Start::Marked(Recovery::Rerun),
        ]
        .into_iter()
        .enumerate()
        {
            let mut request = request(&format!("{name}-{number}"), 1);
            request.start = start;
            let _ = grant(store, &request).await;
            if let Some(step) = &step {
                let settlement = Settlement {
                    operation: request.operation.clone(),
                    claim_id: request.claim_id,
                    step: step.clone(),
                };
                let _ = store.settle([settlement].into()).await.expect("settled");
            } else {
                let renewal = Renewal {
                    operation: request.operation.clone(),
                    claim_id: request.claim_id,
                    lease: hour,
                };
                let _ = store.renew([renewal].into()).await.expect("renewed");
            }
        }
    }
    for number in 0..3 {
        let _ = grant(store, &request(&format!("again-{number}"), 2)).await;
        let late = completion(&request(&format!("doubt-{number}"), 1));
        let _ = store.settle([late].into()).await.expect("late");
    }
    orders(store).await;
}

async fn orders(store: &RedisStore) {
    let note = Note {
        by: "on call".into(),
        reason: "a test".into(),
    };
    let order = |key: &str, order| Directive {
        operation: request(key, 1).operation,
        order,
        note: Some(note.clone()),
    };
    let window = Window::DEFAULT;
    let batch = [
        order("many-0", Order::Hold(true)),
        order("many-2", Order::Hold(true)),
        order("many-2", Order::Hold(false)),
        order("many-4", Order::Forget),
        order("many-1", Order::Hold(true)),
        order("fail-0", Order::Requeue),
        order("fail-1", Order::Forget),
        order("release-0", Order::Release),
        order("release-1", Order::Forget),
        order("start-0", Order::Release),
        order("doubt-1", Order::Resolve(Verdict::Abandon { window })),
    ];
    let _ = store.operate(batch.into()).await.expect("orders");
    let _ = store
        .settle([completion(&request("many-1", 1))].into())
        .await
        .expect("held");
}

/// Uses the rest of a store: messages, versions, marks, lists.
pub(crate) async fn everything_else(store: &RedisStore) {
    let message = Parked {
        scope: request("x", 1).operation.scope,
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: "file:1".into(),
        headers: Vec::new(),
        payload: "{".into(),
        since: Timestamp::EPOCH,
    };
    assert_eq!(
        store.park([message.clone()].into()).await.expect("parked"),
        [true]
    );
    let query = ListQuery {
        limit: 1_000,
        ..ListQuery::default()
    };
    assert_eq!(
        store
            .list_parked(&query)
            .await
            .expect("messages")
            .items
            .len(),
        1
    );
    let note = Note {
        by: "on call".into(),
        reason: "a test".into(),
    };
    assert_eq!(
        store
            .drop_parked([message.id()].into(), Some(&note))
            .await
            .expect("dropped"),
        [true]
    );
    assert!(
        !store
            .list_audit(&query)
            .await
            .expect("entries")
            .items
            .is_empty()
    );
    let mut versioned = request("gated", 1);
    versioned.gate = Some(VersionGate {
        entity: versioned.operation.key.clone(),
        version: 1,
    });
    let _ = grant(store, &versioned).await;
    let _ = store
        .settle([completion(&versioned)].into())
        .await
        .expect("settled");
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let page = store.export(after.as_deref(), 100).await.expect("a page");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    items.push(semel_core::port::transfer::Item::Mark(semel_core::Mark {
        name: "out".into(),
        value: 7,
    }));
    let new = store.import(items.into()).await.expect("imported");
    assert_eq!(new.iter().filter(|new| **new).count(), 1);
    while store.sweep(100).await.expect("swept").more {}
    store.stats().await.expect("counts");
    store.preflight().await.expect("settings");
}

/// Reads every key of the store and compares.
pub(crate) async fn check(server: &Server, store: &RedisStore) {
    let key = |name: &str| format!("semel:{{0}}:{name}");
    let mut expected_live = BTreeMap::<Vec<u8>, i64>::new();
    let (mut listed, mut watched, mut segments) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut ids = BTreeSet::new();
    for name in server.ask_bytes(&[b"KEYS", key("r*").as_bytes()]) {
        let value = server.ask_bytes(&[b"GET", &name]).remove(0);
        let id = name[name.len() - 32..].to_vec();
        let (state, flags, created) = (value[33], value[34], value[35..43].to_vec());
        if state <= 1 {
            *expected_live.entry(created[..5].to_vec()).or_default() += 1;
        }
        if flags & 4 != 0 {
            listed.insert(id.clone());
        }
        if flags & 8 != 0 {
            watched.insert(id.clone());
        }
        if (state == 3 || state == 4) && flags & 2 == 0 {
            segments.insert(created[..5].to_vec());
            let ttl: i64 = number(&server.ask_bytes(&[b"PTTL", &name])[0]);
            assert!(ttl > 0, "a finished record expires");
        } else {
            assert_eq!(
                server.ask_bytes(&[b"PTTL", &name]),
                [b":-1"],
                "nothing else does"
            );
        }
        ids.insert((created, id));
    }
    let pairs = server.ask_bytes(&[b"HGETALL", key("l").as_bytes()]);
    let live: BTreeMap<_, _> = pairs
        .chunks(2)
        .map(|pair| (pair[0].clone(), number(&pair[1])))
        .collect();
    assert_eq!(
        live, expected_live,
        "claimed and started records by segment"
    );
    let found: BTreeSet<_> = server
        .ask_bytes(&[b"ZRANGE", key("o").as_bytes(), b"0", b"-1"])
        .into_iter()
        .collect();
    assert_eq!(found, listed, "what is not simply done");
    let due: BTreeSet<_> = server
        .ask_bytes(&[b"ZRANGE", key("d").as_bytes(), b"0", b"-1"])
        .into_iter()
        .collect();
    let (found_watched, found_segments): (BTreeSet<_>, BTreeSet<_>) =
        due.into_iter().partition(|it| it.len() == 32);
    assert_eq!(found_watched, watched, "what a sweep waits for");
    assert!(
        found_segments.is_superset(&segments),
        "segments with something to expire"
    );
    let mut journal = BTreeSet::new();
    let entries = server.ask_bytes(&[b"XRANGE", key("j").as_bytes(), b"-", b"+"]);
    for entry in entries.chunks(3) {
        let stamp: u64 = String::from_utf8_lossy(&entry[0])
            .split('-')
            .next()
            .and_then(|it| it.parse().ok())
            .expect("a stamp");
        for id in entry[2].chunks(32) {
            assert!(
                journal.insert((stamp.to_be_bytes().to_vec(), id.to_vec())),
                "once each"
            );
        }
    }
    assert!(journal.is_superset(&ids), "every record is in the journal");
    let counts = store.stats().await.expect("counts");
    assert_eq!(counts.records.iter().sum::<u64>(), ids.len() as u64);
    for (state, count) in StateKind::ALL.into_iter().zip(counts.records) {
        let mut query = ListQuery {
            state: Some(state),
            limit: 37,
            ..ListQuery::default()
        };
        let mut seen = BTreeSet::new();
        loop {
            let page = store.list(&query).await.expect("a page");
            for item in page.items {
                assert!(
                    seen.insert(item.operation.key.to_string()),
                    "{} twice",
                    item.operation.key
                );
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(seen.len() as u64, count, "{state}");
    }
}

fn number(text: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(text);
    text.trim_start_matches(':').parse().expect("a number")
}
