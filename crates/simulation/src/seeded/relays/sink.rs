//! The sink of a process: slow, away, or its answers are lost; and what was handed over arrives whatever becomes of the
//! process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::outbox::OutboxId;
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::scene::{PUBLICATION, Scene};
use crate::seeded::course::secs;

pub(super) struct SimulatedSink {
    scene: Arc<Scene>,
    process: u64,
    life: u64,
    calls: AtomicU64,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Taken,
    /// Taken, and its answer is lost.
    Unanswered,
    Away,
    Fails,
    Poison,
}

impl SimulatedSink {
    pub(super) fn new(scene: &Arc<Scene>, process: u64, life: u64) -> Self {
        Self {
            scene: Arc::clone(scene),
            process,
            life,
            calls: AtomicU64::new(0),
        }
    }

    /// The fates of a batch, the time that each message takes, and the time of the answer.
    fn decided(&self, ids: &[u128]) -> (Vec<Fate>, Duration, Duration) {
        let scene = &self.scene;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut dice = scene
            .course
            .dice(&[PUBLICATION, self.process, self.life, call]);
        let is_faulty = scene.course.is_faulty();
        let is_outage = is_faulty && dice.one_in(12);
        let fate = |id: &u128, dice: &mut crate::seeded::dice::Dice| {
            let roll = dice.roll(40);
            if scene.plan.poison.contains(id) {
                Fate::Poison
            } else if is_outage {
                if roll < 20 {
                    Fate::Unanswered
                } else {
                    Fate::Away
                }
            } else if !is_faulty {
                Fate::Taken
            } else {
                match roll {
                    0 => Fate::Unanswered,
                    1..4 => Fate::Fails,
                    _ => Fate::Taken,
                }
            }
        };
        let fates: Vec<Fate> = ids.iter().map(|id| fate(id, &mut dice)).collect();
        if is_outage {
            scene.course.blow("sink away");
        } else if fates.iter().any(|it| matches!(it, Fate::Unanswered)) {
            scene.course.blow("answer of the sink lost");
        }
        let each = dice.between(Duration::ZERO, Duration::from_millis(60));
        // Longer than a lease, now and then.
        let longest = if dice.one_in(10) {
            secs(25)
        } else {
            Duration::from_millis(300)
        };
        (fates, each, dice.between(Duration::ZERO, longest))
    }
}

impl Sink for SimulatedSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let id = |it: &Publication| it.id.parse::<OutboxId>().map(OutboxId::as_u128);
        let Ok(ids) = batch.iter().map(id).collect::<Result<Vec<u128>, _>>() else {
            self.scene
                .course
                .violation("published under another id".to_owned());
            return batch.iter().map(|_| Ok(())).collect();
        };
        let (fates, each, late) = self.decided(&ids);
        let (told, answered) = oneshot::channel();
        let arriving = arrive(
            Arc::clone(&self.scene),
            ids.clone(),
            fates.clone(),
            each,
            late,
            told,
        );
        self.scene.course.begin(arriving);
        // Whoever is killed meanwhile does not stop what is under way.
        let _ = answered.await;
        let taken = ids.iter().zip(&fates);
        let taken = taken.filter(|(_, fate)| matches!(fate, Fate::Taken));
        let taken = taken.map(|(id, _)| *id);
        let mut state = self.scene.state();
        let life = state.answered.entry((self.process, self.life));
        life.or_default().extend(taken);
        drop(state);
        fates.iter().map(|fate| answer(*fate)).collect()
    }
}

async fn arrive(
    scene: Arc<Scene>,
    ids: Vec<u128>,
    fates: Vec<Fate>,
    each: Duration,
    late: Duration,
    told: oneshot::Sender<()>,
) {
    for (id, fate) in ids.into_iter().zip(fates) {
        sleep(each).await;
        if let Fate::Taken | Fate::Unanswered = fate {
            let is_committed = scene.state().committed.contains_key(&id);
            if !is_committed {
                scene
                    .course
                    .violation(format!("message {id} was published, and not committed"));
            }
            scene.course.log(format_args!("published {id}"));
            scene.state().topic.push(id);
        }
    }
    sleep(late).await;
    // Nobody may wait any more.
    let _ = told.send(());
}

fn answer(fate: Fate) -> Result<()> {
    let (kind, words) = match fate {
        Fate::Taken => return Ok(()),
        Fate::Unanswered => (ErrorKind::Timeout, "no answer"),
        Fate::Away => (ErrorKind::Unavailable, "away"),
        Fate::Fails => (ErrorKind::Internal, "failed"),
        Fate::Poison => (ErrorKind::InvalidInput, "too large"),
    };
    Err(Error::new(kind, words))
}
