//! Workers that come and go, by `kill -9` too, and servers that are killed: the broker's and the store's.

use std::collections::VecDeque;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
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
pub struct Storm<S> {
    /// The messages.
    pub stream: S,
    moments: Moments,
    crew: Crew,
}

/// Messages, as many as a storm takes.
pub trait Stream {
    /// All of them so far, and what they come to.
    fn payments(&self) -> &Payments;

    /// So many new ones behind them, with repeats.
    fn extend(&mut self, count: usize, moments: &mut Moments);
}

/// Who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crew {
    /// Three workers, and a fourth that joins them until one of the four is killed.
    Three,
    /// One after the other.
    One,
}

impl Storm<Payments> {
    /// A storm of `count` payments, one of twenty of which is published again.
    pub fn seeded(seed: u64, count: usize, crew: Crew) -> Self {
        let mut moments = Moments::seeded(seed);
        let payments = Payments::repeated(count, 20, &mut moments);
        Self::of(payments, moments, crew)
    }
}

impl<S: Stream> Storm<S> {
    /// A storm of those messages.
    pub fn of(stream: S, moments: Moments, crew: Crew) -> Self {
        Self {
            stream,
            moments,
            crew,
        }
    }

    /// Publishes the payments bit by bit to workers that are killed, stopped and joined by others while they have
    /// something in hand, kills the broker in between and has `kill_store` kill the server of the store, which says
    /// whether there is one; returns when every reader has acknowledged everything and the last workers have ended.
    /// A campaign goes on until it has met each of these kinds often enough, and publishes more, but not for ever.
    ///
    /// # Panics
    ///
    /// If a worker ends by itself, or messages are left.
    pub fn over(
        &mut self,
        broker: &mut dyn Broker,
        kill_store: &mut dyn FnMut() -> bool,
        site: &Site,
        readers: &[&str],
        kinds: &[Kind],
    ) -> Figures {
        let begun = now();
        // In the last round everything is published; in a campaign long before, so that much of it waits.
        let bits = scaled(rounds() - 1, rounds() / 2);
        let mut bits = cut(&self.stream.payments().ndjson, bits);
        let more = self.stream.payments().distinct.len() / bits.len() / 2;
        let mut told = Told::default();
        let mut publisher = broker.publisher();
        let (mut killed, mut left, mut stopped) = (0, 0, 0);
        let (mut restarts, mut closings, mut stores) = (0, 0, 0);
        let mut workers: Vec<Run> = Vec::new();
        thread::scope(|scope| {
            let (give, given) = mpsc::sync_channel::<String>(LONGEST * rounds());
            let publishing = scope.spawn(move || {
                for bit in given {
                    publisher.publish(&bit.lines().collect::<Vec<_>>());
                }
                publisher.finish();
            });
            for round in 0..LONGEST * rounds() {
                let said = site.said();
                told.listen(site);
                let is_longer = round >= rounds();
                if is_longer && scaled(true, kinds.iter().all(|kind| told.of(*kind) >= LEAST)) {
                    break;
                }
                // One more joins those that are at work, which takes partitions from them.
                while workers.len() < self.crew.most() {
                    workers.push(site.start(RUN));
                }
                if bits.is_empty() && scaled(false, true) {
                    let before = self.stream.payments().ndjson.len();
                    self.stream.extend(more, &mut self.moments);
                    bits.push_back(self.stream.payments().ndjson[before..].to_owned());
                }
                if let Some(bit) = bits.pop_front() {
                    give.send(bit).expect("somebody publishes");
                }
                wait_for_work(site, said);
                thread::sleep(self.moments.between(MS(300), MS(1_500)));
                if round % scaled(4, 1) == 0 {
                    closings += u32::from(broker.close_connections());
                }
                if self.crew == Crew::Three && round % scaled(2, 1) == 0 {
                    // And one comes and goes in peace.
                    let guest = site.start(RUN);
                    thread::sleep(self.moments.between(MS(1_000), MS(2_500)));
                    leave(guest, site);
                    left += 1;
                }
                if round % 5 == 1 {
                    // Beyond its lease, and beyond its session: the broker goes on without it.
                    workers[0].signal(Signal::STOP);
                    stopped += 1;
                    thread::sleep(self.crew.stopped_for(broker, kinds));
                    workers[0].signal(Signal::CONT);
                }
                if round % 8 == 3 {
                    broker.kill_and_restart();
                    restarts += 1;
                }
                if round % 8 == 2 {
                    stores += u32::from(kill_store());
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
            leave(worker, site);
        }
        told.listen(site);
        Figures {
            messages: self.stream.payments().deliveries,
            killed,
            left,
            stopped,
            restarts,
            closings,
            stores,
            told,
            lasted: begun.elapsed(),
        }
    }
}

/// About as many pieces of as many lines each.
fn cut(ndjson: &str, pieces: usize) -> VecDeque<String> {
    let lines: Vec<&str> = ndjson.lines().collect();
    let pieces = lines.chunks(lines.len().div_ceil(pieces));
    pieces.map(|piece| piece.join("\n")).collect()
}

impl Crew {
    /// How long one of them stands still. Nobody comes to what the only worker has in hand, and nobody has to where
    /// no completion comes too late.
    fn stopped_for(self, broker: &dyn Broker, kinds: &[Kind]) -> Duration {
        match self {
            Self::Three if kinds.contains(&Kind::Fenced) => broker.stopped_for(),
            Self::Three | Self::One => scaled(MS(4_500), MS(7_000)),
        }
    }

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
    left: u32,
    stopped: u32,
    restarts: u32,
    /// How often it closed all connections.
    closings: u32,
    stores: u32,
    told: Told,
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
        let told = self.told;
        let of_kinds = kinds.iter().map(|kind| told.of(*kind));
        let sum = of_kinds.sum::<usize>() + told.doubts;
        // Revocations alone are rare in a small run.
        let least = if matches!(kinds, [Kind::Revoked]) {
            0
        } else {
            5
        };
        assert!(
            self.killed > 0 && sum >= least,
            "hardly anything happened: {self}"
        );
        // Not every one comes in a small run.
        for kind in scaled(&[][..], kinds) {
            assert!(told.of(*kind) >= LEAST, "hardly ever {kind:?}: {self}");
        }
    }
}

impl Figures {
    /// Tells them and `more`: the effects of `name` were held against what was asked for, and each was there once.
    pub fn tell(&self, name: &str, more: &[(&str, u64)]) {
        let figures = [
            ("operations", self.messages),
            ("workers killed", self.killed.into()),
            ("workers that left", self.left.into()),
            ("workers stopped", self.stopped.into()),
            ("brokers killed", self.restarts.into()),
            ("all connections closed", self.closings.into()),
            ("stores killed", self.stores.into()),
            ("takeovers", self.told.takeovers as u64),
            ("fenced", self.told.fenced as u64),
            ("revoked", self.told.revoked as u64),
        ];
        tell(name, &[&figures, more].concat());
    }
}

/// What workers have told of themselves, in whole lines.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// So many bytes of it were heard.
    heard: u64,
    /// Each was a takeover, of what must not be begun again.
    doubts: usize,
    takeovers: usize,
    fenced: usize,
    revoked: usize,
}

impl Told {
    fn listen(&mut self, site: &Site) {
        let news = site.said_behind(self.heard);
        let whole = news.rfind('\n').map_or(0, |end| end + 1);
        self.heard += whole as u64;
        for line in news[..whole].lines() {
            let says = |what| usize::from(line.contains(what));
            self.doubts += says("\"decision\":\"in_doubt\"");
            self.takeovers += says("\"takeover\":true");
            self.fenced += says("\"decision\":\"fenced\"");
            self.revoked += says("\"decision\":\"revoked\"");
        }
    }

