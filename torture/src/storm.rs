//! Workers that come and go, by `kill -9` too, and a broker that is killed.

use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::broker::Broker;
use crate::moments::now;
use crate::worker::{Run, Site, Summary};
use crate::{Moments, Payments, scaled, tell};

/// What befalls the workers of a site, and the messages they get meanwhile.
#[derive(Debug)]
pub struct Storm {
    /// The messages.
    pub payments: Payments,
    moments: Moments,
    crew: Crew,
}

/// Who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crew {
    /// Three workers, and a fourth that joins them until one of the four is killed.
    Three,
    /// One after the other.
    One,
}

impl Storm {
    /// A storm of `count` payments and more messages.
    pub fn seeded(seed: u64, count: usize, crew: Crew) -> Self {
        let mut moments = Moments::seeded(seed);
        Self {
            payments: Payments::generate(count, &mut moments),
            moments,
            crew,
        }
    }

    /// Publishes the payments bit by bit to workers that are killed, stopped and joined by others while they have
    /// something in hand, kills the broker in between, and returns when every reader has acknowledged everything
    /// and the last workers have ended.
    ///
    /// # Panics
    ///
    /// If a worker ends by itself, or messages are left.
    pub fn over(&mut self, broker: &mut dyn Broker, site: &Site, readers: &[&str]) -> Figures {
        let begun = now();
        let lines: Vec<&str> = self.payments.ndjson.lines().collect();
        // In the last round everything is published.
        let mut bits = lines.chunks(lines.len().div_ceil(rounds() - 1));
        let mut publisher = broker.publisher();
        let (mut killed, mut stopped, mut restarts) = (0, 0, 0);
        let mut workers: Vec<Run> = Vec::new();
        thread::scope(|scope| {
            let (give, given) = mpsc::sync_channel(rounds());
            let publishing = scope.spawn(move || {
                for bit in given {
                    publisher.publish(bit);
                }
                publisher.finish();
            });
            for round in 0..rounds() {
                let said = site.said();
                // One more joins those that are at work, which takes partitions from them.
                while workers.len() < self.crew.most() {
                    workers.push(site.start(RUN));
                }
                if let Some(bit) = bits.next() {
                    give.send(bit).expect("somebody publishes");
                }
                wait_for_work(site, said);
                thread::sleep(self.moments.between(MS(300), MS(1_500)));
                if round % 5 == 1 {
                    // Beyond its lease, and beyond its session: the broker goes on without it.
                    workers[0].signal(Signal::STOP);
                    stopped += 1;
                    thread::sleep(stopped_for());
                    workers[0].signal(Signal::CONT);
                }
                if round % 8 == 3 {
                    broker.kill_and_restart();
                    restarts += 1;
                }
                let place = self.moments.below(workers.len() as u64);
                let run = workers.swap_remove(usize::try_from(place).expect("few"));
                let still_ran = run.kill_after(self.moments.between(MS(0), MS(200)));
                assert!(still_ran, "it ended by itself:\n{}", site.last_words());
                killed += 1;
            }
            drop(give);
            publishing.join().expect("everything is published");
        });
        while workers.len() < self.crew.least() {
            workers.push(site.start(RUN));
        }
        for reader in readers {
            broker.wait_until_acknowledged(reader, site);
        }
        for worker in workers {
            worker.signal(Signal::TERM);
            let (status, stdout) = worker.wait_at_most(Duration::from_secs(60));
            assert!(status.success(), "{status}:\n{}", site.last_words());
            for summary in stdout.lines().map(Summary::parse) {
                let gone_wrong = ["conflicts", "too_old", "dead", "in_doubt", "quarantined"];
                for fate in gone_wrong {
                    assert_eq!(summary.count(fate), 0, "{fate}: {stdout}");
                }
            }
        }
        let said = site.text("stderr.log");
        let told = |what| said.lines().filter(|line| line.contains(what)).count();
        Figures {
            messages: self.payments.deliveries,
            killed,
            stopped,
            restarts,
            takeovers: told("\"takeover\":true"),
            fenced: told("\"decision\":\"fenced\""),
            revoked: told("\"decision\":\"revoked\""),
            lasted: begun.elapsed(),
        }
    }
}

impl Crew {
    fn most(self) -> usize {
        match self {
            Self::Three => 4,
            Self::One => 1,
        }
    }

    fn least(self) -> usize {
        match self {
            Self::Three => 3,
            Self::One => 1,
        }
    }
}

/// What happened in a storm, to all of its workers: those that were killed have logged it, too.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    messages: u64,
    killed: u32,
    stopped: u32,
    restarts: u32,
    takeovers: usize,
    fenced: usize,
    revoked: usize,
    lasted: Duration,
}

impl Figures {
    /// Sees to it that it was one: a run in which nothing happened proves nothing. `kinds` are those that this
    /// broker and these effects must have had.
    ///
    /// # Panics
    ///
    /// If it was not.
    pub fn were_a_storm(&self, kinds: &[Kind]) {
        let sum = self.takeovers + self.fenced + self.revoked;
        assert!(sum >= scaled(5, 100), "hardly anything happened: {self}");
        // Not every one comes in a small run.
        for kind in scaled(&[][..], kinds) {
            let times = match kind {
                Kind::Takeover => self.takeovers,
                Kind::Fenced => self.fenced,
                Kind::Revoked => self.revoked,
            };
            assert!(times > 0, "never {kind:?}: {self}");
        }
    }
}

impl Figures {
    /// Tells them: the effects of `name` were held against what was asked for, and each was there once.
    pub fn tell(&self, name: &str) {
        tell(
            name,
            &[
                ("operations", self.messages),
                ("workers killed", self.killed.into()),
                ("workers stopped", self.stopped.into()),
                ("brokers killed", self.restarts.into()),
                ("takeovers", self.takeovers as u64),
                ("fenced", self.fenced as u64),
                ("revoked", self.revoked as u64),
            ],
        );
    }
}

/// What may happen to work in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A worker went on with what another one had claimed.
    Takeover,
    /// A worker that came back from beyond its lease was refused.
    Fenced,
    /// The broker took deliveries away from a worker.
    Revoked,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages, {} workers killed at work, {} stopped beyond lease and session, {} restarts of a killed \
             broker, {} takeovers, {} fenced completions, {} revocations, {} s",
            self.messages,
            self.killed,
            self.stopped,
            self.restarts,
            self.takeovers,
            self.fenced,
            self.revoked,
            self.lasted.as_secs()
        )
    }
}

/// Waits until somebody has begun with something: whoever is killed before that dies in vain. Not for ever, since
/// everything may be done.
fn wait_for_work(site: &Site, said: u64) {
    let begun = now();
    while begun.elapsed() < MS(10_000) {
        let news = site.said_behind(said);
        if ["granted", "completed"]
            .iter()
            .any(|it| news.contains(&format!("\"decision\":\"{it}\"")))
        {
            return;
        }
        thread::sleep(MS(50));
    }
}

fn rounds() -> usize {
    scaled(4, 32)
}

/// Longer than every lease and session timeout; in a campaign so much longer that others have come to what the one
/// that stands still had in hand: a group takes its time to rebalance.
fn stopped_for() -> Duration {
    scaled(MS(4_500), MS(7_000))
}

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Every decision with its key, so that the log tells all that happened to one.
const RUN: &[&str] = &[
    "run",
    "--output",
    "json",
    "--log",
    "json",
    "--log-level",
    "decisions",
];
