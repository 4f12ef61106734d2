//! Workers at addresses of their own, over one store, that are killed and stand still.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::moments::now;
use crate::storm::leave;
use crate::worker::{Run, Site};
use crate::{Moments, scaled};

/// The running workers, each at an address of its own.
pub(crate) struct Workers {
    arguments: &'static [&'static str],
    pub(crate) sites: Vec<Site>,
    pub(crate) addresses: Vec<SocketAddr>,
    running: Vec<Option<Run>>,
    /// The number of bytes that each had printed when it was started.
    before: Vec<u64>,
    pub(crate) kills: u64,
    pub(crate) stops: u64,
}

impl Workers {
    /// Starts so many, each in a folder that `site` makes for its address.
    pub(crate) fn start(count: usize, site: impl Fn(&SocketAddr) -> Site) -> Self {
        Self::start_with(RUN, count, site)
    }

    /// Does the same with other arguments.
    pub(crate) fn start_with(
        arguments: &'static [&'static str],
        count: usize,
        site: impl Fn(&SocketAddr) -> Site,
    ) -> Self {
        let ports = (0..count).map(|_| free_port::take().expect("a free port"));
        let addresses: Vec<_> = ports
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .collect();
        let mut workers = Self {
            arguments,
            sites: addresses.iter().map(site).collect(),
            running: addresses.iter().map(|_| None).collect(),
            before: vec![0; addresses.len()],
            addresses,
            kills: 0,
            stops: 0,
        };
        workers.are_started();
        workers
    }

    /// Kills them and has them stand still, one at a time, for as long as the run lasts; each goes on for `shortest` at
    /// least.
    pub(crate) fn befall(&mut self, moments: &mut Moments, shortest: Duration) {
        let began = now();
        let most = scaled(700, 1_000);
        while began.elapsed() < scaled(MS(5_000), MS(120_000)) || self.kills < LEAST_KILLS {
            sleep(moments.between(shortest, MS(most)));
            let at = self.any(moments);
            // A second one takes over what one that stands still has in hand.
            if self.running.len() > 1 && moments.below(3) == 0 {
                self.stands_still(at, moments);
            } else {
                self.is_killed(at);
            }
        }
    }

    /// The words that each has printed since its start.
    pub(crate) fn said(&self) -> impl Iterator<Item = String> {
        let all = self.sites.iter().zip(&self.before);
        all.map(|(site, before)| site.said_behind(*before))
    }

    /// Picks one.
    pub(crate) fn any(&self, moments: &mut Moments) -> usize {
        let at = moments.below(self.running.len() as u64);
        usize::try_from(at).expect("few")
    }

    /// Has one stand still beyond its lease, and go on.
    pub(crate) fn stands_still(&mut self, at: usize, moments: &mut Moments) {
        let run = self.running[at].as_ref().expect("it runs");
        run.signal(Signal::STOP);
        sleep(LEASE + moments.between(MS(200), MS(600)));
        run.signal(Signal::CONT);
        self.stops += 1;
    }

    /// Kills one, and starts it again.
    pub(crate) fn is_killed(&mut self, at: usize) {
        let run = self.running[at].take().expect("it runs");
        assert!(run.kill_after(MS(0)), "{}", self.sites[at].last_words());
        self.kills += 1;
        self.are_started();
    }

    pub(crate) fn are_killed(&mut self) {
        for at in 0..self.running.len() {
            let run = self.running[at].take().expect("it runs");
            assert!(run.kill_after(MS(0)), "{}", self.sites[at].last_words());
        }
    }

    /// Starts those that do not run, and waits until they listen. They may not take requests yet.
    pub(crate) fn are_started(&mut self) {
        let all = self.sites.iter().zip(&self.addresses);
        let all = all.zip(&mut self.before);
        for (running, ((site, address), before)) in self.running.iter_mut().zip(all) {
            if running.is_some() {
                continue;
            }
            *before = site.said();
            *running = Some(site.start(self.arguments));
            let began = now();
            while TcpStream::connect(address).is_err() {
                let words = || site.last_words();
                assert!(began.elapsed() < PATIENCE, "no worker: {}", words());
                sleep(MS(2));
            }
        }
    }

    /// Asks them to end, which they do in peace, and with nothing that went wrong.
    pub(crate) fn leave(&mut self) {
        for (running, site) in self.running.iter_mut().zip(&self.sites) {
            leave(running.take().expect("it runs"), site);
        }
    }

    /// Kills all, and asks the store for the keys in doubt, and for those that may have been carried out again.
    pub(crate) fn lists(&mut self) -> (BTreeSet<String>, BTreeSet<String>) {
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
/// The least number of kills of a run in which enough has happened.
pub(crate) const LEAST_KILLS: u64 = 4;
/// The lease of their claims.
const LEASE: Duration = Duration::from_secs(1);
/// The time for what must happen, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const RUN: &[&str] = &["run", "--output", "json"];
