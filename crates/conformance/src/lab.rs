//! A fresh instance with the calls that cases make, one item at a time, failures being panics.

mod expect;
mod pages;
mod transfer;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::store::{Stats, Swept};
use semel_core::{
    Admission, AnyStore, Claim, ClaimId, ClaimRequest, Key, Note, Operation, Parked, ParkedId,
    Record, Renewal, Renewed, Scope, Settled, Settlement, StateKind, Step, Store, Timestamp,
    VersionGate, Window,
};

use tokio::task::JoinSet;

use crate::backend::{AnySubject, Backend};

/// A fresh instance of a backend, and the calls that cases make.
#[derive(Debug)]
pub struct Lab {
    subject: AnySubject,
}

impl Lab {
    /// Opens an empty instance.
    pub async fn open(backend: &Backend) -> Self {
        Self {
            subject: backend.open().await,
        }
    }

    /// The instance.
    pub const fn subject(&self) -> &AnySubject {
        &self.subject
    }

    /// Its store.
    pub fn store(&self) -> &AnyStore {
        self.subject.store()
    }

    /// The lease of cases.
    pub fn lease(&self) -> Duration {
        LEASE.saturating_mul(self.subject.scale())
    }

    /// The window of cases that see it pass.
    pub fn window(&self) -> Window {
        Window::new(WINDOW.saturating_mul(self.subject.scale()))
    }

    /// Runs `task` once per number below `count`, all at the same time, and returns their answers.
    pub async fn race<T, F>(
        self: &Arc<Self>,
        count: u32,
        task: impl Fn(Arc<Self>, u32) -> F,
    ) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(task(Arc::clone(self), number));
        }
        tasks.join_all().await
    }

    /// Lets `by` pass for the store.
    pub async fn advance(&self, by: Duration) {
        self.subject.advance(by).await;
    }

    /// Lets a lease that was just granted run out.
    pub async fn outlast_lease(&self) {
        self.advance(self.lease() * 3 / 2).await;
    }

    /// Lets the window of a record that was just finished pass, but not its grace.
    pub async fn outlast_window(&self) {
        self.advance(self.window().duration() + self.lease()).await;
    }

    /// Lets a record that was just finished for [`Lab::window`] be forgotten.
    pub async fn outlast_grace(&self) {
        let finished = Timestamp::EPOCH;
        let forgotten = self.window().forgotten_at(finished).since(finished);
        self.advance(forgotten + self.lease()).await;
    }

    /// The time on the store's clock, as a claim of a key that no case uses shows it.
    pub async fn now(&self) -> Timestamp {
        let asked = self.request("what time is it", u128::MAX);
        let claim = self.grant(&asked).await;
        let seen = self.record(&asked.operation).await;
        self.settles(&claim, crate::steps::release(), StateKind::Released)
            .await;
        self.ordered(&asked.operation, Order::Forget, None).await;
        seen.created_at
    }

    /// A request for `key` by the claimant of this number, with a short lease.
    pub fn request(&self, key: &str, claimant: u128) -> ClaimRequest {
        let lease = self.lease();
        ClaimRequest {
            lease,
            ..ClaimRequest::new(scope(), text_key(key), ClaimId::from_u128(claimant))
        }
    }

    /// Claims.
    pub async fn claim(&self, request: &ClaimRequest) -> Admission {
        one(self.store().claim([request.clone()].into()).await, "claim")
    }

    /// Claims, and expects to be granted.
    pub async fn grant(&self, request: &ClaimRequest) -> Claim {
        match self.claim(request).await {
            Admission::Granted(claim) => claim,
            other => panic!("{} should be granted, got {other:?}", request.operation.key),
        }
    }

    /// Settles a claim.
    pub async fn settle(&self, claim: &Claim, step: Step) -> Settled {
        self.settle_as(&claim.operation, claim.claim_id, step).await
    }

    /// Settles with the claim id of any claim.
    pub async fn settle_as(&self, of: &Operation, claim_id: ClaimId, step: Step) -> Settled {
        let settlement = Settlement {
            operation: of.clone(),
            claim_id,
            step,
        };
        one(self.store().settle([settlement].into()).await, "settle")
    }

    /// Settles a claim, and expects the record to be in `state` now.
    pub async fn settles(&self, claim: &Claim, step: Step, state: StateKind) {
        let shown = format!("{step:?}");
        match self.settle(claim, step).await {
            Settled::Now(now) if now == state => {}
            other => panic!("{shown} should leave the record {state}, got {other:?}"),
        }
    }

    /// Claims and completes.
    pub async fn finish(&self, request: &ClaimRequest, step: Step) {
        let claim = self.grant(request).await;
        self.settles(&claim, step, StateKind::Completed).await;
    }

    /// Renews a claim.
    pub async fn renew(&self, claim: &Claim, lease: Duration) -> Renewed {
        let renewal = Renewal {
            operation: claim.operation.clone(),
            claim_id: claim.claim_id,
            lease,
        };
        one(self.store().renew([renewal].into()).await, "renew")
    }

    /// Reads a record.
    pub async fn get(&self, operation: &Operation) -> Option<Record> {
        one(self.store().get([operation.clone()].into()).await, "get")
    }

    /// Reads a record, and expects it to be there.
    pub async fn record(&self, operation: &Operation) -> Record {
        let found = self.get(operation).await;
        found.unwrap_or_else(|| panic!("{} should have a record", operation.key))
    }

    /// Gives an operator's order.
    pub async fn order(&self, operation: &Operation, order: Order) -> Directed {
        let directive = Directive {
            operation: operation.clone(),
            order,
            note: None,
        };
        one(self.store().operate([directive].into()).await, "operate")
    }

    /// Gives an operator's order that is to be audited.
    pub async fn order_noted(&self, operation: &Operation, order: Order, note: &Note) -> Directed {
        let directive = Directive {
            operation: operation.clone(),
            order,
            note: Some(note.clone()),
        };
        one(self.store().operate([directive].into()).await, "operate")
    }

    /// Gives an operator's order, and expects the record to be in `state` now.
    pub async fn ordered(&self, operation: &Operation, order: Order, state: Option<StateKind>) {
        let shown = format!("{order:?}");
        match self.order(operation, order).await {
            Directed::Now(now) if now == state => {}
            other => panic!("{shown} should leave the record {state:?}, got {other:?}"),
        }
    }

    /// Parks a message. Returns whether it is new.
    pub async fn park(&self, message: &Parked) -> bool {
        one(self.store().park([message.clone()].into()).await, "park")
    }

    /// Drops a parked message. Returns whether it was there.
    pub async fn drop_parked(&self, id: ParkedId) -> bool {
        one(
            self.store().drop_parked([id].into(), None).await,
            "drop_parked",
        )
    }

    /// Sweeps until nothing is left to do. Returns the sum of the results.
    pub async fn sweep(&self) -> Swept {
        let mut all = Swept::default();
        for _ in 0..MOST_PAGES {
            let swept = answered(self.store().sweep(100).await, "sweep");
            all.removed += swept.removed;
            all.doubted += swept.doubted;
            all.abandoned += swept.abandoned;
            if !swept.more {
                return all;
            }
        }
        panic!("the sweep does not end");
    }

    /// Counts.
    pub async fn stats(&self) -> Stats {
        answered(self.store().stats().await, "stats")
    }

    /// Closes the instance and opens it again.
    pub async fn reopen(self) -> Self {
        Self {
            subject: self.subject.reopen().await,
        }
    }
}

