//! Plays one cell: a worker with one fault, then workers without any until nothing is left to do.

use std::time::Duration;

use semel_core::{Clock, StateKind};
use semel_engine::sweep::sweep_once;

use super::expected::{Checked, Seen};
use crate::world::broker::{Broker, OnAcknowledge, OnFetch};
use crate::world::faulty::{Fault, Method};
use crate::world::file::Append;
use crate::world::message::Message;
use crate::world::scripted::{Act, maybe_applied};
use crate::world::stage::{Cue, Kind, Stage};
use crate::world::worker::{FATES, Run};
use crate::world::{LEASE, WINDOW};

/// What befalls the first worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scene {
    HandedOver,
    Unusable,
    Claim(Fault),
    Effect(Moment),
    Settle(Fault),
    Acknowledge(OnAcknowledge),
    Again,
    AgainLate { gate: bool },
    Zombie(Pause),
    ClaimOutage(Fault),
    SettleOutage(Fault),
}

/// A moment of the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// Nothing was sent; crash.
    Before,
    /// On its way, lands this much later; crash.
    InFlight(Duration),
    /// Applied, the answer was lost; cut.
    Cut,
    /// Applied, nobody knows; crash.
    Applied,
    /// Applied and known; crash.
    Known,
}

/// Where a worker stands still until a second one has acted on the same message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Unclaimed { gate: bool },
    Claimed,
    Started,
    Committing,
    Calling,
    Acknowledging,
    Renewing,
}

/// Plays `scene` and tells what is left when everything has settled.
pub(crate) async fn play(kind: Kind, scene: Scene) -> Seen {
    let play = Play {
        stage: Stage::new(kind),
    };
    let stage = &play.stage;
    let mut fates = [0; FATES.len()];
    let has_gate = !matches!(
        scene,
        Scene::AgainLate { gate: false } | Scene::Zombie(Pause::Unclaimed { gate: false })
    );
    let first = play.message(has_gate);
    let broker = stage.world.broker();
    match scene {
        Scene::Unusable => broker.publish(Message::raw("{\"note\":\"no key\"}")),
        _ => broker.publish(first.clone()),
    };
    if let Scene::Zombie(pause) = scene {
        let copy = broker.copy();
        let second = async {
            tokio::time::sleep(play.second_begins(pause)).await;
            let run = stage
                .run(stage.world.worker(&copy), "second", Cue::default())
                .await;
            if let Pause::Unclaimed { .. } = pause {
                tokio::time::sleep(WINDOW.duration() * 2).await;
                sweep_once(&stage.world.store)
                    .await
                    .expect("the memory store sweeps");
            }
            run
        };
        let (zombie, second) = tokio::join!(play.zombie(&broker, pause), second);
        count(&mut fates, &zombie);
        count(&mut fates, &second);
        copy.check();
        assert_eq!(copy.unacknowledged(), 0, "the second worker finished");
    } else {
        let run = play.first(&broker, scene).await;
        count(&mut fates, &run);
        match scene {
            Scene::Again => {
                broker.publish(first);
            }
            Scene::AgainLate { .. } => {
                tokio::time::sleep(WINDOW.duration() * 2).await;
                sweep_once(&stage.world.store)
                    .await
                    .expect("the memory store sweeps");
                assert_eq!(stage.world.state(KEY).await, None, "the record is gone");
                broker.publish(first);
            }
            _ => {}
        }
    }
    while broker.unacknowledged() > 0 {
        let run = stage
            .run(stage.world.worker(&broker), "first", Cue::default())
            .await;
        count(&mut fates, &run);
    }
    // Whatever is still on its way lands.
    tokio::time::sleep(LEASE * 4).await;
    broker.check();
    play.seen(&fates, &broker).await
}

/// The stage, with one message and one fault.
struct Play {
    stage: Stage,
}

impl Play {
    fn message(&self, has_gate: bool) -> Message {
        let message = match self.stage.kind {
            Kind::Gated => Message::with(KEY, "\"entity\":\"e\",\"version\":7"),
            _ => Message::of(KEY),
        };
        if has_gate {
            message.born(self.stage.world.clock.now())
        } else {
            message
        }
    }

    /// The worker with the fault.
    async fn first(&self, broker: &Broker, scene: Scene) -> Run {
        let mut worker = self.stage.world.worker(broker);
        let (claim, settle) = self.stage.methods();
        let minute = Duration::from_secs(60);
        let mut cue = Cue::default();
        match scene {
            Scene::HandedOver => worker.feed.on_fetch = Some(OnFetch::Crash),
            Scene::Claim(fault) => drop(worker.plan.nth(claim, 1, fault)),
            Scene::Settle(fault) => drop(worker.plan.nth(settle, 1, fault)),
            Scene::ClaimOutage(fault) => drop(worker.plan.outage(claim, minute, fault)),
            Scene::SettleOutage(fault) => drop(worker.plan.outage(settle, minute, fault)),
            Scene::Effect(moment) if self.stage.kind == Kind::Transaction => {
                worker.plan.nth(Method::Apply, 1, moment.of_transaction());
            }
            Scene::Effect(moment) => cue = moment.cue(),
            Scene::Acknowledge(on_acknowledge) => {
                worker.feed.on_acknowledge = Some(on_acknowledge);
            }
            Scene::Unusable | Scene::Again | Scene::AgainLate { .. } => {}
            Scene::Zombie(_) => unreachable!("a zombie has its own play"),
        }
        self.stage.run(worker, "first", cue).await
    }

