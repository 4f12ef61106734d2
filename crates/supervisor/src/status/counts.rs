//! Counts what waits for a person now, pipeline by pipeline. The counts come from the store, now and then, a
//! page at a time, so they are right after a restart and after an operator's change from elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_claims::{MOST_NAMED, OTHERS};
use semel_core::port::store::{ListQuery, Store};
use semel_core::{Operation, Parked, Reason, Result, StateKind};
use semel_worker::replay::{Kind, RELEASED_AS_DISTINCT};
use tokio::time::{Instant, sleep};

use super::pace::{Pace, Reading};

/// The last counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    now: Mutex<ByName>,
    /// The conflicts of each pipeline that were none, as far as this worker has seen it; see [`distinct`].
    distinct: Mutex<BTreeMap<Box<str>, u64>>,
}

type ByName = BTreeMap<Box<str>, Reading<[u64; 3]>>;

/// A pipeline, and the selection of what is on record of it.
pub(crate) type Counted = (Box<str>, ListQuery);

impl Counts {
    /// Returns, for each pipeline that was counted of late, its name, the reason why something is set aside, and the
    /// number.
    pub(crate) fn all(&self) -> Vec<(Box<str>, &'static str, u64)> {
        let counts = self.lock();
        let fresh = counts
            .iter()
            .filter_map(|(name, it)| Some((name, *it.value()?)));
        let each = fresh.flat_map(|(name, counts)| {
            let counts = WHY.into_iter().zip(counts);
            counts.map(|(why, count)| (name.clone(), why, count))
        });
        each.collect()
    }

    /// Counts over and over for as long as the future is polled: every few seconds, and more seldom where that takes
    /// long, see [`Pace`].
    ///
    /// `with_clients` counts the operations that no pipeline names as well: those of clients of the claim API, and
    /// of the routes of a gateway.
    pub(crate) async fn count(
        &self,
        store: impl Store,
        pipelines: Vec<Counted>,
        with_clients: bool,
    ) {
        let mut pace = Pace::new(EVERY, 20);
        loop {
            let begun = Instant::now();
            let mut is_whole = true;
            for (name, within) in &pipelines {
                let begun = Instant::now();
                match counts(&store, within).await {
                    Ok(counts) => {
                        let counts = Reading::new(counts, begun);
                        self.lock().insert(name.clone(), counts);
                    }
                    Err(_) => is_whole = false,
                }
                match distinct(&store, within).await {
                    Ok(count) => self.add_distinct(name, count),
                    Err(_) => is_whole = false,
                }
            }
            if with_clients {
                let begun = Instant::now();
                match unnamed(&store, &pipelines).await {
                    Ok(found) => self.found(&pipelines, found, begun),
                    Err(_) => is_whole = false,
                }
            }
            let pause = if is_whole {
                pace.after(begun.elapsed())
            } else {
                pace.after_failure()
            };
            sleep(pause).await;
        }
    }

    /// Notes what was found, by a count that began then, of operations that no pipeline names. One that was counted
    /// before keeps its series.
    fn found(
        &self,
        pipelines: &[Counted],
        mut found: BTreeMap<Box<str>, [u64; 3]>,
        begun: Instant,
    ) {
        let mut known = self.lock();
        for (name, counts) in &mut *known {
            if pipelines.iter().all(|(pipeline, _)| pipeline != name) {
                *counts = Reading::new(found.remove(name).unwrap_or_default(), begun);
            }
        }
        known.extend(
            found
                .into_iter()
                .map(|(name, it)| (name, Reading::new(it, begun))),
        );
    }

