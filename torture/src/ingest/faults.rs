//! The blows that are dealt to the workers and their store.

use std::thread::sleep;

use super::bookings::Home;
use super::client::is_open;
use super::{MS, STREAMS};
use crate::moments::now;
use crate::outbox::storm;
use crate::worker::Site;
use crate::workers::{PATIENCE, Workers};
use crate::{Moments, scaled};

/// The blows that were dealt to the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blows {
    pub(super) stores: u64,
}

/// A blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    Stop,
    CutStore,
    KillStore,
}

/// A round of blows.
const ROUND: [Blow; 7] = [
    Blow::Kill,
    Blow::Stop,
    Blow::Kill,
    Blow::CutStore,
    Blow::Kill,
    Blow::KillStore,
    Blow::Kill,
];

impl Blows {
    /// Deals blows until it is enough, and at least a round of them.
    pub(super) fn are_dealt(
        &mut self,
        home: &Home,
        workers: &mut Workers,
        moments: &mut Moments,
        is_enough: impl Fn(&Self, &Workers) -> bool,
    ) {
        for _ in 0..most_rounds() {
            for blow in ROUND {
                wait_until("it is shut", workers, are_open);
                sleep(moments.between(MS(50), scaled(MS(300), MS(1_500))));
                self.deal(blow, home, workers, moments);
            }
            if is_enough(self, workers) {
                return;
            }
        }
    }

    fn deal(&mut self, blow: Blow, home: &Home, workers: &mut Workers, moments: &mut Moments) {
        let victim = workers.any(moments);
        match (blow, &home.server) {
            (Blow::Kill, _) => workers.is_killed(victim),
            (Blow::Stop, _) => workers.stands_still(victim, moments),
            (_, None) => {}
            (Blow::CutStore, Some(server)) => {
                wait_until("no work", workers, are_at_work);
                server.cuts.iter().for_each(|cuts| storm(cuts, moments));
            }
            (Blow::KillStore, Some(server)) => {
                wait_until("no work", workers, are_at_work);
                self.stores += u64::from(server.kill_and_restart());
            }
        }
    }
}

/// Waits until something is true of the workers.
fn wait_until(otherwise: &str, workers: &Workers, is_so: impl Fn(&Workers) -> bool) {
    let began = now();
    while !is_so(workers) {
        let words = || -> Vec<_> { workers.sites.iter().map(Site::last_words).collect() };
        assert!(
            began.elapsed() < PATIENCE,
            "{otherwise}: {}",
            words().join("\n--\n")
        );
        sleep(MS(20));
    }
}

/// Tells whether all workers take messages of each stream.
fn are_open(workers: &Workers) -> bool {
    let mut addresses = workers.addresses.iter();
    addresses.all(|address| STREAMS.iter().all(|stream| is_open(*address, stream)))
}

/// Tells whether all workers have run an effect of each stream, or found that it has run: one that does not find its
/// store at the start ends, and is for a supervisor to start again.
fn are_at_work(workers: &Workers) -> bool {
    let is_of = |line: &str, stream| line.contains(&format!("\"pipeline\":\"{stream}\""));
    let is_work = |line: &str| {
        let decisions = ["completed", "replayed"];
        decisions
            .iter()
            .any(|it| line.contains(&format!("\"decision\":\"{it}\"")))
    };
    workers.said().all(|said| {
        let works = |stream| {
            said.lines()
                .any(|line| is_of(line, stream) && is_work(line))
        };
        STREAMS.iter().all(works)
    })
}

/// The most rounds of a run that has not met everything by then.
fn most_rounds() -> u64 {
    scaled(6, 400)
}

/// The number of connections that a round cuts, about.
pub(super) const LEAST_CUTS: u64 = 3;
