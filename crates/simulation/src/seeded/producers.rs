//! Producers in a seeded world: processes that are killed between any two steps and open the producer again, one beside
//! another, an operator who freezes it, and a journal and a sink that are slow, away, or whose answers are lost. The sink
//! is a broker that remembers nothing, or the gate of an ingest source.
//!
//! The producer, its ledger and the gate are Semel's own; what is between them are doubles.

mod journal;
mod judge;
mod scene;
mod sink;

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{InputMark, Opening, ProducerMessage};
use semel_core::{Clock, Error, ErrorKind, Result};
use semel_outbox::producer::{Producer, ProducerEvent, ProducerObserver, ProducerSettings};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::seeded::course::{played, secs};
use crate::seeded::scenario::Told;

use self::journal::SimulatedJournal;
use self::scene::{DIGEST, STREAM, Scene};
use self::sink::SimulatedSink;

/// Plays the story of a seed: a phase with faults, and one without them in which everything is to come to an end.
pub fn published(seed: u64) -> Told {
    played(tell(seed))
}

async fn tell(seed: u64) -> Told {
    let scene = Scene::new(seed);
    let mut tasks = JoinSet::new();
    for process in 0..scene.plan.processes {
        tasks.spawn(live(Arc::clone(&scene), process));
    }
    tasks.spawn(operate(Arc::clone(&scene)));
    sleep(scene.plan.safety).await;
    scene.course.calm();
    let began = scene.course.now();
    while !scene.is_done().await {
        if scene.course.now() > began + LIVENESS {
            let what = "not all is published long after the last fault";
            scene.course.violation(what.to_owned());
            break;
        }
        sleep(secs(1)).await;
    }
    scene.finish();
    // Whatever is still on its way to the sink arrives.
    sleep(secs(60)).await;
    let ended = timeout(secs(120), async {
        while let Some(joined) = tasks.join_next().await {
            if joined.is_err() {
                scene.course.violation("a producer panicked".to_owned());
            }
        }
    });
    if ended.await.is_err() {
        scene
            .course
            .violation("the producers do not end".to_owned());
    }
    scene.course.end().await;
    judge::judge(&scene).await
}

/// Lives the lives of a process, each of which ends with a kill, a later opening, or the end of the input.
async fn live(scene: Arc<Scene>, process: u64) {
    for life in 0.. {
        let mut running = JoinSet::new();
        running.spawn(publish(Arc::clone(&scene), process, life));
        let killed = async {
            match scene.next_kill(process, life) {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = running.join_next() => match ended {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) if may_end(&error) => {
                    scene.course.log(format_args!("{process} {life}: {error}"));
                }
                other => scene.course.violation(format!("a producer ended by itself: {other:?}")),
            },
            () = killed => {
                drop(running);
                scene.killed(process, life).await;
            }
        }
        // One process alone goes on once nothing goes wrong any more.
        if scene.is_finished() || (process > 0 && !scene.course.is_faulty()) {
            return;
        }
        sleep(scene.rest(process, life)).await;
    }
}

/// Returns whether a process may end with this error: there is a later opening, or the journal is away.
fn may_end(error: &Error) -> bool {
    use ErrorKind::{ClaimLost, Timeout, Unavailable};
    matches!(error.kind(), ClaimLost | Unavailable | Timeout)
}

/// Publishes what the journal does not know of the input, as a program does that was killed and runs again.
async fn publish(scene: Arc<Scene>, process: u64, life: u64) -> Result<()> {
    let mut dice = scene.course.dice(&[scene::PACE, process, life]);
    let opening = Opening {
        name: scene::name(),
        stream: STREAM.into(),
        target: "a double".into(),
        chance: [7; 8],
    };
    let settings = ProducerSettings {
        is_sent_in_waves: scene.plan.is_in_waves,
        broker_window: Some(Duration::ZERO),
    };
    let producer = Producer::open(
        SimulatedJournal::new(&scene, process, life),
        SimulatedSink::new(&scene, process, life),
        &opening,
        settings,
        Arc::clone(&scene.course) as Arc<dyn Clock>,
        Arc::new(Watcher(Arc::clone(&scene))),
    )
    .await?;
    let incarnation = producer.incarnation().clone();
    scene.opened(incarnation.epoch);
    // Another calls number than the producer's own.
    let journal = SimulatedJournal::new(&scene, process + BESIDE, life);
    let mark = journal.input(&incarnation, STREAM, &DIGEST).await?;
    let mut done = mark.map_or(0, |mark| mark.rows);
    while done < scene.plan.rows {
        let end = (done + 1 + dice.roll(20)).min(scene.plan.rows);
        let messages = (done..end).map(message).collect();
        let mark = InputMark {
            digest: DIGEST,
            rows: end,
            bytes: end,
            is_whole: end == scene.plan.rows,
        };
        let mut submission = producer.submit(messages, Some(mark)).await?;
        if dice.one_in(4) {
            let receipts = submission.confirmed().await?;
            if receipts.len() as u64 != end - done {
                let why = format!("{} receipts for {} messages", receipts.len(), end - done);
                return Err(Error::new(ErrorKind::Internal, why));
            }
        }
        done = end;
        sleep(dice.between(Duration::ZERO, secs(6))).await;
    }
    producer.close().await.map(drop)
}

/// Carries out the orders of an operator.
async fn operate(scene: Arc<Scene>) {
    for (at, order) in &scene.plan.orders {
        sleep(at.saturating_sub(scene.course.now())).await;
        scene.order(*order).await;
    }
}

fn message(row: u64) -> ProducerMessage {
    ProducerMessage {
        order: Some((row % scene::KEYS).to_string().into()),
        ..ProducerMessage::new(row.to_string())
    }
}

/// Notes what producers tell.
struct Watcher(Arc<Scene>);

impl ProducerObserver for Watcher {
    fn observe(&self, event: &ProducerEvent<'_>) {
        self.0.course.log(format_args!("{event:?}"));
    }
}

/// The hard cases of these stories.
pub const PUBLISHED_CASES: [&str; 5] = [
    scene::FENCED,
    scene::UNCONFIRMED,
    scene::KEPT,
    scene::GAP,
    scene::KNOWN,
];

/// The time within which everything is published once nothing goes wrong any more.
const LIVENESS: Duration = Duration::from_secs(1_800);
/// Added to the number of a process for the calls that its program makes itself.
const BESIDE: u64 = 1_000;
