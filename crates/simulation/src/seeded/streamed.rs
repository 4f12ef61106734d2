//! A broker's transactions: an output and the position of the input become visible at once.

use std::sync::Arc;

use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{
    Claimed, CommitProgress, Committed, Finished, Standing, StreamedStore, Turn,
};
use semel_core::{Admission, Duplicate, Error, ErrorKind, FencingToken, Grant, Result};
use semel_engine::effect::{Call, Effect, Verdict};
use semel_store_memory::MemoryStore;

use crate::seeded::fault::{CallFault, Method};
use crate::seeded::life::{Alive, Life};
use crate::seeded::payload::number_of;
use crate::seeded::queue::Commit;
use crate::seeded::store::SimStore;

/// One worker's transactions.
pub(crate) struct SimStreamed(pub(crate) Arc<Life>);

impl StreamedStore for SimStreamed {
    async fn admit(&self, batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        let operations: Vec<_> = batch
            .iter()
            .map(|it| number_of(&it.request.operation.key))
            .collect();
        let requests: Vec<_> = batch
            .iter()
            .map(|it| (it.delivery, it.request.clone()))
            .collect();
        let life = Arc::clone(&self.0);
        let call = |_: Arc<MemoryStore>| async move {
            let standing = |(delivery, request): (_, semel_core::ClaimRequest)| {
                let number = number_of(&request.operation.key);
                if !life.world.queue().is_current(delivery) {
                    return Standing::Gone;
                }
                if life.world.provider().applied(number) > 0 {
                    let replay = Admission::Replay {
                        outcome: None,
                        duplicate: Duplicate::Unknown,
                    };
                    return Standing::Ours(Box::new(replay));
                }
                Standing::Free(Grant::first(FencingToken::new(1)))
            };
            Ok(requests.into_iter().map(standing).collect())
        };
        SimStore(Arc::clone(&self.0))
            .pass(Method::Admit, operations, |_| {}, call)
            .await
    }

    async fn commit(&self, batch: &Arc<Vec<Finished>>, turn: impl Turn) -> Result<Vec<Committed>> {
        turn.come(CommitProgress::Committed).await?;
        let operations: Vec<_> = batch.iter().map(|it| number_of(&it.key)).collect();
        let finished: Vec<_> = batch
            .iter()
            .map(|it| (it.delivery, number_of(&it.key)))
            .collect();
        let life = Arc::clone(&self.0);
        let call = |_: Arc<MemoryStore>| async move {
            let commit = |(delivery, number)| commit(&life, delivery, number);
            Ok(finished.into_iter().map(commit).collect())
        };
        let answers = SimStore(Arc::clone(&self.0))
            .pass(Method::Commit, operations, |_| {}, call)
            .await?;
        turn.pass(CommitProgress::Committed);
        Ok(answers)
    }
}

/// Commits one output and the position of its input, or neither.
fn commit(life: &Life, delivery: DeliveryId, number: usize) -> Committed {
    let world = &life.world;
    if world.provider().refuses(number) {
        return Committed::Refused(Error::new(
            ErrorKind::InvalidInput,
            "it will never be taken",
        ));
    }
    let now = world.now();
    match world.queue().commit(delivery) {
        Commit::Now => {
            let mut provider = world.provider();
            if provider.applied(number) == 0 {
                provider.arrive(number, String::new(), now);
            }
            drop(provider);
            world.log(format_args!("{life}: k{number} is committed"));
            Committed::Done
        }
        Commit::Before => {
            world.saw("commit found again");
            Committed::Done
        }
        Commit::Gone => {
            world.saw("commit of a delivery that is gone");
            Committed::Gone
        }
    }
}

/// The transformation of messages: they stay as they are, unless a fault hits.
pub(crate) struct Transform(pub(crate) Arc<Life>);

impl Effect for Transform {
    async fn call(&self, call: Call) -> Verdict {
        let life = Arc::clone(&self.0);
        Alive::new(&self.0, transform(life, call)).await
    }
}

async fn transform(life: Arc<Life>, call: Call) -> Verdict {
    let number = number_of(&call.claim.operation.key);
    let fault = life.call_fault(number);
    let not_applied = || Verdict::NotApplied {
        error: "try again".into(),
        retry_after: None,
    };
    match fault {
        None => {}
        Some(CallFault::Refused | CallFault::LostRequest | CallFault::LostAnswer) => {
            return not_applied();
        }
        Some(CallFault::Slow { there, .. }) => tokio::time::sleep(there).await,
        Some(CallFault::CrashBefore | CallFault::CrashInFlight(_) | CallFault::CrashApplied) => {
            return life.crash().await;
        }
        // Without the hook, which would print it.
        Some(CallFault::Panic { .. }) => {
            std::panic::resume_unwind(Box::new("the transform panics"))
        }
        Some(CallFault::TurnedAway) => {
            life.world.provider().turn_away(number);
            return Verdict::Dead {
                error: "the token has expired".into(),
                decisive: false,
            };
        }
        Some(CallFault::PauseBefore(pause) | CallFault::PauseAfter(pause)) => {
            life.pause(pause).await;
        }
    }
    Verdict::Done(call.payload)
}
