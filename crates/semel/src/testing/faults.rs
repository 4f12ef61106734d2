//! A store that fails on cue.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};

use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Renewal, Renewed, Result, Settled, Settlement,
    Store, forward_store,
};

use super::locked;

/// A store call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCall {
    /// Asking for the right to run.
    Claim,
    /// Reporting how an effect ended.
    Settle,
    /// Extending leases.
    Renew,
}

/// The way in which a store call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call never arrives, and the caller cannot know.
    Cut,
    /// The call is carried out, and the caller cannot know.
    LoseAnswer,
    /// The call is refused, surely without effect.
    Refuse,
    /// The store refuses everything for good.
    Poison,
}

/// The faults of the store calls of one process. Clones share one plan.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<(StoreCall, Fault)>,
    always: Option<Fault>,
    calls: u64,
}

impl Faults {
    /// Makes the next call of that kind fail; called twice, the one after it too.
    pub fn next(&self, call: StoreCall, fault: Fault) {
        locked(&self.0).next.push_back((call, fault));
    }

    /// Makes every call fail from now on, as if this process had lost its store; `None` ends that.
    pub fn always(&self, fault: impl Into<Option<Fault>>) {
        locked(&self.0).always = fault.into();
    }

    /// The number of round trips that this process has made so far.
    pub fn calls(&self) -> u64 {
        locked(&self.0).calls
    }

    fn of(&self, call: StoreCall) -> Option<Fault> {
        let mut plan = locked(&self.0);
        plan.calls += 1;
        if plan.always.is_some() {
            return plan.always;
        }
        let at = plan.next.iter().position(|(planned, _)| *planned == call)?;
        plan.next.remove(at).map(|(_, fault)| fault)
    }

    async fn pass<T>(
        &self,
        call: StoreCall,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let broken = || Error::new(ErrorKind::Unavailable, "the connection broke");
        match self.of(call) {
            None => work.await,
            Some(Fault::Cut) => Err(broken()),
            Some(Fault::LoseAnswer) => work.await.and(Err(broken())),
            Some(Fault::Refuse) => Err(broken().not_applied()),
            Some(Fault::Poison) => Err(Error::new(ErrorKind::Poisoned, "a flush failed")),
        }
    }
}

/// `S` as one process reaches it.
#[derive(Debug)]
pub(super) struct Failing<S> {
    inner: S,
    faults: Faults,
}

impl<S> Failing<S> {
    pub(super) const fn new(inner: S, faults: Faults) -> Self {
        Self { inner, faults }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Failing<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let work = self.inner.claim(batch);
        self.faults.pass(StoreCall::Claim, work).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let work = self.inner.settle(batch);
        self.faults.pass(StoreCall::Settle, work).await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let work = self.inner.renew(batch);
        self.faults.pass(StoreCall::Renew, work).await
    }

    forward_store!(self => self.inner; but claim, settle, renew);
}
