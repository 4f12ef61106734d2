//! Clients of the claim API that race for keys, die at bad moments and lose answers, while their server is killed every
//! second.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use torture::{Run, Site, tell};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
#[expect(clippy::disallowed_methods, reason = "the storm has its time")]
fn no_effect_happens_twice_while_the_server_is_killed() {
    let port = free_port::take().expect("a free port");
    let config = format!(
        "[store]\nurl = \"embedded:data\"\n[claims]\nlisten = \"127.0.0.1:{port}\"\nlease = \"500ms\"\n"
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let mut kills = 0;
    let field = Field::new(&site, port);
    std::thread::scope(|scope| {
        let mut server = start(&site, port);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let field = &field;
                scope.spawn(move || Client::new(number, field).run())
            })
            .collect();
        let began = Instant::now();
        while began.elapsed() < STORM {
            assert!(
                server.kill_after(Duration::from_secs(1)),
                "it ran until then"
            );
            kills += 1;
            server = start(&site, port);
        }
        field.storm.lock().expect("no panic").is_over = true;
        for client in clients {
            client.join().expect("no panic");
        }
        assert!(server.kill_after(Duration::ZERO), "it ran until then");
        let _server = start(&site, port);
        field.holds_its_word();
    });
    let ends = field.ends.into_inner().expect("no panic");
    let acknowledged = field.acknowledged.into_inner().expect("no panic");
    let booked = site.text("effects.log");
    let mut figures = [0; 5];
    let rounds = field.storm.into_inner().expect("no panic").rounds;
    for round in 0..rounds {
        for key in 0..KEYS {
            let name = name(round, key);
            let effects: Vec<_> = booked
                .lines()
                .filter(|it| it.starts_with(&format!("{name} ")))
                .collect();
            assert!(effects.len() <= 1, "{effects:?}");
            let ends: Vec<_> = ends.iter().filter(|end| end.key == name).collect();
            assert_eq!(ends.len(), CLIENTS, "{name}: every client ends: {ends:?}");
            figures[0] += 1;
            figures[1] += u64::from(ends.iter().any(|end| end.outcome.is_none()));
            figures[4] += u64::from(acknowledged.contains_key(&name));
            let outcomes = ends.iter().filter_map(|end| end.outcome.as_ref());
            for outcome in outcomes.chain(acknowledged.get(&name)) {
                assert_eq!(
                    effects,
                    [format!("{name} {outcome}")],
                    "the outcome of its effect"
                );
            }
        }
    }
    figures[2] = kills;
    figures[3] = field.again.load(Ordering::SeqCst);
    let [keys, in_doubt, kills, again, completed] = figures;
    assert!(
        kills >= 5 && again > 0 && in_doubt > 0 && in_doubt < keys && completed > 0,
        "{figures:?}"
    );
    tell(
        "claims",
        &[
            ("keys", keys),
            ("in doubt", in_doubt),
            ("kills", kills),
            ("asked again", again),
            ("completions acknowledged", completed),
        ],
    );
}

pub(crate) fn start(site: &Site, port: u16) -> Run {
    let run = site.start(&["run"]);
    for _ in 0..6_000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return run;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("no server: {}", site.last_words());
}

/// The parts that all clients share.
struct Field<'a> {
    site: &'a Site,
    port: u16,
    storm: Mutex<Storm>,
    /// The number of requests that were made again for want of an answer.
    again: AtomicU64,
    ends: Mutex<Vec<End>>,
    /// The outcomes of the completions that were answered with 200, by their keys: whoever asks from then on gets them.
    acknowledged: Mutex<BTreeMap<String, String>>,
    book: Mutex<()>,
}

#[derive(Default)]
struct Storm {
    /// The number of rounds that a client has begun; each has keys of its own.
    rounds: u64,
    is_over: bool,
}

/// The last answer that a client got about a key.
#[derive(Debug)]
struct End {
    key: String,
    /// The outcome that was replayed; nothing if it is in doubt.
    outcome: Option<String>,
}

impl<'a> Field<'a> {
    fn new(site: &'a Site, port: u16) -> Self {
        Self {
            site,
            port,
            storm: Mutex::default(),
            again: AtomicU64::new(0),
            ends: Mutex::default(),
            acknowledged: Mutex::default(),
            book: Mutex::default(),
        }
    }

    /// Asks for every completion that was acknowledged, once more.
    fn holds_its_word(&self) {
        let mut client = Client::new(CLIENTS, self);
        let keys: Vec<_> = {
            let acknowledged = self.acknowledged.lock().expect("no panic");
            acknowledged.keys().cloned().collect()
        };
        for key in keys {
            let id = client.fresh_id();
            client.claimed(&key, &id);
        }
    }

