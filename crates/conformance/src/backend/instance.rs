//! One instance of a backend without its type.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::AnyStore;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::port::transfer::AnyTransferStore;

use super::{Boxed, Ledger, Ports, Rows};
use crate::clock::TestClock;
use crate::subject::Subject;

/// An instance of any type, with the methods of the subjects' traits.
pub struct AnySubject(Box<dyn Instance>);

impl AnySubject {
    /// Erases `subject`, of which cases use these ports.
    pub(super) fn new<S: Subject>(subject: S, ports: Ports<S>) -> Self {
        let store = AnyStore::new(Arc::clone(subject.store()));
        Self(Box::new(Typed {
            subject,
            store,
            ports,
        }))
    }

    /// Its store.
    pub fn store(&self) -> &AnyStore {
        self.0.store()
    }

    /// The clock that the store was given.
    pub fn clock(&self) -> Option<&TestClock> {
        self.0.clock()
    }

    /// The factor by which leases and windows are stretched.
    pub fn scale(&self) -> u32 {
        self.0.scale()
    }

    /// Lets time pass for the store.
    pub async fn advance(&self, by: Duration) {
        self.0.advance(by).await;
    }

    /// Opens another empty instance of the same backend.
    pub async fn another(&self) -> Self {
        self.0.another().await
    }

    /// An empty instance after this one.
    pub async fn renew(self) -> Self {
        self.0.renew().await
    }

    /// Closes the instance and opens it again.
    ///
    /// # Panics
    ///
    /// If it is not durable; the ports below panic if it does not offer them.
    pub async fn reopen(self) -> Self {
        self.0.reopen().await
    }

    /// Its checkpoint store.
    pub fn checkpoint(&self) -> AnyCheckpointStore {
        self.0.checkpoint()
    }

    /// Its transfer store.
    pub fn transfer(&self) -> AnyTransferStore {
        self.0.transfer()
    }

    /// Its transactional store.
    pub fn transactional(&self) -> AnyTransactionalStore {
        self.0.transactional()
    }

    /// Makes the table of the transactional cases.
    pub async fn make_table(&self) {
        self.0.make_table().await;
    }

    /// Every row of that table, in any order.
    pub async fn rows(&self) -> Rows {
        self.0.rows().await
    }
}

impl fmt::Debug for AnySubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnySubject").finish_non_exhaustive()
    }
}

/// The operations that an [`AnySubject`] erases.
trait Instance: Send + Sync {
    fn store(&self) -> &AnyStore;
    fn clock(&self) -> Option<&TestClock>;
    fn scale(&self) -> u32;
    fn advance(&self, by: Duration) -> Boxed<'_, ()>;
    fn another(&self) -> Boxed<'static, AnySubject>;
    fn renew(self: Box<Self>) -> Boxed<'static, AnySubject>;
    fn reopen(self: Box<Self>) -> Boxed<'static, AnySubject>;
    fn checkpoint(&self) -> AnyCheckpointStore;
    fn transfer(&self) -> AnyTransferStore;
    fn transactional(&self) -> AnyTransactionalStore;
    fn make_table(&self) -> Boxed<'_, ()>;
    fn rows(&self) -> Boxed<'_, Rows>;
}

/// An instance with its type.
struct Typed<S> {
    subject: S,
    store: AnyStore,
    ports: Ports<S>,
}

impl<S: Subject> Typed<S> {
    fn ledger(&self) -> &Ledger<S> {
        offered(self.ports.ledger.as_ref(), "transactional")
    }
}

impl<S: Subject> Instance for Typed<S> {
    fn store(&self) -> &AnyStore {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        self.subject.clock()
    }

    fn scale(&self) -> u32 {
        S::SCALE
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        Box::pin(self.subject.advance(by))
    }

    fn another(&self) -> Boxed<'static, AnySubject> {
        let ports = self.ports;
        Box::pin(async move { AnySubject::new(S::open().await, ports) })
    }

    fn renew(self: Box<Self>) -> Boxed<'static, AnySubject> {
        let Self { subject, ports, .. } = *self;
        Box::pin(async move { AnySubject::new(subject.renew().await, ports) })
    }

    fn reopen(self: Box<Self>) -> Boxed<'static, AnySubject> {
        // Drops the erased store, which holds the other one.
        let Self { subject, ports, .. } = *self;
        let reopen = offered(ports.reopen, "durable");
        Box::pin(async move { AnySubject::new(reopen(subject).await, ports) })
    }

    fn checkpoint(&self) -> AnyCheckpointStore {
        offered(self.ports.checkpoint, "checkpoint")(&self.subject)
    }

    fn transfer(&self) -> AnyTransferStore {
        offered(self.ports.transfer, "transfer")(&self.subject)
    }

    fn transactional(&self) -> AnyTransactionalStore {
        (self.ledger().store)(&self.subject)
    }

    fn make_table(&self) -> Boxed<'_, ()> {
        (self.ledger().make_table)(&self.subject)
    }

    fn rows(&self) -> Boxed<'_, Rows> {
        (self.ledger().rows)(&self.subject)
    }
}

/// The port that a case uses, which is one of its catalogue.
fn offered<T>(port: Option<T>, name: &str) -> T {
    port.unwrap_or_else(|| {
        panic!("the case uses the {name} port, which its catalogue is not about")
    })
}
