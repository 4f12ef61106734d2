//! The library's entry point: callers with a key and an effect, and no consumer between them and the store. Requests
//! come from a queue, and each is repeated until it has a final answer; some callers go away before, and several of a
//! process may use one key together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Delivery, DeliveryId, Fetched, Source};
use semel_core::{Backoff, Outcome, Record, Result, State, Window};
use semel_engine::consumer::Consumer;
use semel_engine::effect::Verdict;
use semel_engine::once::{Declared, Error, Failure, Once, Op, Receipt, Settings};
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;
use semel_engine::surroundings::Shutdown;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::seeded::broker::Feed;
use crate::seeded::dice::Dice;
use crate::seeded::effect::{Request, run};
use crate::seeded::life::{Life, Mortal};
use crate::seeded::once_store::OnceStore;
use crate::seeded::payload::{number_in, number_of};
use crate::seeded::plan::{WorkerPlan, secs};
use crate::seeded::store::SimStore;

/// Answers callers with the settings that a consumer would have run with, until it is asked to stop.
pub(crate) async fn serve(
    life: Arc<Life>,
    plan: &WorkerPlan,
    consumer: Consumer<SimStore, Feed>,
) -> Result<Summary> {
    let once = once(&life, &consumer);
    let declared = once.operation(life.world.scope.operation());
    attend(&life, plan, consumer, |delivery, callers| {
        call(&life, &declared, delivery, callers);
    })
    .await
}

/// The engine of callers, with the settings that a consumer would have run with.
pub(crate) fn once(life: &Life, consumer: &Consumer<SimStore, Feed>) -> Once<OnceStore> {
    let settings = settings(life, &consumer.pipeline);
    let store = OnceStore(consumer.store.clone());
    Once::with(store, consumer.surroundings.clone(), settings, None)
}

/// Has `call` make each request, until it is asked to stop.
pub(crate) async fn attend(
    life: &Arc<Life>,
    plan: &WorkerPlan,
    consumer: Consumer<SimStore, Feed>,
    call: impl Fn(&Delivery, &mut JoinSet<Option<DeliveryId>>),
) -> Result<Summary> {
    let Consumer {
        source: mut feed,
        shutdown:
            Shutdown {
                mut requested,
                patience,
                ..
            },
        ..
    } = consumer;
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = requested.wait_for(|is_requested| *is_requested) => break,
            Some(joined) = callers.join_next(), if !callers.is_empty() => {
                answered(life, &joined);
            }
            fetched = feed.fetch(plan.batch), if callers.len() < plan.concurrency * 4 => {
                let Fetched::Deliveries(deliveries) = fetched? else {
                    break;
                };
                for delivery in deliveries {
                    call(&delivery, &mut callers);
                }
            }
        }
    }
    let all = async {
        while let Some(joined) = callers.join_next().await {
            answered(life, &joined);
        }
    };
    if timeout(patience, all).await.is_err() {
        life.world.log(format_args!("{life} is out of patience"));
    }
    // It ends without being closed: its running calls are left to their leases.
    life.strike();
    Ok(Summary::default())
}

fn settings(life: &Life, pipeline: &Pipeline) -> Settings {
    let mut dice = life.dice(life.site(&[22]));
    let mut settings = Settings::default();
    settings.class = life.world.kind.class();
    settings.window = Window::new(pipeline.window.duration());
    settings.lease = pipeline.lease;
    settings.limits = pipeline.limits;
    settings.backoff = Backoff {
        first: Duration::from_millis(200),
        most: secs(8),
    };
    settings.timeout = dice.one_in(2).then_some(secs(20));
    settings.wait = dice.between(Duration::ZERO, secs(20));
    settings.patience = dice.between(secs(1), secs(30));
    settings.outcome_limit_bytes = pipeline.outcome_limit_bytes;
    settings
}

/// A caller with its answer, if it has a final one.
type Answered = std::result::Result<Option<DeliveryId>, tokio::task::JoinError>;

fn answered(life: &Life, joined: &Answered) {
    // A panic of an effect that ran in its caller's task is no answer.
    if let Ok(Some(delivery)) = joined
        && !life.loses_acknowledgement()
    {
        life.world.queue().commit(*delivery);
    }
}

/// One request, by one caller or by several at once.
fn call(
    life: &Arc<Life>,
    declared: &Declared<OnceStore>,
    delivery: &Delivery,
    callers: &mut JoinSet<Option<DeliveryId>>,
) {
    let mut declared = declared
        .clone()
        .request_bytes(&delivery.payload)
        .transport(delivery.coordinates.to_string());
    if let Some(birth) = delivery.appended_at {
        declared = declared.birth(birth);
    }
    let mut dice = life.dice(life.site(&[23, life.next("call of once")]));
    for _ in 0..=others(life, &mut dice) {
        let caller = Caller {
            life: Arc::clone(life),
            declared: declared.clone(),
            number: number_in(&delivery.payload),
            delivery: delivery.id,
            door: dice.roll(4),
            leaves_after: leaves_after(&mut dice),
        };
        callers.spawn(Mortal::new(life, caller.call()));
    }
}

struct Caller {
    life: Arc<Life>,
    declared: Declared<OnceStore>,
    number: usize,
    delivery: DeliveryId,
    door: u64,
    leaves_after: Option<Duration>,
}

