//! Many callers of three processes use a few keys. Their store calls are cut, delayed and never
//! answered, their effects fail in every way, and they go away at random: whatever the history,
//! each class keeps its promise. A failure names its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{Entropy, StateKind, Store};
use semel_engine::effect::OnDoubt;
use semel_engine::once::{Declared, Error, Failure, Op, Receipt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{declared, process, secs};
use crate::world::fault::{Fault, Method, Plan};
use crate::world::time::Chance;
use crate::world::{LEASE, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    AtMostOnce,
    RepeatsAreListed,
    OnceAtTheProvider,
}

#[tokio::test(start_paused = true)]
async fn parked_effects_happen_at_most_once_in_a_storm() {
    for seed in seeds() {
        Box::pin(play(Promise::AtMostOnce, seed)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_effects_are_listed_in_a_storm() {
    for seed in seeds() {
        Box::pin(play(Promise::RepeatsAreListed, seed)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn keyed_effects_happen_once_at_their_provider_in_a_storm() {
    for seed in seeds() {
        Box::pin(play(Promise::OnceAtTheProvider, seed)).await;
    }
}

/// Returns the seeds to play; `SEMEL_SEEDS=1000` plays that many histories.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("SEMEL_SEEDS").ok();
    0..wanted.map_or(20, |wanted| {
        wanted.parse().expect("SEMEL_SEEDS is a number")
    })
}

/// The events in the world, by key: the runs that applied the effect, and the keys that a provider
/// saw. Nothing here merges anything.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, Seen>>>);

#[derive(Clone, Debug, Default)]
struct Seen {
    applied: Vec<u64>,
    provider_keys: BTreeSet<String>,
    receipts: BTreeSet<u64>,
}

impl Ledger {
    fn note(&self, key: &str, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.0.lock().expect("nothing here panics");
        note(seen.entry(key.to_owned()).or_default());
    }

    fn of(&self, key: &str) -> Seen {
        let seen = self.0.lock().expect("nothing here panics");
        seen.get(key).cloned().unwrap_or_default()
    }

    fn receipts(&self, key: &str, result: Result<Receipt<u64>, Error>) {
        if let Ok(receipt) = result {
            self.note(key, |seen| {
                seen.receipts.insert(receipt.into_value());
            });
        }
    }
}

#[derive(Clone)]
struct Dice(Arc<Chance>);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % sides
    }

    fn nap(&self) -> Duration {
        // Mostly short, sometimes longer than the lease and the time limit.
        let longest = [1, 100, 1_000, 45_000][usize::try_from(self.roll(4)).expect("four")];
        Duration::from_millis(self.roll(longest))
    }

    fn fault(&self) -> Fault {
        match self.roll(7) {
            0 => Fault::Cut,
            1 => Fault::LoseAnswer,
            2 => Fault::CrashBefore,
            3 => Fault::CrashAfter,
            4 => Fault::DelayBefore(self.nap() * 2),
            5 => Fault::DelayAfter(self.nap() * 2),
            _ => Fault::Items,
        }
    }

    fn plan(&self, plan: &Plan) {
        for method in [Method::Claim, Method::Settle, Method::Renew] {
            for _ in 0..self.roll(6) {
                let nth = u32::try_from(self.roll(12) + 1).expect("small");
                plan.nth(method, nth, self.fault());
            }
        }
    }

    /// An effect that applies itself at some point, or does not, and ends somehow.
    fn effect(&self, ledger: &Ledger) -> impl Future<Output = Ending> + Send + use<> {
        let (before, after) = (self.nap(), self.nap());
        let (end, run) = (self.roll(8), self.roll(u64::MAX));
        let ledger = ledger.clone();
        async move {
            sleep(before).await;
            Ending {
                end,
                run,
                after,
                ledger,
            }
        }
    }
}

struct Ending {
    end: u64,
    run: u64,
    after: Duration,
    ledger: Ledger,
}

impl Ending {
    async fn come(self, op: &Op) -> Result<u64, Failure> {
        if self.end == 0 {
            return Err(Failure::not_applied("refused"));
        }
        self.ledger.note(op.key().as_str(), |seen| {
            seen.applied.push(self.run);
            seen.provider_keys.insert(op.idempotency_key().to_owned());
        });
        sleep(self.after).await;
        match self.end {
            1 => Err(Failure::maybe_applied("reset")),
            2 => panic!("on purpose"),
            3 => std::future::pending().await,
            _ => Ok(self.run),
        }
    }
}

type Operation = Declared<crate::world::faulty::Faulty<Arc<semel_core::AnyStore>>>;

fn of(promise: Promise, operation: Operation) -> Operation {
    let operation = operation.attempts(100);
    match promise {
        Promise::AtMostOnce => operation,
        Promise::RepeatsAreListed => operation.unkeyed(OnDoubt::Repeat),
        Promise::OnceAtTheProvider => operation.keyed(secs(1_000_000)),
    }
}

async fn caller(operation: Operation, dice: Dice, ledger: Ledger) {
    for _ in 0..4 {
        sleep(dice.nap()).await;
        let key = || format!("k{}", dice.roll(KEYS));
        let operation = operation.clone().wait(dice.nap());
        let patience = dice.nap() + Duration::from_millis(1);
        // Half of them go away before they are answered.
        let patience = if dice.roll(2) == 0 {
            patience
        } else {
            secs(100_000)
        };
        match dice.roll(4) {
            0 => {
                let keys: Vec<String> = (0..dice.roll(5)).map(|_| key()).collect();
                let (rolling, noting) = (dice.clone(), ledger.clone());
                let items = keys.iter().map(|key| (key, ()));
                let batch = operation.batch(items).each(move |op, ()| {
                    let effect = rolling.effect(&noting);
                    async move { effect.await.come(&op).await }
                });
                let results = timeout(patience, batch).await.unwrap_or_default();
                for (key, result) in keys.iter().zip(results) {
                    ledger.receipts(key, result);
                }
            }
            1 => {
                let key = key();
                let effect = dice.effect(&ledger);
                // A panic in the caller's own task would be a panic of the test.
                let here = operation.once_here(&key, async |op| {
                    let mut ending = effect.await;
                    ending.end = if ending.end == 2 { 1 } else { ending.end };
                    ending.come(&op).await
                });
                if let Ok(result) = timeout(patience, here).await {
                    ledger.receipts(&key, result);
                }
            }
            _ => {
                let key = key();
                let effect = dice.effect(&ledger);
                let call = operation.once(&key, async move |op| effect.await.come(&op).await);
                if let Ok(result) = timeout(patience, call).await {
                    ledger.receipts(&key, result);
                }
            }
        }
    }
}

async fn play(promise: Promise, seed: u64) {
    let dice = Dice(Arc::new(Chance::seeded(seed)));
    let world = World::new();
    let ledger = Ledger::default();
    let mut callers = JoinSet::new();
    let mut sites = Vec::new();
    for _ in 0..3 {
        let (site, plan) = process(&world);
        dice.plan(&plan);
        for _ in 0..4 {
            let operation = of(promise, declared(&site));
            callers.spawn(caller(operation, dice.clone(), ledger.clone()));
        }
        sites.push(site);
    }
    // A store call that is never answered holds up no caller for ever.
    let over = timeout(secs(3_600), async {
        while let Some(joined) = callers.join_next().await {
            assert!(
                joined.is_ok(),
                "{promise:?}, seed {seed}: a caller panicked"
            );
        }
    });
    assert!(
        over.await.is_ok(),
        "{promise:?}, seed {seed}: a caller waits for ever"
    );
    // Every call that is still on its way lands, and every lease ends.
    sleep(LEASE * 10).await;
    world
        .store
        .sweep(1_000)
        .await
        .expect("the memory store answers");

    let (site, _) = process(&world);
    let operation = of(promise, declared(&site));
    for number in 0..KEYS {
        let key = format!("k{number}");
        let noting = ledger.clone();
        let name = key.clone();
        let result = operation.once(&key, async move |op| {
            noting.note(&name, |seen| {
                seen.applied.push(LAST);
                seen.provider_keys.insert(op.idempotency_key().to_owned());
            });
            Ok(LAST)
        });
        let result = result.await;
        let outcome = format!("{result:?}");
        ledger.receipts(&key, result);
        let story = ledger.of(&key);
        let record = world.record(&key).await.expect("a record");
        let state = record.state.kind();
        let why = format!("{promise:?}, seed {seed}, {key}: {story:?}, {outcome}, {record:?}");
        assert!(story.receipts.len() <= 1, "two outcomes: {why}");
        assert!(
            story
                .receipts
                .is_subset(&story.applied.iter().copied().collect()),
            "{why}"
        );
        match promise {
            Promise::AtMostOnce => {
                assert!(story.applied.len() <= 1, "twice: {why}");
                let is_done = state == StateKind::Completed;
                assert!(is_done || state == StateKind::InDoubt, "{why}");
            }
            Promise::RepeatsAreListed => {
                assert_eq!(state, StateKind::Completed, "{why}");
                assert!(
                    story.applied.len() <= 1 || record.possible_repeats > 0,
                    "{why}"
                );
            }
            Promise::OnceAtTheProvider => {
                assert_eq!(state, StateKind::Completed, "{why}");
                assert_eq!(story.provider_keys.len(), 1, "{why}");
            }
        }
    }
    drop(sites);
}

const KEYS: u64 = 5;
/// The run of the last call, after the storm.
const LAST: u64 = u64::MAX;
