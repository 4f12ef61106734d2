//! A database that keeps records and rows together. Each message's claim, row and completion are one step, because
//! no other task runs in between.

use std::sync::Arc;

use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::{
    Admission, Certainty, Outcome, Result, Settled, Settlement, State, StateKind, Step, Store,
    StoreExt, Timestamp,
};
use semel_store_memory::MemoryStore;

use crate::seeded::fault::Method;
use crate::seeded::life::Life;
use crate::seeded::payload::number_of;
use crate::seeded::store::{SimStore, broken, every_second};
use crate::seeded::world::World;

/// One worker's way to the database.
pub(crate) struct SimTables(pub(crate) Arc<Life>);

impl TransactionalStore for SimTables {
    async fn prepare(&self, _statements: &Statements) -> Result<()> {
        Ok(())
    }

    async fn apply(
        &self,
        _statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        let operations = batch
            .iter()
            .map(|it| number_of(&it.claim.operation.key))
            .collect();
        let life = Arc::clone(&self.0);
        let call = |store: Arc<MemoryStore>| async move {
            let mut applied = Vec::with_capacity(batch.len());
            for application in &*batch {
                applied.push(apply_one(&life, &store, application).await?);
            }
            Ok(applied)
        };
        let spoil = |answers: &mut Vec<Applied>| {
            every_second(answers, || Applied::NotGranted(Admission::Failed(broken())));
        };
        SimStore(Arc::clone(&self.0))
            .pass(Method::Apply, operations, spoil, call)
            .await
    }
}

async fn apply_one(
    life: &Arc<Life>,
    store: &MemoryStore,
    application: &Application,
) -> Result<Applied> {
    let world: &World = &life.world;
    let requests: Arc<[_]> = [application.claim.clone()].into();
    let mut admissions = store.claim(Arc::clone(&requests)).await?;
    life.was_admitted(&requests, &admissions);
    let claim = match admissions.pop() {
        Some(Admission::Granted(claim)) => claim,
        Some(other) => return Ok(Applied::NotGranted(other)),
        None => return Err(broken()),
    };
    let number = number_of(&claim.operation.key);
    let window = application.window;
    let error: Box<str> = "a row violates a constraint".into();
    let is_refused = world.provider().refuses(number);
    let step = if is_refused && !application.gives_back {
        Step::Fail {
            error,
            decisive: false,
            window,
        }
    } else if is_refused || life.statement_fails(number) {
        Step::Release {
            error,
            certainty: Certainty::NotApplied,
            after: application.backoff.after(claim.attempt),
            counted: !application.gives_back,
            limits: application.claim.limits,
            window,
        }
    } else {
        let now = world.now();
        world.provider().arrive(number, String::new(), now);
        world.log(format_args!("{life}: k{number} is committed"));
        Step::Complete {
            outcome: Outcome::empty(),
            window,
        }
    };
    let settlement = Settlement {
        operation: claim.operation.clone(),
        claim_id: claim.claim_id,
        step,
    };
    let settlements: Arc<[_]> = [settlement].into();
    let mut settled = store.settle(Arc::clone(&settlements)).await?;
    life.was_settled(&settlements, &settled);
    match settled.pop() {
        Some(Settled::Now(StateKind::Completed)) => {
            if claim.takeover {
                world.tally().takeovers += 1;
                world.saw("takeover");
            }
            Ok(Applied::Completed {
                takeover: claim.takeover,
            })
        }
        Some(Settled::Now(state)) => {
            let record = store.get_one(claim.operation).await?;
            let (not_before, error) = match record {
                Some(record) => match record.state {
                    State::Released { not_before } => (not_before, record.last_error),
                    State::Claimed { .. }
                    | State::Started { .. }
                    | State::Completed { .. }
                    | State::Dead { .. }
                    | State::InDoubt { .. } => (Timestamp::EPOCH, record.last_error),
                },
                None => (Timestamp::EPOCH, None),
            };
            let now = record_time(world);
            Ok(Applied::Failed {
                state,
                not_before,
                now,
                error: error.unwrap_or_default(),
            })
        }
        Some(Settled::Fenced { .. } | Settled::Failed(_)) | None => {
            world.violation(format!(
                "{life}: somebody came between the claim of k{number} and its end"
            ));
            Err(broken())
        }
    }
}

/// The time of the store.
fn record_time(world: &World) -> Timestamp {
    semel_core::Clock::now(&world.store_clock)
}
