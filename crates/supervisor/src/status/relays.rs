//! The relays of a worker as its status has them: whether their outboxes and sinks are there, and what waits in the
//! outboxes, which is counted now and then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::Error;
use semel_core::port::outbox::operations::{Backlog, OutboxOperations};
use semel_operate::pipelines::OrderedPause;
use semel_outbox::{Event, Observer};
use semel_telemetry::{Sample, SampledFamily};
use semel_worker::effect::http::Probe;
use tokio::time::{Instant, sleep, timeout};

use super::health::{Because, Health, Part, Reason};
use super::pace::{Pace, Reading};
use super::{Doing, ServiceReadiness};

/// The relays of a worker; see the module.
pub(crate) struct Relays {
    health: Arc<Health>,
    known: Mutex<BTreeMap<Box<str>, Relay>>,
}

#[derive(Default)]
struct Relay {
    outbox: Part,
    /// The sink, by the word of the relay.
    sink: Part,
    /// The server of the sink, by that of the probe.
    server: Part,
    /// The time at which something was last published.
    published_at: Option<Duration>,
    /// The last counts.
    backlog: Option<Reading<Backlog>>,
    /// The order by which it is paused, and whether that is done.
    pause: Option<(OrderedPause, bool)>,
    /// The store has not told yet whether it is to run.
    awaits_order: bool,
}

impl Relays {
    pub(super) fn new(health: Arc<Health>) -> Self {
        let known = Mutex::default();
        Self { health, known }
    }

    /// Adds a relay.
    pub(super) fn knows(&self, relay: &str) {
        self.lock().insert(relay.into(), Relay::default());
    }

    /// Notes that a relay begins nothing before its order is known; returns false if there is no such relay.
    pub(super) fn awaits_order(&self, name: &str) -> bool {
        self.of(name, |it| it.awaits_order = true).is_some()
    }

    /// Notes that a relay is to be paused, and finishes its run first; returns false if there is no such relay.
    pub(super) fn is_to_pause(&self, name: &str, pause: &OrderedPause) -> bool {
        let note = |it: &mut Relay| it.pause = Some((pause.clone(), false));
        self.of(name, note).is_some()
    }

    /// Notes the order by which a relay is paused, or that it runs now; returns false if there is no such relay.
    pub(super) fn paused(&self, name: &str, pause: Option<&OrderedPause>) -> bool {
        let note = |it: &mut Relay| {
            it.pause = pause.map(|pause| (pause.clone(), true));
            it.awaits_order = false;
            // What a run says of its outbox and its sink is known while it lasts. Whatever tells of an order has just
            // been read from where the outbox is.
            it.outbox = Part::default();
            it.sink = Part::default();
        };
        self.of(name, note).is_some()
    }

    /// Returns how each relay is.
    pub(super) fn readiness(&self, has_begun: bool) -> BTreeMap<Box<str>, ServiceReadiness> {
        let now = self.health.clock.monotonic();
        let after = self.health.ready_after;
        let known = self.lock();
        let all = known.iter().map(|(name, it)| {
            let readiness = ServiceReadiness::of(it.reasons(now, after), has_begun);
            (name.clone(), it.ordered(readiness))
        });
        all.collect()
    }

    /// Returns the counts of what waits in the outboxes, of those relays of which it was counted of late.
    pub(super) fn backlogs(&self) -> BTreeMap<Box<str>, Backlog> {
        let known = self.lock();
        let counted = known.iter().filter_map(|(name, it)| {
            let backlog = *it.backlog.as_ref()?.value()?;
            Some((name.clone(), backlog))
        });
        counted.collect()
    }

    /// Counts what waits over and over for as long as the future is polled: every few seconds, and more seldom where that
    /// takes long, see [`Pace`].
    pub(crate) async fn count(&self, relay: &str, stream: &str, outbox: impl OutboxOperations) {
        let mut pace = Pace::new(EVERY, PARTS);
        loop {
            let begun = Instant::now();
            let counted = timeout(PATIENCE, outbox.backlog(stream)).await;
            let pause = if let Ok(Ok(backlog)) = counted {
                self.of(relay, |it| it.backlog = Some(Reading::new(backlog, begun)));
                pace.after(begun.elapsed())
            } else {
                pace.after_failure()
            };
            sleep(pause).await;
        }
    }

