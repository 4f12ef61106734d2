//! The store as one worker reaches it: calls get lost on their way there or back, take long, or land after their
//! caller has given up.

use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Code, Error, ErrorKind, Mark, Operation, Parked, Record,
    Renewal, Renewed, Result, Settled, Settlement, Store, forward_store,
};
use semel_store_memory::MemoryStore;

use crate::seeded::fault::{Method, StoreFault};
use crate::seeded::life::Life;
use crate::seeded::payload::number_of;

/// One worker's way to the store.
#[derive(Clone)]
pub(crate) struct SimStore(pub(crate) Arc<Life>);

/// Makes single answers of a call unknown.
type Spoil<T> = fn(&mut T);

impl SimStore {
    /// Makes a call, with its faults. `call` is made when the request lands.
    pub(crate) async fn pass<T, F, Fut>(
        &self,
        method: Method,
        operations: Vec<usize>,
        spoil: Spoil<T>,
        call: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<MemoryStore>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let fault = self.0.store_fault(method, &operations);
        self.befallen(fault, operations, spoil, call).await
    }

    async fn befallen<T, F, Fut>(
        &self,
        fault: Option<StoreFault>,
        operations: Vec<usize>,
        spoil: Spoil<T>,
        call: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<MemoryStore>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let Self(life) = self;
        let landing = land(Arc::clone(life), operations, call);
        let Some(fault) = fault else {
            let (there, back) = life.latency("store");
            wait(there).await;
            let answer = landing.await;
            wait(back).await;
            return answer;
        };
        match fault {
            StoreFault::LostRequest => Err(broken()),
            StoreFault::LostAnswer => landing.await.and(Err(broken())),
            StoreFault::Slow { there, back } if life.world.kind.has_store_apart() => {
                on_its_way(life, there, back, landing).await
            }
            StoreFault::Slow { there, back } => {
                wait(there).await;
                let answer = landing.await;
                wait(back).await;
                answer
            }
            StoreFault::Refused => {
                let full = Error::new(ErrorKind::Unavailable, "no space is left");
                Err(full.with_code(Code::StoreFull).not_applied())
            }
            StoreFault::Items => landing.await.map(|mut answer| {
                spoil(&mut answer);
                answer
            }),
            StoreFault::CrashBefore => life.crash().await,
            StoreFault::CrashAfter => {
                let _ = landing.await;
                life.crash().await
            }
            StoreFault::PauseBefore(pause) => {
                life.pause(pause).await;
                landing.await
            }
            StoreFault::PauseAfter(pause) => {
                let answer = landing.await;
                life.pause(pause).await;
                answer
            }
            StoreFault::Silent { arrives } => {
                if arrives {
                    let _ = landing.await;
                }
                std::future::pending().await
            }
        }
    }
}

/// Lets the call reach the store, if it can be reached now.
async fn land<T, F, Fut>(life: Arc<Life>, operations: Vec<usize>, call: F) -> Result<T>
where
    F: FnOnce(Arc<MemoryStore>) -> Fut + Send,
    Fut: Future<Output = Result<T>> + Send,
{
    if let Some(away) = life.world.outage() {
        life.world.touch(&operations);
        return Err(away);
    }
    if semel_core::planted("M17") {
        let skew = life.world.plan.workers[life.worker].skew_millis;
        life.world.store_clock.jump(skew);
    }
    call(life.world.store()).await
}

/// Carries a call on after its caller has gone.
async fn on_its_way<T: Send + 'static>(
    life: &Arc<Life>,
    there: Duration,
    back: Duration,
    landing: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    life.world.tally().in_flight += 1;
    let of = Arc::clone(life);
    tokio::spawn(async move {
        tokio::time::sleep(there).await;
        if of.is_struck() {
            of.world.saw("call of a worker that is gone");
        }
        of.world
            .log(format_args!("{of}: what was on its way lands"));
        let answer = landing.await;
        of.world.tally().in_flight -= 1;
        tokio::time::sleep(back).await;
        // The caller may no longer be waiting.
        let _ = sender.send(answer);
    });
    receiver.await.unwrap_or_else(|_| Err(broken()))
}

/// The claims that own these operations now; no other task runs between this and the next call.
async fn owners(store: &MemoryStore, operations: Arc<[Operation]>) -> Result<Vec<Option<ClaimId>>> {
    let records = store.get(operations).await?;
    let owners = records.into_iter().map(|it| Some(it?.claim_id));
    Ok(owners.collect())
}

/// Notes that a report of a claim that is over was accepted: CLM-3, CLM-5. Its harm may take many more draws to
/// show.
fn theirs(life: &Life, what: &str, operation: &Operation) {
    let number = number_of(&operation.key);
    life.world.violation(format!(
        "{life}: a {what} about k{number} counts, whose claim somebody else has"
    ));
}

