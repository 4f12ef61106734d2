//! A provider of webhooks that sends each event until it is answered with success, as long as it takes, to workers that
//! are killed and stand still; behind them an API that is a bad target.
//!
//! The oracle is the book of the API: every request that arrived there, and its effect.

mod ledger;
mod sender;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;

use self::ledger::Ledger;
use self::sender::{Field, SECRET, Sender};
use crate::api::Api;
use crate::gateways::Class;
use crate::moments::now;
use crate::worker::{Run, Site};
use crate::{Moments, scaled, tell};

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
    let mut crew = Crew::start(table, workers, &api, class);
    let field = Field::new(crew.addresses.clone(), seed);
    let mut moments = Moments::seeded(seed);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let field = &field;
                scope.spawn(move || Sender::new(number, field).run())
            })
            .collect();
        crew.befall(&mut moments);
        field.is_over();
        for sender in senders {
            sender.join().expect("a provider that met what it may meet");
        }
    });
    crew.are_killed();
    crew.are_started();
    let finals = field.sent_once_more();
    let lists = crew.lists();
    let figures = Ledger {
        api: &api,
        class,
        finals: &finals,
        doubts: &lists.0,
        repeated: &lists.1,
    }
    .judge();
    let (events, again, replays) = (finals.len() as u64, field.again(), field.replays());
    let Crew { kills, stops, .. } = crew;
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

/// The running workers, each at an address of its own.
struct Crew {
    sites: Vec<Site>,
    addresses: Vec<SocketAddr>,
    running: Vec<Option<Run>>,
    kills: u64,
    stops: u64,
}

impl Crew {
    fn start(store: &str, count: usize, api: &Api, class: Class) -> Self {
        let ports = (0..count).map(|_| free_port::take().expect("a free port"));
        let addresses: Vec<_> = ports
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .collect();
        let site = |address: &SocketAddr| {
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
        };
        let mut crew = Self {
            sites: addresses.iter().map(site).collect(),
            running: addresses.iter().map(|_| None).collect(),
            addresses,
            kills: 0,
            stops: 0,
        };
        crew.are_started();
        crew
    }

    /// Kills workers and has them stand still, one at a time, for as long as the run lasts.
    fn befall(&mut self, moments: &mut Moments) {
        let (began, count) = (now(), self.running.len());
        let most = scaled(700, 1_000);
        while began.elapsed() < scaled(MS(5_000), MS(120_000)) || self.kills < LEAST_KILLS {
            sleep(moments.between(MS(100), MS(most)));
            let at = usize::try_from(moments.below(count as u64)).expect("few");
            // A second one takes over what one that stands still has in hand.
            if count > 1 && moments.below(3) == 0 {
                let run = self.running[at].as_ref().expect("it runs");
                run.signal(Signal::STOP);
                sleep(LEASE + moments.between(MS(200), MS(600)));
                run.signal(Signal::CONT);
                self.stops += 1;
                continue;
            }
            let run = self.running[at].take().expect("it runs");
            assert!(run.kill_after(MS(0)), "{}", self.sites[at].last_words());
            self.kills += 1;
            self.are_started();
        }
    }

    fn are_killed(&mut self) {
        for at in 0..self.running.len() {
            let run = self.running[at].take().expect("it runs");
            assert!(run.kill_after(MS(0)), "{}", self.sites[at].last_words());
        }
    }

    /// Starts those that do not run, and waits until they listen. They may not take requests yet.
    fn are_started(&mut self) {
        let all = self.sites.iter().zip(&self.addresses);
        for (running, (site, address)) in self.running.iter_mut().zip(all) {
            if running.is_some() {
                continue;
            }
            *running = Some(site.start(RUN));
            let began = now();
            while TcpStream::connect(address).is_err() {
                let words = || site.last_words();
                assert!(began.elapsed() < PATIENCE, "no worker: {}", words());
                sleep(MS(2));
            }
        }
    }

    /// Kills all, and asks the store for the keys in doubt, and for those that may have been carried out again.
    fn lists(&mut self) -> (BTreeSet<String>, BTreeSet<String>) {
        self.are_killed();
        let listed = |words: &[&str]| {
            let words = [words, &["--output", "jsonl"]].concat();
            let (status, listed) = self.sites[0].start(&words).wait();
            let words = || self.sites[0].last_words();
            assert!(status.success(), "{status}: {}", words());
            let key = |line| -> String {
                let record: serde_json::Value = serde_json::from_str(line).expect("a record");
                record["key"].as_str().expect("a key").to_owned()
            };
            listed.lines().map(key).collect()
        };
        (
            listed(&["in-doubt", "list"]),
            listed(&["in-doubt", "list", "--repeated"]),
        )
    }
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const SENDERS: usize = 12;
const LEAST_KILLS: u64 = 5;
const LEASE: Duration = Duration::from_secs(1);
/// The time for what must happen, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(180);
const RUN: &[&str] = &["run", "--output", "json"];
/// The path of the requests.
const PATH: &str = "/github";
