//! Orders that transactions make, with a message about each in an outbox; relays that publish them, a broker, and a
//! consumer with an inbox. Everything is killed and cut, again and again.
//!
//! The oracle is the producer's table, which the same transactions write: what is in it was committed.

mod booking;
mod chain;
mod client;
mod database;
mod destination;
mod faults;
mod orders;
mod relay;
mod writers;

pub use chain::{orders_arrive_end_to_end, serve_orders};
pub use database::Origin;
pub use destination::Target;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use tokio::runtime::Runtime;

pub(crate) use self::booking::{booking, in_order, rows};
use self::client::Ended;
pub(crate) use self::database::Database;
pub(crate) use self::destination::Destination;
use self::faults::Crew;
pub(crate) use self::faults::storm;
use self::orders::{End, Transaction, repeated};
pub(crate) use self::orders::{Order, Place, repeats};
use self::relay::PATIENCE;
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
    let least = scaled(1_500, 200_000);
    thread::scope(|scope| {
        let _ending = writers.ending();
        let writing: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (writers, database) = (&writers, &database);
                scope.spawn(move || writers.write(number, database, seed))
            })
            .collect();
        let is_enough = |crew: &Crew, destination: &Destination, round| {
            let failed = writing.iter().any(thread::ScopedJoinHandle::is_finished);
            let has_written = writers.committed.load(Ordering::Relaxed) >= least;
            let is_time = || round >= scaled(6, 60);
            let has_all = || missing(crew, &database, destination, &writers).is_none();
            failed || has_written && (has_all() || is_time())
        };
        let mut moments = Moments::seeded(seed);
        crew.befall(&database, &mut destination, &mut moments, is_enough);
    });
    let story = Story {
        name: format!("outbox, {}, {}", from.name(), to.name()),
        database: &database,
        destination: &destination,
        writers: &writers,
    };
    let in_calm = story.goes_on_in_calm(&crew, seed);
    story.comes_to_an_end(&mut crew);
    story.is_judged(&crew, &in_calm);
}

/// The first event without which a run proves too little, of those that have not happened.
fn missing(
    crew: &Crew,
    database: &Database,
    destination: &Destination,
    writers: &Writers,
) -> Option<&'static str> {
    let blows = crew.blows;
    let sink_cuts = destination.cuts.seen().cuts;
    let store_cuts = database.cuts.as_ref().map(|it| it.seen().cuts);
    let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
    let least = scaled(3, 50);
    let happened = [
        ("killed relays", blows.killed > least + 1),
        ("relays killed before a record", blows.unrecorded > 1),
        ("stopped relays", blows.stopped > 0),
        ("cuts of the sink", sink_cuts > least),
        (
            "cuts of the database",
            store_cuts.is_none_or(|it| it > least),
        ),
        ("moves of partitions", crew.moves() > 8),
        ("transactions that were undone", count(&writers.undone) > 0),
        (
            "transactions that committed late",
            // A file has one writer at a time.
            store_cuts.is_none() || count(&writers.late) > 0,
        ),
    ];
    let missing = happened.into_iter().find(|(_, is_so)| !is_so);
    missing.map(|(what, _)| what)
}

/// A run, once all has befallen it.
struct Story<'s> {
    name: String,
    database: &'s Database,
    destination: &'s Destination,
    writers: &'s Writers,
}

impl Story<'_> {
    /// Writes orders while nothing befalls anybody, and has them published without a warning of any relay. Returns the
    /// begin of their labels.
    fn goes_on_in_calm(&self, crew: &Crew, seed: u64) -> String {
        self.falls_to(0, WAITING, crew);
        let mut moments = Moments::seeded(seed).apart(1);
        for writer in WRITERS..WRITERS + 5 {
            let troubles = crew.troubles();
            let mut client = self.database.client();
            for number in 0..100 {
                let mut transaction = Transaction::next(writer, number, &mut moments);
                transaction.end = End::Commit;
                if client.transact(&transaction) == Ended::Unknown {
                    client = self.database.client();
                }
            }
            self.falls_to(0, WAITING, crew);
            if crew.troubles() == troubles {
                return format!("w{writer}-");
            }
        }
        panic!("{}: there is no calm:\n{}", self.name, crew.last_words());
    }

    /// Waits until everything is published and consumed, and ends relays and consumer.
    fn comes_to_an_end(&self, crew: &mut Crew) {
        self.falls_to(0, WAITING, crew);
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
    fn is_judged(&self, crew: &Crew, in_calm: &str) {
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
        let arrived = published.as_ref().unwrap_or(&received);
        let repeats = repeats(name, &committed, arrived);
        let twice = repeated(arrived, in_calm);
        assert!(twice.is_empty(), "{name}: repeats in calm: {twice:?}");
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
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let (undone, late, unknown) = (
            count(&self.writers.undone),
            count(&self.writers.late),
            count(&self.writers.unknown),
        );
        let (moves, fenced) = (crew.moves(), crew.fenced());
        let late_text = match self.database.cuts {
            Some(_) => format!("{late} transactions committed late, "),
            // A file has one writer at a time.
            None => String::new(),
        };
        println!(
            "{name}: {} messages, {undone} undone, {late_text}{unknown} messages of clients that died; {} \
             relays killed at work, {} of them between a publication and its record, {} stopped beyond their leases, \
             {moves} shares of partitions, {fenced} times fenced, {store_cuts} connections to the database cut and \
             {sink_cuts} to the sink, {} restarts of a killed database and {} of a killed broker, {} consumers killed; \
             {repeats} repeats at the broker, none at the consumer",
            committed.len(),
            blows.killed,
            blows.unrecorded,
            blows.stopped,
            blows.stores,
            blows.brokers,
            blows.consumers,
        );
        let missing = missing(crew, self.database, self.destination, self.writers);
        assert_eq!(missing, None, "{name}: too little has happened");
        assert!(
            repeats > 0 || self.destination.drops_repeats(),
            "{name}: nothing was published again after a kill between publication and record"
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
const WAITING: &str = "select count(*) from semel_outbox where dead_at is null";
