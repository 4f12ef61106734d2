//! Gateways before an API, and clients that race for its keys and try again until each has an end, while gateways are
//! killed and stand still.
//!
//! The oracle is the book of the API: every request that arrived there, with its effect and its answer.

mod judge;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use self::judge::Judge;
use crate::api::Api;
use crate::class::Class;
use crate::http::{Connection, Reply};
use crate::moments::now;
use crate::worker::Site;
use crate::workers::{LEAST_KILLS, PATIENCE, Workers};
use crate::{Moments, tell};

/// Has clients race for keys at so many gateways over one store, most of whose ends are violent, and checks the book of
/// the API against what every client was told. `store` is the table of that name.
///
/// # Panics
///
/// If a key was carried out more often than its class allows, a client was told two different ends, or an end was
/// forgotten.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn each_key_has_one_end(store: (&str, &str), gateways: usize, class: Class, seed: u64) {
    let (name, table) = store;
    let api = Api::start(class.temper(), seed);
    let mut workers = start(table, gateways, &api, class);
    let field = Field::new(&workers, seed);
    let mut moments = Moments::seeded(seed);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let field = &field;
                scope.spawn(move || Client::new(number, field).run())
            })
            .collect();
        workers.befall(&mut moments, MS(300));
        field.is_over();
        for client in clients {
            client.join().expect("a client that met what it may meet");
        }
    });
    workers.are_killed();
    workers.are_started();
    let finals = field.asked_once_more();
    let lists = workers.lists();
    let repeated = Judge {
        api: &api,
        class,
        finals: &finals,
        lists: &lists,
        told: &field.told.lock().expect("no panic"),
    }
    .judge();
    let (keys, in_doubt) = (finals.len() as u64, lists.0.len() as u64);
    let again = field.again.load(Ordering::SeqCst);
    let replays = field.replays.load(Ordering::SeqCst);
    let Workers { kills, stops, .. } = workers;
    let name = format!("gateway, {name}, {}", class.name());
    println!(
        "{name}: {keys} keys, {CLIENTS} clients, {kills} gateways killed, {stops} stopped beyond their leases, {} \
         arrivals, {again} tries again, {replays} replays, {in_doubt} in doubt, {repeated} carried out more than once and \
         listed",
        api.count()
    );
    assert!(
        kills >= LEAST_KILLS && again > 0 && replays > 0 && in_doubt < keys,
        "{name}: too little has happened"
    );
    let mut figures = vec![
        ("operations", keys),
        ("workers killed", kills),
        ("requests tried again", again),
        ("replays", replays),
        ("workers stopped", stops),
    ];
    match class {
        Class::Park => figures.push(("doubts", in_doubt)),
        Class::Repeat => figures.push(("carried out again, listed", repeated)),
        Class::Keyed => {}
    }
    tell(&name, &figures);
}

/// Starts gateways before the API.
fn start(store: &str, count: usize, api: &Api, class: Class) -> Workers {
    Workers::start(count, |address| {
        let config = format!(
            "{store}[gateway]\nlisten = \"{address}\"\nupstream = \"{}\"\n{}{QUICK}",
            api.url(),
            class.lines()
        );
        Site::with(&[("semel.toml", &config)])
    })
}

/// The parts that all clients share.
struct Field {
    addresses: Vec<SocketAddr>,
    seed: u64,
    race: Mutex<Race>,
    /// The number of requests that were made again.
    again: AtomicU64,
    replays: AtomicU64,
    /// The first answer that a client was told under each key.
    told: Mutex<BTreeMap<String, Reply>>,
}

#[derive(Default)]
struct Race {
    /// The number of rounds that a client has begun; each has keys of its own.
    rounds: u64,
    is_over: bool,
}

