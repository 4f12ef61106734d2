//! Batches admitted together with a mark, beyond the laws: many shapes of batches, and a writer that panics. Also
//! imports over reopenings, and unfinished work page by page.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::port::checkpoint::{CheckpointStore, Write};
use semel_core::port::store::{ListQuery, Listed, Stats};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Certainty, ClaimId, ClaimRequest, Entity, EntityRecord, ErrorKind, FencingToken,
    Key, Mark, Operation, Outcome, Record, Recovery, Scope, Settlement, State, Step, Store,
    VersionGate,
};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

#[tokio::test]
async fn what_is_under_way_is_exported_and_listed_once_whatever_the_pages() {
    let dir = folder();
    let store = open(dir.path(), &TestClock::new());
    let claims: Vec<_> = (0..5_000_u32)
        .map(|number| request(&key_of(number as usize), number.into()))
        .collect();
    store.claim(claims.clone().into()).await.expect("claims");
    for limit in [1_000, 1_024, 3_000, 10_000] {
        let (mut exported, mut after) = (HashSet::new(), None);
        loop {
            let page = store.export(after.as_deref(), limit).await.expect("a page");
            for item in page.items {
                if let Item::Record(listed) = item {
                    assert!(exported.insert(listed.operation.key), "twice");
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(exported.len(), 5_000, "pages of {limit}");
        let (mut listed, mut query) = (HashSet::new(), ListQuery::default());
        query.limit = limit;
        loop {
            let page = store.list(&query).await.expect("a page");
            for item in page.items {
                assert!(listed.insert(item.operation.key), "twice");
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), 5_000, "pages of {limit}");
    }
}

#[tokio::test]
async fn a_page_of_an_export_ends_where_others_want_their_turn() {
    let dir = folder();
    let clock = TestClock::new();
    let store = EmbeddedStore::open(dir.path(), Arc::new(clock.clone()), Options::default());
    let store = store.expect("the store opens");
    let brief = semel_core::Window::new(Duration::from_secs(1));
    // The one that is not forgotten keeps the segment.
    let claims: Vec<_> = (0..480)
        .map(|number| ClaimRequest {
            window: if number == 0 {
                semel_core::Window::DEFAULT
            } else {
                brief
            },
            ..request(&key_of(number), number as u64)
        })
        .collect();
    store.claim(claims.clone().into()).await.expect("claims");
    let outcome = Outcome::raw(Bytes::from(vec![b'x'; 100_000]), 100_000);
    for some in claims.chunks(40) {
        let completed = some.iter().map(|claim| Settlement {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            step: Step::Complete {
                outcome: outcome.clone(),
                window: claim.window,
            },
        });
        store.settle(completed.collect()).await.expect("settled");
    }
    clock.advance(Duration::from_secs(3_600));
    let under_way =
        (1_000..4_000_u32).map(|number| request(&key_of(number as usize), number.into()));
    store.claim(under_way.collect()).await.expect("claims");
    // 48 MB of what is forgotten, of which a page reads 16 MiB, and 3,000 claims, of which it visits 1,024.
    let (mut pages, mut empty, mut records, mut after) = (0, 0, 0, None);
    loop {
        let page = store
            .export(after.as_deref(), 100_000)
            .await
            .expect("a page");
        let found = page.items.iter().filter(|it| matches!(it, Item::Record(_)));
        let found = found.count();
        assert!(found <= 1_024, "{found} of what is under way at once");
        (pages, records) = (pages + 1, records + found);
        empty += usize::from(page.items.is_empty());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(records, 3_001);
    assert!(
        empty >= 1 && pages >= 5,
        "{empty} of {pages} pages are empty"
    );
}

#[tokio::test]
async fn admissions_agree_with_a_set_whatever_the_batches() {
    let dir = folder();
    let mut store = open(dir.path(), &TestClock::new());
    let mut random = numbers(7);
    let mut known = HashSet::new();
    let (mut claims, mut decided) = (0, 0);
    for round in 0_u64..150 {
        let len = [1, 7, 8, 30, 255, 256, 257, 600][below(&mut random, 8)];
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..len {
            claims += 1;
            let name = below(&mut random, 12_000);
            expected.push(known.insert(name));
            batch.push(request(&key_of(name), claims));
        }
        decided += len;
        let admissions = store.admit_with(batch, mark("round", round)).await;
        let admissions = admissions.expect("admissions");
        let granted: Vec<_> = admissions
            .iter()
            .map(|admission| match admission {
                Admission::Granted(_) => true,
                Admission::Replay { .. } => false,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(granted, expected, "round {round}");
        assert_eq!(store.mark("round").await.expect("a mark"), Some(round));
        if round % 40 == 39 {
            drop(store);
            store = open(dir.path(), &TestClock::new());
        }
    }
    assert!(
        decided > 20_000 && known.len() > 5_000,
        "{decided} {known:?}"
    );
    let stats = store.stats().await.expect("stats");
    assert_eq!(stats.records.iter().sum::<u64>(), known.len() as u64);
}

#[tokio::test]
async fn a_panic_of_the_writer_leaves_nothing_behind_and_the_store_goes_on() {
    let dir = folder();
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    let batch = || vec![request("a", 1), request("b", 2)];
    let write: Write = Box::new(|_| panic!("the writer's own bug"));
    let failed = store.admit_with(batch(), write).await;
    let failed = failed.expect_err("the writer panicked");
    assert_eq!(failed.kind(), ErrorKind::Internal);
    assert_eq!(failed.certainty(), Certainty::NotApplied);
    let operations: Vec<Operation> = batch().into_iter().map(|it| it.operation).collect();
    let found = store
        .get(operations.clone().into())
        .await
        .expect("an answer");
    assert_eq!(found, [None, None]);
    let admissions = store.admit_with(batch(), mark("out", 1)).await;
    let admissions = admissions.expect("admissions");
    assert!(
        matches!(
            &admissions[..],
            [Admission::Granted(_), Admission::Granted(_)]
        ),
        "{admissions:?}"
    );
    drop(store);
    let store = open(dir.path(), &clock);
    assert_eq!(store.mark("out").await.expect("a mark"), Some(1));
    let found = store.get(operations.into()).await.expect("an answer");
    assert!(found.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_lease_of_another_store_goes_on_over_a_reopening() {
    let dir = folder();
    let clock = TestClock::new();
    let until = semel_core::Clock::now(&clock).plus(LEASE);
    let started = State::Started {
        lease_until: until,
        recovery: Recovery::Rerun,
    };
    let holder = Some((ClaimId::from_u128(900), until));
    let entity = EntityRecord {
        applied: Some(4),
        holder,
    };
    let cart: Entity = Key::from(5);
    let items = [
        listed("claimed", State::Claimed { lease_until: until }),
        listed("started", started),
        Item::Entity(scope(), cart.clone(), entity),
    ];
    let store = open(dir.path(), &clock);
    // A request of its own, to compare with.
    let own = ClaimRequest {
        start: semel_core::Start::Marked(Recovery::Rerun),
        lease: LEASE,
        ..request("own", 1)
    };
    let granted = store.claim([own].into()).await.expect("a claim");
    assert!(matches!(granted[..], [Admission::Granted(_)]));
    assert_eq!(
        store.import(items.into()).await.expect("an import"),
        [true; 3]
    );
    // Other records come and go, so that the segment of the import is given back.
    for round in 0..40 {
        let batch = (0..50).map(|number| ClaimRequest {
            window: semel_core::Window::new(Duration::from_millis(10)),
            ..request(&format!("{round}-{number}"), 1_000 + round * 50 + number)
        });
        let admitted = store.admit_with(batch.collect(), mark("out", 1)).await;
        assert_eq!(admitted.expect("admissions").len(), 50);
        clock.advance(Duration::from_millis(500));
        while store.sweep(1_000).await.expect("a sweep").more {}
    }
    assert!(!dir.path().join("records-0000000001.log").exists());
    drop(store);
    let store = open(dir.path(), &clock);
    let gated = ClaimRequest {
        gate: Some(VersionGate {
            entity: cart,
            version: 9,
        }),
        ..request("gated", 2)
    };
    let ask = [
        request("claimed", 3),
        request("started", 4),
        gated,
        request("own", 5),
    ];
    let answers = store.claim(ask.clone().into()).await.expect("answers");
    for answer in &answers[..3] {
        let is_busy = matches!(answer, Admission::Busy { until: found, .. } if *found == until);
        assert!(is_busy, "{answer:?}");
    }
    assert!(
        matches!(&answers[3], Admission::Granted(claim) if claim.takeover),
        "the lock proves that its own holder is gone: {:?}",
        answers[3]
    );
    clock.advance(LEASE);
    let answers = store.claim((&ask[..3]).into()).await.expect("answers");
    let is_granted = |answer: &Admission| matches!(answer, Admission::Granted(_));
    assert!(answers.iter().all(is_granted), "{answers:?}");
}

#[tokio::test]
async fn what_was_forgotten_and_done_again_is_found_after_a_reopening() {
    let dir = folder();
    let clock = TestClock::new();
    let store = open(dir.path(), &clock);
    let brief = |claim| ClaimRequest {
        window: semel_core::Window::new(Duration::from_secs(1)),
        ..request("brief", claim)
    };
    // The other one keeps the segment, and with it the version that is forgotten.
    for batch in [vec![brief(1), request("long", 2)], vec![brief(3)]] {
        let admissions = store.admit_with(batch, mark("out", 1)).await;
        let admissions = admissions.expect("admissions");
        let is_granted = |admission: &Admission| matches!(admission, Admission::Granted(_));
        assert!(admissions.iter().all(is_granted), "{admissions:?}");
        clock.advance(Duration::from_secs(5));
    }
    drop(store);
    // The clock is back where the second version is not forgotten.
    let store = open(dir.path(), &TestClock::new());
    let operations = [brief(0).operation, request("long", 0).operation];
    let found = store.get(operations.into()).await.expect("an answer");
    let claims: Vec<_> = found
        .iter()
        .map(|record| record.as_ref().map(|record| record.claim_id))
        .collect();
    let [again, long] = [3, 2].map(|claim| Some(ClaimId::from_u128(claim)));
    assert_eq!(claims, [again, long]);
    let stats = store.stats().await.expect("stats");
    assert_eq!(stats.records.iter().sum::<u64>(), 2);
}

#[tokio::test]
async fn a_count_reads_no_large_segment_for_what_is_forgotten() {
    // Without much on disk the count is exact; beyond, what is forgotten counts until its segment is gone.
    for (outcome_bytes, counted) in [(1, 1), (100_000, 61)] {
        let dir = folder();
        let clock = TestClock::new();
        let store = EmbeddedStore::open(dir.path(), Arc::new(clock.clone()), Options::default());
        let store = store.expect("the store opens");
        let brief = semel_core::Window::new(Duration::from_secs(1));
        // The one that is not forgotten keeps the segment.
        let claims: Vec<_> = (0..=60)
            .map(|number| ClaimRequest {
                window: if number == 0 {
                    semel_core::Window::DEFAULT
                } else {
                    brief
                },
                ..request(&key_of(number), number as u64)
            })
            .collect();
        store.claim(claims.clone().into()).await.expect("claims");
        let outcome = Outcome::raw(Bytes::from(vec![b'x'; outcome_bytes]), outcome_bytes);
        let completed = claims.iter().map(|claim| Settlement {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            step: Step::Complete {
                outcome: outcome.clone(),
                window: claim.window,
            },
        });
        store.settle(completed.collect()).await.expect("settled");
        let completed = |stats: Stats| stats.records.iter().sum::<u64>();
        assert_eq!(completed(store.stats().await.expect("stats")), 61);
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(completed(store.stats().await.expect("stats")), counted);
    }
}

#[tokio::test]
async fn a_token_beyond_all_others_is_refused() {
    let dir = folder();
    let store = open(dir.path(), &TestClock::new());
    let item = |token| [Item::Token(FencingToken::new(token))];
    let refused = store.import(item(u64::MAX).into()).await;
    let refused = refused.expect_err("nothing greater could be given out");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let most = u64::MAX >> 1;
    assert_eq!(
        store.import(item(most).into()).await.expect("an import"),
        [true]
    );
    drop(store);
    let store = open(dir.path(), &TestClock::new());
    let granted = store
        .claim([request("a", 1)].into())
        .await
        .expect("a claim");
    match &granted[..] {
        [Admission::Granted(claim)] => assert!(claim.token.get() > most),
        other => panic!("{other:?}"),
    }
}

fn listed(key: &str, state: State) -> Item {
    let at = semel_core::Timestamp::from_millis(1_000);
    let record = Record {
        state,
        fingerprint: None,
        members: None,
        transport: None,
        claim_id: ClaimId::from_u128(900),
        token: FencingToken::new(7),
        claimed_at: at,
        attempts: 1,
        vanished: 0,
        possible_repeats: 0,
        doubt: None,
        past: Vec::new(),
        created_at: at,
        first_started_at: None,
        last_error: None,
        gate: None,
        held: false,
        outcome: None,
    };
    let operation = request(key, 0).operation;
    Item::Record(Box::new(Listed { operation, record }))
}

/// Returns a key of this number, of one of many lengths.
fn key_of(name: usize) -> String {
    let len = match name % 97 {
        0 => 6_000,
        1..4 => 300,
        rest => rest,
    };
    format!("{name}-{}", "k".repeat(len))
}

fn request(key: &str, claim: u64) -> ClaimRequest {
    let key = Key::from_canonical(Bytes::from(key.to_owned())).expect("UTF-8");
    ClaimRequest::new(scope(), key, ClaimId::from_u128(u128::from(claim)))
}

fn scope() -> Scope {
    Scope::new("", "dedup").expect("a scope")
}

fn mark(name: &str, value: u64) -> Write {
    let name = name.into();
    Box::new(move |_| Ok(Mark { name, value }))
}

fn open(dir: &Path, clock: &TestClock) -> EmbeddedStore {
    let options = Options::default().with_segment_bytes(128 << 10);
    EmbeddedStore::open(dir, Arc::new(clock.clone()), options).expect("the store opens")
}

/// Returns a folder in memory where there is such a place, since nothing here is about syncs.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .expect("a folder")
}

fn below(random: &mut impl FnMut() -> u64, bound: u64) -> usize {
    usize::try_from(random() % bound).expect("small")
}

/// Returns a small generator, so that the test is the same each time.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }
}

const LEASE: Duration = Duration::from_secs(3_600);
