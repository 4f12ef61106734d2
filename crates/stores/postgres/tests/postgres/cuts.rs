//! Connections that are cut at random bytes while claims, completions and effects are under way.
//!
//! Two workers share each key. A worker believes an error: work that surely was not applied it does by hand, since no
//! one else will; about work that may have been applied it asks again. So a store that says "not applied" of a commit
//! that broke is found out by a row too many.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_conformance::proxy::Proxy;
use semel_core::port::transactional::{Applied, Statements, TransactionalStore};
use semel_core::{Admission, Certainty, Error, Settled, StateKind, Store};
use semel_store_postgres::{Options, PostgresStore};
use tokio_postgres::Client;

use crate::lab::{Lab, completion, is_done, message, proxy, request, state, statements, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_a_connection_is_cut_each_effect_happens_once() {
    let rig = Rig::new().await;
    let bytes = rig.bytes().await;
    let mut seen = Seen::default();
    for seed in 1..=SEEDS {
        rig.cut(seed, bytes);
        seen.add(rig.workload(seed, trusting).await);
        rig.proxy.heal();
        let wrong = rig.wrong(seed).await;
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    }
    // Cuts beyond the last byte of a shorter run strike nothing.
    let cuts = rig.proxy.seen().cuts;
    assert!(cuts > SEEDS * 3 / 4, "{cuts} of {SEEDS} cuts");
    let Seen {
        not_applied,
        maybe_applied,
        resumed,
        replayed,
        busy,
    } = seen;
    let reached = [not_applied, maybe_applied, resumed, replayed, busy];
    assert!(!reached.contains(&0), "proves too little: {seen:?}");
}

/// Negative control: if no worker is found out here, the rig tests nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_a_broken_commit_for_not_applied_is_found_out() {
    let rig = Rig::new().await;
    let bytes = rig.bytes().await;
    for seed in 1..=SEEDS {
        rig.cut(seed, bytes);
        rig.workload(seed, naive).await;
        rig.proxy.heal();
        if !rig.wrong(seed).await.is_empty() {
            return;
        }
    }
    panic!("{SEEDS} cuts, and nobody applied anything twice");
}

/// A worker's reading of an error.
type Belief = fn(&Error) -> Certainty;

fn trusting(error: &Error) -> Certainty {
    error.certainty()
}

fn naive(_: &Error) -> Certainty {
    Certainty::NotApplied
}

/// Counts of the answers that workers got.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    not_applied: u64,
    maybe_applied: u64,
    resumed: u64,
    replayed: u64,
    busy: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.not_applied += other.not_applied;
        self.maybe_applied += other.maybe_applied;
        self.resumed += other.resumed;
        self.replayed += other.replayed;
        self.busy += other.busy;
    }

    fn believe(&mut self, certainty: Certainty) -> bool {
        match certainty {
            Certainty::NotApplied => self.not_applied += 1,
            Certainty::MaybeApplied => self.maybe_applied += 1,
        }
        certainty == Certainty::NotApplied
    }
}

struct Rig {
    proxy: Proxy,
    through: PostgresStore,
    direct: PostgresStore,
    user: Client,
    statements: Statements,
    _lab: Lab,
}

impl Rig {
    async fn new() -> Self {
        let lab = Lab::new();
        let proxy = proxy();
        let user = lab.client().await;
        let direct = lab.store().await;
        user.batch_execute("CREATE TABLE payments (key text)")
            .await
            .expect("a table");
        Self {
            through: lab.store_through(&proxy, Options::default()).await,
            proxy,
            direct,
            user,
            statements: statements(&["INSERT INTO payments VALUES (:key)"], &["key"]),
            _lab: lab,
        }
    }

    /// Returns the fewest bytes that the workload sends and receives, once its connections and statements are there. A
    /// worker that waits for another asks often, so that one run says little.
    async fn bytes(&self) -> [u64; 2] {
        self.workload(SEEDS + 1, trusting).await;
        let mut least = [u64::MAX; 2];
        for seed in SEEDS + 2..SEEDS + 7 {
            let before = self.proxy.seen();
            self.workload(seed, trusting).await;
            let after = self.proxy.seen();
            let [client, server] = least;
            least = [
                client.min(after.client_bytes - before.client_bytes),
                server.min(after.server_bytes - before.server_bytes),
            ];
        }
        least
    }

