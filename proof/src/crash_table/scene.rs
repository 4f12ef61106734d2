//! Plays one scene: a worker with a fault, perhaps a second one beside it, then workers without
//! faults until nothing is left to do.

use std::time::Duration;

use semel_core::{Clock, StateKind};
use semel_engine::sweep::sweep_once;
use semel_simulation::on_cue::broker::Broker;
use semel_simulation::on_cue::message::Message;
use semel_simulation::on_cue::stage::{Cue, Kind, Stage};
use semel_simulation::on_cue::watch::Seen;
use semel_simulation::on_cue::worker::{FATES, Run};
use semel_simulation::on_cue::{LEASE, WINDOW};

use super::deal::Deal;
use super::outcome::Outcome;

/// The faults of a scene, and the workers that they hit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scene {
    /// To a worker, and nothing else.
    Alone(Deal),
    /// To a worker, while another has the same message once the lease of the first is over.
    Beside(Deal),
    /// To a worker, while another does all of it and the record is evicted.
    Evicted(Deal, Gate),
    /// A message without a key, and the fault of the worker that sets it aside.
    Unusable(Option<Deal>),
    /// Sent again inside the window.
    Again,
    /// Sent again when the record is gone.
    AgainLate(Gate),
    /// Two faults of one worker, the second where it can meet it next.
    Twice(Deal, Deal),
    /// One fault of a worker, another of the one that comes after it.
    InTurn(Deal, Deal),
    /// One fault of a worker, another of one that has the same message once its lease is over.
    AtOnce(Deal, Deal),
}

/// Says whether messages carry their birth, so that the age gate can refuse them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    On,
    Off,
}

/// The observations of a scene.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    /// Messages that nobody acknowledged.
    pub(crate) unacknowledged: usize,
    /// The number of faults of each of its workers.
    pub(crate) dealt: [u64; 2],
    pub(crate) takeovers: u64,
    pub(crate) fenced: u64,
}

impl Scene {
    /// Checks that it can be played with this kind of effect; if not, returns the reason.
    pub(crate) fn can_be_played(self, kind: Kind) -> Result<(), &'static str> {
        match self {
            Self::Alone(deal) | Self::Beside(deal) | Self::Evicted(deal, _) => {
                deal.can_befall(kind)
            }
            Self::Unusable(_) | Self::Again | Self::AgainLate(_) => Ok(()),
            Self::Twice(one, other) | Self::InTurn(one, other) | Self::AtOnce(one, other) => {
                one.can_befall(kind)?;
                other.can_befall(kind)?;
                let is_next = matches!(one, Deal::Effect(_)) && other.is_refused_for_good();
                if kind == Kind::Park && is_next {
                    return Err("what is parked has no next attempt");
                }
                Ok(())
            }
        }
    }

    /// The names of the faults of its workers.
    pub(crate) fn deals(self) -> Vec<String> {
        let deals = match self {
            Self::Alone(deal) | Self::Beside(deal) | Self::Evicted(deal, _) => vec![deal],
            Self::Unusable(deal) => deal.into_iter().collect(),
            Self::Again | Self::AgainLate(_) => Vec::new(),
            Self::Twice(one, other) | Self::InTurn(one, other) | Self::AtOnce(one, other) => {
                vec![one, other]
            }
        };
        deals.iter().map(|deal| format!("{deal:?}")).collect()
    }

    fn gate(self) -> Gate {
        match self {
            Self::Evicted(_, gate) | Self::AgainLate(gate) => gate,
            _ => Gate::On,
        }
    }
}

/// Plays `scene` and returns the outcome when everything has settled.
pub(crate) async fn play(stage: &Stage, scene: Scene) -> Played {
    let mut play = Play {
        stage,
        fates: [0; FATES.len()],
        dealt: [0; 2],
    };
    let broker = stage.world.broker();
    let first = play.message(scene.gate());
    match scene {
        Scene::Unusable(_) => broker.publish(Message::raw("{\"note\":\"no key\"}")),
        _ => broker.publish(first.clone()),
    };
    match scene {
        Scene::Alone(deal) | Scene::Unusable(Some(deal)) => {
            play.alone(&broker, &[deal], 0).await;
        }
        Scene::Beside(deal) => Box::pin(play.beside(&broker, deal, None)).await,
        Scene::Evicted(deal, _) => Box::pin(play.evicted(&broker, deal)).await,
        Scene::Unusable(None) | Scene::Again | Scene::AgainLate(_) => {
            play.alone(&broker, &[], 0).await;
        }
        Scene::Twice(one, other) => play.alone(&broker, &[one, other], 0).await,
        Scene::InTurn(one, other) => {
            play.alone(&broker, &[one], 0).await;
            if broker.unacknowledged() > 0 {
                play.alone(&broker, &[other], 1).await;
            }
        }
        Scene::AtOnce(one, other) => Box::pin(play.beside(&broker, one, Some(other))).await,
    }
    match scene {
        Scene::Again => {
            tokio::time::sleep(WINDOW.duration() / 2).await;
            broker.publish(first);
        }
        Scene::AgainLate(_) => {
            play.evict().await;
            broker.publish(first);
        }
        _ => {}
    }
    while broker.unacknowledged() > 0 {
        play.alone(&broker, &[], 0).await;
    }
    // Everything that is still on its way lands.
    tokio::time::sleep(LEASE * 4).await;
    broker.check();
    play.played(&broker).await
}

