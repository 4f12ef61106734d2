//! T1: the protocol as a model, every interleaving of it within bounds.
//!
//! Stores decide here by `semel_core::decide` itself. Around it are workers that crash, stop and go on as zombies,
//! requests and answers that are lost or late, a broker that delivers a message to two at once, a provider that forgets
//! keys, clients of the claim API that begin unmarked, operators, and time. Each configuration (`setup`) is searched breadth first and to its end: a broken law is
//! reported with a shortest way to it.
//!
//! Files that are cut back to their recorded length have a model of their own (`output`): their store decides batches,
//! and marks with them. Class E, whose claims are not stored, has a model of its own (`streamed`): there the broker's
//! transactions decide, and what a worker may know of them. So have producers with the gate behind them (`producer`),
//! and the relays of an outbox (`relay`).
//!
//! Not here: stores that forget their answers where the class does not survive that; the tests show that it breaks.

mod answers;
mod broker;
mod calls;
mod configurations;
mod effect;
mod judge;
mod law;
mod lookup;
mod named;
mod numbers;
mod order;
mod output;
mod planted;
mod producer;
mod record;
mod relay;
mod report;
mod requests;
mod search;
mod setup;
mod state_laws;
mod steps;
mod store;
mod streamed;
mod subject;
#[cfg(test)]
mod tests;
mod trace;
mod transitions;
mod way;
mod world;
mod wrong;

use std::time::Duration;

use self::law::{Case, Fault, Law};
use self::output::Output;
use self::producer::subject::Sender;
use self::relay::subject::Relay;
use self::search::{Subject, check, is_model};
use self::setup::Setup;
use self::steps::Action;
use self::streamed::Streamed;
use self::subject::Protocol;
use self::world::World;
use crate::effort::{Effort, Size};
use crate::report::Row;

/// The most times that a campaign adds to each configuration.
const DEEPEST: u8 = 12;

is_model!(Protocol);

impl Subject for Protocol {
    type Setup = Setup;

    fn new(setup: Setup) -> Option<Self> {
        Self::of(planted::into(setup))
    }

    fn name(setup: &Setup) -> &'static str {
        setup.name
    }

    fn tell(&self, path: &[(World, Option<Action>)]) -> String {
        trace::tell(self, path)
    }

    fn report(&self, broken: &[&str], row: &mut Row) {
        let times = |case| self.tally.met(case as usize);
        let all = |cases: &[Case]| cases.iter().copied().map(times).sum();
        row.fenced = all(&[
            Case::FencedStart,
            Case::FencedCompletion,
            Case::FencedRelease,
            Case::FencedCommit,
        ]);
        row.takeovers = times(Case::Takeover);
        row.doubts_explained = all(&[
            Case::DoubtByVanished,
            Case::DoubtByWindow,
            Case::DoubtByCap,
            Case::DoubtBySweep,
        ]);
        let broken = |law: Law| broken.contains(&law.name());
        row.duplicates = broken(Law::SingleEffect).into();
        row.lost = broken(Law::NoLoss).into();
        row.doubts_unexplained = broken(Law::DoubtHasACause).into();
        self.tally.report(Fault::NAMES, Case::NAMES, row);
    }
}

/// Counts the hard cases over all configurations, since each has only those that it can have.
fn gathered(mut rows: Vec<Row>) -> Vec<Row> {
    let mut all = Row::new("together", "states");
    for row in &mut rows {
        all.add(row);
        row.seen.retain(|_, times| *times > 0);
    }
    // A violation is reported in its own row.
    all.violations.clear();
    (all.duplicates, all.lost, all.doubts_unexplained) = (0, 0, 0);
    rows.push(all);
    rows
}

/// A configuration of one of the models.
#[derive(Clone, Copy)]
enum Configuration {
    Stored(Setup),
    Output(output::setup::Setup),
    Streamed(streamed::setup::Setup),
    Producer(producer::setup::Setup),
    Relay(relay::setup::Setup),
}

impl Configuration {
    fn all() -> Vec<Self> {
        let stored = configurations::all().into_iter().map(Self::Stored);
        let streamed = streamed::setup::all().into_iter().map(Self::Streamed);
        let output = output::setup::all().into_iter().map(Self::Output);
        let producer = producer::setup::all().into_iter().map(Self::Producer);
        let relay = relay::setup::all().into_iter().map(Self::Relay);
        let senders = producer.chain(relay);
        stored
            .chain(output)
            .chain(streamed)
            .chain(senders)
            .collect()
    }

    fn deeper(self, by: u8) -> Self {
        match self {
            Self::Stored(setup) => Self::Stored(setup.deeper(by)),
            Self::Output(setup) => Self::Output(setup.deeper(by)),
            Self::Streamed(setup) => Self::Streamed(setup.deeper(by)),
            Self::Producer(setup) => Self::Producer(setup.deeper(by)),
            Self::Relay(setup) => Self::Relay(setup.deeper(by)),
        }
    }

    fn check(self, time: Option<Duration>) -> Row {
        match self {
            Self::Stored(setup) => check::<Protocol>(setup, time),
            Self::Output(setup) => check::<Output>(setup, time),
            Self::Streamed(setup) => check::<Streamed>(setup, time),
            Self::Producer(setup) => check::<Sender>(setup, time),
            Self::Relay(setup) => check::<Relay>(setup, time),
        }
    }
}

/// Searches every configuration; in a campaign each with more and more of everything, until there are states enough.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let setups = Configuration::all();
    let mut rows = Vec::new();
    for setup in &setups {
        rows.push(setup.check(None));
        // A planted bug is seen, and this run needs no more than that.
        if cfg!(semel_planted) && rows.iter().any(|row| !row.violations.is_empty()) {
            return gathered(rows);
        }
    }
    if effort.size != Size::Merge {
        deepen(&setups, &mut rows, effort);
    }
    gathered(rows)
}

/// Deepens the configurations. A deeper one has all states of the one before and more, so its row replaces that one's.
fn deepen(setups: &[Configuration], rows: &mut [Row], effort: Effort) {
    let budget = effort.budget(0);
    for by in 1..=DEEPEST {
        for (at, setup) in setups.iter().enumerate() {
            let total: u64 = rows.iter().map(|row| row.tried).sum();
            if !budget.allows(total) {
                return;
            }
            let deeper = setup.deeper(by).check(budget.left());
            println!(
                "  {total} states of {}; {}, {by} deeper: {} {} in {:.0} s",
                budget.most(),
                deeper.name,
                deeper.tried,
                deeper.unit,
                deeper.seconds
            );
            if deeper.tried > rows[at].tried || !deeper.violations.is_empty() {
                rows[at] = deeper;
            }
        }
    }
}
