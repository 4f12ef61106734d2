//! A gateway that is replaced by the next one, again and again, while clients send requests: none is refused, and no
//! answer is forgotten.

mod door;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;

use crate::api::{Api, Temper};
use crate::http::{Connection, Reply};
use crate::moments::now;
use crate::worker::{Run, Site};
use crate::{Moments, scaled, tell};

use self::door::{Door, PATIENCE};

pub use self::door::Speech;

/// The way in which one gateway follows the other at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The socket stays open, as systemd keeps it, and each gateway begins when the one before it has ended.
    Socket,
    /// Each listens at a socket of its own (`reuse_port`), and begins before the one before it ends.
    Port,
}

/// Replaces a gateway again and again under the load of clients who speak so. `store` is the table of that name.
///
/// # Panics
///
/// If a request got no answer, or another one than the first under its key, or reached the API twice.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn replaced_under_load(store: (&str, &str), way: Handover, speech: Speech, seed: u64) {
    let (name, table) = store;
    let api = Api::start(Temper::Calm, seed);
    let (mut stage, door) = Stage::new(table, way, speech, &api);
    let crowd = Crowd {
        door,
        seed,
        is_over: AtomicBool::new(false),
        requests: AtomicU64::new(0),
        replays: AtomicU64::new(0),
        told: Mutex::default(),
    };
    let restarts = scaled(3, 40);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let crowd = &crowd;
                scope.spawn(move || crowd.client(number))
            })
            .collect();
        let mut moments = Moments::seeded(seed);
        for _ in 0..restarts {
            // Some requests at least are answered by each.
            let (before, began) = (crowd.requests.load(Ordering::SeqCst), now());
            sleep(moments.between(MS(100), MS(600)));
            while crowd.requests.load(Ordering::SeqCst) < before + 50 && !has_failed(&clients) {
                assert!(began.elapsed() < PATIENCE, "{}", stage.site.last_words());
                sleep(MS(5));
            }
            stage.replace();
        }
        crowd.is_over.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().expect("a client without a refusal");
        }
    });
    let told = crowd.told.lock().expect("no panic").clone();
    for (key, first) in &told {
        let asked = crowd.door.ask((key, &body(key)), None, false);
        let (again, _) = asked.expect("an answer");
        assert!(again.is_replay(), "{key}: forgotten: {again:?}");
        assert_eq!(again.kept(), first.kept(), "{key}: another answer");
        let arrivals = api.arrivals(&body(key));
        assert_eq!(arrivals.len(), 1, "{key}: {arrivals:?}");
    }
    let count = |it: &AtomicU64| it.load(Ordering::SeqCst);
    let (requests, replays) = (count(&crowd.requests), count(&crowd.replays));
    let way = match way {
        Handover::Socket => "one socket",
        Handover::Port => "a socket each",
    };
    let name = match speech {
        Speech::Plain => format!("gateway, {name}, {way}"),
        _ => format!("gateway, {name}, {way}, {}", speech.name()),
    };
    println!(
        "{name}: {requests} requests on {} connections, {replays} replays, {restarts} restarts, {} crossed with a \
         GOAWAY, none refused, none forgotten",
        crowd.door.connections(),
        crowd.door.unprocessed()
    );
    assert!(replays > 0, "{name}: nothing was asked for twice");
    assert!(
        crowd.door.unprocessed() <= CLIENTS * restarts,
        "{name}: more requests were not looked at than can cross with a GOAWAY"
    );
    tell(
        &name,
        &[
            ("operations", requests),
            ("workers that left", restarts),
            ("replays", replays),
        ],
    );
}