impl Field {
    fn new(workers: &Workers, seed: u64) -> Self {
        Self {
            addresses: workers.addresses.clone(),
            seed,
            race: Mutex::default(),
            again: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// Lets the clients end what they have begun.
    fn is_over(&self) {
        self.race.lock().expect("no panic").is_over = true;
    }

    /// Tells a client whether there is another round.
    fn begins(&self, round: u64) -> bool {
        let mut race = self.race.lock().expect("no panic");
        if race.is_over && round >= race.rounds {
            return false;
        }
        race.rounds = race.rounds.max(round + 1);
        true
    }

    fn told(&self, key: &str) -> Option<Reply> {
        self.told.lock().expect("no panic").get(key).cloned()
    }

    /// Asks every gateway for every key, which all tell the same end; nothing if it is in doubt.
    fn asked_once_more(&self) -> BTreeMap<String, Option<Reply>> {
        let rounds = self.race.lock().expect("no panic").rounds;
        let mut client = Client::new(CLIENTS, self);
        let mut finals = BTreeMap::new();
        for key in (0..rounds).flat_map(|round| (0..KEYS).map(move |at| name(round, at))) {
            for address in 0..self.addresses.len() {
                let end = client.ended(&key, Some(address));
                assert!(end.as_ref().is_none_or(Reply::is_replay), "{key}: {end:?}");
                let kept = end.clone();
                let before = finals.entry(key.clone()).or_insert(end);
                let parts = |it: &Option<Reply>| it.as_ref().map(|it| it.body.clone());
                assert_eq!(parts(before), parts(&kept), "{key}: one end");
            }
        }
        finals
    }
}

/// A client, which tries again as long as an answer says that it may.
struct Client<'a> {
    number: usize,
    field: &'a Field,
    moments: Moments,
}

impl<'a> Client<'a> {
    fn new(number: usize, field: &'a Field) -> Self {
        let moments = Moments::seeded(field.seed).apart(number as u64);
        Self {
            number,
            field,
            moments,
        }
    }

    /// Goes through one round after the other. Those that were begun by anybody are finished by all.
    fn run(mut self) {
        for round in 0.. {
            if !self.field.begins(round) {
                return;
            }
            for step in 0..KEYS {
                // Some go the same way, so that they meet.
                let at = (step + self.number as u64 / 4 * 10) % KEYS;
                self.ended(&name(round, at), None);
            }
        }
    }

    /// Sends a request until there is an end: an answer of the API, or nothing if it is in doubt. It goes to one
    /// gateway, or to any.
    fn ended(&mut self, key: &str, only: Option<usize>) -> Option<Reply> {
        let began = now();
        loop {
            // From then on, nobody may be told anything else.
            let known = self.field.told(key);
            if let Some(reply) = self.tried(key, only) {
                let code = reply.code();
                match (reply.status, code.as_deref()) {
                    (201, _) | (402, None) => {
                        let mut told = self.field.told.lock().expect("no panic");
                        let first = told.entry(key.to_owned()).or_insert_with(|| reply.clone());
                        assert_eq!(first.kept(), reply.kept(), "{key}: two answers");
                        return Some(reply);
                    }
                    (409, Some("in-doubt")) => {
                        assert_eq!(known, None, "{key}: an outcome was lost: {reply:?}");
                        return None;
                    }
                    (409, Some("in-progress")) | (429 | 500 | 502 | 503 | 504, _) => {}
                    // One that stood still finds its claim lost: the other gateway has the answer.
                    (409, Some("claim-lost")) if self.field.addresses.len() > 1 => {}
                    _ => panic!("{key}: {reply:?}"),
                }
            }
            assert!(began.elapsed() < PATIENCE, "{key}: no end");
            self.field.again.fetch_add(1, Ordering::SeqCst);
            sleep(self.moments.between(MS(5), MS(60)));
        }
    }

    /// Sends a request once; nothing without an answer. Some hang up early.
    fn tried(&mut self, key: &str, only: Option<usize>) -> Option<Reply> {
        let count = self.field.addresses.len() as u64;
        let any = usize::try_from(self.moments.below(count)).expect("few");
        let address = self.field.addresses[only.unwrap_or(any)];
        let is_hasty = only.is_none() && self.moments.below(20) == 0;
        let patience = if is_hasty { MS(3) } else { PATIENCE };
        let mut connection = Connection::open(address, patience).ok()?;
        let reply = connection.post(key, &body(key), true).ok()?;
        if reply.is_replay() {
            self.field.replays.fetch_add(1, Ordering::SeqCst);
        }
        Some(reply)
    }
}

fn name(round: u64, at: u64) -> String {
    format!("pay-{round}-{at}")
}

fn body(key: &str) -> String {
    format!("{{\"payment\":\"{key}\"}}")
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const CLIENTS: usize = 20;
const KEYS: u64 = 50;
/// Short times, so that clients are not kept for long.
const QUICK: &str =
    "connect_timeout = \"300ms\"\nupstream_timeout = \"1s\"\nwait = \"100ms\"\nlease = \"1s\"\n";
