//! Workers that come and go, also by `kill -9`, and servers that are killed: the broker's and the store's.

mod feed;

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::broker::Broker;
use crate::moments::now;
use crate::payments::{Payments, Stream};
use crate::worker::{RUN_WITH_DECISIONS, Run, Site, Summary};
use crate::{Moments, scaled, tell};
use feed::Feed;

/// The faults of the workers of a site, and the messages they get meanwhile.
#[derive(Debug)]
pub struct Storm<S> {
    /// The messages.
    pub stream: S,
    moments: Moments,
    crew: Crew,
}

/// The workers.
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
    /// work in hand, kills the broker in between and has `kill_store` kill the server of the store, which returns
    /// whether there is one. Returns when every reader has acknowledged everything and the last workers have ended.
    /// It goes on until it has met these kinds often enough, and publishes more, but not for ever.
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
        let mut told = Told::default();
        let mut publisher = broker.publisher();
        let (mut killed, mut left, mut stopped) = (0, 0, 0);
        let (mut restarts, mut closings, mut stores) = (0, 0, 0);
        let mut workers: Vec<Run> = Vec::new();
        thread::scope(|scope| {
            let (mut feed, given) = Feed::of(self.stream.payments());
            let publishing = scope.spawn(move || {
                for bit in given {
                    publisher.publish(&bit.lines().collect::<Vec<_>>());
                }
                publisher.finish();
            });
            for round in 0..LONGEST * rounds() {
                told.listen(site);
                let is_longer = round >= rounds();
                if is_longer && told.is_enough(kinds) {
                    break;
                }
                // One more worker joins the others, and takes partitions from them.
                while workers.len() < self.crew.most() {
                    workers.push(site.start(RUN_WITH_DECISIONS));
                }
                feed.next(self, is_longer, site);
                thread::sleep(self.moments.between(MS(300), MS(1_500)));
                if round % scaled(4, 1) == 0 {
                    closings += u32::from(broker.close_connections());
                }
                if self.crew == Crew::Three && round % scaled(2, 1) == 0 {
                    // And one comes and goes in peace.
                    let guest = site.start(RUN_WITH_DECISIONS);
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
                // A fast worker may have finished the first bit.
                feed.next(self, is_longer, site);
                let place = self.moments.below(workers.len() as u64);
                let run = workers.swap_remove(usize::try_from(place).expect("few"));
                let still_ran = run.kill_after(self.moments.between(MS(0), MS(200)));
                assert!(still_ran, "it ended by itself:\n{}", site.last_words());
                killed += 1;
            }
            drop(feed);
            publishing.join().expect("everything is published");
        });
        while workers.len() < self.crew.least() {
            workers.push(site.start(RUN_WITH_DECISIONS));
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

impl Crew {
    /// The time for which one of them stands still. No other worker takes over from the only one, and none has to
    /// where no completion comes too late.
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

/// The events of a storm, over all of its workers: the killed ones have logged theirs, too.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    messages: u64,
    killed: u32,
    left: u32,
    stopped: u32,
    restarts: u32,
    /// The number of times that it closed all connections.
    closings: u32,
    stores: u32,
    told: Told,
    lasted: Duration,
}

impl Figures {
    /// Checks that it was a storm: a run in which nothing happened proves nothing. `kinds` are those that this broker
    /// and these effects must have had.
    ///
    /// # Panics
    ///
    /// If it was not.
    pub fn were_a_storm(&self, kinds: &[Kind]) {
        let is_storm = self.killed > 0 && self.told.is_enough(kinds);
        assert!(is_storm, "too little of {kinds:?} happened: {self}");
    }
}

impl Figures {
    /// Reports them and `more`: the effects of `name` were compared with the expected ones, and each was there once.
    /// Of the events of work in hand it reports the `kinds` that it was about, met or not.
    pub fn tell(&self, name: &str, kinds: &[Kind], more: &[(&str, u64)]) {
        let mut figures = vec![
            ("operations", self.messages),
            ("workers killed", self.killed.into()),
            ("workers that left", self.left.into()),
            ("workers stopped", self.stopped.into()),
            ("brokers killed", self.restarts.into()),
            ("all connections closed", self.closings.into()),
            ("stores killed", self.stores.into()),
        ];
        for (kind, what) in [
            (Kind::Takeover, "takeovers"),
            (Kind::Fenced, "fenced"),
            (Kind::Revoked, "revoked"),
        ] {
            let count = self.told.of(kind) as u64;
            if count > 0 || kinds.contains(&kind) {
                figures.push((what, count));
            }
        }
        figures.extend(more);
        tell(name, &figures);
    }
}

/// The workers' reports of themselves, in whole lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// The number of bytes that were read.
    heard: u64,
    /// Each was a takeover of an effect that must not begin again.
    doubts: usize,
    pub(crate) takeovers: usize,
    pub(crate) fenced: usize,
    revoked: usize,
    pub(crate) replays: usize,
}

impl Told {
    pub(crate) fn listen(&mut self, site: &Site) {
        let news = site.said_behind(self.heard);
        let whole = news.rfind('\n').map_or(0, |end| end + 1);
        self.heard += whole as u64;
        for line in news[..whole].lines() {
            let says = |what| usize::from(line.contains(what));
            self.doubts += says("\"decision\":\"in_doubt\"");
            self.takeovers += says("\"takeover\":true");
            self.fenced += says("\"decision\":\"fenced\"");
            self.revoked += says("\"decision\":\"revoked\"");
            self.replays += says("\"decision\":\"replayed\"");
        }
    }

    /// Returns whether enough happened: each of these kinds in a campaign; in a small run, which does not meet every
    /// one, any.
    fn is_enough(self, kinds: &[Kind]) -> bool {
        let mut of_kinds = kinds.iter().map(|kind| self.of(*kind));
        // Revocations alone are rare in a small run.
        let is_rare = matches!(kinds, [Kind::Revoked]);
        scaled(
            is_rare || of_kinds.clone().sum::<usize>() + self.doubts >= LEAST_OF_ALL,
            of_kinds.all(|of_kind| of_kind >= LEAST),
        )
    }

    fn of(self, kind: Kind) -> usize {
        match kind {
            Kind::Takeover => self.takeovers,
            Kind::Fenced => self.fenced,
            Kind::Revoked => self.revoked,
        }
    }
}

/// An event of work in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A worker went on with an operation that another one had claimed.
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

/// Asks a worker to end, and checks its summary: some of its work may be a dead letter or in doubt, where that can
/// be.
pub(crate) fn leave(worker: Run, site: &Site) {
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

/// The least number of each kind, in a campaign.
const LEAST: usize = 100;
/// The least number of all kinds together, in a small run.
const LEAST_OF_ALL: usize = 5;
/// The most rounds of a storm until then, as a multiple of the intended number.
const LONGEST: usize = 5;

fn rounds() -> usize {
    scaled(4, 40)
}

const MS: fn(u64) -> Duration = Duration::from_millis;
