//! `semel run` while its console is open, beside the same run while nobody looks: at a pace of 20,000 messages/s, and as
//! fast as it goes. And the time of a first view meanwhile.
//!
//! A page is open as in a browser, without the browser: its stream of events is read, and the parts of it that are live are
//! fetched anew. That leaves out what a browser takes of the processor for itself, on whatever machine it runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::figures::{Figures, timed};
use crate::load::Load;
use crate::process::address;

type Failure = Box<dyn std::error::Error>;

/// Messages per second of either side, round by round, in turns.
pub(crate) fn beside() -> crate::Outcome {
    let semel = std::env::var_os("SEMEL_BIN")
        .ok_or("SEMEL_BIN names no semel binary; cargo xtask bench sets it")?;
    println!(
        "`semel run`, standard input to a file, embedded store, beside {PAGES} overviews that are open, each with its stream \
         of events and drawn anew every {} ms (a browser does it every 15 s), {ROUNDS} rounds; a first view is the page, \
         its style and its script",
        REFRESH.as_millis()
    );
    println!(
        "| messages/s | nobody looks | console open | ratio, round by round | first view, ms | drawn anew, a run |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, pace, messages) in [
        ("20,000", Some(20_000), 200_000),
        ("as fast as it goes", None, 1_000_000),
    ] {
        let load = Load { pace, messages };
        let (mut alone, mut open) = (Vec::new(), Vec::new());
        let (mut views, mut drawn) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Each side begins as often as the other: what a run leaves to the disk is paid by the next one.
            for turn in 0..2 {
                let pages = if (round + turn) % 2 == 0 { 0 } else { PAGES };
                let run = Site::new(&semel)?.run(load, pages)?;
                let rates = if pages == 0 { &mut alone } else { &mut open };
                rates.push(run.rate);
                views.extend(run.views);
                if pages > 0 {
                    drawn.push(f64::from(run.drawn));
                }
            }
        }
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            Figures::of(alone.clone()),
            Figures::of(open.clone()),
            Figures::ratios(&open, &alone),
            Figures::of(views),
            Figures::of(drawn)
        );
    }
    Ok(())
}

/// The figures of a run.
struct Run {
    rate: f64,
    /// The times of first views, in milliseconds.
    views: Vec<f64>,
    /// The number of times that a page was drawn anew.
    drawn: u32,
}

/// A folder with an empty store, and where its worker listens.
struct Site {
    semel: OsString,
    folder: tempfile::TempDir,
    admin: SocketAddr,
}

impl Site {
    fn new(semel: &OsString) -> Result<Self, Failure> {
        let (folder, admin) = (tempfile::tempdir_in(".")?, address()?);
        let config = CONFIG.replace("ADDRESS", &admin.to_string());
        std::fs::write(folder.path().join("semel.toml"), config)?;
        Command::new("sync").status()?;
        Ok(Self {
            semel: semel.clone(),
            folder,
            admin,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, load: Load, pages: usize) -> Result<Run, Failure> {
        let mut worker = Command::new(&self.semel)
            .arg("run")
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(self.path("log"))?)
            .spawn()?;
        let is_over = AtomicBool::new(false);
        let run = scope(|scope| -> Result<Run, Failure> {
            let mut open = Vec::new();
            for _ in 0..pages {
                open.push(scope.spawn(|| self.page(&is_over)));
            }
            for _ in 0..pages {
                scope.spawn(|| self.events(&is_over));
            }
            let fed = load.feed(&mut worker);
            let ended = worker.wait();
            // Before anything fails: the pages look at it.
            is_over.store(true, Ordering::Relaxed);
            let taken = fed?.elapsed();
            if !ended?.success() {
                return Err(std::fs::read_to_string(self.path("log"))?.into());
            }
            let messages = f64::from(u32::try_from(load.messages)?);
            let (mut views, mut drawn) = (Vec::new(), 0);
            for page in open {
                let (of_page, count) = page.join().map_err(|_| "a page panicked")?;
                views.extend(of_page);
                drawn += count;
            }
            Ok(Run {
                rate: messages / taken.as_secs_f64(),
                views,
                drawn,
            })
        })?;
        load.check(&self.path("out"))?;
        if pages > 0 && (run.views.is_empty() || run.drawn == 0) {
            return Err("nobody has seen the console".into());
        }
        Ok(run)
    }

    /// Opens the overview once the worker is there, and draws it anew until the run is over; returns the times of first
    /// views in milliseconds, and how often it was drawn anew.
    fn page(&self, is_over: &AtomicBool) -> (Vec<f64>, u32) {
        let (mut views, mut drawn) = (Vec::new(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let (taken, is_seen) = timed(|| self.first_view().is_some());
            if is_seen {
                views.push(taken.as_secs_f64() * 1e3);
                drawn += u32::from(self.get("/?part=plots").is_some());
            }
            sleep(if is_seen { REFRESH } else { SOON });
        }
        (views, drawn)
    }

    /// Fetches a page and what it names.
    fn first_view(&self) -> Option<()> {
        let page = self.get("/")?;
        for begin in ["href=\"/console/console.css", "src=\"/console/console.js"] {
            let at = page.find(begin)?;
            let address = page[at..].split('"').nth(1)?;
            self.get(address)?;
        }
        Some(())
    }

    /// The answer to a request, if it is a good one.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = self.ask(path)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    fn ask(&self, path: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.admin);
        stream.write_all(request.as_bytes()).ok()?;
        Some(stream)
    }

    /// Reads the stream of events of a page, and the next one after its end.
    fn events(&self, is_over: &AtomicBool) {
        let mut some = [0; 1 << 12];
        while !is_over.load(Ordering::Relaxed) {
            if let Some(mut stream) = self.ask("/v1/events") {
                while matches!(stream.read(&mut some), Ok(1..)) {}
            }
            sleep(SOON);
        }
    }
}

const ROUNDS: usize = 6;
const PAGES: usize = 2;
const REFRESH: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[store]
url = "embedded:./data"

[admin]
listen = "ADDRESS"

[pipelines.pay]
source = { kind = "stdin" }
key = "json:/id"
effect = { kind = "file", path = "out" }
"#;
