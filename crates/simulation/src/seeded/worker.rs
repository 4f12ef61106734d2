//! A worker: life after life, each the engine's own consumer, until the scenario is over.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::{AttemptLimits, Backoff, Claimant, Result, Window};
use semel_engine::consumer::Consumer;
use semel_engine::layer::outage::Policy;
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;
use semel_engine::surroundings::{Shutdown, Surroundings};
use tokio::sync::watch;

use crate::seeded::broker::Feed;
use crate::seeded::claims;
use crate::seeded::dice::{Chance, Dice};
use crate::seeded::effect::SimEffect;
use crate::seeded::file::SimFile;
use crate::seeded::http;
use crate::seeded::kind::{Kind, LEASE};
use crate::seeded::life::{Alive, Life};
use crate::seeded::once;
use crate::seeded::plan::{Strike, Struck, WorkerPlan, secs};
use crate::seeded::store::SimStore;
use crate::seeded::streamed::{SimStreamed, Transform};
use crate::seeded::tables::SimTables;
use crate::seeded::watch::Watch;
use crate::seeded::world::World;

/// Runs worker after worker, each until it is killed or stopped, the last one until the scenario is over.
pub(crate) async fn work(world: Arc<World>, worker: usize) {
    let plan = world.plan.workers[worker].clone();
    let mut strikes = plan.strikes.iter().copied().peekable();
    for number in 0.. {
        let life = Life::new(&world, worker, number);
        let stop = watch::Sender::new(false);
        world.log(format_args!("{life} begins"));
        let mut consumer = Box::pin(Alive::new(
            &life,
            live(Arc::clone(&life), &plan, stop.subscribe()),
        ));
        let ended = loop {
            let next = strikes.peek().copied();
            let wait = next.map_or(FOR_EVER, |strike| strike.at.saturating_sub(world.now()));
            tokio::select! {
                biased;
                () = life.struck() => break None,
                ended = &mut consumer => break Some(ended),
                () = world.over(), if !*stop.borrow() => {
                    life.heard_of_its_claims();
                    stop.send_replace(true);
                }
                () = tokio::time::sleep(wait), if next.is_some() => {
                    strikes.next();
                    if let Some(strike) = next {
                        befall(&life, strike, &stop);
                    }
                }
            }
        };
        // To kill it, dropping the consumer's future is enough.
        drop(consumer);
        let has_ended = ended.is_some();
        match ended {
            None => world.log(format_args!("{life} is gone")),
            Some(Ok(summary)) => {
                world.log(format_args!("{life} ended: {summary:?}"));
                if world.is_over() {
                    return;
                }
            }
            // A shutdown that ran out of patience may end with the store's last error.
            Some(Err(error)) if *stop.borrow() => {
                world.log(format_args!("{life} ended: {error}"));
                if world.is_over() {
                    return;
                }
            }
            Some(Err(error)) => world.violation(format!("{life} ended with: {error}")),
        }
        if world.plan.sees_crashes || has_ended {
            let now = world.now();
            world.queue().hand_back(worker, now);
        }
        if number > MOST_LIVES {
            world.violation(format!("worker {worker} does not get through"));
            return;
        }
        let rest = Dice::new(world.seed, life.site(&[20])).between(Duration::ZERO, secs(10));
        tokio::time::sleep(rest).await;
    }
}

fn befall(life: &Life, strike: Strike, stop: &watch::Sender<bool>) {
    let world = &life.world;
    let name = match strike.what {
        Struck::Crash => "crash",
        Struck::Pause(_) => "pause",
        Struck::Stop => "stop",
    };
    if !world.deal(strike.site, name, format_args!("{life}: {:?}", strike.what)) {
        return;
    }
    match strike.what {
        Struck::Crash => life.strike(),
        Struck::Pause(pause) => life.stand_still(pause),
        Struck::Stop => {
            let operations = life.in_hand();
            world.touch(&operations);
            life.disturb();
            stop.send_replace(true);
        }
    }
}

