//! The provider: sends each event under its id until it is answered with success, and some of them once more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{MS, PATH, SENDERS};
use crate::Moments;
use crate::http::{Connection, Reply};
use crate::moments::now;
use crate::workers::PATIENCE;

/// The secret that it signs with.
pub(super) const SECRET: &str = "It's a Secret to Everybody";

/// The parts that all senders share.
pub(super) struct Field {
    addresses: Vec<SocketAddr>,
    seed: u64,
    next: AtomicU64,
    is_over: AtomicBool,
    again: AtomicU64,
    replays: AtomicU64,
    /// The first fate that was told of each event.
    told: Mutex<BTreeMap<String, Told>>,
}

/// The fate of an event, as an answer with success tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It was carried out, now or before.
    Applied,
    /// It was declined for good.
    Dead,
    /// Nobody knows.
    InDoubt,
}

impl Field {
    pub(super) fn new(addresses: Vec<SocketAddr>, seed: u64) -> Self {
        Self {
            addresses,
            seed,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            again: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }

    /// Lets the senders end what they have begun.
    pub(super) fn is_over(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// The number of requests that were sent again.
    pub(super) fn again(&self) -> u64 {
        self.again.load(Ordering::SeqCst)
    }

    /// The number of answers that told a replay.
    pub(super) fn replays(&self) -> u64 {
        self.replays.load(Ordering::SeqCst)
    }

    fn told(&self, id: &str) -> Option<Told> {
        self.told.lock().expect("no panic").get(id).copied()
    }

    /// Sends every event that was begun to every worker again, which all tell the same fate.
    pub(super) fn sent_once_more(&self) -> BTreeMap<String, Told> {
        let mut sender = Sender::new(SENDERS, self);
        let count = self.next.load(Ordering::SeqCst);
        let mut finals = BTreeMap::new();
        for id in (0..count).map(name) {
            for at in 0..self.addresses.len() {
                let fate = sender.until_taken(&id, Some(at));
                let before = *finals.entry(id.clone()).or_insert(fate);
                assert_eq!(before, fate, "{id}: one fate");
            }
        }
        finals
    }
}

/// A part of the provider, which has one event under way.
pub(super) struct Sender<'a> {
    field: &'a Field,
    moments: Moments,
}

impl<'a> Sender<'a> {
    pub(super) fn new(number: usize, field: &'a Field) -> Self {
        let moments = Moments::seeded(field.seed).apart(number as u64);
        Self { field, moments }
    }

    /// Delivers one event after the other. Whatever was begun is sent until it is taken.
    pub(super) fn run(mut self) {
        while !self.field.is_over.load(Ordering::SeqCst) {
            let id = name(self.field.next.fetch_add(1, Ordering::SeqCst));
            self.until_taken(&id, None);
            // Somebody presses the button, or the answer came too late for the provider.
            if self.moments.below(8) == 0 {
                self.until_taken(&id, None);
            }
        }
    }

    /// Sends an event until it is answered with success; to one worker, or to any.
    fn until_taken(&mut self, id: &str, only: Option<usize>) -> Told {
        let began = now();
        loop {
            // From then on, nobody may be told anything else.
            let known = self.field.told(id);
            if let Some(reply) = self.tried(id, only)
                && let Some(fate) = self.fate(id, known, &reply)
            {
                return fate;
            }
            assert!(began.elapsed() < PATIENCE, "{id}: it is never taken");
            self.field.again.fetch_add(1, Ordering::SeqCst);
            sleep(self.moments.between(MS(5), MS(60)));
        }
    }

    /// Notes what an answer tells; nothing if it asks for the event again.
    fn fate(&self, id: &str, known: Option<Told>, reply: &Reply) -> Option<Told> {
        if reply.status == 503 {
            return None;
        }
        let said: serde_json::Value = serde_json::from_slice(&reply.body).expect("an object");
        let fate = match (reply.status, said["fate"].as_str()) {
            (200, Some("applied")) => {
                assert_eq!(known, None, "{id}: it was carried out before");
                Told::Applied
            }
            (200, Some("replayed")) => {
                assert!(reply.is_replay(), "{id}: {reply:?}");
                self.field.replays.fetch_add(1, Ordering::SeqCst);
                Told::Applied
            }
            (202, Some("dead")) => Told::Dead,
            (202, Some("in_doubt")) => Told::InDoubt,
            _ => panic!("{id}: {reply:?}"),
        };
        let mut told = self.field.told.lock().expect("no panic");
        let first = told.entry(id.to_owned()).or_insert(fate);
        if *first == Told::InDoubt {
            // A worker that stood still may complete late, which ends the doubt.
            *first = fate;
        }
        let first = *first;
        drop(told);
        assert_eq!(first, fate, "{id}: two fates");
        Some(fate)
    }

    /// Sends a request once; nothing without an answer. Some hang up early.
    fn tried(&mut self, id: &str, only: Option<usize>) -> Option<Reply> {
        let count = self.field.addresses.len() as u64;
        let any = usize::try_from(self.moments.below(count)).expect("few");
        let address = self.field.addresses[only.unwrap_or(any)];
        let is_hasty = only.is_none() && self.moments.below(20) == 0;
        let patience = if is_hasty { MS(3) } else { ANSWERED };
        let mut connection = Connection::open(address, patience).ok()?;
        let body = body(id);
        let signed = signature(&body);
        let headers = [("x-github-delivery", id), ("x-hub-signature-256", &*signed)];
        connection.send(PATH, &headers, &body, true).ok()
    }
}

/// The signature of a body, as GitHub writes it.
fn signature(body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length");
    let tag = mac.chain_update(body.as_bytes()).finalize().into_bytes();
    tag.iter().fold("sha256=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn name(number: u64) -> String {
    format!("event-{number}")
}

/// The body of an event, which the API is sent as it is.
pub(super) fn body(id: &str) -> String {
    format!("{{\"event\":\"{id}\"}}")
}

/// The time that the provider waits for an answer, which is more than a worker takes unless it stands still.
const ANSWERED: Duration = Duration::from_secs(10);
