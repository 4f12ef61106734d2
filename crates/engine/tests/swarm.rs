//! Two workers on the same input, killed and cut at random, until the faults stop: whatever the
//! history, each promise holds. A failure names its seed.

use std::time::Duration;

use semel_core::{Entropy, StateKind};
use semel_engine::effect::Verdict;

use crate::world::LEASE;
use crate::world::broker::Broker;
use crate::world::faulty::{Fault, Method};
use crate::world::file::Append;
use crate::world::message::Message;
use crate::world::scripted::{Act, maybe_applied, not_applied};
use crate::world::stage::{Cue, Kind, Stage};
use crate::world::time::Chance;
use crate::world::worker::Run;

macro_rules! swarm {
    ($($test:ident $kind:ident,)+) => {
        $(#[tokio::test(start_paused = true)]
        async fn $test() {
            for seed in seeds() {
                Box::pin(play(Kind::$kind, seed)).await;
            }
        })+
    };
}

swarm! {
    output_stays_exact_in_a_storm Output,
    transactions_stay_exact_in_a_storm Transaction,
    keyed_calls_stay_exact_in_a_storm Keyed,
    repeated_calls_are_listed_in_a_storm Repeat,
    streamed_calls_are_listed_in_a_storm Stream,
    parked_calls_happen_at_most_once_in_a_storm Park,
    gated_writes_stay_exact_in_a_storm Gated,
}

/// `SEMEL_SEEDS=1000` plays that many histories.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("SEMEL_SEEDS").ok();
    0..wanted.map_or(12, |wanted| {
        wanted.parse().expect("SEMEL_SEEDS is a number")
    })
}

async fn play(kind: Kind, seed: u64) {
    let dice = Dice(Chance::seeded(seed));
    let stage = Stage::new(kind);
    let broker = stage.world.broker();
    for number in 0..KEYS {
        let members = format!("\"entity\":\"e{number}\",\"version\":1");
        broker.publish(Message::with(&format!("k{number}"), &members));
    }
    let copy = broker.copy();
    tokio::join!(
        live(&stage, &broker, "first", &dice),
        live(&stage, &copy, "second", &dice)
    );
    // Whatever is still on its way lands.
    tokio::time::sleep(LEASE * 4).await;

    let why = format!("{kind:?}, seed {seed}");
    assert_eq!(
        broker.unacknowledged() + copy.unacknowledged(),
        0,
        "{why}: all is settled"
    );
    let repeated = stage.world.repeated().await;
    let parked = stage.world.parked().await;
    for number in 0..KEYS {
        let key = format!("k{number}");
        let effects = stage.effects(&key);
        let record = stage.world.record(&key).await;
        let found = record.as_ref().map(|record| record.state.kind());
        let why = format!("{why}, {key}: {effects} effects, {record:?}");
        let is_listed = |reason: &str| {
            let key = Some(&key);
            let of = |it: &semel_core::Parked| it.key.as_ref().map(ToString::to_string);
            parked
                .iter()
                .any(|it| &*it.reason == reason && of(it).as_ref() == key)
        };
        match found {
            Some(StateKind::Completed) => assert!(effects >= 1, "{why}: lost"),
            Some(StateKind::InDoubt) => assert!(is_listed("in-doubt"), "{why}: a hidden doubt"),
            Some(StateKind::Dead) => {
                assert!(is_listed("dead"), "{why}: a hidden dead letter");
                let is_sure = !matches!(kind, Kind::Keyed | Kind::Gated);
                assert!(effects == 0 || !is_sure, "{why}: dead, but it happened");
            }
            other => panic!("{why}: unsettled, {other:?}"),
        }
        if effects > 1 {
            assert!(
                matches!(kind, Kind::Repeat | Kind::Stream),
                "{why}: a duplicate"
            );
            assert!(repeated.contains(&key), "{why}: an unlisted duplicate");
        }
    }
}

/// Runs worker after worker, each until it is killed, the later ones without faults.
async fn live(stage: &Stage, broker: &Broker, name: &'static str, dice: &Dice) {
    for life in 0.. {
        assert!(life < 50, "no worker gets through");
        let mut worker = stage.world.worker(broker);
        let mut cue = Cue::default();
        let is_patient = dice.roll(2) == 0;
        if !is_patient {
            worker.outage.answer_within = LEASE;
        }
        if life < STORMY_LIVES {
            for method in [Method::Claim, Method::Settle, Method::Renew, Method::Park] {
                let fault = match dice.roll(10) {
                    0 if !is_patient => Fault::Hang,
                    1 if !is_patient => Fault::HangAfter,
                    _ => dice.fault(),
                };
                worker.plan.nth(method, dice.roll(12) + 1, fault);
            }
            for method in [Method::SettleWith, Method::Apply] {
                worker.plan.nth(method, dice.roll(4) + 1, dice.fault());
            }
            cue.acts.extend((0..KEYS).map(|_| dice.act(stage.kind)));
            cue.appends.extend((0..3).map(|_| dice.append()));
        }
        match stage.run(worker, name, cue).await {
            Run::Crashed => {}
            Run::Ended(ended) => {
                ended.expect("no fault of the storm ends a run");
                return;
            }
        }
        tokio::time::sleep(dice.seconds(10)).await;
    }
}

/// One history's chance.
struct Dice(Chance);

impl Dice {
    /// A number below `below`.
    fn roll(&self, below: u32) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes) % below
    }

    fn seconds(&self, below: u32) -> Duration {
        Duration::from_millis(u64::from(self.roll(below * 1_000)))
    }

    fn fault(&self) -> Fault {
        match self.roll(8) {
            0 => Fault::Cut,
            1 => Fault::LoseAnswer,
            2 => Fault::CrashBefore,
            3 => Fault::CrashAfter,
            4 => Fault::DelayBefore(self.seconds(90)),
            5 => Fault::DelayAfter(self.seconds(90)),
            6 => Fault::Full,
            _ => Fault::Items,
        }
    }

    fn act(&self, kind: Kind) -> Act {
        match self.roll(20) {
            0 => Act::Slow(self.seconds(90), self.seconds(90)),
            1 => Act::Slow(Duration::ZERO, self.seconds(60)),
            2 => Act::Say(not_applied()),
            3 => Act::Say(maybe_applied()),
            4 => Act::DoAndSay(maybe_applied()),
            // A stream runs on the worker's own task and takes it along.
            5 if kind == Kind::Stream => Act::DieBefore,
            5 => Act::Panic,
            6 => Act::DieBefore,
            7 => Act::DieInFlight(self.seconds(120)),
            8 => Act::DieApplied,
            9 => Act::DieKnowing,
            10 => Act::Say(Verdict::Dead {
                error: "404".into(),
            }),
            _ => Act::Do,
        }
    }

    fn append(&self) -> Append {
        match self.roll(8) {
            0 => Append::FailHalf,
            1 => Append::FailWhole,
            2 => Append::DieBefore,
            3 => Append::DieHalf,
            4 => Append::DieWhole,
            5 => Append::DieKnowing,
            _ => Append::Slow(self.seconds(60)),
        }
    }
}

const KEYS: u32 = 24;
/// Lives in which something befalls a worker.
const STORMY_LIVES: u32 = 6;
