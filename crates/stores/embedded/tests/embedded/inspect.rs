//! The read-only view shows what the store shows, while the store is open and working.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::decide::{Directive, Order, Verdict};
use semel_core::port::store::{ListQuery, Listed};
use semel_core::{
    AttemptLimits, Certainty, ClaimId, ClaimRequest, Code, ErrorKind, Key, Operation, Outcome,
    Parked, Recovery, Result, Scope, Settlement, Start, State, StateKind, Step, Store, Timestamp,
    VersionGate, Window,
};
use semel_store_embedded::{EmbeddedStore, Inspector, Options};
use tempfile::TempDir;

#[tokio::test]
async fn lists_are_those_of_the_store_at_every_moment() -> Result<()> {
    for seed in 1..=20 {
        let site = Site::new();
        let store = site.open()?;
        let inspector = site.inspect()?;
        let mut random = Random(seed);
        for step in 0..60 {
            site.act(&store, &mut random).await?;
            if step % 4 == 0 {
                compare(&store, &inspector, &format!("seed {seed}, step {step}")).await?;
            }
            if step % 23 == 22 {
                store.sweep(1_000).await?;
                site.clock.advance(Duration::from_secs(7));
            }
        }
        drop(store);
        let reopened = site.open()?;
        compare(&reopened, &inspector, &format!("seed {seed}, reopened")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_record_that_was_forgotten_long_after_it_finished_is_not_listed() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    for number in 0..2_000 {
        site.finish(&store, number).await?;
    }
    let inspector = site.inspect()?;
    assert_eq!(all(&inspector, &ListQuery::default()).await?.len(), 2_000);
    site.order(&store, 3, Order::Forget).await?;
    // The order is in an older segment by now, and all that follows is ordinary.
    for number in 2_000..4_000 {
        site.finish(&store, number).await?;
    }
    let listed = all(&inspector, &ListQuery::default()).await?;
    assert_eq!(listed.len(), 3_999);
    assert!(!listed.contains_key(&operation(3).id().to_string()));
    assert_eq!(inspector.get([operation(3)].into()).await?, [None]);
    Ok(())
}

#[tokio::test]
async fn entities_are_counted_as_the_store_counts_them() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    for number in 0..1_000 {
        let gated = ClaimRequest {
            gate: Some(VersionGate {
                entity: Key::from(number % 7),
                version: number + 1,
            }),
            ..request(number, number + 1)
        };
        let _ = store.claim([gated.clone()].into()).await?;
        let step = Step::Complete {
            outcome: Outcome::empty(),
            window: WINDOW,
        };
        settle(&store, &gated, step).await?;
    }
    let counted = site.inspect()?.stats().await?;
    assert_eq!((store.stats().await?.entities, counted.entities), (7, 7));
    assert_eq!(counted.records[StateKind::Completed as usize], 1_000);
    Ok(())
}

#[tokio::test]
async fn a_look_up_brings_the_outcome() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    site.finish(&store, 7).await?;
    let found = site
        .inspect()?
        .get([operation(7), operation(8)].into())
        .await?;
    assert_eq!(found, store.get([operation(7), operation(8)].into()).await?);
    assert!(
        found[0]
            .as_ref()
            .is_some_and(|record| record.outcome.is_some())
    );
    Ok(())
}

#[tokio::test]
async fn nothing_can_be_changed_and_nothing_is() -> Result<()> {
    let site = Site::new();
    drop(site.open()?);
    let before = site.bytes();
    let inspector = site.inspect()?;
    let refused = inspector
        .claim([request(1, 1)].into())
        .await
        .expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    all(&inspector, &ListQuery::default()).await?;
    inspector.stats().await?;
    assert_eq!(site.bytes(), before);
    Ok(())
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().expect("a folder");
    let gone = dir.path().join("data");
    let clock = TestClock::new();
    let missing = Inspector::open(&gone, Arc::new(clock.clone())).expect_err("no store");
    assert_eq!(missing.code(), Code::StoreUnavailable);
    assert!(!gone.exists());
    let empty = Inspector::open(dir.path(), Arc::new(clock.clone())).expect_err("no store");
    assert_eq!(empty.code(), Code::StoreUnavailable);
    std::fs::write(dir.path().join("thesis.txt"), "mine").expect("a file");
    let foreign = Inspector::open(dir.path(), Arc::new(clock)).expect_err("no store");
    assert_eq!(foreign.code(), Code::StoreForeign);
}