    /// Plans the cut of this seed, somewhere in the bytes that the workload sends or receives.
    fn cut(&self, seed: u64, bytes: [u64; 2]) {
        let mut dice = Dice(seed);
        self.proxy.reset(dice.below(2) == 0);
        match seed % 3 {
            0 => self.proxy.cut_after_client_bytes(dice.below(bytes[0])),
            1 => self.proxy.cut_after_server_bytes(dice.below(bytes[1])),
            // The answer to a COMMIT has few bytes, so that those cuts hardly ever strike it.
            _ => self.proxy.cut_before_answer(1 + dice.below(ANSWERS)),
        }
    }

    /// Runs two batches of effects in the store's transaction, and meanwhile effects under claims that two workers
    /// want.
    async fn workload(&self, seed: u64, belief: Belief) -> Seen {
        let (apply, one, other) = tokio::join!(
            self.apply(seed, belief),
            self.attempt(seed, 1),
            self.attempt(seed, 2),
        );
        let mut told = apply;
        told.add(one);
        told.add(other);
        told
    }

    /// Applies batches; an effect that is believed to be undone for good is done by hand.
    async fn apply(&self, seed: u64, belief: Belief) -> Seen {
        let mut told = Seen::default();
        for keys in [["a", "b"], ["c", "d"]].map(|names| names.map(|it| format!("{it}-{seed}"))) {
            let batch = keys.each_ref().map(|key| message(key, 1, vec![text(key)]));
            loop {
                match self
                    .through
                    .apply(&self.statements, batch.clone().into())
                    .await
                {
                    Ok(answers) => {
                        assert!(answers.iter().all(is_done), "{answers:?}");
                        let is_replay = |it: &Applied| matches!(it, Applied::NotGranted(_));
                        told.replayed += u64::from(answers.iter().all(is_replay));
                        break;
                    }
                    Err(error) if told.believe(belief(&error)) => {
                        for key in &keys {
                            self.pay(key).await;
                        }
                        break;
                    }
                    Err(_) => {}
                }
            }
        }
        told
    }

    /// Claims, pays and completes, asking again after every failure.
    async fn attempt(&self, seed: u64, worker: u128) -> Seen {
        let mut told = Seen::default();
        for key in ["x", "y"].map(|name| format!("{name}-{seed}")) {
            loop {
                match self.through.claim([request(&key, worker)].into()).await {
                    Err(_) => continue,
                    Ok(mut answers) => match answers.remove(0) {
                        Admission::Granted(claim) => {
                            told.resumed += u64::from(claim.resumed);
                            self.pay(&key).await;
                        }
                        Admission::Replay { .. } => break,
                        Admission::Busy { .. } => {
                            told.busy += 1;
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            continue;
                        }
                        other => panic!("{other:?}"),
                    },
                }
                self.complete(&key, worker).await;
                break;
            }
        }
        told
    }

    async fn complete(&self, key: &str, worker: u128) {
        loop {
            let answers = self
                .through
                .settle([completion(key, worker, b"paid")].into())
                .await;
            match answers.as_deref() {
                Ok([Settled::Now(StateKind::Completed)]) => return,
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
        }
    }

    /// Does the effect, on a connection that is never cut.
    async fn pay(&self, key: &str) {
        let insert = "INSERT INTO payments VALUES ($1)";
        self.user.execute(insert, &[&key]).await.expect("a payment");
    }

    /// Returns the keys of this seed that were not paid exactly once, or that are claimed and not completed.
    async fn wrong(&self, seed: u64) -> Vec<String> {
        let select = "SELECT key FROM payments WHERE key LIKE '%-' || $1";
        let rows = self.user.query(select, &[&seed.to_string()]).await;
        let mut paid = BTreeMap::new();
        for row in rows.expect("the payments") {
            *paid.entry(row.get::<_, String>(0)).or_insert(0) += 1;
        }
        let mut wrong = Vec::new();
        for name in ["a", "b", "c", "d", "x", "y"] {
            let key = format!("{name}-{seed}");
            let times = paid.remove(&key).unwrap_or(0);
            let found = state(&self.direct, &key).await;
            // An effect that was done by hand has no record.
            let is_settled = match found {
                Some(found) => found == StateKind::Completed,
                None => ["a", "b", "c", "d"].contains(&name),
            };
            if times != 1 || !is_settled {
                wrong.push(format!("{key}: paid {times} times, {found:?}"));
            }
        }
        wrong.extend(paid.into_keys().map(|key| format!("{key}: nobody's")));
        wrong
    }
}

/// Chance from a seed: splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Seeds; two thirds of them cut at a random byte.
const SEEDS: u64 = 300;
/// Answers that a workload has at least.
const ANSWERS: u64 = 20;
