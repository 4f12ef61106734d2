//! A cluster of three primaries: the laws of the store, and the effects of a cluster on its
//! clients.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use semel_conformance::{Case, Subject, TestClock, store_cases};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Admission, Code, LawId, Store, VersionGate};
use semel_store_redis::{Options, RedisStore};

use crate::lab::{complete, completion, connect_to, grant, refused, request};
use crate::server::Server;

/// Three primaries that serve a third of the slots each.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let node = |_| {
            let bus = free_port::take().expect("a free port").to_string();
            let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-port", &bus];
            arguments.extend([
                "--cluster-node-timeout",
                "2000",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ]);
            (Server::start(&arguments), bus)
        };
        let nodes: Vec<_> = (0..3).map(node).collect();
        for (number, (node, _)) in nodes.iter().enumerate() {
            let (from, to) = (number * 16_384 / 3, (number + 1) * 16_384 / 3 - 1);
            let added = node.ask(&[
                "CLUSTER",
                "ADDSLOTSRANGE",
                &from.to_string(),
                &to.to_string(),
            ]);
            assert_eq!(added, ["+OK"]);
        }
        for (node, bus) in &nodes[1..] {
            let met =
                nodes[0]
                    .0
                    .ask(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string(), bus]);
            assert_eq!(met, ["+OK"]);
        }
        let nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
        let cluster = Self { nodes };
        cluster.wait();
        cluster
    }

    /// Waits until all nodes agree that all is well.
    fn wait(&self) {
        for _ in 0..500 {
            let is_well = |node: &Server| {
                let info = node.ask(&["CLUSTER", "INFO"]).concat();
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            };
            if self.nodes.iter().all(is_well) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("the cluster does not come up");
    }

    pub(crate) fn url(&self) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("redis+cluster://{}", nodes.join(","))
    }
}

static CLUSTER: OnceLock<String> = OnceLock::new();

struct Clustered {
    clock: TestClock,
    store: Arc<RedisStore>,
}

impl Subject for Clustered {
    type Store = RedisStore;

    async fn open() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let clock = TestClock::new();
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let cluster = CLUSTER.get().expect("a cluster");
        let url = format!("{cluster}?prefix=laws-{number}");
        let store = RedisStore::connect(&url, options).await;
        Self {
            clock,
            store: Arc::new(store.expect("a store")),
        }
    }

    fn store(&self) -> &Arc<RedisStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

/// Every law holds but those of versions, which a cluster refuses.
#[test]
fn the_laws_hold_on_a_cluster() {
    let cluster = Cluster::start();
    CLUSTER.set(cluster.url()).expect("set once");
    let broken = run_all(store_cases::<Clustered>(), 8);
    let of_versions: BTreeSet<_> = store_cases::<Clustered>()
        .into_iter()
        .filter(|case| matches!(case.law, LawId::VersionGate | LawId::OneClaimPerEntity))
        .map(|case| case.name)
        .chain([
            "a_release_order_leaves_the_entity_of_another_alone",
            "a_released_claim_frees_its_entity",
            "an_entity_twice_in_a_batch_is_busy",
            "entities_are_counted_once_each_and_for_good",
            "settlements_of_one_entity_in_a_batch_add_up",
        ])
        .collect();
    let others: Vec<_> = broken
        .iter()
        .filter(|(name, _)| !of_versions.contains(name))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let refused: BTreeSet<_> = broken.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        refused, of_versions,
        "a cluster that takes versions must say so"
    );
}

/// Runs cases on so many threads; returns the names of those that are broken, with their messages.
pub(crate) fn run_all(cases: Vec<Case>, threads: usize) -> Vec<(&'static str, String)> {
    let (cases, next, broken) = (
        Arc::new(cases),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (cases, next, broken) =
                (Arc::clone(&cases), Arc::clone(&next), Arc::clone(&broken));
            thread::spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if let Err(panic) = catch_unwind(|| case.run()) {
                        let words = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        broken.lock().expect("a list").push((case.name, words));
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("joined");
    }
    let mut broken = broken.lock().expect("a list");
    std::mem::take(&mut *broken)
}

#[tokio::test]
async fn a_batch_of_a_cluster_is_spread_over_its_nodes_and_listed_whole() {
    let cluster = Cluster::start();
    let store = connect_to(&cluster.url()).await;
    let batch: Vec<_> = (0..3_000)
        .map(|number| request(&format!("pay-{number}"), 1))
        .collect();
    let claims = store.claim(batch.clone().into()).await.expect("claims");
    assert!(claims.iter().all(|it| matches!(it, Admission::Granted(_))));
    let completions: Vec<_> = batch.iter().map(completion).collect();
    let _ = store.settle(completions.into()).await.expect("completed");
    for node in &cluster.nodes {
        let keys = node.ask(&["DBSIZE"]).concat();
        let keys: usize = keys.trim_start_matches(':').parse().expect("a number");
        assert!(
            (800..1_400).contains(&keys),
            "{keys} keys on one of three nodes"
        );
    }
    let mut query = ListQuery {
        limit: 700,
        ..ListQuery::default()
    };
    let mut seen = BTreeSet::new();
    loop {
        let page = store.list(&query).await.expect("a page");
        seen.extend(
            page.items
                .into_iter()
                .map(|it| it.operation.key.to_string()),
        );
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 3_000);
    assert_eq!(
        store.stats().await.expect("counts").records,
        [0, 0, 0, 3_000, 0, 0]
    );
}

#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    let cluster = Cluster::start();
    let store = connect_to(&cluster.url()).await;
    let batch: Vec<_> = (0..500)
        .map(|number| request(&format!("pay-{number}"), 1))
        .collect();
    let _ = store.claim(batch.clone().into()).await.expect("claims");
    let [from, to, third] = &cluster.nodes[..] else {
        panic!("three nodes")
    };
    let id_of = |node: &Server| node.ask(&["CLUSTER", "MYID"]).concat();
    let ids = [from, to, third].map(id_of);
    // Every slot of a bucket on the first node moves to the second.
    let mut slots = BTreeSet::new();
    for key in from.ask(&["KEYS", "semel:*:c"]) {
        slots.insert(
            from.ask(&["CLUSTER", "KEYSLOT", &key])
                .concat()
                .trim_start_matches(':')
                .to_owned(),
        );
    }
    assert!(slots.len() > 10, "{slots:?}");
    for slot in &slots {
        to.ask(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &ids[0]]);
        from.ask(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &ids[1]]);
        for key in from.ask_bytes(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"10000"]) {
            let port = to.port.to_string();
            let moved = from.ask_bytes(&[
                b"MIGRATE",
                b"127.0.0.1",
                port.as_bytes(),
                &key,
                b"0",
                b"5000",
            ]);
            assert_eq!(moved, [b"+OK"]);
        }
        for node in [to, from, third] {
            assert_eq!(
                node.ask(&["CLUSTER", "SETSLOT", slot, "NODE", &ids[1]]),
                ["+OK"]
            );
        }
    }
    for request in &batch {
        complete(&store, request).await;
    }
    assert_eq!(
        store.stats().await.expect("counts").records,
        [0, 0, 0, 500, 0, 0]
    );
    assert_eq!(from.ask(&["KEYS", "semel:*:r*"]), Vec::<String>::new());
}

