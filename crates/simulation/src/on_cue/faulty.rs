//! A store that fails on cue: at the n-th call of a method, or for as long as an outage lasts.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::Swept;
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::{
    Admission, ClaimRequest, Error, Mark, Operation, Parked, Record, Renewal, Renewed, Result,
    Settled, Settlement, Store, forward_store,
};

use super::fault::{Method, Plan};

/// `S`, as one worker reaches it.
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: Arc<Plan>,
}

impl<S> Faulty<S> {
    pub fn new(inner: S, plan: &Arc<Plan>) -> Self {
        Self {
            inner,
            plan: Arc::clone(plan),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Faulty<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.plan.given(|it| it.claimed.push(Arc::clone(&batch)));
        let items = |why: Error, some| failed(batch.len(), some, || Admission::Failed(why.clone()));
        self.plan
            .pass(
                Method::Claim,
                batch.len(),
                items,
                self.inner.claim(Arc::clone(&batch)),
            )
            .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        self.plan.given(|it| it.settled.push(Arc::clone(&batch)));
        let items = |why: Error, some| failed(batch.len(), some, || Settled::Failed(why.clone()));
        self.plan
            .pass(
                Method::Settle,
                batch.len(),
                items,
                self.inner.settle(Arc::clone(&batch)),
            )
            .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        self.plan
            .pass(
                Method::Get,
                batch.len(),
                |_, _| Vec::new(),
                self.inner.get(batch),
            )
            .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let items = |why: Error, some| failed(batch.len(), some, || Renewed::Failed(why.clone()));
        self.plan
            .pass(
                Method::Renew,
                batch.len(),
                items,
                self.inner.renew(Arc::clone(&batch)),
            )
            .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        self.plan.given(|it| it.parked.push(Arc::clone(&batch)));
        self.plan
            .pass(
                Method::Park,
                batch.len(),
                |_, _| Vec::new(),
                self.inner.park(batch),
            )
            .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let items = |why: Error, some| failed(batch.len(), some, || Directed::Failed(why.clone()));
        self.plan
            .pass(
                Method::Operate,
                batch.len(),
                items,
                self.inner.operate(Arc::clone(&batch)),
            )
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.plan
            .pass(
                Method::Sweep,
                limit,
                |_, _| Swept::default(),
                self.inner.sweep(limit),
            )
            .await
    }

    forward_store!(self => self.inner; but claim, settle, get, renew, park, operate, sweep);
}

#[deny(clippy::missing_trait_methods)]
impl<S: CheckpointStore> CheckpointStore for Faulty<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let items = |why: Error, _| {
            Together::Refused(failed(batch.len(), None, || Settled::Failed(why.clone())))
        };
        // An empty batch only sets the mark when an output is opened for the first time.
        if batch.is_empty() {
            return self.inner.settle_with(Arc::clone(&batch), mark).await;
        }
        let call = self.inner.settle_with(Arc::clone(&batch), mark);
        self.plan
            .pass(Method::SettleWith, batch.len(), items, call)
            .await
    }
    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.inner.admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.inner.mark(name).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: TransactionalStore> TransactionalStore for Faulty<S> {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        self.inner.prepare(statements).await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        let items = |why: Error, some| {
            let item = || Applied::NotGranted(Admission::Failed(why.clone()));
            failed(batch.len(), some, item)
        };
        let call = self.inner.apply(statements, Arc::clone(&batch));
        self.plan
            .pass(Method::Apply, batch.len(), items, call)
            .await
    }
}

/// A failure for each item, or the answers with every second one replaced by one.
fn failed<T>(count: usize, some: Option<Vec<T>>, item: impl Fn() -> T) -> Vec<T> {
    let Some(mut answers) = some else {
        return (0..count).map(|_| item()).collect();
    };
    answers
        .iter_mut()
        .step_by(2)
        .for_each(|answer| *answer = item());
    answers
}
