//! Relays of an outbox in a seeded world: transactions that commit late or are undone, relays that are killed between any
//! two steps, and a database and a sink that are slow, away, or whose answers are lost.
//!
//! The relays are the engine's own; the outbox, its leases and the sink are doubles.

mod judge;
mod outbox;
mod scene;
mod sink;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::outbox::RelayName;
use semel_core::{Backoff, Clock};
use semel_outbox::{Event, Observer, Recall, Relay, Settings};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::seeded::course::{played, secs};
use crate::seeded::scenario::Told;

use self::outbox::SimulatedOutbox;
use self::scene::Scene;
use self::sink::SimulatedSink;

/// Plays the story of a seed: a phase with faults, and one without them in which everything is to come to an end.
pub fn relayed(seed: u64) -> Told {
    played(tell(seed))
}

async fn tell(seed: u64) -> Told {
    let scene = Scene::new(seed);
    let mut tasks = JoinSet::new();
    for transaction in 0..scene.plan.transactions.len() {
        tasks.spawn(write(Arc::clone(&scene), transaction));
    }
    let (stop, stopped) = watch::channel(false);
    for process in 0..scene.plan.processes {
        tasks.spawn(live(Arc::clone(&scene), process, stopped.clone()));
    }
    sleep(scene.plan.safety).await;
    scene.course.calm();
    let began = scene.course.now();
    while !scene.is_done() {
        if scene.course.now() > began + LIVENESS {
            scene
                .course
                .violation("not all is published long after the last fault".to_owned());
            break;
        }
        sleep(secs(1)).await;
    }
    // Whatever is still on its way to the sink arrives.
    sleep(secs(60)).await;
    stop.send_replace(true);
    let ended = timeout(secs(120), async {
        while let Some(joined) = tasks.join_next().await {
            if joined.is_err() {
                scene.course.violation("a relay panicked".to_owned());
            }
        }
    });
    if ended.await.is_err() {
        scene.course.violation("the relays do not end".to_owned());
    }
    scene.course.end().await;
    judge::judge(&scene)
}

/// Writes the messages of a transaction, and commits it or does not.
async fn write(scene: Arc<Scene>, transaction: usize) {
    let plan = &scene.plan.transactions[transaction];
    sleep(plan.begins).await;
    scene.insert(transaction);
    sleep(plan.lasts).await;
    scene.end(transaction);
}

/// Lives the lives of a process, each of which ends with a kill, until it is asked to stop.
async fn live(scene: Arc<Scene>, process: u64, mut stop: watch::Receiver<bool>) {
    for life in 0.. {
        let mut running = JoinSet::new();
        running.spawn(relay(&scene, process, life, stop.clone()).run());
        let killed = async {
            match scene.next_kill(process, life) {
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = running.join_next() => {
                match ended {
                    Some(Ok(Ok(_))) if *stop.borrow() => return,
                    other => scene.course.violation(format!("a relay ended by itself: {other:?}")),
                }
                return;
            }
            () = killed => {}
        }
        drop(running);
        scene.killed(process, life);
        sleep(scene.rest(process, life)).await;
        if *stop.borrow_and_update() {
            return;
        }
    }
}

fn relay(
    scene: &Arc<Scene>,
    process: u64,
    life: u64,
    stop: watch::Receiver<bool>,
) -> Relay<SimulatedOutbox, SimulatedSink> {
    Relay {
        name: RelayName {
            name: "out".into(),
            stream: "orders".into(),
            sink: "a double".into(),
            process: format!("{process} {life}").into(),
        },
        settings: Settings {
            lease: scene.plan.lease,
            attempts: NonZeroU32::MIN.saturating_add(9),
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: secs(60),
            },
            keep: None,
            patience: secs(10),
        },
        outbox: SimulatedOutbox::new(scene, process, life),
        sink: SimulatedSink::new(scene, process, life),
        clock: Arc::clone(&scene.course) as Arc<dyn Clock>,
        observer: Arc::new(Watcher(Arc::clone(scene))),
        stop,
        recall: watch::channel(Recall::Not).1,
    }
}

/// Notes what relays tell.
struct Watcher(Arc<Scene>);

impl Observer for Watcher {
    fn observe(&self, _: &str, event: &Event<'_>) {
        if let Event::Fenced { .. } = event {
            self.0.fenced();
        }
        self.0.course.log(format_args!("{event:?}"));
    }
}

/// The hard cases of these stories.
pub const RELAYED_CASES: [&str; 4] = [
    scene::DEAD,
    scene::LATE_COMMIT,
    scene::LOST_LEASE,
    scene::UNRECORDED,
];

/// The time within which everything is published once nothing goes wrong any more: longer than a lease and the longest
/// pause.
const LIVENESS: Duration = Duration::from_secs(900);
