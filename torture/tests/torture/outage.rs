//! A provider that cannot be reached for a while, under load, and workers that are killed meanwhile: no
//! payment is dead, each is charged once, and the worker calls the provider as soon as it is back, by the
//! provider's own log.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use semel_conformance::http::ArrivedRequest;
use torture::{Moments, Payments, Site, Summary, scaled, tell};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_provider_that_is_away_while_workers_are_killed_charges_each_payment_once() {
    let mut moments = Moments::seeded(61);
    let payments = Payments::generate(scaled(8_000, 60_000), &mut moments);
    let mut provider = Provider::on_a_free_port();
    let config = CONFIG.replace("URL", &provider.url());
    let site = Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
    ]);
    let outages = scaled(1, 3);
    let lasting = Duration::from_secs(scaled(8, 120));
    let (mut killed, mut idle) = (0, Vec::new());
    let mut run = site.start(&["run", "--output", "json"]);
    for nth in 1..=outages {
        // Under load: it has work to do when the provider goes.
        let goes_at = payments.distinct.len() * nth / (outages + 2);
        until("enough was charged", &site, || {
            provider.charged() >= goes_at
        });
        provider.goes();
        let gone_at = now();
        let said = site.said();
        for _ in 0..KILLS {
            let moment = moments.between(lasting / 16, lasting / 4);
            killed += u64::from(run.kill_after(moment));
            run = site.start(&["run", "--output", "json"]);
        }
        until("somebody tells that it is away", &site, || {
            site.said_behind(said).contains("[target-away]")
        });
        // Long enough for the waits between two tries to reach their longest.
        sleep(lasting.saturating_sub(gone_at.elapsed()));
        let charged = provider.charged();
        let back_at = provider.comes_back();
        until("it is heard of again", &site, || {
            provider.charged() > charged
        });
        idle.push(provider.first_behind(back_at).duration_since(back_at));
    }
    let (status, printed) = run.wait_at_most(Duration::from_secs(300));
    assert!(status.success(), "{}", site.last_words());
    let summary = Summary::parse(&printed);
    assert_eq!(
        (summary.count("dead"), summary.count("in_doubt")),
        (0, 0),
        "{}",
        site.last_words()
    );
    provider.goes();
    let charges = provider.charges();
    for payment in &payments.distinct {
        assert_eq!(charges.get(&payment.id), Some(&1), "{}", payment.id);
    }
    assert_eq!(charges.len(), payments.distinct.len());
    let longest = idle.iter().max().copied().unwrap_or_default();
    assert!(longest <= Duration::from_secs(1), "idle for {idle:?}");
    assert_eq!(killed, u64::try_from(outages).unwrap_or(0) * KILLS);
    let figures = [
        ("operations", payments.deliveries),
        ("workers killed", killed),
        ("outages of the target", idle.len() as u64),
        ("each of seconds", lasting.as_secs()),
        ("longest idle behind its return, ms", millis(longest)),
    ];
    tell("file, http, a provider that is away", &figures);
}

/// A provider that honours idempotency keys. It can close its port, and open it again.
struct Provider {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    listens: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Books {
    /// The payment and the time of its charge, by idempotency key.
    charged: BTreeMap<String, (String, Instant)>,
}

impl Provider {
    fn on_a_free_port() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let mut provider = Self {
            address: listener.local_addr().expect("an address"),
            books: Arc::default(),
            listens: None,
        };
        provider.listen(listener);
        provider
    }

    fn url(&self) -> String {
        format!("http://{}/charge", self.address)
    }

    fn listen(&mut self, listener: TcpListener) {
        let goes = Arc::new(AtomicBool::new(false));
        let (is_time, books) = (Arc::clone(&goes), Arc::clone(&self.books));
        let accepts = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_time.load(Ordering::SeqCst) {
                    return;
                }
                let books = Arc::clone(&books);
                // A client that hangs up was killed.
                thread::spawn(move || charge(&stream, &books));
            }
        });
        self.listens = Some((goes, accepts));
    }

    /// Refuses connections from now on.
    fn goes(&mut self) {
        if let Some((goes, accepts)) = self.listens.take() {
            goes.store(true, Ordering::SeqCst);
            // It checks whenever a client connects.
            drop(TcpStream::connect(self.address));
            accepts.join().expect("it only listens");
        }
    }

    /// Listens again; returns since when.
    fn comes_back(&mut self) -> Instant {
        let listener = TcpListener::bind(self.address).expect("its port is free again");
        let back_at = now();
        self.listen(listener);
        back_at
    }

    fn charged(&self) -> usize {
        self.books(|books| books.charged.len())
    }

    /// The number of charges of each payment.
    fn charges(&self) -> BTreeMap<String, u32> {
        self.books(|books| {
            let mut charges = BTreeMap::new();
            for (id, _) in books.charged.values() {
                *charges.entry(id.clone()).or_default() += 1;
            }
            charges
        })
    }

    fn first_behind(&self, back_at: Instant) -> Instant {
        let first = self.books(|books| {
            let times = books.charged.values().map(|(_, at)| *at);
            times.filter(|at| *at >= back_at).min()
        });
        first.expect("something was charged")
    }

    fn books<T>(&self, look: impl FnOnce(&Books) -> T) -> T {
        look(&self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Handles one request of a connection.
fn charge(mut stream: &TcpStream, books: &Mutex<Books>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let request = ArrivedRequest::read(&mut reader).ok()??;
    let key = request.header("idempotency-key").unwrap_or_default();
    let payment: serde_json::Value = serde_json::from_slice(&request.body).ok()?;
    let id = payment["id"].as_str()?.to_owned();
    let mut all = books.lock().unwrap_or_else(PoisonError::into_inner);
    all.charged
        .entry(key.to_owned())
        .or_insert_with(|| (id, now()));
    drop(all);
    let answer = "HTTP/1.1 200 charged\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).ok()
}

fn until(what: &str, site: &Site, mut is_so: impl FnMut() -> bool) {
    let begun = now();
    while !is_so() {
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(120),
            "{what} takes too long:\n{}",
            site.last_words()
        );
        sleep(Duration::from_millis(5));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}

/// During each outage.
const KILLS: u64 = 2;

const CONFIG: &str = r#"
[store]
url = "sqlite:shop.db"

[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
lease = "1s"

[pipelines.payments.effect]
kind = "http"
url = "URL"
class = "keyed"
provider_window = "1d"
"#;