fn has_failed(clients: &[thread::ScopedJoinHandle<'_, ()>]) -> bool {
    clients.iter().any(thread::ScopedJoinHandle::is_finished)
}

/// The gateway that serves, and the means to start the next one.
struct Stage {
    site: Site,
    /// The socket that stays open.
    socket: Option<TcpListener>,
    running: Option<Run>,
    started: usize,
}

impl Stage {
    fn new(store: &str, way: Handover, speech: Speech, api: &Api) -> (Self, Door) {
        let (socket, address, lines) = match way {
            Handover::Socket => {
                let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                let address = socket.local_addr().expect("an address");
                (Some(socket), address, "")
            }
            Handover::Port => {
                let port = free_port::take().expect("a free port");
                (
                    None,
                    (Ipv4Addr::LOCALHOST, port).into(),
                    "reuse_port = true\n",
                )
            }
        };
        let door = Door::new(address, speech);
        let config = format!(
            "{store}[gateway]\nlisten = \"{address}\"\nupstream = \"{}\"\n{PATIENT}{lines}{}",
            api.url(),
            door.table()
        );
        let mut stage = Self {
            site: Site::with(&[("semel.toml", &config)]),
            socket,
            running: None,
            started: 0,
        };
        stage.running = Some(stage.started());
        (stage, door)
    }

    /// Starts a gateway, and waits until it serves.
    fn started(&mut self) -> Run {
        let run = match &self.socket {
            Some(socket) => self.site.start_at(socket, "gateway", RUN),
            None => self.site.start(RUN),
        };
        self.started += 1;
        let began = now();
        while self
            .site
            .text("stderr.log")
            .matches("gateway: http")
            .count()
            < self.started
        {
            assert!(
                began.elapsed() < PATIENCE,
                "no gateway: {}",
                self.site.last_words()
            );
            sleep(MS(5));
        }
        run
    }

    /// Has the next gateway follow this one.
    fn replace(&mut self) {
        let old = self.running.take().expect("it runs");
        let next = self.socket.is_none().then(|| self.started());
        old.signal(Signal::TERM);
        let (status, _) = old.wait_at_most(PATIENCE);
        assert!(status.success(), "{status}: {}", self.site.last_words());
        self.running = Some(next.unwrap_or_else(|| self.started()));
    }
}

/// The clients, none of which tries again.
struct Crowd {
    door: Door,
    seed: u64,
    is_over: AtomicBool,
    requests: AtomicU64,
    replays: AtomicU64,
    told: Mutex<BTreeMap<String, Reply>>,
}

impl Crowd {
    /// Sends requests until it is over. Half of the clients keep their connections as long as they may.
    fn client(&self, number: u64) {
        let mut moments = Moments::seeded(self.seed).apart(number);
        let keeps = number.is_multiple_of(2);
        let mut kept = None;
        let mut last = None;
        for at in 0_u64.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            sleep(moments.between(MS(0), MS(20)));
            let is_again = last.is_some() && moments.below(4) == 0;
            let key = match last.take().filter(|_| is_again) {
                Some(key) => key,
                None => format!("pay-{number}-{at}"),
            };
            let (reply, connection) = self.asked(&key, kept.take(), keeps);
            kept = connection;
            assert_eq!(reply.status, 201, "{key}: {reply:?}");
            assert_eq!(reply.is_replay(), is_again, "{key}: {reply:?}");
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.replays
                .fetch_add(u64::from(is_again), Ordering::SeqCst);
            let mut told = self.told.lock().expect("no panic");
            let first = told.entry(key.clone()).or_insert_with(|| reply.clone());
            assert_eq!(first.kept(), reply.kept(), "{key}: two answers");
            last = Some(key);
        }
    }

    /// Sends one request, on a connection that was kept or on a new one.
    fn asked(
        &self,
        key: &str,
        kept: Option<Connection>,
        keeps: bool,
    ) -> (Reply, Option<Connection>) {
        let is_kept = kept.is_some();
        let asked = self.door.ask((key, &body(key)), kept, keeps);
        asked.unwrap_or_else(|why| {
            panic!(
                "{key}: a request was refused: {why:?}, on a connection that was kept: {is_kept}"
            )
        })
    }
}

fn body(key: &str) -> String {
    format!("{{\"payment\":\"{key}\"}}")
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const CLIENTS: u64 = 12;
/// Long times: what a busy machine does to a gateway is no refusal.
const PATIENT: &str = "connect_timeout = \"30s\"\nupstream_timeout = \"2m\"\nwait = \"2m\"\n";
const RUN: &[&str] = &["run", "--output", "json"];
