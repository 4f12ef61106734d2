//! The figures that observers get: how long effects take, what is added to them, what waits, and what is in hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_engine::effect::Verdict;
use semel_engine::event::{Event, Observer, Origin, Wait};
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many};
use crate::world::fault::{Fault, Method};
use crate::world::scripted::{Act, Scripted};
use crate::world::tables::Statement;
use crate::world::worker::{Manner, Worker};
use crate::world::{PARK, World};

/// Everything that is told in figures.
#[derive(Clone, Debug, Default)]
struct Figures(Arc<Mutex<Told>>);

#[derive(Clone, Debug, Default)]
struct Told {
    effects: Vec<(bool, Duration)>,
    overheads: Vec<Option<Duration>>,
    waits: Vec<Wait>,
    in_hand: Vec<(usize, usize)>,
    takeovers: usize,
}

impl Figures {
    /// Watches a worker, beside whoever watches it already.
    fn of(worker: &mut Worker) -> Self {
        let figures = Self::default();
        worker.add_observer(Arc::new(figures.clone()));
        figures
    }

    fn told(&self) -> Told {
        self.0.lock().expect("no panic").clone()
    }
}

impl Observer for Figures {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let mut told = self.0.lock().expect("no panic");
        match event {
            Event::EffectEnded {
                took, with_claim, ..
            } => told.effects.push((*with_claim, *took)),
            Event::Settled { overhead, .. } => told.overheads.push(*overhead),
            Event::Waits { why } => told.waits.push(*why),
            Event::InHand { running, held } => told.in_hand.push((*running, *held)),
            Event::Completed { takeover, .. } => told.takeovers += usize::from(*takeover),
            _ => {}
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
/// The most that a worker with a store in memory adds to a message, on a clock that only goes on while all wait.
const LITTLE: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn an_effect_and_a_wait_for_the_order_are_not_overhead() {
    for manner in [Manner::Each, Manner::Stream, Manner::Bulk] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "a"]);
        let mut worker = world.worker(&broker);
        let figures = Figures::of(&mut worker);
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, SECOND));
        let summary = worker.by(manner, effect, PARK).await.summary();

        assert_eq!(
            (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
            (2, 1)
        );
        let told = figures.told();
        assert_eq!(told.waits, [Wait::Order], "the second `a` behind the first");
        assert_eq!(told.effects.len(), 2, "a duplicate has no effect");
        for (with_claim, took) in &told.effects {
            assert!(!with_claim && *took >= SECOND * 2, "{took:?}");
        }
        assert_eq!(told.overheads.len(), 3);
        for overhead in &told.overheads {
            assert!(overhead.is_some_and(|it| it < LITTLE), "{overhead:?}");
        }
        let most_held = told.in_hand.iter().map(|(_, held)| *held).max();
        assert_eq!(most_held, Some(1));
        let most_running = told.in_hand.iter().map(|(running, _)| *running).max();
        assert_eq!(most_running, Some(2), "{told:?}");
        assert_eq!(told.in_hand.last(), Some(&(0, 0)), "nothing is left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backoff_is_no_overhead_and_is_told_once() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    let figures = Figures::of(&mut worker);
    let verdict = Verdict::NotApplied {
        error: "429".into(),
        retry_after: Some(SECOND * 90),
    };
    let again = [Act::Say(verdict.clone()), Act::Say(verdict)];
    let effect = Scripted::new(&world, &worker.crash, again);
    let summary = worker.each(effect, PARK).await.summary();

    assert!(summary.elapsed >= SECOND * 180);
    let told = figures.told();
    assert_eq!(told.waits, [Wait::Backoff]);
    assert_eq!(told.effects.len(), 3);
    assert!(told.overheads[0].is_some_and(|it| it < LITTLE), "{told:?}");
    assert!(told.in_hand.contains(&(0, 1)), "{told:?}");
    assert_eq!(told.in_hand.last(), Some(&(0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_late_is_overhead() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    let figures = Figures::of(&mut worker);
    worker
        .plan
        .nth(Method::Claim, 1, Fault::DelayBefore(SECOND * 3));
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();

    let overhead = figures.told().overheads[0].expect("of a message with a key");
    assert!((SECOND * 3..SECOND * 4).contains(&overhead), "{overhead:?}");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_the_effect_and_the_claim() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "a"]);
    world.tables.script([Statement::Fail]);
    let mut worker = world.worker(&broker);
    let figures = Figures::of(&mut worker);
    let summary = worker.transaction().await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (2, 1)
    );
    let told = figures.told();
    // One statement failed, and the message was tried again.
    assert_eq!(told.effects.len(), 3, "{told:?}");
    assert!(told.effects.iter().all(|(with_claim, _)| *with_claim));
    assert!(told.waits.contains(&Wait::Backoff), "{told:?}");
    assert!(
        told.in_hand.iter().any(|(running, _)| *running > 0),
        "{told:?}"
    );
    assert_eq!(told.in_hand.last(), Some(&(0, 0)));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_hand_adds_up_while_messages_run_and_wait() {
    let world = World::new();
    let broker = broker_with_many(&world, 40);
    let mut worker = world.worker(&broker);
    worker.pipeline.concurrency = 6;
    let figures = Figures::of(&mut worker);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, SECOND));
    worker.each(effect, PARK).await.summary();

    let told = figures.told();
    let most = told.in_hand.iter().map(|(running, _)| *running).max();
    // Six run, and as many that have ended may not be settled yet.
    assert!(
        most.is_some_and(|most| (6..=12).contains(&most)),
        "{told:?}"
    );
    assert!(told.in_hand.iter().all(|(_, held)| *held == 0), "{told:?}");
    assert_eq!(told.effects.len(), 40);
    assert!(told.waits.is_empty(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_took_the_time_until_then() {
    for manner in [Manner::Each, Manner::Bulk] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        let figures = Figures::of(&mut worker);
        let effect = Scripted::new(&world, &worker.crash, [Act::Panic]);
        worker.by(manner, effect, PARK).await.summary();

        let told = figures.told();
        assert_eq!(told.effects.len(), 1, "{told:?}");
        assert!(told.overheads[0].is_some_and(|it| it < LITTLE), "{told:?}");
    }
}

/// The messages of attempts that begin.
#[derive(Default)]
struct Messages(Mutex<Vec<Vec<u8>>>);

impl Observer for Messages {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}

    fn observe_message(&self, _pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        if let Event::Granted { .. } = event {
            let mut messages = self.0.lock().expect("no panic");
            messages.push(origin.payload.to_vec());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_gets_the_message_that_an_event_is_about() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    let messages = Arc::new(Messages::default());
    worker.add_observer(messages.clone());
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 1);
    let messages = messages.0.lock().expect("no panic").clone();
    assert_eq!(messages.len(), 1);
    let text = String::from_utf8_lossy(&messages[0]);
    assert!(text.contains("\"a\""), "{text}");
}
