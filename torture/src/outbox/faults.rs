//! The relays of a stream, and what befalls them, their consumer, the database and the broker.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;

use super::booking::{booking, rows};
use super::database::Database;
use super::destination::Destination;
use super::relay::{PATIENCE, RUN, Relay};
use crate::moments::now;
use crate::worker::{Run, Site};
use crate::{Moments, scaled};

/// The relays that run, each in a folder of its own, and the consumer.
pub(super) struct Crew {
    relays: [Relay; 2],
    consumer: Site,
    consuming: Option<Run>,
    pub(super) blows: Blows,
}

/// The blows that were dealt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blows {
    /// Relays that were killed while they published partitions.
    pub(super) killed: u64,
    /// Those of them that were killed between a publication and its record.
    pub(super) unrecorded: u64,
    pub(super) stopped: u64,
    pub(super) stores: u64,
    pub(super) brokers: u64,
    pub(super) consumers: u64,
}

/// A blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    /// A kill after the sink got messages, of which the database has no record.
    KillUnrecorded,
    CutStore,
    CutSink,
    Stop,
    KillConsumer,
    KillStore,
    KillBroker,
}

/// A round of blows. What takes long is left out of most rounds of a small run.
const ROUND: [Blow; 14] = [
    Blow::KillUnrecorded,
    Blow::CutSink,
    Blow::Kill,
    Blow::KillConsumer,
    Blow::CutStore,
    Blow::KillUnrecorded,
    Blow::Stop,
    Blow::CutSink,
    Blow::KillUnrecorded,
    Blow::KillStore,
    Blow::Kill,
    Blow::KillBroker,
    Blow::CutStore,
    Blow::KillUnrecorded,
];

impl Crew {
    /// Starts two relays and a consumer.
    pub(super) fn start(database: &Database, destination: &Destination) -> Self {
        let relay = |_| Relay::of(&database.proxied_url(), &destination.sink());
        let url = database.url();
        let book = booking(
            "book",
            destination.key(),
            &rows("received"),
            &destination.source,
        );
        let config = format!("[store]\nurl = \"{url}\"\n{book}");
        let consumer = Site::with(&[("semel.toml", &config)]);
        Self {
            relays: [0, 1].map(relay),
            consuming: Some(consumer.start(RUN)),
            consumer,
            blows: Blows::default(),
        }
    }

    /// Deals blows until it is enough after this number of rounds, and at least a round of them.
    pub(super) fn befall(
        &mut self,
        database: &Database,
        destination: &mut Destination,
        moments: &mut Moments,
        is_enough: impl Fn(&Self, &Destination, u64) -> bool,
    ) {
        for round in 0_u64.. {
            for blow in ROUND {
                if round > 0 && is_enough(self, destination, round) {
                    return;
                }
                let is_long = matches!(blow, Blow::Stop | Blow::KillStore | Blow::KillBroker);
                if !is_long || round % scaled(4, 2) == 0 {
                    self.deal(blow, database, destination, moments);
                }
            }
        }
    }

    fn deal(
        &mut self,
        blow: Blow,
        database: &Database,
        destination: &mut Destination,
        moments: &mut Moments,
    ) {
        let victim = usize::from(moments.below(2) == 0);
        let cuts = &destination.cuts;
        match blow {
            Blow::Kill => self.kill(victim, moments),
            Blow::KillUnrecorded => self.kill_unrecorded(victim, database, cuts, moments),
            Blow::CutStore => database.cuts.iter().for_each(|cuts| storm(cuts, moments)),
            Blow::CutSink => storm(cuts, moments),
            Blow::Stop => {
                self.relays[victim].wait_until_at_work();
                sleep(moments.between(MS(20), MS(200)));
                self.relays[victim].signal(Signal::STOP);
                sleep(LEASE + moments.between(MS(300), MS(900)));
                self.relays[victim].signal(Signal::CONT);
                self.blows.stopped += 1;
            }
            Blow::KillConsumer => {
                let run = self.consuming.take().expect("it runs");
                let still_ran = run.kill_after(moments.between(MS(0), MS(100)));
                assert!(still_ran, "{}", self.consumer.last_words());
                self.consuming = Some(self.consumer.start(RUN));
                self.blows.consumers += 1;
            }
            Blow::KillStore => self.blows.stores += u64::from(database.kill_and_restart()),
            // Most take long to come up again.
            Blow::KillBroker if scaled(destination.restarts_soon(), true) => {
                self.blows.brokers += u64::from(destination.kill_and_restart());
            }
            Blow::KillBroker => {}
        }
        let (least, most) = scaled((MS(50), MS(400)), (MS(500), MS(2_500)));
        sleep(moments.between(least, most));
    }

    fn kill(&mut self, victim: usize, moments: &mut Moments) {
        self.relays[victim].wait_until_at_work();
        let moment = moments.between(MS(0), MS(300));
        self.kill_after(victim, moment);
    }

