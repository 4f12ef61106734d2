//! Several batches at once: side by side, in order where that matters, and each with its own end.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::StateKind;
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::fault::{Fault, Method};
use crate::world::message::{Message, member};
use crate::world::scripted::{Act, OneByOne, Scripted, not_applied};
use crate::world::sink::Span;
use crate::world::{KEYED, PARK, REPEAT, World};

const STEP: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

/// The most calls that were under way at once.
fn most_at_once(spans: &[Span]) -> usize {
    let open_at = |at: Duration| {
        let is_open = |span: &&Span| span.began <= at && span.ended.is_none_or(|end| end > at);
        spans.iter().filter(is_open).count()
    };
    let began = spans.iter().map(|span| span.began);
    began.map(open_at).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn batches_run_side_by_side_and_each_message_once() {
    let world = World::new();
    let broker = broker_with_many(&world, 400);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 20;
    worker.feed.at_most = 10;
    worker.feed.pause = STEP;
    let plan = std::sync::Arc::clone(&worker.plan);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, STEP));
    let summary = worker.bulk(OneByOne(effect), PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 400);
    assert_eq!(broker.acknowledged(), 400);
    for key in many(400) {
        assert_eq!(world.sink.applied(&key), 1, "{key}");
    }
    // Within a batch this effect makes one call after the other.
    let at_once = most_at_once(&world.sink.spans());
    assert!((2..=4).contains(&at_once), "{at_once} batches at once");
    let largest = plan.largest(Method::Claim);
    assert!(largest <= 20, "{largest} in one batch");
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_about_a_batch_while_it_is_at_another_one() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 10;
    worker.feed.at_most = 10;
    let plan = std::sync::Arc::clone(&worker.plan);
    plan.nth(Method::Claim, 1, Fault::DelayBefore(SECOND));
    let effect = Scripted::new(&world, &worker.crash, []);
    let run = worker.bulk(OneByOne(effect), PARK);
    let (run, early) = tokio::join!(run, async {
        tokio::time::sleep(SECOND / 2).await;
        (plan.calls(Method::Claim), world.sink.all().len())
    });
    assert_eq!(early, (2, 0), "that one, and the one that comes next");
    assert_eq!(run.summary().of(Fate::Applied), 100);
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_when_a_shutdown_was_requested_does_not_begin() {
    // Within the patience, and beyond it.
    for patience in [SECOND * 5, SECOND] {
        let world = World::new();
        let broker = broker_with_many(&world, 40);
        let mut worker = world.worker(&broker);
        worker.pipeline.batch = 10;
        worker.feed.at_most = 10;
        worker.patience = patience;
        for nth in 1..=2 {
            worker
                .plan
                .nth(Method::Claim, nth, Fault::DelayAfter(SECOND * 3));
        }
        let stop = worker.stop.clone();
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = worker.bulk(OneByOne(effect), PARK);
        let (run, ()) = tokio::join!(run, stop.after(SECOND));

        let summary = run.summary();
        assert_eq!(
            summary.deliveries(),
            summary.of(Fate::Released),
            "{summary:?}"
        );
        assert!(world.sink.spans().is_empty(), "nothing has begun");
        let released = world.in_state(StateKind::Released).await;
        assert_eq!(released.len(), 20, "both batches");
        for key in released {
            let record = world.record(&key).await.expect("a record");
            assert_eq!(record.attempts, 0, "{key}: no failed attempt");
        }
        assert_eq!(broker.unacknowledged(), 40);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_order_key_are_never_in_two_batches_at_once() {
    let world = World::new();
    let broker = world.broker();
    for number in 0..12 {
        for account in ["red", "green", "blue", "grey", "pink"] {
            let members = format!("\"account\":\"{account}\",\"number\":{number}");
            broker.publish(Message::with(&format!("{account}-{number}"), &members));
        }
    }
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 3;
    worker.feed.at_most = 4;
    worker.pipeline.order = Some(
        "json:/account"
            .parse()
            .expect("the selector is well formed"),
    );
    // The first ones are tried again, and no message behind them passes.
    let refused = std::iter::repeat_n(Act::Say(not_applied()), 7);
    let slow = std::iter::repeat_n(Act::Slow(STEP, STEP), 60);
    let effect = Scripted::new(&world, &worker.crash, refused.chain(slow));
    let summary = worker.bulk(OneByOne(effect), REPEAT).await.summary();

    assert_eq!(summary.of(Fate::Applied), 60);
    let spans = world.sink.spans();
    assert!(most_at_once(&spans) > 1, "batches run side by side");
    let mut lanes = BTreeMap::<String, Vec<Span>>::new();
    for span in spans {
        let account = member(&span.payload, "account").expect("every message has an account");
        lanes.entry(account).or_default().push(span);
    }
    for (account, spans) in &lanes {
        assert_eq!(most_at_once(spans), 1, "{account} never overlaps");
        let numbers = spans.iter().map(|span| member(&span.payload, "number"));
        let mut numbers: Vec<_> = numbers.collect();
        numbers.dedup();
        let in_order: Vec<_> = (0..12).map(|number| Some(number.to_string())).collect();
        assert_eq!(numbers, in_order, "{account} runs in source order");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_panics_is_in_doubt_and_the_others_go_on() {
    let world = World::new();
    let broker = broker_with_many(&world, 40);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 10;
    worker.feed.at_most = 10;
    let effect = Scripted::new(&world, &worker.crash, [Act::Panic]);
    let summary = worker.bulk(OneByOne(effect), PARK).await.summary();

    let (applied, doubts) = (summary.of(Fate::Applied), summary.of(Fate::InDoubt));
    assert_eq!(applied + doubts, 40, "{summary:?}");
    assert!((1..=10).contains(&doubts), "one batch, not {doubts}");
    let in_doubt = world.in_state(StateKind::InDoubt).await;
    assert_eq!(in_doubt.len() as u64, doubts);
    assert_eq!(broker.acknowledged(), 40);
    assert_eq!(world.parked().await.len() as u64, doubts, "all are listed");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_before_its_settlement_is_kept() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let worker = world.worker(&broker);
    worker.plan.outage(Method::Settle, SECOND * 10, Fault::Cut);
    let effect = Scripted::new(&world, &worker.crash, []);
    let run = worker.bulk(OneByOne(effect), KEYED);
    let (run, early) = tokio::join!(run, async {
        tokio::time::sleep(SECOND * 5).await;
        broker.acknowledged()
    });
    assert_eq!(early, 0, "the store has not heard of it");
    assert_eq!(run.summary().of(Fate::Applied), 2);
    assert_eq!(broker.acknowledged(), 2);
    assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 1));
}