async fn wait(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for SimStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let operations: Vec<_> = batch
            .iter()
            .map(|it| number_of(&it.operation.key))
            .collect();
        let spoil: Spoil<Vec<Admission>> =
            |answers| every_second(answers, || Admission::Failed(broken()));
        let life = Arc::clone(&self.0);
        life.asks_for(&batch);
        let fault = life.store_fault(Method::Claim, &operations);
        let is_lost = matches!(fault, Some(StoreFault::LostAnswer));
        let call = move |store: Arc<MemoryStore>| async move {
            let unsaid = life.unsaid(&store, &batch).await?;
            let answers = store.claim(Arc::clone(&batch)).await?;
            life.counts_untold(&batch, &unsaid, &answers);
            life.was_admitted(&batch, &answers);
            if is_lost {
                life.was_not_heard(&batch, &answers);
            }
            Ok(answers)
        };
        self.befallen(fault, operations, spoil, call).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let operations = batch
            .iter()
            .map(|it| number_of(&it.operation.key))
            .collect();
        let spoil: Spoil<Vec<Settled>> =
            |answers| every_second(answers, || Settled::Failed(broken()));
        let life = Arc::clone(&self.0);
        self.pass(Method::Settle, operations, spoil, |store| async move {
            let of = batch.iter().map(|it| it.operation.clone()).collect();
            let owners = owners(&store, of).await?;
            life.looks_for_late_word(&store, &batch).await?;
            let answers = store.settle(Arc::clone(&batch)).await?;
            for ((settlement, owner), answer) in batch.iter().zip(owners).zip(&answers) {
                if let Settled::Now(_) = answer
                    && owner != Some(settlement.claim_id)
                {
                    theirs(&life, "report", &settlement.operation);
                }
            }
            life.was_settled(&batch, &answers);
            Ok(answers)
        })
        .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let operations = batch
            .iter()
            .map(|it| number_of(&it.operation.key))
            .collect();
        let spoil: Spoil<Vec<Renewed>> =
            |answers| every_second(answers, || Renewed::Failed(broken()));
        let life = Arc::clone(&self.0);
        self.pass(Method::Renew, operations, spoil, |store| async move {
            let of = batch.iter().map(|it| it.operation.clone()).collect();
            let owners = owners(&store, of).await?;
            let answers = store.renew(Arc::clone(&batch)).await?;
            for ((renewal, owner), answer) in batch.iter().zip(owners).zip(&answers) {
                if let Renewed::Until(_) = answer
                    && owner != Some(renewal.claim_id)
                {
                    theirs(&life, "renewal", &renewal.operation);
                }
            }
            Ok(answers)
        })
        .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        let operations = batch
            .iter()
            .filter_map(|it| it.key.as_ref())
            .map(number_of)
            .collect();
        self.pass(
            Method::Park,
            operations,
            |_| {},
            |store| async move { store.park(batch).await },
        )
        .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let operations = batch.iter().map(|it| number_of(&it.key)).collect();
        self.pass(
            Method::Get,
            operations,
            |_| {},
            |store| async move { store.get(batch).await },
        )
        .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let operations = batch
            .iter()
            .map(|it| number_of(&it.operation.key))
            .collect();
        let spoil: Spoil<Vec<Directed>> =
            |answers| every_second(answers, || Directed::Failed(broken()));
        let life = Arc::clone(&self.0);
        let call = |store: Arc<MemoryStore>| async move {
            let directed = store.operate(batch).await?;
            for answer in &directed {
                match answer {
                    Directed::Now(_) => life.world.saw("resolved by a probe"),
                    Directed::Refused(_) => life.world.saw("probe not believed yet"),
                    Directed::Failed(_) => {}
                }
                life.world
                    .log(format_args!("{life} resolves by a probe: {answer:?}"));
            }
            Ok(directed)
        };
        self.pass(Method::Operate, operations, spoil, call).await
    }

    forward_store!(self => self.0.world.store(); but claim, settle, renew, park, get, operate);
}

#[deny(clippy::missing_trait_methods)]
impl CheckpointStore for SimStore {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let operations: Vec<_> = batch
            .iter()
            .map(|it| number_of(&it.operation.key))
            .collect();
        let mark = mark.clone();
        let fault = self.0.store_fault(Method::SettleWith, &operations);
        if let Some(StoreFault::Items) = fault
            && !batch.is_empty()
        {
            // A batch with a failing item changes nothing.
            let answers = batch.iter().map(|_| Settled::Failed(broken()));
            return Ok(Together::Refused(answers.collect()));
        }
        let life = Arc::clone(&self.0);
        let call = |store: Arc<MemoryStore>| async move {
            let together = store.settle_with(Arc::clone(&batch), &mark).await?;
            if let Together::Applied(answers) = &together {
                life.was_settled(&batch, answers);
            }
            Ok(together)
        };
        self.befallen(fault, operations, |_| {}, call).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.0.world.store().admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        let name = name.to_owned();
        self.pass(
            Method::Get,
            Vec::new(),
            |_| {},
            |store| async move { store.mark(&name).await },
        )
        .await
    }
}

/// Replaces every second item by one whose result the caller cannot know.
pub(crate) fn every_second<T>(answers: &mut [T], item: impl Fn() -> T) {
    answers
        .iter_mut()
        .step_by(2)
        .for_each(|answer| *answer = item());
}

/// Maybe applied: nobody can know.
pub(crate) fn broken() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection broke")
}