    fn of(self, kind: Kind) -> usize {
        match kind {
            Kind::Takeover => self.takeovers,
            Kind::Fenced => self.fenced,
            Kind::Revoked => self.revoked,
        }
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
            "{} messages, {} workers killed at work, {} that left, {} stopped beyond lease and session, {} restarts of a killed \
             broker, {} closings of all its connections, {} restarts of a killed store, {} takeovers, {} fenced completions, \
             {} revocations, {} s",
            self.messages,
            self.killed,
            self.left,
            self.stopped,
            self.restarts,
            self.closings,
            self.stores,
            self.told.takeovers,
            self.told.fenced,
            self.told.revoked,
            self.lasted.as_secs()
        )
    }
}

/// Asks a worker to end, and looks at what it says of its work: some of it may be a dead letter or in doubt, where
/// that can be.
fn leave(worker: Run, site: &Site) {
    worker.signal(Signal::TERM);
    let (status, stdout) = worker.wait_at_most(Duration::from_secs(60));
    // On a busy machine a guest may be asked before it listens.
    let is_over = status.success() || status.signal() == Some(Signal::TERM.as_raw());
    assert!(is_over, "{status}:\n{}", site.last_words());
    for summary in stdout.lines().map(Summary::parse) {
        let expected = match summary.pipeline() {
            "calls" => "dead",
            "notices" => "in_doubt",
            _ => "",
        };
        let gone_wrong = ["conflicts", "too_old", "dead", "in_doubt", "quarantined"];
        for fate in gone_wrong.into_iter().filter(|fate| *fate != expected) {
            assert_eq!(summary.count(fate), 0, "{fate}: {stdout}");
        }
    }
}

/// Waits until somebody has begun with something: whoever is killed before that dies in vain. Not for ever, since
/// everything may be done.
fn wait_for_work(site: &Site, said: u64) {
    let begun = now();
    while begun.elapsed() < MS(10_000) {
        let news = site.said_behind(said);
        if ["granted", "completed", "replayed"]
            .iter()
            .any(|it| news.contains(&format!("\"decision\":\"{it}\"")))
        {
            return;
        }
        thread::sleep(MS(50));
    }
}

/// Of each kind, in a campaign.
const LEAST: usize = 100;
/// How many times as many rounds as it is meant to have a campaign may have until then.
const LONGEST: usize = 5;

fn rounds() -> usize {
    scaled(4, 40)
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
