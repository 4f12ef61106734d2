//! Orders end to end: an order service writes them with their messages, relays publish these, and consumers behind a
//! broker book each of them. Everything on this way is killed, again and again, and at the same time.
//!
//! The oracle is the producer's table. A second pipeline of the same consumers goes by the wrong key: the same judge
//! must find what it books twice.

mod links;
mod service;

pub use service::serve_orders;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use tokio::runtime::Runtime;

use self::links::{LINKS, Links};
use super::destination::{Destination, Target};
use super::orders::{Order, Place, repeats};
use crate::{Moments, scaled, tell};

/// Has order services write orders, whose messages go through a broker into a table of another database, while each
/// link is killed at random moments, and checks that the table has the rows of the producer's, each once, and those of
/// an account in the order of their commits. `service` is the program `order-service`.
///
/// # Panics
///
/// If it is not so, or too little has happened.
pub fn orders_arrive_end_to_end(to: Target, service: &Path, seed: u64) {
    let runtime = Runtime::new().expect("a runtime");
    let (databases, mut destination) = thread::scope(|scope| {
        let databases = scope.spawn(Links::databases);
        let inside = runtime.enter();
        let destination = Destination::start(to);
        drop(inside);
        (databases.join().expect("databases"), destination)
    });
    let mut links = Links::start(databases, &destination, service, seed);
    links.wait_until_at_work();
    let broker = Restarts::default();
    thread::scope(|scope| {
        let _ending = broker.ending();
        let destination = &mut destination;
        let restarting = scope.spawn(|| broker.go_on(destination, seed));
        let mut moments = Moments::seeded(seed);
        for round in 0.. {
            for link in mixed(&mut moments) {
                links.kill(link, &mut moments);
                sleep(moments.between(MS(0), scaled(MS(300), MS(1_500))));
                let has_failed = restarting.is_finished() && !broker.are_done();
                let is_enough = missing(&links, &broker).is_none() || round >= most_rounds();
                if has_failed || is_enough {
                    return;
                }
            }
        }
    });
    links.services_end();
    links.relays_end();
    let published = destination.published().expect("a broker");
    destination.is_acknowledged("book", links.consumer_site());
    links.consumers_end(published.len() as u64);
    let name = format!("end to end, {}", to.name());
    is_judged(&name, &links, &broker, &published);
}

/// The first event without which a run proves too little, of those that have not happened.
fn missing(links: &Links, broker: &Restarts) -> Option<&'static str> {
    if links.kills.least() < scaled(2, 25) {
        return Some("kills of each link");
    }
    if broker.count() < least_restarts() {
        return Some("restarts of a killed broker");
    }
    if links.committed() < scaled(1_500, 200_000) {
        return Some("orders");
    }
    (links.repeats() == 0).then_some("messages that were published again")
}

fn is_judged(name: &str, links: &Links, broker: &Restarts, published: &[Order]) {
    let rows = links
        .shop
        .query("select label, account, amount, number, place from public.sales");
    let committed: BTreeMap<Order, Place> = rows
        .iter()
        .map(|row| {
            let (order, place) = Order::of_row(row);
            (order, (place[0], place[1]))
        })
        .collect();
    assert_eq!(committed.len(), rows.len(), "{name}: labels that repeat");
    let books = |table| {
        let select = format!("select label, account, amount from public.{table} order by came");
        let rows = links.books.query(&select);
        rows.iter().map(|row| Order::of_row(row).0).collect()
    };
    let (mut booked, control): (Vec<Order>, Vec<Order>) = (books("booked"), books("control"));
    let found =
        |what: &str, arrived: &[Order]| repeats(&format!("{name}, {what}"), &committed, arrived);
    let again = found("the topic", published);
    assert_eq!(found("the books", &booked), 0, "{name}: booked twice");
    booked.sort();
    assert!(
        booked.iter().eq(committed.keys()),
        "{name}: the consumer's table is not the producer's"
    );
    let by_place = found("the control", &control);
    assert_eq!(
        by_place, again,
        "{name}: a consumer by coordinates books what is in the topic"
    );
    report(name, links, broker, committed.len() as u64, again);
}

#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn report(name: &str, links: &Links, broker: &Restarts, orders: u64, again: u64) {
    let kills = links.kills;
    let (brokers, replays) = (broker.count(), links.replays());
    println!(
        "{name}: {orders} orders, {} order services, {} relays and {} consumers killed at work, {} restarts of a \
         killed database of the orders, {} of one of the bookings and {brokers} of a killed broker; {again} messages \
         published again, which a consumer by coordinates books twice, and {replays} replays",
        kills.services, kills.relays, kills.consumers, kills.shops, kills.books,
    );
    let missing = missing(links, broker);
    assert_eq!(missing, None, "{name}: too little has happened");
    assert!(replays > 0, "{name}: no consumer got anything twice");
    tell(
        name,
        &[
            ("operations", orders),
            (
                "workers killed",
                kills.services + kills.relays + kills.consumers,
            ),
            ("stores killed", kills.shops + kills.books),
            ("brokers killed", brokers),
            ("published again", again),
        ],
    );
}

/// The restarts of a killed broker.
#[derive(Debug, Default)]
struct Restarts {
    is_over: AtomicBool,
    count: AtomicU64,
}

impl Restarts {
    /// Kills the broker and starts it again until it is over; in a small run as often as is enough, since most take
    /// long to come up.
    fn go_on(&self, destination: &mut Destination, seed: u64) {
        let mut moments = Moments::seeded(seed).apart(1);
        loop {
            let (least, most) = scaled((MS(500), MS(1_500)), (MS(2_000), MS(12_000)));
            sleep(moments.between(least, most));
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            assert!(destination.kill_and_restart(), "a broker");
            self.count.fetch_add(1, Ordering::SeqCst);
            if self.are_done() {
                return;
            }
        }
    }

    /// Reports whether enough of them have happened: a campaign goes on to the end.
    fn are_done(&self) -> bool {
        scaled(self.count() >= least_restarts(), false)
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns what ends the restarts when it is dropped, so that nobody waits for them after a panic.
    fn ending(&self) -> Ending<'_> {
        Ending(self)
    }
}

/// Ends the restarts when it is dropped.
struct Ending<'r>(&'r Restarts);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Every kind of link, in an order of its own.
fn mixed(moments: &mut Moments) -> [links::Link; 5] {
    let mut links = LINKS;
    for last in (1..links.len()).rev() {
        let other = moments.below(last as u64 + 1);
        links.swap(last, usize::try_from(other).expect("few"));
    }
    links
}

const MS: fn(u64) -> Duration = Duration::from_millis;
/// The most rounds of a run that has not met everything by then.
fn most_rounds() -> u64 {
    scaled(20, 2_000)
}

/// The least number of restarts of the broker.
fn least_restarts() -> u64 {
    scaled(2, 10)
}
