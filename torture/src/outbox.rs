//! Orders that transactions make, with a message about each in an outbox; relays that publish them, a broker, and a
//! consumer with an inbox. Everything is killed and cut, again and again.
//!
//! The oracle is the producer's table, which the same transactions write: what is in it was committed.

mod client;
mod database;
mod destination;
mod faults;
mod orders;
mod writers;

pub use database::Origin;
pub use destination::Target;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::{self, sleep};
use std::time::Duration;

use tokio::runtime::Runtime;

use self::database::Database;
use self::destination::Destination;
use self::faults::{Crew, LEAST_CUTS, PATIENCE};
use self::orders::{Order, Place, judged};
use self::writers::Writers;
use crate::moments::now;
use crate::{Moments, scaled, tell};

/// Has writers commit orders and undo others while relays, consumer, database and broker are killed and cut, and checks
/// that each message arrives if its transaction was committed, in the order of its account, and counts once.
///
/// # Panics
///
/// If it is not so, or too little has happened.
pub fn what_is_committed_arrives(from: Origin, to: Target, seed: u64) {
    let runtime = Runtime::new().expect("a runtime");
    let inside = runtime.enter();
    let database = Database::start(from);
    let mut destination = Destination::start(to);
    drop(inside);
    let mut crew = Crew::start(&database, &destination);
    let writers = Writers::default();
    let least = scaled(2_500, 200_000);
    thread::scope(|scope| {
        let writing: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (writers, database) = (&writers, &database);
                scope.spawn(move || writers.write(number, database, seed))
            })
            .collect();
        let is_enough = || {
            let failed = writing.iter().any(thread::ScopedJoinHandle::is_finished);
            failed || writers.committed.load(Ordering::Relaxed) >= least
        };
        let mut moments = Moments::seeded(seed);
        crew.befall(&database, &mut destination, &mut moments, is_enough);
        writers.end();
    });
    let story = Story {
        name: format!("outbox, {}, {}", from.name(), to.name()),
        database: &database,
        destination: &destination,
        writers: &writers,
    };
    story.comes_to_an_end(&mut crew);
    story.is_judged(&crew);
}

/// A run, once all has befallen it.
struct Story<'s> {
    name: String,
    database: &'s Database,
    destination: &'s Destination,
    writers: &'s Writers,
}

impl Story<'_> {
    /// Waits until everything is published and consumed, and ends relays and consumer.
    fn comes_to_an_end(&self, crew: &mut Crew) {
        let waiting = "select count(*) from semel_outbox where dead_at is null";
        self.falls_to(0, waiting, crew);
        let dead = "select count(*) from semel_outbox";
        assert_eq!(self.database.count(dead), 0, "dead: {}", crew.last_words());
        crew.relays_end();
        // What was committed and not received, by their numbers: more would show in the comparison.
        let missing = "select (select count(*) from sales) - (select count(*) from received)";
        self.falls_to(0, missing, crew);
        crew.consumer_ends();
    }

    /// Waits until a count has fallen to this number, as long as it falls.
    fn falls_to(&self, end: u64, select: &str, crew: &Crew) {
        let (mut least, mut began) = (u64::MAX, now());
        loop {
            let rows = self.database.rows(select);
            // More than expected: the comparison tells.
            let left = rows[0].parse::<i64>().expect("a count");
            let left = u64::try_from(left).unwrap_or(0);
            if left <= end {
                return;
            }
            if left < least {
                (least, began) = (left, now());
            }
            let is_stuck = began.elapsed() > PATIENCE;
            assert!(!is_stuck, "{left} of {select}:\n{}", crew.last_words());
            sleep(Duration::from_millis(50));
        }
    }

    #[expect(clippy::print_stdout, reason = "the figures of a run")]
    fn is_judged(&self, crew: &Crew) {
        let name = &self.name;
        let rows = |select| self.database.rows(select);
        let orders = rows("select label, account, amount, number, place from sales");
        let committed: BTreeMap<Order, Place> = orders
            .iter()
            .map(|row| {
                let (order, place) = Order::of_row(row);
                (order, (place[0], place[1]))
            })
            .collect();
        assert_eq!(committed.len(), orders.len(), "{name}: labels that repeat");
        let received = rows("select label, account, amount from received order by came");
        let mut received: Vec<Order> = received.iter().map(|row| Order::of_row(row).0).collect();
        let published = self.destination.published();
        let (wrong, repeats) = judged(&committed, published.as_ref().unwrap_or(&received));
        let some: Vec<_> = wrong.iter().take(10).collect();
        assert!(
            wrong.is_empty(),
            "{name}: {} are wrong: {some:#?}",
            wrong.len()
        );
        received.sort();
        assert!(
            received.iter().eq(committed.keys()),
            "{name}: the consumer's table is not the producer's: {} and {} rows",
            received.len(),
            committed.len()
        );
        let blows = crew.blows;
        let store_cuts = self.database.cuts.as_ref().map_or(0, |it| it.seen().cuts);
        let sink_cuts = self.destination.cuts.seen().cuts;
        let most = MOST_OF_A_BLOW * (blows.all() + store_cuts + sink_cuts);
        assert!(
            repeats <= most,
            "{name}: {repeats} repeats of at most {most}"
        );
        let count = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed);
        let (undone, late, unknown) = (
            count(&self.writers.undone),
            count(&self.writers.late),
            count(&self.writers.unknown),
        );
        let (moves, fenced) = (crew.moves(), crew.fenced());
        println!(
            "{name}: {} messages, {undone} undone, {late} transactions committed late, {unknown} messages of clients that \
             died; {} relays killed at work, {} of them before they could record, {} stopped beyond their leases, {moves} \
             shares of partitions, {fenced} times fenced, {store_cuts} connections to the database cut and {sink_cuts} to \
             the sink, {} restarts of a killed database and {} of a killed broker, {} consumers killed; {repeats} repeats \
             at the broker, none at the consumer",
            committed.len(),
            blows.killed,
            blows.unrecorded,
            blows.stopped,
            blows.stores,
            blows.brokers,
            blows.consumers,
        );
        let has_store_cuts = self.database.cuts.is_none() || store_cuts > scaled(3, 50);
        assert!(
            blows.killed > scaled(4, 50) && blows.stopped > 0 && sink_cuts > scaled(LEAST_CUTS, 50),
            "{name}: too little has happened to relays"
        );
        assert!(has_store_cuts, "{name}: too few cuts of the database");
        assert!(undone > 0 && late > 0 && moves > 8, "{name}: too calm");
        // A kill falls between publication and record by chance where nothing holds the record back.
        let must_repeat = self.database.cuts.is_some() || scaled(false, true);
        assert!(
            repeats > 0 || self.destination.drops_repeats() || !must_repeat,
            "{name}: no relay was killed between publication and record"
        );
        tell(
            name,
            &[
                ("operations", committed.len() as u64),
                ("workers killed", blows.killed + blows.consumers),
                ("workers stopped", blows.stopped),
                ("stores killed", blows.stores),
                ("brokers killed", blows.brokers),
                ("connections cut", store_cuts + sink_cuts),
                ("messages undone", undone),
                ("transactions committed late", late),
                ("published again", repeats),
            ],
        );
    }
}

/// The most messages that one blow has published again.
const MOST_OF_A_BLOW: u64 = 400;
const WRITERS: usize = 4;
