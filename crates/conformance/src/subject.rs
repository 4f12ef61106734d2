//! The description that a backend gives of itself to the laws.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::Store;
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::port::transactional::TransactionalStore;
use semel_core::port::transfer::TransferStore;

use crate::clock::TestClock;

/// A backend under test: one fresh instance of it, and the way in which time passes for it.
///
/// Cases run at the same time, each on an instance of its own, so instances share nothing: a
/// server's subject opens each in a schema, database or key prefix of its own.
pub trait Subject: Sized + Send + Sync + 'static {
    /// The store.
    type Store: Store;

    /// Stretches every lease and window of the laws, for servers that answer slowly. At 1, leases
    /// are a quarter of a second and windows two seconds.
    const SCALE: u32 = 1;

    /// The number of random histories that `history_laws!` tries, unless `SEMEL_HISTORIES` sets another.
    const HISTORIES: u64 = 200;

    /// Makes an empty instance.
    fn open() -> impl Future<Output = Self> + Send;

    /// An empty instance after this one, which is no longer used: another one, or this one emptied, for backends
    /// where opening takes longer than the case itself.
    fn renew(self) -> impl Future<Output = Self> + Send {
        async move {
            drop(self);
            Self::open().await
        }
    }

    /// The store of this instance.
    fn store(&self) -> &Arc<Self::Store>;

    /// The clock that the store was given; `None` if it uses one of its own, which makes the laws really wait.
    fn clock(&self) -> Option<&TestClock> {
        None
    }

    /// Lets time pass for the store.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send {
        async move {
            match self.clock() {
                Some(clock) => clock.advance(by),
                None => tokio::time::sleep(by).await,
            }
        }
    }
}

/// A backend whose answers survive its closing.
pub trait DurableSubject: Subject {
    /// Closes the instance and opens it again on the same files or tables, at the same time of the
    /// same clock.
    fn reopen(self) -> impl Future<Output = Self> + Send;
}

/// A backend that settles together with a mark.
pub trait CheckpointSubject: Subject {
    /// The store as a checkpoint store; mostly [`Subject::Store`].
    type Checkpoint: CheckpointStore;

    /// The checkpoint store of this instance.
    fn checkpoint(&self) -> Arc<Self::Checkpoint>;
}

/// A backend whose contents can be moved.
pub trait TransferSubject: Subject {
    /// The store as a transfer store; mostly [`Subject::Store`].
    type Transfer: TransferStore;

    /// The transfer store of this instance.
    fn transfer(&self) -> Arc<Self::Transfer>;
}

/// A backend that runs statements in the transaction of the record.
///
/// The laws use the table `semel_laws_ledger`, with `account`, a text that is never null, and
/// `amount`, a 64-bit integer that is never null, and no constraint besides.
pub trait TransactionalSubject: Subject {
    /// The statement that makes the table in most databases.
    const CREATE_TABLE: &'static str = "CREATE TABLE semel_laws_ledger \
                                        (account VARCHAR(200) NOT NULL, amount BIGINT NOT NULL)";

    /// The store as a transactional store; mostly [`Subject::Store`].
    type Transactional: TransactionalStore;

    /// The transactional store of this instance.
    fn transactional(&self) -> Arc<Self::Transactional>;

    /// Makes the table, empty, in the database of this instance.
    fn make_table(&self) -> impl Future<Output = ()> + Send;

    /// Every row of the table, on a connection of its own, in any order.
    fn rows(&self) -> impl Future<Output = Vec<(String, i64)>> + Send;
}