    /// Connects to the server of a sink every `every` while nothing is published, for as long as the future is polled.
    pub(crate) async fn probe(&self, relay: &str, server: Probe, every: Duration) {
        let mut wait = every;
        loop {
            sleep(wait).await;
            let now = self.health.clock.monotonic();
            let is_busy = |at: Duration| now.saturating_sub(at) < every;
            let is_busy = self.of(relay, |it| it.published_at.is_some_and(is_busy));
            let connected = if is_busy == Some(true) {
                Ok(())
            } else {
                server.connect(every.clamp(SHORTEST, LONGEST)).await
            };
            wait = match connected {
                Ok(()) => {
                    let now = self.health.clock.monotonic();
                    self.of(relay, |it| it.server.answers(now));
                    every
                }
                Err(error) => {
                    self.fails(relay, &error, |it| &mut it.server);
                    every.min(SOON)
                }
            };
        }
    }

    /// Returns the families of what waits, without a series while nothing is known of late, and that of pauses.
    pub(super) fn families(&self) -> [SampledFamily; 4] {
        let known = self.lock();
        let paused = known
            .iter()
            .map(|(name, it)| Sample::new([("relay", &**name)], it.pause.is_some().into()));
        let counted = known.iter().filter_map(|(name, it)| {
            let backlog = it.backlog.as_ref()?.value()?;
            Some(([("relay", &**name)], backlog))
        });
        let (mut waiting, mut dead, mut oldest) = (Vec::new(), Vec::new(), Vec::new());
        for (labels, backlog) in counted {
            waiting.push(Sample::new(labels, backlog.waiting));
            dead.push(Sample::new(labels, backlog.dead));
            let age = backlog.oldest.unwrap_or_default();
            oldest.push(Sample::real(labels, age.as_secs_f64()));
        }
        [
            SampledFamily::gauge(
                "semel_relay_backlog",
                "Messages of the outbox that are not published, dead ones left out; counted up to 100,000.",
                waiting,
            ),
            SampledFamily::gauge(
                "semel_relay_dead",
                "Messages of the outbox that its relay gave up, and that wait for a person; counted up to 100,000.",
                dead,
            ),
            SampledFamily::gauge(
                "semel_relay_oldest_seconds",
                "The time since the first message that waits in the outbox was written, in seconds; 0 if none waits.",
                oldest,
            ),
            SampledFamily::gauge(
                "semel_relay_paused",
                "Whether an order keeps a relay from publishing: 1 or 0.",
                paused.collect(),
            ),
        ]
    }

    fn fails(&self, relay: &str, error: &Error, part: fn(&mut Relay) -> &mut Part) {
        let trouble = self.health.trouble(error);
        let now = self.health.clock.monotonic();
        self.of(relay, |it| part(it).fails_since(now, trouble));
    }

