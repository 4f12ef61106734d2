//! A relay of the outbox, in a process of its own.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::moments::now;
use crate::worker::{Run, Site};

/// A relay that runs in a folder of its own.
pub(super) struct Relay {
    pub(super) site: Site,
    running: Option<Run>,
    /// The number of bytes that it had printed when it was started.
    before: u64,
}

impl Relay {
    /// Starts one from the table at this URL to this sink.
    pub(super) fn of(url: &str, sink: &str) -> Self {
        let config = CONFIG.replace("URL", url).replace("SINK", sink);
        let mut relay = Self {
            site: Site::with(&[("semel.toml", &config)]),
            running: None,
            before: 0,
        };
        relay.start();
        relay
    }

    pub(super) fn start(&mut self) {
        self.before = self.site.said();
        self.running = Some(self.site.start(RUN));
    }

    /// The number of partitions that it publishes.
    fn partitions(&self) -> u64 {
        let said = self.site.said_behind(self.before);
        let told = said.rsplit("publishes ").next();
        let told = told.filter(|it| it.len() < said.len());
        let number = told.and_then(|it| it.split(' ').next()?.parse().ok());
        number.unwrap_or(0)
    }

    /// Waits until it publishes partitions.
    pub(super) fn wait_until_at_work(&self) {
        let began = now();
        while self.partitions() == 0 {
            let words = || self.site.last_words();
            assert!(began.elapsed() < PATIENCE, "no partitions:\n{}", words());
            sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn run(&mut self) -> Run {
        self.running.take().expect("it runs")
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.running.as_ref().expect("it runs").signal(signal);
    }
}

/// The time for what must happen, however busy the machine is.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
pub(super) const RUN: &[&str] = &["run", "--output", "json"];

/// The tries of a message are those of the defaults: none of these blows may make a dead one.
const CONFIG: &str = r#"
[relays.out]
store = "URL"
stream = "orders"
lease = "3s"
[relays.out.sink]
SINK"#;