#[tokio::test]
async fn a_dead_node_fails_its_own_keys_alone() {
    let mut cluster = Cluster::start();
    // The other buckets go on while one is away.
    for node in &cluster.nodes {
        node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let mut options = Options::default();
    options.patience = Duration::from_millis(500);
    let store = RedisStore::connect(&cluster.url(), options)
        .await
        .expect("a store");
    let _ = grant(&store, &request("before", 1)).await;
    cluster.nodes[2].kill();
    let batch: Vec<_> = (0..300)
        .map(|number| request(&format!("pay-{number}"), 1))
        .collect();
    let answers = store.claim(batch.clone().into()).await.expect("answers");
    let (granted, failed): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|it| matches!(it, Admission::Granted(_)));
    assert!(
        granted.len() > 100 && failed.len() > 50,
        "{} and {}",
        granted.len(),
        failed.len()
    );
    for failed in failed {
        let Admission::Failed(error) = failed else {
            panic!("{failed:?}")
        };
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    }
    cluster.nodes[2].restart();
    cluster.wait();
    for request in &batch {
        assert_eq!(grant(&store, request).await.attempt, 1);
    }
}

#[tokio::test]
async fn a_cluster_and_a_single_server_are_not_taken_for_each_other() {
    let cluster = Cluster::start();
    let node = &cluster.nodes[0];
    let error = refused(&node.url()).await;
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
    let single = Server::durable();
    let error = refused(&single.url().replace("redis://", "redis+cluster://")).await;
    assert!(error.to_string().contains("no cluster"), "{error}");
}

#[tokio::test]
async fn a_cluster_refuses_versions_one_by_one() {
    let cluster = Cluster::start();
    let store = connect_to(&cluster.url()).await;
    let mut versioned = request("gated", 1);
    versioned.gate = Some(VersionGate {
        entity: versioned.operation.key.clone(),
        version: 1,
    });
    let answers = store
        .claim([request("plain", 1), versioned.clone()].into())
        .await
        .expect("answers");
    assert!(matches!(answers[0], Admission::Granted(_)), "{answers:?}");
    let Admission::Failed(error) = &answers[1] else {
        panic!("{answers:?}")
    };
    assert_eq!(error.code(), Code::Unsupported);
    assert_eq!(
        store
            .get([versioned.operation].into())
            .await
            .expect("records"),
        [None]
    );
}

/// Records that move to a cluster and back are unchanged.
#[tokio::test]
async fn a_store_moves_to_a_cluster_and_back() {
    let (single, cluster, other) = (Server::durable(), Cluster::start(), Server::durable());
    let (from, over, to) = (
        connect_to(&single.url()).await,
        connect_to(&cluster.url()).await,
        connect_to(&other.url()).await,
    );
    crate::index::work(&from).await;
    let contents = |items: Vec<Item>| -> BTreeSet<String> {
        let items = items.iter().filter(|it| !matches!(it, Item::Token(_)));
        items.map(|item| format!("{item:?}")).collect()
    };
    let expected = contents(exported(&from).await);
    for (one, next) in [(&from, &over), (&over, &to)] {
        let items = exported(one).await;
        let new = next.import(items.clone().into()).await.expect("imported");
        assert!(new.iter().all(|new| *new), "all of it is new");
        let again = next.import(items.clone().into()).await.expect("imported");
        assert!(again.iter().all(|new| !new), "once");
        assert_eq!(contents(exported(next).await), expected);
        let query = ListQuery {
            limit: 1_000,
            ..ListQuery::default()
        };
        let trail = |page: semel_core::port::store::Page<semel_core::Audited>| page.items;
        assert_eq!(
            trail(next.list_audit(&query).await.expect("entries")),
            trail(one.list_audit(&query).await.expect("entries"))
        );
    }
}

async fn exported(store: &RedisStore) -> Vec<Item> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = store.export(after.as_deref(), 50).await.expect("a page");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
}
