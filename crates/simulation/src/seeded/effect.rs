//! The effect that is called: it reaches its provider, or not, and answers so, or not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_engine::effect::{BatchEffect, BulkEffect, Call, Effect, Probe, Verdict};

use crate::seeded::fault::CallFault;
use crate::seeded::kind::CALL_LIFE;
use crate::seeded::life::{Alive, Life};
use crate::seeded::payload::number_of;
use crate::seeded::provider::Said;

/// The effect of one worker.
#[derive(Clone)]
pub(crate) struct SimEffect(pub(crate) Arc<Life>);

impl Effect for SimEffect {
    async fn call(&self, call: Call) -> Verdict {
        let life = Arc::clone(&self.0);
        let began = life.world.now();
        Alive::new(&self.0, run(life, Request::of(&call), began)).await
    }

    async fn probe(&self, call: &Call) -> Probe {
        let Self(life) = self;
        let number = number_of(&call.claim.operation.key);
        if !life.world.plan.has_probe {
            return Probe::Unknown;
        }
        let (there, back, is_known) = life.probe();
        tokio::time::sleep(there).await;
        let applied = life.world.provider().applied(number);
        life.world.log(format_args!(
            "{life} probes k{number}: applied {applied} times"
        ));
        tokio::time::sleep(back).await;
        match (is_known, applied) {
            (false, _) => Probe::Unknown,
            (true, 0) => Probe::NotApplied,
            (true, _) => Probe::Applied(DONE),
        }
    }

    fn quiet(&self) -> Duration {
        CALL_LIFE
    }
}

impl BatchEffect for SimEffect {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for call in batch {
            let life = Arc::clone(&self.0);
            let began = life.world.now();
            verdicts.push(run(life, Request::of(call), began).await);
        }
        verdicts
    }
}

impl BulkEffect for SimEffect {
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        let mut effect = self.clone();
        let batch = batch.to_vec();
        let calls = async move { BatchEffect::call(&mut effect, &batch).await };
        Alive::new(&self.0, calls).await
    }
}

/// The request to the provider.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) number: usize,
    pub(crate) idempotency_key: String,
}

impl Request {
    fn of(call: &Call) -> Self {
        Self {
            number: number_of(&call.claim.operation.key),
            idempotency_key: call.idempotency_key(),
        }
    }
}

/// Runs a call that began at `began`.
pub(crate) async fn run(life: Arc<Life>, call: Request, began: Duration) -> Verdict {
    let Some(fault) = life.call_fault(call.number) else {
        let (there, back) = life.latency("effect");
        tokio::time::sleep(there).await;
        let said = arrive(&life, &call, began);
        tokio::time::sleep(back).await;
        return verdict(&life, said);
    };
    match fault {
        CallFault::Refused => not_applied("try again"),
        CallFault::TurnedAway => {
            life.world.provider().turn_away(call.number);
            Verdict::Dead {
                error: "the token has expired".into(),
                decisive: false,
            }
        }
        CallFault::LostRequest => maybe_applied(),
        CallFault::LostAnswer => {
            arrive(&life, &call, began);
            maybe_applied()
        }
        CallFault::Slow { there, back } => {
            let sent = send(&life, call, began, there, back);
            let left = (began + CALL_LIFE).saturating_sub(life.world.now());
            match tokio::time::timeout(left, sent).await {
                Ok(Ok(said)) => verdict(&life, said),
                Ok(Err(_)) | Err(_) => maybe_applied(),
            }
        }
        CallFault::CrashBefore => life.crash().await,
        CallFault::CrashInFlight(there) => {
            drop(send(&life, call, began, there, Duration::ZERO));
            life.crash().await
        }
        CallFault::CrashApplied => {
            arrive(&life, &call, began);
            life.crash().await
        }
        CallFault::Panic { applied } => {
            if applied {
                arrive(&life, &call, began);
            }
            // Without the hook, which would print it.
            std::panic::resume_unwind(Box::new("the effect panics"))
        }
        CallFault::PauseBefore(pause) => {
            life.pause(pause).await;
            verdict(&life, arrive(&life, &call, began))
        }
        CallFault::PauseAfter(pause) => {
            let said = arrive(&life, &call, began);
            life.pause(pause).await;
            verdict(&life, said)
        }
    }
}

/// Sends the call on a way that takes this long, and that outlives the worker; never longer than a call may
/// live.
fn send(
    life: &Arc<Life>,
    call: Request,
    began: Duration,
    there: Duration,
    back: Duration,
) -> tokio::sync::oneshot::Receiver<Option<Said>> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let life = Arc::clone(life);
    let left = (began + CALL_LIFE).saturating_sub(life.world.now());
    life.world.tally().in_flight += 1;
    tokio::spawn(async move {
        tokio::time::sleep(there.min(left)).await;
        if life.is_struck() {
            life.world.saw("effect of a worker that is gone");
        }
        let said = arrive(&life, &call, began);
        life.world.tally().in_flight -= 1;
        tokio::time::sleep(back).await;
        // The caller may no longer be waiting.
        let _ = sender.send(said);
    });
    receiver
}

/// Lets the effect reach its provider, unless its process stood still for so long that it is no longer sent.
fn arrive(life: &Life, call: &Request, began: Duration) -> Option<Said> {
    let world = &life.world;
    let number = call.number;
    let now = world.now();
    if now > began + CALL_LIFE {
        return None;
    }
    let said = world
        .provider()
        .arrive(number, call.idempotency_key.clone(), now);
    let applied = world.provider().applied(number);
    if said == Said::Done {
        life.applied(number);
    }
    world.log(format_args!(
        "{life}: the effect of k{number} arrives: {said:?}, applied {applied} times"
    ));
    Some(said)
}

fn verdict(life: &Life, said: Option<Said>) -> Verdict {
    match said {
        Some(Said::Done) => Verdict::Done(DONE),
        Some(Said::Never) => Verdict::Dead {
            decisive: life.world.provider().recognises_keys(),
            error: "it will never be taken".into(),
        },
        None => not_applied("too late to be sent"),
    }
}

fn not_applied(error: &str) -> Verdict {
    Verdict::NotApplied {
        error: error.into(),
        retry_after: None,
    }
}

fn maybe_applied() -> Verdict {
    Verdict::MaybeApplied {
        error: "the answer was lost".into(),
    }
}

const DONE: Bytes = Bytes::from_static(b"done");