struct Play<'a> {
    stage: &'a Stage,
    fates: [u64; FATES.len()],
    dealt: [u64; 2],
}

impl Play<'_> {
    fn message(&self, gate: Gate) -> Message {
        let message = match self.stage.kind {
            Kind::Gated => Message::with(KEY, "\"entity\":\"e\",\"version\":7"),
            _ => Message::of(KEY),
        };
        match gate {
            Gate::On => message.born(self.stage.world.clock.now()),
            Gate::Off => message,
        }
    }

    /// Runs a worker with the faults `deals`.
    async fn alone(&mut self, broker: &Broker, deals: &[Deal], place: usize) {
        let (run, befell) = self.run(broker, deals, "first").await;
        self.count(&run);
        self.dealt[place] += befell;
    }

    /// Runs a worker with the fault `deal`, and one with a copy of the message and the fault
    /// `other`.
    async fn beside(&mut self, broker: &Broker, deal: Deal, other: Option<Deal>) {
        let copy = broker.copy();
        let begins = if deal.is_unclaimed(self.stage.kind) {
            Duration::ZERO
        } else {
            LEASE + Duration::from_secs(1)
        };
        let deals = [deal];
        let here = &*self;
        let second = async {
            tokio::time::sleep(begins).await;
            here.run(&copy, other.as_slice(), "second").await
        };
        let (one, two) = tokio::join!(here.run(broker, &deals, "first"), second);
        self.dealt = [one.1, two.1];
        self.count(&one.0);
        self.count(&two.0);
        while copy.unacknowledged() > 0 {
            let (run, _) = self.run(&copy, &[], "second").await;
            self.count(&run);
        }
        copy.check();
    }

    /// As [`Self::beside`], and the record goes while the first stands still.
    async fn evicted(&mut self, broker: &Broker, deal: Deal) {
        let copy = broker.copy();
        let deals = [deal];
        let here = &*self;
        let second = async {
            let run = here.run(&copy, &[], "second").await;
            here.evict().await;
            run
        };
        let (one, two) = tokio::join!(here.run(broker, &deals, "first"), second);
        self.dealt = [one.1, two.1];
        self.count(&one.0);
        self.count(&two.0);
        copy.check();
        assert_eq!(copy.unacknowledged(), 0, "the second worker finished");
    }

    async fn evict(&self) {
        tokio::time::sleep(WINDOW.duration() * 2).await;
        let world = &self.stage.world;
        sweep_once(&world.store).await.expect("the store sweeps");
        assert_eq!(world.state(KEY).await, None, "the record is gone");
    }

    async fn run(&self, broker: &Broker, deals: &[Deal], name: &'static str) -> (Run, u64) {
        let mut worker = self.stage.world.worker(broker);
        let mut cue = Cue::default();
        for (index, deal) in deals.iter().enumerate() {
            let place = deal.place(self.stage.kind);
            let alike = |other: &&Deal| other.place(self.stage.kind) == place;
            let before = deals[..index].iter().filter(alike).count();
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            deal.befall(self.stage, &mut worker, &mut cue, before);
        }
        let crash = worker.crash.clone();
        let run = self.stage.run(worker, name, cue).await;
        (run, crash.dealt())
    }

    fn count(&mut self, run: &Run) {
        match run {
            Run::Crashed => {}
            Run::Ended(Ok(summary)) => {
                for (fate, count) in FATES.iter().zip(&mut self.fates) {
                    *count += summary.of(*fate);
                }
            }
            Run::Ended(Err(error)) => panic!("nothing here ends a run: {error:?}"),
        }
    }

    async fn played(&self, broker: &Broker) -> Played {
        let world = &self.stage.world;
        let record = world.record(KEY).await;
        let state = record.as_ref().map(|record| record.state.kind());
        let mut listed: Vec<String> = world
            .parked()
            .await
            .iter()
            .map(|parked| parked.reason.to_string())
            .collect();
        if !world.repeated().await.is_empty() {
            listed.push("possible-repeat".to_owned());
        }
        let in_doubt = world.in_state(StateKind::InDoubt).await;
        assert_eq!(
            !in_doubt.is_empty(),
            state == Some(StateKind::InDoubt),
            "doubts are listed"
        );
        let takeover = |seen: &Seen| matches!(seen, Seen::Granted { takeover: true, .. });
        let fenced = |seen: &Seen| matches!(seen, Seen::Fenced(..));
        Played {
            outcome: Outcome {
                effects: self.stage.effects(KEY),
                state,
                attempts: record.map(|record| record.attempts),
                listed,
                fates: FATES.into_iter().zip(self.fates).collect(),
            },
            unacknowledged: broker.unacknowledged(),
            dealt: self.dealt,
            takeovers: world.watch.count(takeover) as u64,
            fenced: world.watch.count(fenced) as u64,
        }
    }
}

const KEY: &str = "k";
