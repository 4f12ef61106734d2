//! Counts what waits for a person now, pipeline by pipeline. The counts come from the store, now and then, a
//! page at a time, so they are right after a restart and after an operator's change from elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{Operation, Reason, Result, Scope, StateKind};
use semel_worker::replay::Kind;
use tokio::time::{Instant, sleep};

use super::pace::Pace;

/// The last counts.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Box<str>, [u64; 3]>>);

/// A pipeline, and the scope of its keys.
pub(crate) type Counted = (Box<str>, Scope);

impl Counts {
    /// Returns, for each pipeline that was counted, its name, the reason why something is set aside, and the
    /// number.
    pub(crate) fn all(&self) -> Vec<(Box<str>, &'static str, u64)> {
        let counts = self.lock();
        let each = counts.iter().flat_map(|(name, counts)| {
            let counts = WHY.into_iter().zip(*counts);
            counts.map(|(why, count)| (name.clone(), why, count))
        });
        each.collect()
    }

    /// Counts over and over for as long as the future is polled: every few seconds, and so that the store
    /// spends about a twentieth of its time on it, see [`Pace`]. While the store fails, the last counts stand.
    pub(crate) async fn count(&self, store: impl Store, pipelines: Vec<Counted>) {
        let mut pace = Pace::new(EVERY, 20);
        loop {
            let begun = Instant::now();
            let mut is_whole = true;
            for (name, scope) in &pipelines {
                match counts(&store, scope).await {
                    Ok(counts) => drop(self.lock().insert(name.clone(), counts)),
                    Err(_) => is_whole = false,
                }
            }
            let pause = if is_whole {
                pace.after(begun.elapsed()).pause
            } else {
                pace.after_failure()
            };
            sleep(pause).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, [u64; 3]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts in the order of [`WHY`].
async fn counts(store: &impl Store, scope: &Scope) -> Result<[u64; 3]> {
    let query = |reasons| ListQuery {
        reasons,
        limit: PAGE,
        ..ListQuery::in_scope(scope)
    };
    let mut dead = 0;
    for reason in Kind::DeadLetters.reasons() {
        dead += parked(store, query(vec![reason]), Kind::DeadLetters).await?;
    }
    let quarantined = query(Kind::Quarantined.reasons());
    let quarantined = parked(store, quarantined, Kind::Quarantined).await?;
    let mut doubts = 0;
    let mut query = ListQuery {
        state: Some(StateKind::InDoubt),
        ..query(Vec::new())
    };
    loop {
        let page = store.list(&query).await?;
        doubts += page.items.len() as u64;
        let Some(next) = page.next else {
            return Ok([dead, doubts, quarantined]);
        };
        query.after = Some(next);
        tokio::task::yield_now().await;
    }
}

async fn parked(store: &impl Store, mut query: ListQuery, kind: Kind) -> Result<u64> {
    let mut count = 0;
    loop {
        let page = store.list_parked(&query).await?;
        let items = page.items.iter();
        // The record says whether an operation is still in doubt.
        let doubtful = items.filter(|it| &*it.reason == Reason::InDoubt.code());
        let doubtful: Arc<[_]> = doubtful
            .filter_map(|it| Some(Operation::new(it.scope.clone(), it.key.clone()?)))
            .collect();
        let mut doubts = 0;
        if kind == Kind::DeadLetters && !doubtful.is_empty() {
            let records = store.get(doubtful).await?.into_iter().flatten();
            doubts = records
                .filter(|it| it.state.kind() == StateKind::InDoubt)
                .count();
        }
        count += (page.items.len() - doubts) as u64;
        let Some(next) = page.next else {
            return Ok(count);
        };
        query.after = Some(next);
        tokio::task::yield_now().await;
    }
}

const WHY: [&str; 3] = ["dead", "in_doubt", "quarantined"];
/// The longest time between two counts.
const EVERY: Duration = Duration::from_secs(4);
/// The number of messages visited in one call.
const PAGE: usize = 200;
