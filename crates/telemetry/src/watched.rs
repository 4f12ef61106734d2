//! Judgements over time about one pipeline, and the memory that all pipelines of a process share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::churn::Churn;
use crate::completed::CompletedKeys;
use crate::families::{Families, labels};
use crate::storm::{Counts, Storm};
use crate::tenants::Tenants;

/// The memory that the pipelines of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) completed: CompletedKeys,
    pub(crate) tenants: Tenants,
    pipelines: Mutex<BTreeMap<String, Arc<Watched>>>,
}

/// One pipeline; see the module.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) granted: Counter,
    /// Redeliveries, republished messages, and those of which that is not known.
    pub(crate) duplicates: [Counter; 3],
    /// Deliveries that were duplicates and did not say that they were sent again.
    pub(crate) unmarked: Counter,
    /// Deliveries that were part of a replay.
    pub(crate) replays: Counter,
    pub(crate) churn: OnceLock<Churn>,
    storm: Mutex<Storm>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            completed: CompletedKeys::new(),
            tenants: Tenants::default(),
            pipelines: Mutex::default(),
        }
    }

    /// Returns what is watched of a pipeline, from an earlier observer of that name if there was one.
    pub(crate) fn watched(&self, families: &Families, name: &str) -> Arc<Watched> {
        let mut pipelines = self.lock();
        let known = pipelines
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Watched::new(families, name)));
        Arc::clone(known)
    }

    /// Judges all pipelines.
    pub(crate) fn look(&self, families: &Families, now: Duration) {
        for (name, watched) in &*self.lock() {
            let labels = labels([("pipeline", name)]);
            let is_storm = watched.look(now);
            let storm = families.storm.get_or_create_owned(&labels);
            storm.set(is_storm.into());
            if let Some(churn) = watched.churn.get() {
                let share = families.key_churn.get_or_create_owned(&labels);
                share.set(churn.look(now));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Watched>>> {
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn new(families: &Families, name: &str) -> Self {
        let pipeline = labels([("pipeline", name)]);
        let granted = labels([("pipeline", name), ("decision", "granted")]);
        Self {
            granted: families.decisions.get_or_create_owned(&granted),
            duplicates: ["redelivery", "republish", "unknown"].map(|kind| {
                let kind = labels([("pipeline", name), ("kind", kind)]);
                families.duplicates.get_or_create_owned(&kind)
            }),
            unmarked: Counter::default(),
            replays: families.replays.get_or_create_owned(&pipeline),
            churn: OnceLock::new(),
            storm: Mutex::default(),
        }
    }

    /// Tells whether there is a storm of duplicates, and counts those that are part of it.
    fn look(&self, now: Duration) -> bool {
        let duplicates = self.duplicates.iter().map(Counter::get).sum();
        let counts = Counts {
            duplicates,
            all: duplicates + self.granted.get(),
            unmarked: self.unmarked.get(),
        };
        let mut storm = self.storm.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = storm.look(now, counts);
        self.replays.inc_by(seen.unmarked);
        seen.is_storm
    }
}
