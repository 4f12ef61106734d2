//! The cost of metrics and traces: `semel run` with a listener that is scraped each second, and with traces at 1 %,
//! beside the same run without. And the time of a scrape while 100,000 keys are alive.

use std::io::{BufWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rusqlite::Connection;

use crate::figures::{Figures, timed};
use crate::kafka;
use crate::process::{address, processor_seconds_of_children};
use crate::redis::Server;
use crate::sql;

type Failure = Box<dyn std::error::Error>;

/// Times scrapes, and runs a file to SQLite with each way of being looked at, in turns.
pub(crate) fn cost_of_sql() -> crate::Outcome {
    let semel = binary()?;
    scrapes(&semel)?;
    let folder = tempfile::tempdir_in(".")?;
    sql::write_payments(
        &folder.path().join("payments.ndjson"),
        usize::try_from(MESSAGES)?,
    )?;
    println!("file to SQLite (`sql`), {MESSAGES} messages");
    compare(f64::from(MESSAGES), |name, settings| {
        of_sql(&semel, folder.path(), name, settings)
    })
}

/// Runs a file to `/dev/null` with records in Redis with each way of being looked at, in turns.
pub(crate) fn cost_of_redis() -> crate::Outcome {
    let semel = binary()?;
    let folder = tempfile::tempdir_in(".")?;
    sql::write_payments(
        &folder.path().join("payments.ndjson"),
        usize::try_from(MESSAGES)?,
    )?;
    let redis = Server::start("everysec")?;
    println!("file to /dev/null with records in Redis, {MESSAGES} messages");
    compare(f64::from(MESSAGES), |name, settings| {
        let url = format!("{}?prefix=bench-{name}", redis.url());
        of_redis(&semel, folder.path(), &url, settings)
    })
}

/// Runs Kafka to Kafka with an embedded store with each way of being looked at, in turns.
pub(crate) fn cost_of_kafka() -> crate::Outcome {
    let kafka = kafka::Site::new()?;
    println!("Kafka to Kafka with an embedded store, {}", kafka::BACKLOG);
    compare(f64::from(kafka::RECORDS), |name, settings| {
        kafka.embedded(name, settings)
    })
}

fn binary() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(
        std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?,
    ))
}

/// Runs over `count` messages, by a name and with settings, with each way of being looked at, and prints how they compare.
fn compare(count: f64, run: impl Fn(&str, &str) -> Result<Duration, Failure>) -> crate::Outcome {
    let collector = collector()?;
    let mut runs = [const { Vec::new() }; LOOKS.len()];
    for round in 0..ROUNDS {
        // Each begins as often as the others: what a run leaves to the disk is paid by the next one.
        for turn in 0..LOOKS.len() {
            let at = (round + turn) % LOOKS.len();
            let (_, look) = LOOKS[at];
            let admin = address()?;
            let scraper = (look == Look::Scraped).then(|| Scraper::begin(admin));
            let settings = settings(look, admin, collector)?;
            let before = processor_seconds_of_children()?;
            let taken = run(&format!("{round}-{at}"), &settings)?;
            let processor = processor_seconds_of_children()? - before;
            if let Some(scraper) = scraper
                && scraper.end() == 0
            {
                return Err("nothing was scraped".into());
            }
            runs[at].push((1.0 / taken.as_secs_f64(), processor));
        }
    }
    println!(
        "| looked at | messages/s | over nobody, {ROUNDS} rounds in turns | processor seconds over nobody |"
    );
    println!("|---|---|---|---|");
    let rates = |at: usize| -> Vec<f64> { runs[at].iter().map(|(it, _)| it * count).collect() };
    let seconds = |at: usize| -> Vec<f64> { runs[at].iter().map(|(_, it)| *it).collect() };
    for (at, (look, _)) in LOOKS.into_iter().enumerate() {
        let (ratio, processor) = if at == 0 {
            (String::new(), String::new())
        } else {
            (
                Figures::ratios(&rates(at), &rates(0)).to_string(),
                Figures::ratios(&seconds(at), &seconds(0)).to_string(),
            )
        };
        let rate = Figures::of(rates(at));
        println!("| {look} | {rate} | {ratio} | {processor} |");
    }
    Ok(())
}