    /// Returns, for each pipeline, the number of conflicts that a person released as operations of their own, and that
    /// this worker has counted.
    pub(crate) fn distinct(&self) -> BTreeMap<Box<str>, u64> {
        let distinct = self.distinct.lock();
        distinct.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_distinct(&self, pipeline: &str, count: u64) {
        let mut distinct = self.distinct.lock().unwrap_or_else(PoisonError::into_inner);
        *distinct.entry(pipeline.into()).or_default() += count;
    }

    fn lock(&self) -> MutexGuard<'_, ByName> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts in the order of [`WHY`].
async fn counts(store: &impl Store, within: &ListQuery) -> Result<[u64; 3]> {
    let query = |reasons| ListQuery {
        reasons,
        limit: PAGE,
        ..within.clone()
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

/// Counts the operations that are dead or in doubt and that no pipeline names, by their names.
async fn unnamed(
    store: &impl Store,
    pipelines: &[Counted],
) -> Result<BTreeMap<Box<str>, [u64; 3]>> {
    let is_named = |operation: &str| {
        let mut names = pipelines.iter().filter_map(|(_, it)| it.operation.as_ref());
        names.any(|name| **name == *operation)
    };
    let mut found = BTreeMap::<Box<str>, [u64; 3]>::new();
    for (at, state) in [StateKind::Dead, StateKind::InDoubt]
        .into_iter()
        .enumerate()
    {
        let mut query = ListQuery {
            state: Some(state),
            limit: PAGE,
            ..ListQuery::default()
        };
        loop {
            let page = store.list(&query).await?;
            for listed in &page.items {
                let operation = listed.operation.scope.operation();
                if is_named(operation) {
                    continue;
                }
                let is_known = found.contains_key(operation) || found.len() < MOST_NAMED;
                let name = if is_known { operation } else { OTHERS };
                found.entry(name.into()).or_default()[at] += 1;
            }
            let Some(next) = page.next else {
                break;
            };
            query.after = Some(next);
            tokio::task::yield_now().await;
        }
    }
    Ok(found)
}

/// Counts the conflicts that a person released as operations of their own since the last time, and removes their marks:
/// of several workers, each mark is counted by the one that removed it. One page a time: the next ones wait.
async fn distinct(store: &impl Store, within: &ListQuery) -> Result<u64> {
    let query = ListQuery {
        reasons: vec![RELEASED_AS_DISTINCT.into()],
        limit: PAGE,
        ..within.clone()
    };
    let page = store.list_parked(&query).await?;
    let marks: Arc<[_]> = page.items.iter().map(Parked::id).collect();
    if marks.is_empty() {
        return Ok(0);
    }
    let removed = store.drop_parked(marks, None).await?;
    Ok(removed.into_iter().filter(|&was_there| was_there).count() as u64)
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
/// The time between two counts.
const EVERY: Duration = Duration::from_secs(4);
/// The number of messages visited in one call.
const PAGE: usize = 200;

#[cfg(test)]
mod tests {
    use semel_core::{
        Admission, ClaimId, ClaimRequest, Key, Scope, Settled, Settlement, Start, Step, StoreExt,
        Window,
    };
    use semel_engine::system::SystemClock;
    use semel_store_memory::MemoryStore;

    use super::*;

    /// Leaves an operation in doubt, or dead.
    async fn ended(
        store: &MemoryStore,
        name: &str,
        key: u64,
        recovery: Option<semel_core::Recovery>,
    ) {
        let scope = Scope::new("", name).expect("a scope");
        let key = Key::new(&key.to_string()).expect("a key");
        let claim_id = ClaimId::from_u128(7);
        let mut request = ClaimRequest::new(scope, key, claim_id);
        request.start = recovery.map_or(Start::Unmarked, Start::Marked);
        let operation = request.operation.clone();
        let admission = store.claim_one(request).await.expect("an answer");
        assert!(matches!(admission, Admission::Granted(_)));
        let step = Step::Release {
            error: "x".into(),
            certainty: semel_core::Certainty::MaybeApplied,
            after: Duration::ZERO,
            counted: true,
            limits: semel_core::claim::AttemptLimits {
                failed: std::num::NonZeroU32::MIN,
                ..semel_core::claim::AttemptLimits::default()
            },
            window: Window::DEFAULT,
        };
        let settlement = Settlement {
            operation,
            claim_id,
            step,
        };
        let settled = store.settle_one(settlement).await.expect("an answer");
        assert!(matches!(settled, Settled::Now(_)));
    }

    #[tokio::test]
    async fn operations_that_no_pipeline_names_are_counted_by_name() {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let park = Some(semel_core::Recovery::Park);
        for (name, key, recovery) in [
            ("charge", 1, park),
            ("charge", 2, park),
            ("charge", 3, None),
            ("pay", 1, park),
        ] {
            ended(&store, name, key, recovery).await;
        }
        let scope = Scope::new("", "pay").expect("a scope");
        let pipelines: Vec<Counted> = vec![("pay".into(), ListQuery::in_scope(&scope))];
        let found = unnamed(&store, &pipelines).await.expect("counts");
        assert_eq!(found, BTreeMap::from([("charge".into(), [1, 2, 0])]));
        let counts = Counts::default();
        counts.found(&pipelines, found, Instant::now());
        assert!(counts.all().contains(&("charge".into(), "in_doubt", 2)));
        // What is resolved is counted as none, and does not vanish.
        counts.found(&pipelines, BTreeMap::new(), Instant::now());
        assert!(counts.all().contains(&("charge".into(), "in_doubt", 0)));
    }

    #[tokio::test]
    async fn a_conflict_that_was_none_is_counted_by_one_worker_once() {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let mark = |name: &str, number: u8| Parked {
            scope: Scope::new("", name).expect("a scope"),
            key: None,
            reason: RELEASED_AS_DISTINCT.into(),
            detail: "".into(),
            transport: Some(vec![number].into()),
            coordinates: "in:0".into(),
            headers: Vec::new(),
            payload: Vec::new().into(),
            since: semel_core::Timestamp::EPOCH,
        };
        let of_conflict = Parked {
            reason: Reason::Conflict.code().into(),
            ..mark("pay", 9)
        };
        let marks = [mark("pay", 1), mark("pay", 2), mark("ship", 1), of_conflict];
        let kept = store.park(marks.into()).await.expect("an answer");
        assert_eq!(kept, [true; 4]);
        let scope = Scope::new("", "pay").expect("a scope");
        let pay = ListQuery::in_scope(&scope);
        let (one, other) = tokio::join!(distinct(&store, &pay), distinct(&store, &pay));
        assert_eq!(one.expect("a count") + other.expect("a count"), 2);
        assert_eq!(distinct(&store, &pay).await.expect("a count"), 0);
        let rest = store
            .list_parked(&ListQuery {
                limit: 9,
                ..ListQuery::default()
            })
            .await;
        assert_eq!(rest.expect("a page").items.len(), 2);
    }
}