/// One run of the consumer.
async fn live(
    life: Arc<Life>,
    plan: &WorkerPlan,
    requested: watch::Receiver<bool>,
) -> Result<Summary> {
    let world = &life.world;
    let chance = Arc::new(Chance::new(world.seed, life.site(&[21])));
    let surroundings = Surroundings {
        clock: Arc::new(world.clock(plan.skew_millis)),
        claimant: Claimant::random(&*chance),
        entropy: chance,
        observer: Arc::new(Watch(Arc::clone(&life))),
    };
    let answer_within = if plan.is_impatient {
        LEASE
    } else {
        secs(86_400)
    };
    let outage = Policy {
        answer_within,
        ..Policy::closed(&surroundings)
    };
    let consumer = Consumer {
        pipeline: Arc::new(pipeline(world, plan)),
        store: SimStore(Arc::clone(&life)),
        source: Feed {
            world: Arc::clone(world),
            life: Arc::clone(&life),
        },
        surroundings,
        shutdown: Shutdown::new(requested, plan.patience),
        on_progress: None,
        outage,
        dead_letters: None,
    };
    let class = world.kind.class();
    match world.kind {
        Kind::Output => {
            let disk = world.disks[life.worker].clone();
            let file = SimFile {
                world: Arc::clone(world),
                life: Arc::clone(&life),
                disk,
            };
            let checkpoints = AnyCheckpointStore::new(SimStore(Arc::clone(&life)));
            consumer.run_output(file, checkpoints).await
        }
        Kind::Transaction => {
            let tables = AnyTransactionalStore::new(SimTables(Arc::clone(&life)));
            let statements = Statements {
                sql: ["insert".into()].into(),
                params: [].into(),
            };
            consumer.run_transaction(tables, statements).await
        }
        // Half of the seeds have several batches under way.
        Kind::Stream if world.seed % 2 == 1 => {
            consumer
                .run_bulk(Arc::new(SimEffect(Arc::clone(&life))), class)
                .await
        }
        Kind::Stream => {
            consumer
                .run_stream(SimEffect(Arc::clone(&life)), class)
                .await
        }
        Kind::Keyed | Kind::Repeat | Kind::Park | Kind::Gated => {
            consumer
                .run_each(Arc::new(SimEffect(Arc::clone(&life))), class)
                .await
        }
        Kind::Once | Kind::OnceParked => once::serve(life, plan, consumer).await,
        Kind::Http | Kind::HttpParked => http::serve(life, plan, consumer).await,
        Kind::Claims => claims::serve(life, plan, consumer).await,
        Kind::Streamed => {
            let transform = Arc::new(Transform(Arc::clone(&life)));
            consumer
                .run_streamed(SimStreamed(Arc::clone(&life)), Some(transform))
                .await
        }
    }
}

fn pipeline(world: &World, plan: &WorkerPlan) -> Pipeline {
    let limit = |most| NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN);
    let selector = |text: &str| text.parse().expect("the selector is well formed");
    let gate = (world.kind == Kind::Gated).then(|| {
        (
            "json:/entity".parse().expect("the selector is well formed"),
            selector("json:/version"),
        )
    });
    Pipeline {
        name: "simulation".into(),
        scope: world.scope.clone(),
        tenant: None,
        key: "json:/key".parse().expect("the selector is well formed"),
        fingerprint: FingerprintSelector::Payload,
        transport: None,
        birth: None,
        order: None,
        gate,
        window: Window::new(world.plan.window),
        lease: LEASE,
        limits: AttemptLimits {
            failed: limit(world.plan.failed),
            vanished: limit(world.plan.vanished),
        },
        backoff: Backoff {
            first: Duration::from_millis(200),
            most: secs(8),
        },
        outcome_limit_bytes: 64,
        batch: plan.batch,
        concurrency: plan.concurrency,
        max_message_bytes: 4096,
        pause_after: 0,
        bind: None,
        live_only: false,
    }
}

/// Longer than any scenario.
const FOR_EVER: Duration = secs(1 << 20);
/// More than any scenario has faults for.
const MOST_LIVES: u64 = 200;