/// The time of a scrape while a worker has 100,000 live keys, and none to work on.
fn scrapes(semel: &Path) -> crate::Outcome {
    let folder = tempfile::tempdir_in(".")?;
    let admin = address()?;
    let config = format!(
        "[admin]\nlisten = \"{admin}\"\n[pipelines.payments]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         effect = {{ kind = \"stdout\" }}\n"
    );
    std::fs::write(folder.path().join("semel.toml"), config)?;
    let mut child = Command::new(semel)
        .arg("run")
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut messages = BufWriter::new(child.stdin.take().ok_or("no standard input")?);
    for id in 0..KEYS {
        writeln!(messages, "{{\"id\":\"pay-{id}\"}}")?;
    }
    messages.flush()?;
    let done = format!("semel_deliveries_total{{pipeline=\"payments\",fate=\"applied\"}} {KEYS}");
    let mut waited = 0;
    while !scrape(admin).is_some_and(|it| it.contains(&done)) {
        waited += 1;
        if waited > 600 {
            return Err("the keys were not applied".into());
        }
        sleep(Duration::from_millis(100));
    }
    let times = (0..SCRAPES).map(|_| {
        let (taken, _) = timed(|| scrape(admin));
        taken.as_secs_f64() * 1e3
    });
    let times = Figures::of(times.collect::<Vec<_>>());
    let bytes = scrape(admin).map_or(0, |it| it.len());
    println!("a scrape at {KEYS} live keys, {bytes} bytes: {times} ms of {SCRAPES}");
    drop(messages);
    child.wait()?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Nobody,
    Scraped,
    Traced,
    TracedInVain,
}

const LOOKS: [(&str, Look); 4] = [
    ("by nobody", Look::Nobody),
    ("scraped each second", Look::Scraped),
    ("traced at 1 %", Look::Traced),
    ("traced at 1 %, the collector is away", Look::TracedInVain),
];

/// The tables of the configuration that a look needs.
fn settings(look: Look, admin: SocketAddr, collector: SocketAddr) -> Result<String, Failure> {
    let traces = |to: SocketAddr| format!("[telemetry]\notlp = \"http://{to}\"\nsample = \"1%\"\n");
    Ok(match look {
        Look::Nobody => String::new(),
        Look::Scraped => format!("[admin]\nlisten = \"{admin}\"\n"),
        Look::Traced => traces(collector),
        Look::TracedInVain => traces(address()?),
    })
}

fn of_sql(semel: &Path, folder: &Path, name: &str, settings: &str) -> Result<Duration, Failure> {
    let database = format!("semel-{name}.db");
    Connection::open(folder.join(&database))?.execute_batch(sql::TABLE)?;
    let config = format!(
        "[store]\nurl = \"sqlite:{database}\"\n{settings}{}",
        sql::CONFIG
    );
    let taken = run(semel, folder, &config)?;
    std::fs::remove_file(folder.join(&database))?;
    Ok(taken)
}

fn of_redis(semel: &Path, folder: &Path, url: &str, settings: &str) -> Result<Duration, Failure> {
    let config = format!(
        "[store]\nurl = \"{url}\"\naccept = [\"durability\"]\n{settings}[pipelines.payments]\nsource = {{ kind = \"file\", path = \"payments.ndjson\" \
         }}\nkey = \"json:/id\"\nwindow = \"10m\"\neffect = {{ kind = \"stdout\" }}\n"
    );
    run(semel, folder, &config)
}

/// Runs `semel run` to its end.
fn run(semel: &Path, folder: &Path, config: &str) -> Result<Duration, Failure> {
    std::fs::write(folder.join("semel.toml"), config)?;
    let mut command = Command::new(semel);
    command
        .args(["run", "--output", "json"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("stderr"))?);
    let (taken, status) = timed(|| command.status());
    if status?.success() {
        return Ok(taken);
    }
    let said = std::fs::read_to_string(folder.join("stderr"))?;
    Err(format!("semel run failed: {said}").into())
}

/// An address of this machine that nobody listens at.
fn scrape(admin: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(admin).ok()?;
    let request = b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200").then_some(text)
}

/// Scrapes a worker each second, once it is there.
struct Scraper {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u32>,
}

impl Scraper {
    fn begin(admin: SocketAddr) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = spawn(move || {
            let mut scraped = 0;
            while !over.load(Ordering::Relaxed) {
                scraped += u32::from(scrape(admin).is_some());
                // Short steps at first, so that the worker is met soon, and at the end.
                for _ in 0..if scraped == 0 { 1 } else { 20 } {
                    sleep(Duration::from_millis(50));
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
            scraped
        });
        Self { is_over, thread }
    }

    /// Ends it; returns how often it got the metrics.
    fn end(self) -> u32 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Begins a collector that takes everything and keeps nothing; it ends with the process.
fn collector() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    spawn(move || {
        for stream in listener.incoming().flatten() {
            spawn(move || answer(stream));
        }
    });
    Ok(address)
}

/// Answers the requests of one connection until that is closed.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let mut some = vec![0; 1 << 16];
    loop {
        while let Some(end) = whole(&bytes) {
            bytes.drain(..end);
            stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
            )?;
        }
        let read = stream.read(&mut some)?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&some[..read]);
    }
}

/// The length of the first request, once all of it is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.split("content-length: ").nth(1)?;
    let length: usize = length.lines().next()?.trim().parse().ok()?;
    (bytes.len() >= head + length).then_some(head + length)
}

const MESSAGES: u32 = 1_000_000;
const ROUNDS: usize = 4;
const KEYS: u32 = 100_000;
const SCRAPES: usize = 100;
