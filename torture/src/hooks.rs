//! A provider of webhooks that sends each event until it is answered with success, as long as it takes, to workers that
//! are killed and stand still; behind them an API that is a bad target.
//!
//! The oracle is the book of the API: every request that arrived there, and its effect.

mod ledger;
mod sender;

use std::thread;
use std::time::Duration;

use self::ledger::Ledger;
use self::sender::{Field, SECRET, Sender};
use crate::api::Api;
use crate::class::Class;
use crate::worker::Site;
use crate::workers::{LEAST_KILLS, Workers};
use crate::{Moments, tell};

/// Has a provider deliver to so many workers over one store, most of whose ends are violent, and checks the book of the
/// API against what the provider was told. `store` is the table of that name.
///
/// # Panics
///
/// If an event was carried out more often than its class allows, was answered with success and lost, or has another
/// fate than it was told.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn each_event_happens_once(store: (&str, &str), workers: usize, class: Class, seed: u64) {
    let (name, table) = store;
    let api = Api::start(class.temper(), seed);
    let mut workers = start(table, workers, &api, class);
    let field = Field::new(workers.addresses.clone(), seed);
    let mut moments = Moments::seeded(seed);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let field = &field;
                scope.spawn(move || Sender::new(number, field).run())
            })
            .collect();
        workers.befall(&mut moments, MS(100));
        field.is_over();
        for sender in senders {
            sender.join().expect("a provider that met what it may meet");
        }
    });
    workers.are_killed();
    workers.are_started();
    let finals = field.sent_once_more();
    let lists = workers.lists();
    let figures = Ledger {
        api: &api,
        class,
        finals: &finals,
        doubts: &lists.0,
        repeated: &lists.1,
    }
    .judge();
    let (events, again, replays) = (finals.len() as u64, field.again(), field.replays());
    let Workers { kills, stops, .. } = workers;
    let name = format!("webhooks, {name}, {}", class.name());
    println!(
        "{name}: {events} events, {kills} workers killed, {stops} stopped beyond their leases, {} arrivals, {again} sent \
         again, {replays} replays, {} in doubt, {} carried out more than once and listed",
        api.count(),
        figures.doubts,
        figures.repeated
    );
    assert!(
        kills >= LEAST_KILLS && again > 0 && replays > 0 && figures.doubts < events,
        "{name}: too little has happened"
    );
    let mut told = vec![
        ("operations", events),
        ("workers killed", kills),
        ("requests tried again", again),
        ("replays", replays),
        ("workers stopped", stops),
    ];
    match class {
        Class::Park => told.push(("doubts", figures.doubts)),
        Class::Repeat => told.push(("carried out again, listed", figures.repeated)),
        Class::Keyed => {}
    }
    tell(&name, &told);
}

/// Starts workers that take webhooks and call the API.
fn start(store: &str, count: usize, api: &Api, class: Class) -> Workers {
    Workers::start(count, |address| {
        let config = format!(
            "{store}[pipelines.events]\nkey = \"header:x-github-delivery\"\nlease = \"1s\"\n\
             retry = {{ attempts = 100, backoff = \"5ms..100ms\" }}\npause_after = 0\n\
             [pipelines.events.source]\nkind = \"webhook\"\nlisten = \"{address}\"\npath = \"{PATH}\"\n\
             verify = \"github\"\nsecret_file = \"secret\"\nanswer_within = \"2s\"\n\
             [pipelines.events.effect]\nkind = \"http\"\nurl = \"{}/charges\"\ntimeout = \"1s\"\n{}",
            api.url(),
            class.lines()
        );
        Site::with(&[("semel.toml", &config), ("secret", SECRET)])
    })
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const SENDERS: usize = 12;
/// The path of the requests.
const PATH: &str = "/github";
