//! Many workers at the same keys, in every order: no deadlock reaches them, and each effect happens once.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::transactional::TransactionalStore;
use semel_core::{
    Admission, Advice, Certainty, ClaimId, ClaimRequest, Error, ErrorKind, Outcome, Renewal,
    Renewed, Settled, StateKind, Step, Store, Window,
};
use semel_store_postgres::{Options, PostgresStore};
use tokio::task::JoinSet;

use crate::lab::{
    Lab, claim, completion, connect, gated, granted, is_done, message, operation, proxy, report,
    request, settle, state, statements, take, text,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_in_opposite_orders_are_never_told_of_a_deadlock() {
    let lab = Lab::new();
    drop(lab.store().await);
    let user = lab.client().await;
    user.batch_execute(
        "CREATE TABLE shelves (shelf text PRIMARY KEY, wares integer NOT NULL); \
         INSERT INTO shelves SELECT 'shelf ' || n, 0 FROM generate_series(0, 9) AS n",
    )
    .await
    .expect("a table");
    let mut workers = JoinSet::new();
    for worker in 0..8_u128 {
        // Every second one goes backwards, and a store of its own has connections of its own.
        let store = lab.store().await;
        workers.spawn(async move {
            for round in 0..ROUNDS {
                one_round(&store, worker, round).await;
            }
        });
    }
    workers.join_all().await;
    let row = user
        .query_one("SELECT sum(wares) FROM shelves", &[])
        .await
        .expect("a sum");
    // In each round each of ten keys was applied once, by the worker that came first.
    assert_eq!(row.get::<_, i64>(0), i64::from(ROUNDS) * 10);
}

/// Claims, renewals, completions, orders of gated and of ungated keys, and effects whose statements
/// lock the user's own rows in the order of the batch.
async fn one_round(store: &PostgresStore, worker: u128, round: u32) {
    let order = |mut names: Vec<String>| {
        if worker % 2 == 1 {
            names.reverse();
        }
        names
    };
    let keys = |kind: &str| order((0..10).map(|n| format!("{kind}-{round}-{n}")).collect());
    let batch: Vec<_> = keys("plain")
        .iter()
        .map(|key| request(key, worker + 1))
        .collect();
    let answers = store.claim(batch.clone().into()).await.expect("claims");
    let mine: Vec<_> = answers
        .into_iter()
        .filter_map(|answer| match answer {
            Admission::Granted(claim) => Some(claim),
            Admission::Busy { .. } | Admission::Replay { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    let renewals: Vec<_> = mine
        .iter()
        .map(|claim| Renewal {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            lease: Duration::from_secs(60),
        })
        .collect();
    for renewed in store
        .renew(renewals.clone().into())
        .await
        .expect("renewals")
    {
        assert!(matches!(renewed, Renewed::Until(_)), "{renewed:?}");
    }
    // Claims of others are reported too, so that every worker is at every row.
    let reports: Vec<_> = keys("plain")
        .iter()
        .map(|key| completion(key, worker + 1, b"paid"))
        .collect();
    for settled in store.settle(reports.into()).await.expect("settlements") {
        assert!(
            matches!(
                settled,
                Settled::Now(StateKind::Completed) | Settled::Fenced { .. }
            ),
            "{settled:?}"
        );
    }
    let batch: Vec<_> = keys("gated")
        .iter()
        .map(|key| {
            gated(
                key,
                worker + 1,
                &key.replace("gated", "cart"),
                u64::try_from(worker).expect("a few") + 1,
            )
        })
        .collect();
    for answer in store
        .claim(batch.clone().into())
        .await
        .expect("gated claims")
    {
        assert!(!matches!(answer, Admission::Failed(_)), "{answer:?}");
    }
    let insert = statements(
        &["UPDATE shelves SET wares = wares + 1 WHERE shelf = :shelf"],
        &["shelf"],
    );
    let batch: Vec<_> = keys("effect")
        .iter()
        .map(|key| {
            let number = key.rsplit('-').next().expect("a number");
            message(key, worker + 1, vec![text(&format!("shelf {number}"))])
        })
        .collect();
    let answers = store.apply(&insert, batch.into()).await.expect("effects");
    assert!(answers.iter().all(is_done), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_that_hold_rows_in_opposite_orders_deadlock_and_one_is_told_to_begin_again() {
    let lab = Lab::new();
    let store = lab.store().await;
    take(&store, &request("first", 1)).await;
    let inbox = store.inbox();
    let (mut one, mut other) = (lab.client().await, lab.client().await);
    let both = |keys: [&'static str; 2], claim_id| {
        (request(keys[0], claim_id), request(keys[1], claim_id))
    };
    // Each has its first before either asks for its second.
    let both_have_one = tokio::sync::Barrier::new(2);
    let forward = async {
        let tx = one.transaction().await.expect("a transaction");
        let (a, b) = both(["a", "b"], 1);
        let _ = granted(inbox.admit(&tx, &a).await.expect("the first is free"));
        both_have_one.wait().await;
        let second = inbox.admit(&tx, &b).await;
        tx.commit().await.expect("an end");
        second
    };
    let backward = async {
        let tx = other.transaction().await.expect("a transaction");
        let (b, a) = both(["b", "a"], 2);
        let _ = granted(inbox.admit(&tx, &b).await.expect("the first is free"));
        both_have_one.wait().await;
        let second = inbox.admit(&tx, &a).await;
        tx.commit().await.expect("an end");
        second
    };
    let answers: [_; 2] = tokio::join!(forward, backward).into();
    let (granted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (1, 1));
    let error = refused
        .into_iter()
        .next()
        .and_then(Result::err)
        .expect("an error");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Throttled, Certainty::NotApplied)
    );
    assert!(matches!(error.advice(), Advice::Retry { .. }));
    // The winner has both keys, the loser none.
    let found = store
        .get([operation("a"), operation("b")].into())
        .await
        .expect("records");
    let [Some(a), Some(b)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(a.claim_id, b.claim_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_workers_at_ten_keys_have_one_effect_each() {
    let crowd = Crowd::new().await;
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let crowd = Arc::clone(&crowd);
        workers.spawn(async move {
            for turn in 0..TURNS * 10 {
                let key = format!("key-{}-{}", turn / 10, (worker + turn) % 10);
                crowd.one_effect(&key, worker).await;
            }
        });
    }
    workers.join_all().await;
    let rows = crowd
        .user
        .query("SELECT key, count(*) FROM payments GROUP BY key", &[])
        .await
        .expect("the payments");
    let paid: BTreeMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let names = (0..TURNS).flat_map(|turn| (0..10).map(move |n| format!("key-{turn}-{n}")));
    let expected = names.map(|key| (key, 1)).collect();
    assert_eq!(paid, expected);
    crowd.waited_for_few_others();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_workers_that_take_over_from_each_other_are_all_answered() {
    let crowd = Crowd::new().await;
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let crowd = Arc::clone(&crowd);
        workers.spawn(async move {
            let mut tokens = Vec::new();
            for turn in 0..TURNS * 10 {
                let key = format!("key-{}", (worker + turn) % 10);
                // Its lease is over as soon as it is granted, so that each claim is a takeover.
                let mut request = request(&key, u128::from(worker * TURNS * 10 + turn) + 1);
                request.lease = Duration::ZERO;
                request.limits.vanished = NonZeroU32::MAX;
                let claim = granted(crowd.claim(&request, worker).await);
                tokens.push((key, claim.attempt, claim.token));
            }
            tokens
        });
    }
    let mut taken: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (key, attempt, token) in workers.join_all().await.into_iter().flatten() {
        taken.entry(key).or_default().push((attempt, token));
    }
    assert_eq!(taken.len(), 10);
    for (key, mut claims) in taken {
        claims.sort_unstable();
        assert_eq!(claims.len() as u64, WORKERS * TURNS, "{key}");
        for (nth, pair) in claims.windows(2).enumerate() {
            let [(one, before), (next, after)] = pair else {
                unreachable!("pairs")
            };
            assert_eq!((*one as usize, *next as usize), (nth + 1, nth + 2), "{key}");
            assert!(before < after, "{key}: a later attempt has a smaller token");
        }
    }
    crowd.waited_for_few_others();
}

/// Two hundred workers over twenty connections, who count how many others are answered while they wait.
struct Crowd {
    stores: Vec<PostgresStore>,
    user: tokio_postgres::Client,
    answered: AtomicU64,
    longest: AtomicU64,
    _lab: Lab,
}

impl Crowd {
    async fn new() -> Arc<Self> {
        let lab = Lab::new();
        drop(lab.store().await);
        let user = lab.client().await;
        user.batch_execute("CREATE TABLE payments (key text)")
            .await
            .expect("a table");
        let url = lab.site.url().replace("connections=8", "connections=5");
        // A machine with much else to do takes its time; what is promised is counted in calls.
        let mut options = Options::default();
        options.patience = Duration::from_secs(300);
        options.statement_timeout = Duration::from_secs(300);
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(connect(&url, options.clone()).await);
        }
        Arc::new(Self {
            stores,
            user,
            answered: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            _lab: lab,
        })
    }

    /// Claims, pays and completes.
    async fn one_effect(&self, key: &str, worker: u64) {
        let claim_id = u128::from(worker) + 1;
        loop {
            match self.claim(&request(key, claim_id), worker).await {
                Admission::Granted(_) => break,
                Admission::Replay { .. } => return,
                Admission::Busy { .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                other => panic!("{other:?}"),
            }
        }
        let insert = "INSERT INTO payments VALUES ($1)";
        let paid = self.user.execute(insert, &[&key]).await;
        paid.expect("a payment");
        let batch = [completion(key, claim_id, b"paid")];
        let settled = self.timed(self.store(worker).settle(batch.into())).await;
        assert!(matches!(settled[..], [Settled::Now(StateKind::Completed)]));
    }

    async fn claim(&self, request: &ClaimRequest, worker: u64) -> Admission {
        let batch = std::slice::from_ref(request);
        self.timed(self.store(worker).claim(batch.into()))
            .await
            .remove(0)
    }

    fn store(&self, worker: u64) -> &PostgresStore {
        let own = usize::try_from(worker).expect("a few");
        &self.stores[own % self.stores.len()]
    }

    /// Records how many calls were answered while this one waited.
    async fn timed<A>(&self, call: impl Future<Output = Result<A, Error>>) -> A {
        let before = self.answered.load(Ordering::Relaxed);
        let answer = call.await.expect("no error reaches a worker");
        let others = self.answered.fetch_add(1, Ordering::Relaxed) - before;
        self.longest.fetch_max(others, Ordering::Relaxed);
        answer
    }

    /// Checks the latency, counted in calls: no call is passed by again and again.
    fn waited_for_few_others(&self) {
        let longest = self.longest.load(Ordering::Relaxed);
        let all = self.answered.load(Ordering::Relaxed);
        assert!(
            longest <= MOST_PASSED * WORKERS,
            "{longest} of {all} calls passed one that waited"
        );
    }
}

#[tokio::test]
async fn a_worker_that_stands_still_in_a_transaction_holds_nobody_for_long() {
    let lab = Lab::new();
    let proxy = proxy();
    let mut options = Options::default();
    options.statement_timeout = Duration::from_millis(700);
    let still = Arc::new(lab.store_through(&proxy, options).await);
    let others = lab.store().await;
    // Once before, so that its statements are prepared.
    take(&still, &gated("cart-0", 1, "cart", 1)).await;
    settle(&still, &completion("cart-0", 1, b"paid")).await;
    take(&others, &gated("cart-1", 1, "cart", 2)).await;
    let watcher = lab.client().await;
    // From here on, each answer takes a while, so that it can be stopped between two.
    proxy.delay(Duration::from_millis(60));
    let stuck = {
        let still = Arc::clone(&still);
        tokio::spawn(async move {
            still
                .settle([completion("cart-1", 1, b"paid")].into())
                .await
        })
    };
    let is_idle = format!(
        "SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE state = 'idle in transaction' \
         AND relation = '{}.records'::regclass AND mode = 'RowShareLock'",
        lab.schema()
    );
    while watcher
        .query_one(&is_idle, &[])
        .await
        .expect("a count")
        .get::<_, i64>(0)
        == 0
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    proxy.hold();
    let renewal = Renewal {
        operation: operation("cart-1"),
        claim_id: ClaimId::from_u128(1),
        lease: Duration::from_secs(60),
    };
    // The others' own patience, of thirty seconds, is not what ends this.
    let batch = [renewal];
    let renewed = tokio::time::timeout(PATIENCE, others.renew(batch.into())).await;
    let renewed = renewed.expect("an answer in time").expect("an answer");
    assert!(matches!(renewed[..], [Renewed::Until(_)]), "{renewed:?}");
    proxy.release();
    proxy.delay(Duration::ZERO);
    let error = stuck
        .await
        .expect("a task")
        .expect_err("its transaction is gone");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(state(&others, "cart-1").await, Some(StateKind::Claimed));
    // Once awake, it goes on like anybody.
    let settled = still
        .settle([completion("cart-1", 1, b"paid")].into())
        .await;
    assert!(matches!(
        settled.expect("an answer")[..],
        [Settled::Now(StateKind::Completed)]
    ));
}

#[tokio::test]
async fn a_worker_that_stops_reading_an_answer_holds_nobody_for_long() {
    let lab = Lab::new();
    let proxy = proxy();
    let mut options = Options::default();
    options.statement_timeout = Duration::from_millis(700);
    let still = Arc::new(lab.store_through(&proxy, options).await);
    let others = lab.store().await;
    // An answer far larger than the buffers between the two.
    let claim = claim(&others, &gated("cart-1", 1, "cart", 1)).await;
    let outcome = Outcome::raw(vec![7; 40 << 20].into(), usize::MAX);
    let step = Step::Complete {
        outcome,
        window: Window::DEFAULT,
    };
    let settled = others.settle([report("cart-1", 1, step)].into()).await;
    assert!(
        matches!(settled.expect("an answer")[..], [Settled::Now(_)]),
        "{claim:?}"
    );
    // A slow link, so that it can be stopped in the middle of an answer.
    let before = proxy.seen().server_bytes;
    proxy.delay(Duration::from_millis(5));
    let stuck = {
        let still = Arc::clone(&still);
        tokio::spawn(async move { still.claim([gated("cart-1", 2, "cart", 2)].into()).await })
    };
    proxy
        .until(|seen| seen.server_bytes > before + (1 << 20))
        .await;
    proxy.hold_answers();
    // The server is active and no statement of it runs too long: it waits for a reader. A caller that wants to change
    // the record waits for it.
    let order = Directive {
        operation: operation("cart-1"),
        order: Order::Hold(true),
        note: None,
    };
    let batch = [order];
    let directed = tokio::time::timeout(PATIENCE, others.operate(batch.into())).await;
    let directed = directed.expect("an answer in time").expect("an answer");
    assert!(matches!(directed[..], [Directed::Now(_)]), "{directed:?}");
    proxy.heal();
    let error = stuck
        .await
        .expect("a task")
        .expect_err("its connection is gone");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Unavailable, Certainty::NotApplied),
        "{error:?}"
    );
}

const ROUNDS: u32 = 200;
const WORKERS: u64 = 200;
/// Visits of each worker to each key.
const TURNS: u64 = 2;
/// Answers that each other worker may get while one waits.
const MOST_PASSED: u64 = 10;
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(15);