#[tokio::test]
async fn damage_is_never_taken_for_the_end() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    for number in 0..20 {
        site.finish(&store, number).await?;
        let _ = store.park([parked(number)].into()).await?;
    }
    drop(store);
    for (name, mut bytes) in site.bytes() {
        let path = site.path().join(&name);
        let whole = bytes.clone();
        let half = bytes.len() / 2;
        bytes[half] ^= 1;
        std::fs::write(&path, bytes).expect("a file");
        let inspector = site.inspect();
        let query = ListQuery {
            limit: 100,
            ..ListQuery::default()
        };
        let found = match inspector {
            Err(error) => Some(error.kind()),
            Ok(inspector) if name.starts_with("records-") => {
                let found = inspector.list(&query).await.err();
                let looked_up = inspector.get([operation(19)].into()).await.err();
                assert!(looked_up.is_some(), "{name}: the damage lies before it");
                found.map(|error| error.kind())
            }
            Ok(inspector) if name.starts_with("parked-") => {
                let found = inspector.list_parked(&query).await.err();
                found.map(|error| error.kind())
            }
            Ok(_) => Some(ErrorKind::Corrupt),
        };
        assert_eq!(found, Some(ErrorKind::Corrupt), "{name}");
        std::fs::write(&path, whole).expect("a file");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_is_handed_out_once() -> Result<()> {
    let site = Site::new();
    let store = site.open()?;
    for number in 0..5 {
        site.finish(&store, number).await?;
    }
    let inspector = site.inspect()?;
    let mut query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    query.after = inspector.list(&query).await?.next;
    assert_eq!(inspector.list(&query).await?.items.len(), 2);
    let again = inspector.list(&query).await.expect_err("used up");
    assert_eq!(again.kind(), ErrorKind::InvalidInput);
    Ok(())
}

/// A store in a folder of its own, with segments that are soon full.
struct Site {
    dir: TempDir,
    clock: TestClock,
}

impl Site {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a folder"),
            clock: TestClock::new(),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn open(&self) -> Result<EmbeddedStore> {
        let options = Options::default().with_segment_bytes(16 << 10);
        EmbeddedStore::open(self.path(), Arc::new(self.clock.clone()), options)
    }

    fn inspect(&self) -> Result<Inspector> {
        Inspector::open(self.path(), Arc::new(self.clock.clone()))
    }

    fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(self.path()).expect("a folder");
        let read = files.map(|entry| {
            let entry = entry.expect("a file");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).expect("bytes"))
        });
        read.collect()
    }

    async fn finish(&self, store: &EmbeddedStore, number: u64) -> Result<()> {
        let request = request(number, number + 1);
        let _ = store.claim([request.clone()].into()).await?;
        let step = Step::Complete {
            outcome: Outcome::raw(Bytes::from(format!("outcome of {number}")), 1_000),
            window: WINDOW,
        };
        settle(store, &request, step).await
    }

    async fn order(&self, store: &EmbeddedStore, number: u64, order: Order) -> Result<()> {
        let directive = Directive {
            operation: operation(number),
            order,
            note: None,
        };
        let _ = store.operate([directive].into()).await?;
        Ok(())
    }

    /// Does something to one of a few keys, or twenty fresh ones.
    async fn act(&self, store: &EmbeddedStore, random: &mut Random) -> Result<()> {
        let number = random.below(30);
        let claim = random.next();
        match random.below(13) {
            0 => {
                for fresh in 0..20 {
                    self.finish(store, 1_000 + claim % 100_000 + fresh).await?;
                }
            }
            1..=3 => self.finish(store, number).await?,
            4 => {
                let started = ClaimRequest {
                    start: Start::Marked(Recovery::Park),
                    ..request(number, claim)
                };
                let _ = store.claim([started].into()).await?;
            }
            5 => {
                let request = request(number, claim);
                let _ = store.claim([request.clone()].into()).await?;
                let step = Step::Fail {
                    decisive: false,
                    error: "no".into(),
                    window: WINDOW,
                };
                settle(store, &request, step).await?;
            }
            6 => {
                let request = request(number, claim);
                let _ = store.claim([request.clone()].into()).await?;
                let step = Step::Release {
                    error: "later".into(),
                    certainty: Certainty::NotApplied,
                    after: Duration::ZERO,
                    counted: true,
                    limits: AttemptLimits::default(),
                    window: WINDOW,
                };
                settle(store, &request, step).await?;
            }
            7 => self.order(store, number, Order::Forget).await?,
            8 => {
                let hold = Order::Hold(claim.is_multiple_of(2));
                self.order(store, number, hold).await?;
            }
            9 => self.order(store, number, Order::Requeue).await?,
            10 => {
                let abandon = Order::Resolve(Verdict::Abandon { window: WINDOW });
                self.order(store, number, abandon).await?;
            }
            11 => {
                let longer = WINDOW.duration() + Duration::from_secs(claim % 1_000);
                self.order(store, number, Order::Extend(longer)).await?;
            }
            _ if claim.is_multiple_of(3) => {
                let _ = store
                    .drop_parked([parked(number).id()].into(), None)
                    .await?;
            }
            _ => {
                let _ = store.park([parked(number)].into()).await?;
            }
        }
        Ok(())
    }
}