impl Caller {
    /// Makes the request. Returns its delivery if its answer is final.
    async fn call(self) -> Option<DeliveryId> {
        let Self {
            life,
            declared,
            number,
            door,
            ..
        } = &self;
        let key = format!("k{number}");
        let before = self.kept().await;
        let effect = {
            let life = Arc::clone(life);
            move |op: Op| effect(Arc::clone(&life), op)
        };
        let answer = async {
            match door {
                0 => declared.once_here(&key, effect).await,
                1 => declared.once_retrying(&key, effect).await,
                _ => declared.once(&key, effect).await,
            }
        };
        let Some(limit) = self.leaves_after else {
            return self.conclude(answer.await, before).await;
        };
        let Ok(answer) = timeout(limit, answer).await else {
            life.world.saw("caller went away");
            life.world.touch(&[*number]);
            return None;
        };
        self.conclude(answer, before).await
    }

    /// Checks an answer against the record, and against the value that was on it `before` the call.
    async fn conclude(
        &self,
        answer: std::result::Result<Receipt<Bytes>, Error>,
        before: Option<Bytes>,
    ) -> Option<DeliveryId> {
        let Self { life, number, .. } = self;
        let world = &life.world;
        match answer {
            Ok(receipt) => {
                if receipt.is_replay() {
                    world.saw("replay");
                }
                world.log(format_args!(
                    "{life} answers k{number}: {:?}",
                    receipt.value()
                ));
                self.judge(receipt.value(), before.as_ref()).await;
            }
            Err(error @ (Error::Dead { .. } | Error::InDoubt { .. })) => {
                if matches!(error, Error::Dead { .. }) {
                    world.tally().told_dead.insert(*number);
                }
                world.log(format_args!("{life} answers k{number}: {error}"));
                let has_forgotten = world.tally().remembered.contains(number);
                if !has_forgotten && !life.was_told_of_the_end(*number) {
                    world.violation(format!(
                        "{life} answered k{number} without a record: {error}"
                    ));
                }
            }
            Err(error @ (Error::Conflict { .. } | Error::TooOld { .. })) => {
                world.log(format_args!("{life} answers k{number}: {error}"));
                let mut tally = world.tally();
                if matches!(error, Error::TooOld { .. }) {
                    tally.told_too_old.insert(*number);
                } else {
                    tally.told_conflict.insert(*number);
                }
            }
            // The request is made again.
            Err(error) => {
                world.log(format_args!("{life} has no answer to k{number}: {error}"));
                if matches!(error, Error::Busy { .. }) {
                    world.saw("busy to the end");
                }
                return None;
            }
        }
        Some(self.delivery)
    }

    /// Checks that every caller has the value on record. The record may have been removed since the store answered.
    async fn judge(&self, value: &Bytes, before: Option<&Bytes>) {
        let Self { life, number, .. } = self;
        let world = &life.world;
        let is_on_record = match world.record(*number).await {
            Some(record) => kept(record).as_ref() == Some(value),
            None => before == Some(value) || life.was_told_of_the_end(*number),
        };
        let has_forgotten = world.tally().remembered.contains(number);
        if !is_on_record && !has_forgotten {
            world.violation(format!(
                "{life} answered k{number} with {value:?}, which is not on record"
            ));
        }
    }

    async fn kept(&self) -> Option<Bytes> {
        self.life.world.record(self.number).await.and_then(kept)
    }
}

/// The value on the record of a completed operation.
pub(crate) fn kept(record: Record) -> Option<Bytes> {
    match (record.state, record.outcome) {
        (State::Completed { .. }, Some(Outcome::Kept { bytes, .. })) => Some(bytes),
        _ => None,
    }
}

/// Returns how many callers beside the first use one key together.
pub(crate) fn others(life: &Life, dice: &mut Dice) -> u64 {
    let others = if dice.one_in(3) { dice.roll(4) } else { 0 };
    if others > 0 {
        life.world.saw("callers at one key together");
    }
    others
}

/// Returns the time after which a caller goes away, if it does.
pub(crate) fn leaves_after(dice: &mut Dice) -> Option<Duration> {
    dice.one_in(4)
        .then(|| dice.between(Duration::ZERO, secs(15)))
}

/// Runs the effect, and returns a value that tells its runs apart.
async fn effect(life: Arc<Life>, op: Op) -> std::result::Result<Bytes, Failure> {
    let number = number_of(op.key());
    let nth = {
        let mut tally = life.world.tally();
        tally.runs += 1;
        tally.runs
    };
    let request = Request {
        number,
        idempotency_key: op.idempotency_key().to_owned(),
    };
    let began = life.world.now();
    let ran = run(Arc::clone(&life), request, began);
    match Mortal::new(&life, ran).await {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => Ok(format!("k{number}, run {nth}").into()),
        Verdict::NotApplied { error, .. } => Err(Failure::not_applied(&*error)),
        Verdict::MaybeApplied { error } => Err(Failure::maybe_applied(&*error)),
        Verdict::Dead {
            error,
            decisive: false,
        } => Err(Failure::dead(&*error)),
        Verdict::Dead {
            error,
            decisive: true,
        } => Err(Failure::dead(&*error).decisive()),
        Verdict::Away { error } | Verdict::Broken { error, .. } => {
            Err(Failure::not_applied(&*error))
        }
    }
}
