//! Backends without their types, so that every case is compiled once, in this crate, and not once for each backend.

mod instance;

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::port::transfer::AnyTransferStore;

use crate::subject::{
    CheckpointSubject, DurableSubject, Subject, TransactionalSubject, TransferSubject,
};
pub use instance::AnySubject;

/// The ports that `S` offers to the cases. A case that uses another one panics.
pub struct Ports<S> {
    reopen: Option<Reopen<S>>,
    checkpoint: Option<fn(&S) -> AnyCheckpointStore>,
    transfer: Option<fn(&S) -> AnyTransferStore>,
    ledger: Option<Ledger<S>>,
}

/// A function that closes an instance of `S` and opens it again.
type Reopen<S> = fn(S) -> Boxed<'static, S>;

/// The transactional port, and the table of its cases.
struct Ledger<S> {
    store: fn(&S) -> AnyTransactionalStore,
    make_table: fn(&S) -> Boxed<'_, ()>,
    rows: fn(&S) -> Boxed<'_, Rows>,
}

/// Accounts and amounts of that table.
type Rows = Vec<(String, i64)>;

impl<S: Subject> Ports<S> {
    /// The ports of a backend that has only the store port, which every backend has.
    pub const fn new() -> Self {
        Self {
            reopen: None,
            checkpoint: None,
            transfer: None,
            ledger: None,
        }
    }

    /// Adds answers that survive reopening.
    #[must_use]
    pub fn durable(mut self) -> Self
    where
        S: DurableSubject,
    {
        self.reopen = Some(|subject| Box::pin(subject.reopen()));
        self
    }

    /// Adds the checkpoint port.
    #[must_use]
    pub fn checkpoint(mut self) -> Self
    where
        S: CheckpointSubject,
    {
        self.checkpoint = Some(|subject| AnyCheckpointStore::new(subject.checkpoint()));
        self
    }

    /// Adds the transfer port.
    #[must_use]
    pub fn transfer(mut self) -> Self
    where
        S: TransferSubject,
    {
        self.transfer = Some(|subject| AnyTransferStore::new(subject.transfer()));
        self
    }

    /// Adds the transactional port.
    #[must_use]
    pub fn transactional(mut self) -> Self
    where
        S: TransactionalSubject,
    {
        self.ledger = Some(Ledger {
            store: |subject| AnyTransactionalStore::new(subject.transactional()),
            make_table: |subject| Box::pin(subject.make_table()),
            rows: |subject| Box::pin(subject.rows()),
        });
        self
    }

    /// Erases the type, and returns the backend that offers these ports.
    pub fn erase(self) -> Backend {
        Backend(Arc::new(self))
    }
}

impl<S: Subject> Default for Ports<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for Ports<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Ports<S> {}

impl<S> Clone for Ledger<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Ledger<S> {}

impl<S> fmt::Debug for Ports<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports")
            .field("durable", &self.reopen.is_some())
            .field("checkpoint", &self.checkpoint.is_some())
            .field("transfer", &self.transfer.is_some())
            .field("transactional", &self.ledger.is_some())
            .finish()
    }
}

/// A backend of any type, of which cases open instances: made by [`Ports::erase`].
#[derive(Clone, Debug)]
pub struct Backend(Arc<dyn Opens>);

impl Backend {
    /// Opens an empty instance.
    pub fn open(&self) -> Boxed<'static, AnySubject> {
        self.0.open()
    }

    /// The number of random histories that it asks for: [`Subject::HISTORIES`].
    pub fn histories(&self) -> u64 {
        self.0.histories()
    }
}

/// The operations that a [`Backend`] erases.
trait Opens: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    fn open(&self) -> Boxed<'static, AnySubject>;
    fn histories(&self) -> u64;
}

impl<S: Subject> Opens for Ports<S> {
    fn open(&self) -> Boxed<'static, AnySubject> {
        let ports = *self;
        Box::pin(async move { AnySubject::new(S::open().await, ports) })
    }

    fn histories(&self) -> u64 {
        S::HISTORIES
    }
}

/// A future of no type of its own.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