async fn settle(store: &EmbeddedStore, request: &ClaimRequest, step: Step) -> Result<()> {
    let settlement = Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step,
    };
    let _ = store.settle([settlement].into()).await?;
    Ok(())
}

/// Compares everything that both show, by id. Unmarked claims live in the store's memory alone: on disk their keys are
/// absent or as they were before.
async fn compare(store: &EmbeddedStore, inspector: &Inspector, when: &str) -> Result<()> {
    for state in [None, Some(StateKind::Dead), Some(StateKind::InDoubt)] {
        let query = ListQuery {
            state,
            limit: 7,
            ..ListQuery::default()
        };
        let [mut ours, mut theirs] = [all(store, &query).await?, all(inspector, &query).await?];
        let is_claimed = |listed: &Listed| listed.record.state.kind() == StateKind::Claimed;
        theirs.retain(|id, _| !ours.get(id).is_some_and(is_claimed));
        ours.retain(|_, listed| !is_claimed(listed));
        // An opened store takes every lease for over; the files show what was written.
        for listed in theirs.values_mut().chain(ours.values_mut()) {
            if let State::Started { lease_until, .. } = &mut listed.record.state {
                *lease_until = Timestamp::EPOCH;
            }
        }
        let (mut theirs, mut ours) = (theirs.into_iter(), ours.into_iter());
        loop {
            let pair = (theirs.next(), ours.next());
            assert_eq!(pair.0, pair.1, "{when}, {state:?}");
            if pair.0.is_none() {
                break;
            }
        }
    }
    let query = ListQuery {
        limit: 3,
        ..ListQuery::default()
    };
    assert_eq!(
        all_parked(inspector, &query).await?,
        all_parked(store, &query).await?,
        "{when}"
    );
    Ok(())
}

async fn all(store: &impl Store, query: &ListQuery) -> Result<BTreeMap<String, Listed>> {
    let mut query = query.clone();
    query.limit = query.limit.max(1);
    let mut all = BTreeMap::new();
    loop {
        let page = store.list(&query).await?;
        for listed in page.items {
            let id = listed.operation.id().to_string();
            let again = all.insert(id, listed.clone());
            assert!(again.is_none(), "listed twice: {again:?} {listed:?}");
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}

async fn all_parked(store: &impl Store, query: &ListQuery) -> Result<Vec<Parked>> {
    let mut query = query.clone();
    let mut all = Vec::new();
    loop {
        let page = store.list_parked(&query).await?;
        all.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}

fn operation(number: u64) -> Operation {
    let scope = Scope::new("", "payments").expect("a scope");
    Operation::new(scope, Key::new(&format!("pay-{number}")).expect("a key"))
}

fn request(number: u64, claim: u64) -> ClaimRequest {
    let Operation { scope, key } = operation(number);
    ClaimRequest {
        window: WINDOW,
        lease: Duration::from_secs(1),
        ..ClaimRequest::new(scope, key, ClaimId::from_u128(u128::from(claim)))
    }
}

fn parked(number: u64) -> Parked {
    Parked {
        scope: operation(number).scope,
        key: Some(operation(number).key),
        reason: "dead".into(),
        detail: "no".into(),
        transport: None,
        coordinates: "in:1".into(),
        headers: Vec::new(),
        payload: Bytes::from(vec![b'x'; 500]),
        since: Timestamp::EPOCH,
    }
}

/// A small generator, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const WINDOW: Window = Window::new(Duration::from_secs(60));
