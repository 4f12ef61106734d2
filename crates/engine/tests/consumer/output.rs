//! An output file is cut back to the length that the store recorded.

use std::collections::VecDeque;

use semel_core::{Code, Store};
use semel_engine::summary::Fate;
use semel_engine::sweep::sweep_once;

use super::{broker_with, broker_with_many, many};
use crate::world::World;
use crate::world::fault::{Fault, Method};
use crate::world::file::{Append, Disk, MemoryFile};
use crate::world::worker::{Run, Worker};

fn file(disk: &Disk, worker: &Worker, acts: impl Into<VecDeque<Append>>) -> MemoryFile {
    MemoryFile {
        name: "out",
        disk: disk.clone(),
        crash: worker.crash.clone(),
        acts: acts.into(),
    }
}

fn lines_of(keys: &[String]) -> Vec<String> {
    keys.iter()
        .map(|key| format!("{{\"key\":\"{key}\"}}"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_file_holds_the_first_occurrences_in_source_order() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "a", "c", "b"]);
    let disk = Disk::default();
    let worker = world.worker(&broker);
    let output = file(&disk, &worker, []);
    let summary = worker.output(output).await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (3, 2)
    );
    let expected = lines_of(&["a", "b", "c"].map(str::to_owned));
    assert_eq!(disk.lines(), (expected, String::new()));
}

/// A crash or a cut at any batch, at any moment: the file is exact in the end.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_leaves_the_file_exact() {
    let acts = [
        Append::DieBefore,
        Append::DieHalf,
        Append::DieWhole,
        Append::DieKnowing,
        Append::FailHalf,
    ];
    for act in acts {
        for nth in 0..3 {
            let world = World::new();
            let broker = broker_with_many(&world, 40);
            let disk = Disk::default();
            let worker = world.worker(&broker);
            let mut script = vec![Append::Slow(std::time::Duration::ZERO); nth];
            script.push(act);
            let output = file(&disk, &worker, script);
            let run = worker.output(output).await;
            assert_eq!(
                matches!(run, Run::Crashed),
                !matches!(act, Append::FailHalf)
            );
            let worker = world.worker(&broker);
            let output = file(&disk, &worker, []);
            worker.output(output).await.summary();

            let (mut lines, rest) = disk.lines();
            assert_eq!(rest, "", "{act:?} at append {nth}");
            lines.sort();
            assert_eq!(lines, lines_of(&many(40)), "{act:?} at append {nth}");
            assert_eq!(broker.unacknowledged(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_checkpoint_leaves_the_file_exact() {
    for fault in [
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::Cut,
        Fault::LoseAnswer,
        Fault::Items,
    ] {
        for nth in 1..=3 {
            let world = World::new();
            let broker = broker_with_many(&world, 40);
            let disk = Disk::default();
            let worker = world.worker(&broker);
            worker.plan.nth(Method::SettleWith, nth, fault);
            let output = file(&disk, &worker, []);
            worker.output(output).await;
            let worker = world.worker(&broker);
            let output = file(&disk, &worker, []);
            worker.output(output).await.summary();

            let (mut lines, rest) = disk.lines();
            assert_eq!(rest, "", "{fault:?} at checkpoint {nth}");
            lines.sort();
            assert_eq!(lines, lines_of(&many(40)), "{fault:?} at checkpoint {nth}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_file_held_before_stays_and_what_others_added_later_goes() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let disk = Disk::default();
    disk.write(b"a header\n");
    let worker = world.worker(&broker);
    let output = file(&disk, &worker, []);
    worker.output(output).await.summary();
    disk.write(b"half a li");
    broker.publish(crate::world::message::Message::of("b"));
    let worker = world.worker(&broker);
    let output = file(&disk, &worker, []);
    worker.output(output).await.summary();

    let mut expected = vec!["a header".to_owned()];
    expected.extend(lines_of(&["a", "b"].map(str::to_owned)));
    assert_eq!(disk.lines(), (expected, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_file_shorter_than_its_mark_is_refused() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let disk = Disk::default();
    let worker = world.worker(&broker);
    let output = file(&disk, &worker, []);
    worker.output(output).await.summary();

    broker.publish(crate::world::message::Message::of("b"));
    let worker = world.worker(&broker);
    let output = file(&Disk::default(), &worker, []);
    let error = worker.output(output).await.error();
    assert_eq!(error.code(), Code::TargetShortened);
    assert_eq!(broker.unacknowledged(), 1);
}

/// One lost claim must not take its batch with it.
#[tokio::test(start_paused = true)]
async fn a_batch_with_one_lost_claim_goes_in_without_it() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "c"]);
    let disk = Disk::default();
    let worker = world.worker(&broker);
    let away = crate::world::LEASE * 2;
    let output = file(&disk, &worker, [Append::Slow(away)]);
    let other = crate::world::broker::Broker::copy(&broker_with(&world, &["b"]));
    let second = world.worker(&other);
    let elsewhere = Disk::default();
    let second_output = MemoryFile {
        name: "elsewhere",
        ..file(&elsewhere, &second, [])
    };
    let (run, taken) = tokio::join!(worker.output(output), async {
        tokio::time::sleep(crate::world::LEASE + std::time::Duration::from_secs(1)).await;
        second.output(second_output).await
    });

    let summary = run.summary();
    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (2, 1)
    );
    assert_eq!(summary.fenced, 1);
    assert_eq!(taken.summary().takeovers, 1);
    assert_eq!(disk.lines().0, lines_of(&["a", "c"].map(str::to_owned)));
    assert_eq!(elsewhere.lines().0, lines_of(&["b".to_owned()]));
    let stats = world.store.stats().await.expect("the memory store counts");
    assert_eq!(stats.records, [0, 0, 0, 3, 0, 0]);
    assert_eq!(
        sweep_once(&world.store).await.ok(),
        Some((0, 0)),
        "nothing is old yet"
    );
}

/// The answer to the completion is lost, and the repeated call is refused: the record cannot be
/// read, or has gone meanwhile. The recorded messages are in the file all the same.
#[tokio::test(start_paused = true)]
async fn what_was_recorded_stays_in_the_file_when_an_answer_is_lost_and_the_next_is_a_refusal() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let disk = Disk::default();
    let worker = world.worker(&broker);
    worker
        .plan
        .nth(Method::SettleWith, 1, Fault::LoseAnswer)
        .nth(Method::SettleWith, 2, Fault::Items);
    let output = file(&disk, &worker, []);
    let summary = worker.output(output).await.summary();

    assert_eq!(summary.of(Fate::Applied), 2);
    let expected = lines_of(&["a", "b"].map(str::to_owned));
    assert_eq!(disk.lines(), (expected, String::new()));
}
