//! An API behind gateways, which is a bad upstream at times. It books every request as it arrives: the oracle.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, sleep};
use std::time::Duration;

use semel_conformance::http::ArrivedRequest;

use crate::Moments;

/// The server. It serves until the test process ends.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
}

/// The behaviour of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// It answers every request, and carries each out.
    Calm,
    /// It is slow, cuts connections, answers 429, 500 and 503, and carries out again what comes again.
    Moody,
    /// The same, and it declines some requests with a 402.
    Declining,
    /// Moody; but a key that it has carried out is answered with the first answer, and has no second effect.
    Keyed,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its idempotency key.
    pub key: String,
    /// The id of the operation, as the gateway names it.
    pub operation: String,
    /// The number of its effect, or of that which its key had before; nothing if it has none.
    pub effect: Option<u64>,
    /// The status of the answer if it was sent, whole and in time.
    pub status: Option<u16>,
}

#[derive(Debug)]
struct Books {
    temper: Temper,
    moments: Moments,
    effects: u64,
    /// The arrivals of each body.
    arrivals: BTreeMap<String, Vec<Arrival>>,
}

/// The treatment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// It is answered with this status.
    Answers(u16),
    /// The answer is a 500.
    Fails { is_applied: bool },
    /// The connection is closed without an answer.
    Cuts { is_applied: bool },
    /// It is carried out, and the connection is closed within the answer.
    Halves,
    /// It is carried out, and the answer comes after the time of the route.
    Late,
}

impl Mood {
    fn of(temper: Temper, roll: u64) -> Self {
        match (temper, roll) {
            (Temper::Calm, _) => Self::Answers(201),
            (_, 0..6) => Self::Answers(503),
            (_, 6..9) => Self::Answers(429),
            (_, 9..12) => Self::Fails {
                is_applied: roll.is_multiple_of(2),
            },
            (_, 12..16) => Self::Cuts {
                is_applied: roll.is_multiple_of(2),
            },
            (_, 16..18) => Self::Halves,
            (_, 18) => Self::Late,
            (Temper::Declining, 19..22) => Self::Answers(402),
            _ => Self::Answers(201),
        }
    }

    fn is_applied(self) -> bool {
        match self {
            Self::Answers(status) => status == 201,
            Self::Fails { is_applied } | Self::Cuts { is_applied } => is_applied,
            Self::Late | Self::Halves => true,
        }
    }

    /// The status of an answer that comes whole and in time.
    fn status(self) -> Option<u16> {
        match self {
            Self::Answers(status) => Some(status),
            Self::Fails { .. } => Some(500),
            Self::Cuts { .. } | Self::Late | Self::Halves => None,
        }
    }
}

impl Api {
    /// Listens on a port of its own.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn start(temper: Temper, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("a port");
        let books = Arc::new(Mutex::new(Books {
            temper,
            moments: Moments::seeded(seed),
            effects: 0,
            arrivals: BTreeMap::new(),
        }));
        let shared = Arc::clone(&books);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let books = Arc::clone(&shared);
                // A gateway may be killed at any time.
                thread::spawn(move || serve(&stream, &books).unwrap_or(()));
            }
        });
        Self { address, books }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests that arrived with this body, in their order.
    pub fn arrivals(&self, body: &str) -> Vec<Arrival> {
        self.books().arrivals.get(body).cloned().unwrap_or_default()
    }

    /// The number of requests that arrived.
    ///
    /// # Panics
    ///
    /// If there are more than a number holds.
    pub fn count(&self) -> u64 {
        let count = self.books().arrivals.values().map(Vec::len).sum::<usize>();
        count.try_into().expect("a count")
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no panic")
    }
}

/// The body of the answer about an effect, which tells it from every other.
pub(crate) fn told(effect: u64) -> String {
    format!("{{\"charge\":{effect},\"note\":\"\u{2713} paid\"}}\n")
}

fn serve(mut stream: &TcpStream, books: &Mutex<Books>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = ArrivedRequest::read(&mut reader)? {
        let header = |name| request.header(name).unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let (mood, effect, pause) = books.lock().expect("no panic").book(
            body,
            header("idempotency-key"),
            header("semel-operation-id"),
        );
        sleep(pause);
        if mood == Mood::Late {
            sleep(LATE);
        }
        let (status, text) = match mood {
            Mood::Cuts { .. } => return Ok(()),
            Mood::Late | Mood::Halves | Mood::Answers(201) => {
                (201, told(effect.expect("it is carried out")))
            }
            Mood::Fails { .. } => (500, "{\"status\":500}\n".to_owned()),
            Mood::Answers(status) => (status, format!("{{\"status\":{status}}}\n")),
        };
        let tag = effect.map_or_else(String::new, |it| format!("etag: \"{it}\"\r\n"));
        let answer = format!(
            "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\n{tag}content-length: {}\r\n\r\n{text}",
            text.len()
        );
        if mood == Mood::Halves {
            return stream.write_all(&answer.as_bytes()[..answer.len() - text.len() / 2]);
        }
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

impl Books {
    /// Books a request, and decides what becomes of it.
    fn book(
        &mut self,
        body: String,
        key: String,
        operation: String,
    ) -> (Mood, Option<u64>, Duration) {
        let mood = Mood::of(self.temper, self.moments.below(100));
        let most = Duration::from_millis(20);
        let pause = self.moments.between(Duration::ZERO, most);
        let before = self.arrivals.entry(body).or_default();
        let mut known = before.iter().filter(|it| it.key == key);
        let known = known.find_map(|it| it.effect);
        let known = known.filter(|_| self.temper == Temper::Keyed);
        let effect = known.or_else(|| {
            mood.is_applied().then(|| {
                self.effects += 1;
                self.effects
            })
        });
        before.push(Arrival {
            key,
            operation,
            effect,
            status: mood.status(),
        });
        (mood, effect, pause)
    }
}

/// Longer than the time of the routes.
const LATE: Duration = Duration::from_millis(1_500);
