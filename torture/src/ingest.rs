//! Producers that number their messages and send them again until they are answered, to workers that are killed and
//! stand still, over a store that is killed and cut off. Each producer is open twice at a time: the older opening is to
//! be fenced.
//!
//! The oracle is the book of the effects, and what every answer said. One client has a fault: it gives another sequence
//! to what was not answered. The same judge must find what it is the cause of.

mod bookings;
mod client;
mod control;
mod faults;
mod keys;
mod opening;
mod producer;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use self::bookings::Home;
use self::client::{Client, Field};
use self::control::Control;
use self::faults::{Blows, LEAST_CUTS};
use self::keys::Keys;
use self::opening::Opening;
use self::producer::Producer;
use crate::outbox::{Order, Origin, Place, repeats};
use crate::storm::Told;
use crate::workers::{LEAST_KILLS, Workers};
use crate::{Moments, scaled, tell};

/// Has producers send messages to workers over the embedded store, or over a database, and checks that each message
/// that was taken is booked once, and in sequence where its pipeline promises an order, and that nothing else is:
/// nothing behind a gap, of an opening that was over, or of a body that did not come whole.
///
/// # Panics
///
/// If it is not so, an answer contradicts an earlier one, or too little has happened.
pub fn each_message_is_booked_once(over: Option<Origin>, seed: u64) {
    let runtime = Runtime::new().expect("a runtime");
    let inside = runtime.enter();
    let home = Home::start(over);
    drop(inside);
    let mut workers = home.workers();
    let field = Field::new(workers.addresses.clone(), seed);
    let producers: Vec<_> = (0..PRODUCERS).map(Producer::new).collect();
    let (mut keys, mut control) = (Keys::new(&field), Control::new(&field));
    let mut blows = Blows::default();
    thread::scope(|scope| {
        let _ending = field.ending();
        let mut clients = vec![scope.spawn(|| keys.run()), scope.spawn(|| control.run())];
        for (number, producer) in producers.iter().chain(&producers).enumerate() {
            let client = Client::new(&field, number);
            clients.push(scope.spawn(move || Opening::new(client, producer).run()));
        }
        let mut moments = Moments::seeded(seed);
        blows.are_dealt(&home, &mut workers, &mut moments, |blows, workers| {
            let has_failed = clients.iter().any(thread::ScopedJoinHandle::is_finished);
            has_failed || missing(&home, workers, &field, *blows).is_none()
        });
    });
    for (number, producer) in producers.iter().enumerate() {
        let client = Client::new(&field, number);
        Opening::new(client, producer).ends();
    }
    keys.ends();
    control.ends();
    home.has_nothing_left(&workers);
    workers.leave();
    let story = Story {
        name: format!("ingest, {}", home.name),
        home: &home,
        workers: &workers,
        field: &field,
        blows,
    };
    let mut taken: BTreeMap<Order, Place> = producers.iter().flat_map(Producer::taken).collect();
    taken.extend(keys.taken());
    story.is_judged(&taken, &control.taken());
}

/// The first event without which a run proves too little, of those that have not happened.
fn missing(home: &Home, workers: &Workers, field: &Field, blows: Blows) -> Option<&'static str> {
    let counts = field.counts();
    let is_server = home.server.is_some();
    let happened = [
        ("messages", counts.taken >= scaled(600, 200_000)),
        ("kills", workers.kills >= scaled(LEAST_KILLS, 100)),
        ("workers that stood still", workers.stops >= scaled(1, 20)),
        (
            "kills of the store",
            !is_server || blows.stores >= scaled(1, 10),
        ),
        (
            "cuts of the store",
            !is_server || home.cuts() >= scaled(1, 10) * LEAST_CUTS,
        ),
        (
            "requests that were sent again",
            counts.again >= scaled(10, 500),
        ),
        (
            "bodies that did not come whole",
            counts.halves >= scaled(3, 500),
        ),
        ("known messages", counts.known >= scaled(30, 5_000)),
        ("gaps", counts.gaps >= scaled(3, 500)),
        ("openings that were over", counts.fenced >= scaled(3, 200)),
        (
            "bookings of the control that repeat",
            counts.repeats >= scaled(1, 50),
        ),
    ];
    let missing = happened.into_iter().find(|(_, is_so)| !is_so);
    missing.map(|(what, _)| what)
}

/// A run, once all has befallen it.
struct Story<'s> {
    name: String,
    home: &'s Home,
    workers: &'s Workers,
    field: &'s Field,
    blows: Blows,
}

impl Story<'_> {
    fn is_judged(&self, taken: &BTreeMap<Order, Place>, of_control: &BTreeMap<Order, Place>) {
        let name = &self.name;
        let booked = self.home.booked(self.workers);
        let (control, booked): (Vec<_>, Vec<_>) = booked
            .into_iter()
            .partition(|it| of_control.contains_key(it));
        let place = format!("{name}, the books");
        assert_eq!(repeats(&place, taken, &booked), 0, "{name}: booked twice");
        let repeats = repeats(&format!("{name}, the control"), of_control, &control);
        self.report(taken.len() + of_control.len(), repeats);
    }

    #[expect(clippy::print_stdout, reason = "the figures of a run")]
    fn report(&self, messages: usize, repeats: u64) {
        let (name, counts) = (&self.name, self.field.counts());
        let Workers { kills, stops, .. } = *self.workers;
        let (stores, cuts) = (self.blows.stores, self.home.cuts());
        let messages = messages as u64;
        let mut told = [(); 2].map(|()| Told::default());
        for (told, site) in told.iter_mut().zip(&self.workers.sites) {
            told.listen(site);
        }
        let replays: usize = told.iter().map(|it| it.replays).sum();
        println!(
            "{name}: {messages} messages, {kills} workers killed, {stops} stopped beyond their leases, {stores} restarts \
             of a killed store, {cuts} connections to it cut; {} requests sent again, {} bodies that did not come whole, \
             {} known messages, {} gaps and {} requests of fenced openings refused, {replays} replays; the control has \
             {repeats} bookings that repeat",
            counts.again, counts.halves, counts.known, counts.gaps, counts.fenced,
        );
        let missing = missing(self.home, self.workers, self.field, self.blows);
        assert_eq!(missing, None, "{name}: too little has happened");
        assert!(replays > 0, "{name}: no worker got anything twice");
        assert!(
            repeats >= counts.repeats,
            "{name}: the judge does not see that messages have two sequences"
        );
        tell(
            name,
            &[
                ("operations", messages),
                ("workers killed", kills),
                ("workers stopped", stops),
                ("stores killed", stores),
                ("connections cut", cuts),
                ("requests tried again", counts.again),
                ("bodies cut", counts.halves),
                ("gaps refused", counts.gaps),
                ("openings fenced", counts.fenced),
                ("replays", replays as u64),
            ],
        );
    }
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const PRODUCERS: usize = 4;
/// The pipelines, each with a path of that name: a producer has sequences in each of them, and one epoch for both.
const STREAMS: [&str; 2] = ["orders", "returns"];
/// The one whose pipeline promises an order: that of the sequences of a producer.
const ORDERED: &str = STREAMS[0];
/// The other one, which has a use for messages without an account.
const UNORDERED: &str = STREAMS[1];

/// The path of a stream.
fn path(stream: &str) -> String {
    format!("/v1/ingest/{stream}")
}
