//! One operation at a time, run from a program's own code: `once(key, effect)`.

mod batch;
mod breaker;
mod callers;
mod effects;
mod figures;
mod inbox;
mod requests;
mod store;
mod swarm;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::AnyStore;
use semel_core::Claimant;
use semel_engine::event::Observer;
use semel_engine::once::{Declared, Once, Settings};
use semel_engine::surroundings::Surroundings;

use crate::world::crash::Crash;
use crate::world::fault::Plan;
use crate::world::faulty::Faulty;
use crate::world::{LEASE, WINDOW, World};

pub(crate) type Site = Once<Faulty<Arc<AnyStore>>>;

/// Returns the handle of a process of its own over the world's store, and the plan of its store
/// calls.
pub(crate) fn process(world: &World) -> (Site, Arc<Plan>) {
    process_sweeping(world, None)
}

fn process_sweeping(world: &World, sweep_every: Option<Duration>) -> (Site, Arc<Plan>) {
    process_watched(world, sweep_every, world.watch.clone())
}

fn process_watched(
    world: &World,
    sweep_every: Option<Duration>,
    observer: Arc<dyn Observer>,
) -> (Site, Arc<Plan>) {
    let plan = Arc::new(Plan::new(Crash::new(), world.clock));
    let store = Faulty::new(Arc::clone(&world.store), &plan);
    let surroundings = Surroundings {
        clock: Arc::new(world.clock),
        entropy: world.chance.clone(),
        claimant: Claimant::random(&*world.chance),
        observer,
    };
    let mut settings = Settings::default();
    settings.window = WINDOW;
    settings.lease = LEASE;
    (Once::with(store, surroundings, settings, sweep_every), plan)
}

/// Returns the operation under which the world looks up its records.
pub(crate) fn declared(site: &Site) -> Declared<Faulty<Arc<AnyStore>>> {
    site.operation("test")
}

/// Counts how often an effect began and how often it ended.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<(AtomicUsize, AtomicUsize)>);

impl Count {
    pub(crate) fn begin(&self) -> usize {
        self.0.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn end(&self) {
        self.0.1.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn begun(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