    /// The worker that stands still.
    async fn zombie(&self, broker: &Broker, pause: Pause) -> Run {
        let mut worker = self.stage.world.worker(broker);
        let (claim, settle) = self.stage.methods();
        let (long, past) = (LEASE * 2, LEASE + LEASE / 3);
        let mut cue = Cue::default();
        match pause {
            Pause::Unclaimed { .. } => {
                let eviction = Fault::DelayBefore(WINDOW.duration() * 3);
                worker.plan.nth(claim, 1, eviction);
            }
            Pause::Claimed => drop(worker.plan.nth(claim, 1, Fault::DelayAfter(long))),
            Pause::Committing if self.stage.kind == Kind::Output => {
                cue.appends.push(Append::Slow(long));
            }
            Pause::Committing => drop(worker.plan.nth(settle, 1, Fault::DelayBefore(long))),
            Pause::Started => {
                worker.plan.nth(Method::Renew, 1, Fault::DelayBefore(long));
                cue.acts.push(Act::Slow(past, Duration::ZERO));
            }
            Pause::Calling => {
                worker.plan.nth(Method::Renew, 1, Fault::DelayBefore(long));
                cue.acts.push(Act::Slow(Duration::ZERO, past));
            }
            Pause::Renewing => {
                worker.plan.nth(Method::Renew, 1, Fault::DelayBefore(long));
                cue.acts.push(Act::Slow(LEASE * 3, Duration::ZERO));
            }
            Pause::Acknowledging => {
                worker.feed.on_acknowledge = Some(OnAcknowledge::Delay(long));
            }
        }
        self.stage.run(worker, "first", cue).await
    }

    /// When the second worker begins: at once, or when the zombie's lease is over.
    fn second_begins(&self, pause: Pause) -> Duration {
        match pause {
            Pause::Unclaimed { .. } => Duration::ZERO,
            Pause::Committing if self.stage.kind == Kind::Transaction => Duration::ZERO,
            _ => LEASE + Duration::from_secs(1),
        }
    }

    async fn seen(&self, fates: &[u64; FATES.len()], broker: &Broker) -> Seen {
        let counted = FATES
            .into_iter()
            .zip(*fates)
            .filter(|(_, count)| *count > 0);
        let record = self.stage.world.record(KEY).await;
        let state = record.as_ref().map(|record| record.state.kind());
        let mut listed: Vec<String> = self
            .stage
            .world
            .parked()
            .await
            .iter()
            .map(|parked| parked.reason.to_string())
            .collect();
        if !self.stage.world.repeated().await.is_empty() {
            listed.push("possible-repeat".to_owned());
        }
        let in_doubt = self.stage.world.in_state(StateKind::InDoubt).await;
        assert_eq!(
            !in_doubt.is_empty(),
            state == Some(StateKind::InDoubt),
            "doubts are listed"
        );
        Seen {
            effects: self.stage.effects(KEY),
            state,
            listed,
            fates: counted.collect(),
            unacknowledged: broker.unacknowledged(),
            attempts: Checked(record.map(|record| record.attempts)),
        }
    }
}

impl Moment {
    fn cue(self) -> Cue {
        let (act, append) = match self {
            Self::Before => (Act::DieBefore, Append::DieBefore),
            Self::InFlight(after) => (Act::DieInFlight(after), Append::DieHalf),
            Self::Cut => (Act::DoAndSay(maybe_applied()), Append::FailWhole),
            Self::Applied => (Act::DieApplied, Append::DieWhole),
            Self::Known => (Act::DieKnowing, Append::DieKnowing),
        };
        Cue {
            acts: vec![act],
            appends: vec![append],
        }
    }

    fn of_transaction(self) -> Fault {
        match self {
            Self::Before | Self::InFlight(_) => Fault::CrashBefore,
            Self::Cut => Fault::LoseAnswer,
            Self::Applied => Fault::CrashAfter,
            Self::Known => unreachable!("nothing lies between a transaction and its completion"),
        }
    }
}

fn count(fates: &mut [u64; FATES.len()], run: &Run) {
    match run {
        Run::Crashed => {}
        Run::Ended(Ok(summary)) => {
            for (fate, count) in FATES.iter().zip(fates) {
                *count += summary.of(*fate);
            }
        }
        Run::Ended(Err(error)) => panic!("no cell of the table ends a run: {error:?}"),
    }
}

const KEY: &str = "k";
