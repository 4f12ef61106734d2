//! Effects in the store's own transaction.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::transactional::Value;
use semel_core::select::{Selected, View};
use semel_core::{StateKind, Unusable};
use semel_engine::pipeline::Bind;
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::World;
use crate::world::fault::{Fault, Method};
use crate::world::message::Message;
use crate::world::tables::Statement;
use crate::world::worker::Run;

#[tokio::test(start_paused = true)]
async fn duplicates_in_one_transaction_have_one_row() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "a", "a"]);
    let summary = world.worker(&broker).transaction().await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (2, 2)
    );
    assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failing_statement_is_tried_again_and_leaves_nothing_behind() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    world.tables.script([Statement::Fail]);
    let summary = world.worker(&broker).transaction().await.summary();

    assert_eq!(summary.of(Fate::Applied), 2);
    assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 1));
    assert!(
        summary.elapsed >= Duration::from_millis(200),
        "after its backoff"
    );
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_statement_is_dead_and_its_message_kept() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    world.tables.script([Statement::Refuse]);
    let summary = world.worker(&broker).transaction().await.summary();

    assert_eq!((summary.of(Fate::Dead), summary.of(Fate::Applied)), (1, 1));
    assert_eq!(world.in_state(StateKind::Dead).await, ["a"]);
    assert_eq!(
        &*world.parked().await[0].detail,
        "a row violates a constraint"
    );
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn statements_that_keep_failing_end_dead_after_their_attempts() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    world.tables.script([Statement::Fail; 9]);
    let summary = world.worker(&broker).transaction().await.summary();

    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(5)
    );
    assert_eq!(world.sink.applied("a"), 0);
}

/// A crash or a cut at any of the commits: every row is there once.
#[tokio::test(start_paused = true)]
async fn every_commit_may_crash_or_be_cut() {
    for fault in [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::Cut,
        Fault::LoseAnswer,
    ] {
        for nth in 1..=3 {
            let world = World::new();
            let broker = broker_with_many(&world, 40);
            let worker = world.worker(&broker);
            worker.plan.nth(Method::Apply, nth, fault);
            let run = worker.transaction().await;
            let crashed = matches!(run, Run::Crashed);
            assert_eq!(
                crashed,
                matches!(fault, Fault::CrashBefore | Fault::CrashAfter)
            );
            world.worker(&broker).transaction().await.summary();
            for key in many(40) {
                assert_eq!(
                    world.sink.applied(&key),
                    1,
                    "{fault:?} at commit {nth}: {key}"
                );
            }
            assert_eq!(broker.unacknowledged(), 0);
        }
    }
}

/// Binds `amount`, which must be there.
struct Amount;

impl Bind for Amount {
    fn values(&self, view: &View<'_>) -> Result<Vec<Value>, Unusable> {
        match view.select(&"json:/amount".parse().expect("the selector is well formed"))? {
            Some(Selected::Number(amount)) => Ok(vec![Value::Number(amount.into())]),
            _ => Err(Unusable::KeyMissing {
                at: "json:/amount".into(),
            }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_values_cannot_be_bound_is_quarantined() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"amount\":1"));
    broker.publish(Message::of("b"));
    let mut worker = world.worker(&broker);
    worker.pipeline.bind = Some(Arc::new(Amount));
    let summary = worker.transaction().await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Quarantined)),
        (1, 1)
    );
    assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 0));
    assert_eq!(world.tables.bound(), [vec![Value::Number("1".into())]]);
}

/// An answer that is lost is asked for again with the same values.
#[tokio::test(start_paused = true)]
async fn a_retried_transaction_binds_its_values_again() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"amount\":1"));
    world.tables.script([Statement::Fail]);
    let mut worker = world.worker(&broker);
    worker.pipeline.bind = Some(Arc::new(Amount));
    worker.transaction().await.summary();
    assert_eq!(
        world.tables.bound(),
        vec![vec![Value::Number("1".into())]; 2]
    );
}