    fn of<T>(&self, relay: &str, change: impl FnOnce(&mut Relay) -> T) -> Option<T> {
        self.lock().get_mut(relay).map(change)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Relay>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// Returns the reasons why it is not ready; none if it is.
    fn reasons(&self, now: Duration, after: Duration) -> Vec<Because> {
        let outbox = self.outbox.because(Reason::StoreAway, now, after);
        let sink = self.sink.because(Reason::TargetAway, now, after);
        let server = || self.server.because(Reason::TargetAway, now, after);
        outbox.into_iter().chain(sink.or_else(server)).collect()
    }

    /// Returns the same readiness with what an order makes of it. An order is no trouble, whatever the sink does
    /// meanwhile; an outbox that is away is one.
    fn ordered(&self, readiness: ServiceReadiness) -> ServiceReadiness {
        let state = match (&self.pause, readiness.state) {
            (_, Doing::Waiting(Reason::StoreAway)) => readiness.state,
            (Some((_, true)), _) => Doing::Paused,
            (Some((pause, false)), Doing::Running) => Doing::by(pause.kind),
            (None, Doing::Running) if self.awaits_order => Doing::Starting,
            (_, state) => state,
        };
        let paused = self.pause.as_ref().map(|(pause, _)| pause.clone());
        ServiceReadiness {
            state,
            paused,
            ..readiness
        }
    }
}

impl Observer for Relays {
    fn observe(&self, relay: &str, event: &Event<'_>) {
        let now = self.health.clock.monotonic();
        match event {
            Event::OutboxAway { error } => self.fails(relay, error, |it| &mut it.outbox),
            Event::SinkAway { error } => self.fails(relay, error, |it| &mut it.sink),
            Event::OutboxBack { .. } => _ = self.of(relay, |it| it.outbox.answers(now)),
            Event::SinkBack { .. } => _ = self.of(relay, |it| it.sink.answers(now)),
            Event::Published { .. } => {
                self.of(relay, |it| {
                    it.published_at = Some(now);
                    it.outbox.answers(now);
                    it.sink.answers(now);
                    it.server.answers(now);
                });
            }
            _ => {}
        }
    }
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(5);
/// A database spends one part of its time in so many on counting, or more if a count is brief.
const PARTS: u32 = 20;
/// The longest wait for a count.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two probes of a server that failed.
const SOON: Duration = Duration::from_millis(500);
/// The shortest and the longest time for which a connection is awaited.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use semel_conformance::TestClock;
    use semel_core::ErrorKind;

    use super::*;

    const AFTER: Duration = Duration::from_secs(30);

    fn relays() -> (TestClock, Relays) {
        let clock = TestClock::new();
        clock.advance(Duration::from_secs(1_000));
        let health = Health::new(AFTER, Arc::new(clock.clone()));
        let relays = Relays::new(Arc::new(health));
        relays.knows("out");
        (clock, relays)
    }

    fn reasons(relays: &Relays) -> Vec<Reason> {
        let all = relays.readiness(true);
        all.values()
            .flat_map(|it| &it.reasons)
            .map(|it| it.reason)
            .collect()
    }

    #[test]
    fn a_run_that_is_recalled_while_something_is_away_leaves_no_trouble_behind() {
        let (clock, relays) = relays();
        let error = Error::new(ErrorKind::Unavailable, "gone");
        let pause = OrderedPause {
            kind: semel_operate::pipelines::PauseKind::Pause,
            since: semel_core::Timestamp::EPOCH,
            by: "".into(),
            reason: "".into(),
        };
        relays.observe("out", &Event::OutboxAway { error: &error });
        relays.observe("out", &Event::SinkAway { error: &error });
        relays.is_to_pause("out", &pause);
        relays.paused("out", Some(&pause));
        clock.advance(AFTER * 2);
        assert_eq!(reasons(&relays), []);
        assert_eq!(relays.readiness(true)["out"].state, Doing::Paused);
    }

    #[test]
    fn what_is_away_counts_from_its_own_word_and_until_it_is_back() {
        let (clock, relays) = relays();
        let error = Error::new(ErrorKind::Unavailable, "gone");
        let lasted = AFTER;
        // It ran for long before, and said nothing.
        clock.advance(AFTER * 9);
        for (away, back, reason) in [
            (
                Event::OutboxAway { error: &error },
                Event::OutboxBack { lasted },
                Reason::StoreAway,
            ),
            (
                Event::SinkAway { error: &error },
                Event::SinkBack { lasted },
                Reason::TargetAway,
            ),
        ] {
            relays.observe("out", &away);
            assert_eq!(reasons(&relays), [], "it was there until just now");
            clock.advance(AFTER);
            assert_eq!(reasons(&relays), [reason]);
            relays.observe("out", &back);
            assert_eq!(reasons(&relays), []);
        }
        relays.fails("out", &error, |it| &mut it.server);
        relays.observe("out", &Event::SinkAway { error: &error });
        clock.advance(AFTER);
        assert_eq!(reasons(&relays), [Reason::TargetAway], "told once");
        relays.observe("out", &Event::Published { count: 1 });
        assert_eq!(reasons(&relays), []);
        relays.observe("unknown", &Event::OutboxAway { error: &error });
        clock.advance(AFTER);
        assert_eq!(reasons(&relays), []);
    }
}