    /// Kills one of which the sink has messages and the database no record. Where the database is a server, which it
    /// does not reach any more, it has the answers of the sink; otherwise it waits for them.
    fn kill_unrecorded(
        &mut self,
        victim: usize,
        database: &Database,
        sink: &Proxy,
        moments: &mut Moments,
    ) {
        let began = now();
        while !self.publishes_unanswered(victim, sink, moments) {
            let words = || self.last_words();
            assert!(began.elapsed() < PATIENCE, "no publication:\n{}", words());
        }
        if let Some(cuts) = &database.cuts {
            cuts.hold();
            sink.release();
        }
        self.kill_after(victim, moments.between(MS(20), MS(120)));
        if let Some(cuts) = &database.cuts {
            cuts.cut_now();
            cuts.release();
        }
        sink.release();
        self.relays[1 - victim].signal(Signal::CONT);
        self.blows.unrecorded += 1;
    }

    /// Returns true once the sink got messages of this relay; its answers are held then, and the other relay stands
    /// still. Returns false if it got none for a while, and everything goes on.
    fn publishes_unanswered(&self, relay: usize, sink: &Proxy, moments: &mut Moments) -> bool {
        self.relays[relay].wait_until_at_work();
        sleep(moments.between(MS(0), MS(200)));
        let other = &self.relays[1 - relay];
        other.signal(Signal::STOP);
        sleep(MS(5));
        for _ in 0..3 {
            let (before, began) = (sink.seen().client_bytes, now());
            sink.hold_answers();
            while began.elapsed() < MS(500) {
                if sink.seen().client_bytes > before + BYTES_OF_NO_MESSAGE {
                    return true;
                }
                sleep(MS(1));
            }
            // What was under way already is answered, and the next look is for what is sent after that: a busy relay
            // would otherwise have something under way at each.
            sink.release();
            let began = now();
            while sink.seen().held > 0 && began.elapsed() < MS(500) {
                sleep(MS(1));
            }
        }
        other.signal(Signal::CONT);
        sleep(MS(100));
        false
    }

    fn kill_after(&mut self, victim: usize, moment: Duration) {
        let relay = &mut self.relays[victim];
        let still_ran = relay.run().kill_after(moment);
        assert!(
            still_ran,
            "it ended by itself:\n{}",
            relay.site.last_words()
        );
        self.blows.killed += 1;
        relay.start();
    }

    /// The number of times that a relay got another share of the partitions.
    pub(super) fn moves(&self) -> u64 {
        let moves = |relay: &Relay| relay.site.text("stderr.log").matches("publishes ").count();
        let count: usize = self.relays.iter().map(moves).sum();
        count as u64
    }

    /// The number of times that a relay found that it had lost leases.
    pub(super) fn fenced(&self) -> u64 {
        let fenced = |relay: &Relay| relay.site.text("stderr.log").matches("leases of ").count();
        let count: usize = self.relays.iter().map(fenced).sum();
        count as u64
    }

    /// The number of warnings and failures that relays told of.
    pub(super) fn troubles(&self) -> usize {
        let troubles = |relay: &Relay| {
            let said = relay.site.text("stderr.log");
            let is_trouble = |line: &&str| !line.contains(r#""level":"info""#);
            said.lines().filter(is_trouble).count()
        };
        self.relays.iter().map(troubles).sum()
    }

    /// Asks the relays to end, which they do in peace.
    pub(super) fn relays_end(&mut self) {
        for relay in &mut self.relays {
            let run = relay.run();
            run.signal(Signal::TERM);
            let (status, _) = run.wait_at_most(PATIENCE);
            assert!(status.success(), "{status}:\n{}", relay.site.last_words());
        }
    }

    /// Asks the consumer to end, which it does in peace.
    pub(super) fn consumer_ends(&mut self) {
        let run = self.consuming.take().expect("it runs");
        run.signal(Signal::TERM);
        let (status, _) = run.wait_at_most(PATIENCE);
        assert!(
            status.success(),
            "{status}:\n{}",
            self.consumer.last_words()
        );
    }

    /// The last words of relays and consumer.
    pub(super) fn last_words(&self) -> String {
        let [one, two] = &self.relays;
        [
            one.site.last_words(),
            two.site.last_words(),
            self.consumer.last_words(),
        ]
        .join("\n--\n")
    }
}

impl Blows {
    /// The number of blows after which messages may have been published again, beside cuts.
    pub(super) fn all(&self) -> u64 {
        self.killed + self.stopped + self.stores + self.brokers
    }
}

/// Cuts connections at random bytes until some were cut, or there is nothing to cut.
pub(crate) fn storm(cuts: &Proxy, moments: &mut Moments) {
    let (before, began) = (cuts.seen().cuts, now());
    cuts.storm(moments.below(u64::MAX), BYTES);
    while cuts.seen().cuts < before + CUTS && began.elapsed() < MS(6_000) {
        sleep(MS(5));
    }
    cuts.heal();
}

const MS: fn(u64) -> Duration = Duration::from_millis;
/// The number of bytes within which a connection is cut.
const BYTES: u64 = 4_000;
/// More than the heartbeats and the first words of connections have, and fewer than a few messages.
const BYTES_OF_NO_MESSAGE: u64 = 300;
/// The number of cuts of a storm.
const CUTS: u64 = 3;
/// The lease of a partition, the shortest that there is.
const LEASE: Duration = Duration::from_secs(3);