/// The scope of cases that are not about scopes.
pub(crate) fn scope() -> Scope {
    scope_of("", "laws")
}

/// The scope of these parts.
pub(crate) fn scope_of(tenant: &str, operation: &str) -> Scope {
    match Scope::new(tenant, operation) {
        Ok(scope) => scope,
        Err(why) => panic!("{tenant:?} and {operation:?} should make a scope: {why}"),
    }
}

/// The key that is this string.
pub(crate) fn text_key(text: &str) -> Key {
    match Key::new(text) {
        Ok(key) => key,
        Err(why) => panic!("{text:?} should be a key: {why}"),
    }
}

/// The version gate of an entity.
pub(crate) fn gate(entity: &str, version: u64) -> VersionGate {
    VersionGate {
        entity: text_key(entity),
        version,
    }
}

/// The answer of a call that must not fail.
pub(crate) fn answered<T>(answer: semel_core::Result<T>, call: &str) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("{call} failed: {error:?}"),
    }
}

fn one<T>(answer: semel_core::Result<Vec<T>>, call: &str) -> T {
    let mut answers = answered(answer, call);
    assert_eq!(answers.len(), 1, "{call} answers one item for one item");
    answers.remove(0)
}

const LEASE: Duration = Duration::from_millis(250);
const WINDOW: Duration = Duration::from_secs(2);
const MOST_PAGES: usize = 10_000;