    fn acknowledged(&self, key: &str) -> Option<String> {
        let acknowledged = self.acknowledged.lock().expect("no panic");
        acknowledged.get(key).cloned()
    }

    /// The effect: a line in a file.
    fn book(&self, key: &str, id: &str) {
        let _alone = self.book.lock().expect("no panic");
        let path = self.site.path("effects.log");
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .expect("a file");
        writeln!(file, "{key} {id}").expect("booked");
    }
}

struct Client<'a> {
    number: usize,
    field: &'a Field<'a>,
    asked: u64,
}

impl<'a> Client<'a> {
    fn new(number: usize, field: &'a Field<'a>) -> Self {
        Self {
            number,
            field,
            asked: 0,
        }
    }

    /// Goes through one round after the other. Those that were begun by anybody are finished by all.
    fn run(mut self) {
        for round in 0.. {
            if !self.begins(round) {
                return;
            }
            for key in 0..KEYS {
                let key = name(round, key);
                let outcome = self.once(&key);
                self.field
                    .ends
                    .lock()
                    .expect("no panic")
                    .push(End { key, outcome });
            }
        }
    }

    fn begins(&self, round: u64) -> bool {
        let mut storm = self.field.storm.lock().expect("no panic");
        if storm.is_over && round >= storm.rounds {
            return false;
        }
        storm.rounds = storm.rounds.max(round + 1);
        true
    }

    fn once(&mut self, key: &str) -> Option<String> {
        loop {
            let id = self.fresh_id();
            let said = self.claimed(key, &id);
            match said["decision"].as_str() {
                Some("granted") => {
                    // Some die before the effect, some behind it.
                    match self.asked % 29 {
                        0 => continue,
                        1 => {
                            self.field.book(key, &id);
                            continue;
                        }
                        _ => self.field.book(key, &id),
                    }
                    sleep(Duration::from_millis(self.asked % 50));
                    let place = format!(
                        "/v1/claims/{}/complete",
                        said["claim"].as_str().expect("a claim")
                    );
                    // Nobody else is granted a key whose effect may have begun, so that even a late completion counts.
                    let (status, told) = self.asked(&place, &json!({ "outcome": id }));
                    assert_eq!(
                        (status, &told["state"]),
                        (200, &json!("completed")),
                        "{told}"
                    );
                    let mut acknowledged = self.field.acknowledged.lock().expect("no panic");
                    let before = acknowledged.insert(key.to_owned(), id);
                    assert_eq!(before, None, "{key}: one completion");
                }
                Some("busy") => sleep(Duration::from_millis(20)),
                Some("replay") => return Some(said["outcome"].as_str().expect("an id").to_owned()),
                Some("parked") => return None,
                _ => panic!("{key}: {said}"),
            }
        }
    }

    /// Claims a key. A lost answer is asked again with the same id. A completion that was acknowledged before must be
    /// replayed.
    fn claimed(&mut self, key: &str, id: &str) -> Value {
        let claim = json!({
            "operation": "charge", "key": key, "class": "unkeyed", "on_doubt": "park", "claim_id": id,
        });
        let acknowledged = self.field.acknowledged(key);
        let (status, said) = self.asked("/v1/claims", &claim);
        assert_eq!(status, 200, "{key}: {said}");
        if let Some(outcome) = acknowledged {
            let replayed = (said["decision"].as_str(), said["outcome"].as_str());
            assert_eq!(replayed, (Some("replay"), Some(&*outcome)), "{key}: {said}");
        }
        said
    }

    /// Asks until there is an answer.
    fn asked(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.asked += 1;
        let body = body.to_string();
        loop {
            match post(self.field.port, path, &body) {
                Some((status, said)) if status < 500 => return (status, said),
                _ => {
                    self.field.again.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_millis(10));
                }
            }
        }
    }

    fn fresh_id(&mut self) -> String {
        self.asked += 1;
        format!("{:016x}{:016x}", self.number + 1, self.asked)
    }
}

/// Posts once; nothing if there is no whole answer.
pub(crate) fn post(port: u16, path: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((
        head.split(' ').nth(1)?.parse().ok()?,
        serde_json::from_str(body).ok()?,
    ))
}

fn name(round: u64, key: u64) -> String {
    format!("payment-{round}-{key}")
}

const STORM: Duration = Duration::from_secs(10);
const KEYS: u64 = 20;
const CLIENTS: usize = 10;
