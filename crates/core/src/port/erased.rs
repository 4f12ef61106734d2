//! The boxed forms of the store ports: one adapter each, private to this crate.

#![expect(
    clippy::elidable_lifetime_names,
    reason = "the inputs of most methods need the name"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::checkpoint::{CheckpointStore, Together, Write};
use super::producer::ProducerJournal;
use super::store::{Capabilities, ListQuery, Listed, Page, Stats, Store, Swept};
use super::transactional::{Application, Applied, Statements, TransactionalStore};
use super::transfer::{Item, TransferStore};
use crate::audit::{Audited, Note};
use crate::claim::{Admission, ClaimRequest};
use crate::decide::{Directed, Directive};
use crate::error::Result;
use crate::operation::Operation;
use crate::parked::{Parked, ParkedId};
use crate::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerName, ProducerOrder,
    Standing, StoredBatch,
};
use crate::record::Record;
use crate::settle::{Mark, Renewal, Renewed, Settled, Settlement};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

macro_rules! erase {
    ($erased:ident from $port:ident { $($method:ident($($input:ident: $type:ty),*) -> $answer:ty;)+ }) => {
        pub(super) trait $erased: Send + Sync {
            $(fn $method<'a>(&'a self $(, $input: $type)*) -> Answer<'a, $answer>;)+
        }

        impl<S: $port> $erased for S {
            $(fn $method<'a>(&'a self $(, $input: $type)*) -> Answer<'a, $answer> {
                Box::pin($port::$method(self $(, $input)*))
            })+
        }
    };
}

erase!(ErasedStore from Store {
    claim(input: Arc<[ClaimRequest]>) -> Vec<Admission>;
    settle(input: Arc<[Settlement]>) -> Vec<Settled>;
    renew(input: Arc<[Renewal]>) -> Vec<Renewed>;
    park(input: Arc<[Parked]>) -> Vec<bool>;
    drop_parked(batch: Arc<[ParkedId]>, note: Option<&'a Note>) -> Vec<bool>;
    get(input: Arc<[Operation]>) -> Vec<Option<Record>>;
    list(input: &'a ListQuery) -> Page<Listed>;
    list_parked(input: &'a ListQuery) -> Page<Parked>;
    operate(input: Arc<[Directive]>) -> Vec<Directed>;
    list_audit(input: &'a ListQuery) -> Page<Audited>;
    sweep(input: usize) -> Swept;
    stats() -> Stats;
    estimate(input: usize) -> Stats;
    preflight() -> Capabilities;
});

erase!(ErasedCheckpoint from CheckpointStore {
    settle_with(batch: Arc<[Settlement]>, mark: &'a Mark) -> Together;
    mark(name: &'a str) -> Option<u64>;
    admit_with(batch: Vec<ClaimRequest>, write: Write) -> Vec<Admission>;
});

erase!(ErasedTransactional from TransactionalStore {
    prepare(statements: &'a Statements) -> ();
    apply(statements: &'a Statements, batch: Arc<[Application]>) -> Vec<Applied>;
});

erase!(ErasedTransfer from TransferStore {
    export(after: Option<&'a [u8]>, limit: usize) -> Page<Item>;
    import(batch: Arc<[Item]>) -> Vec<bool>;
});

erase!(ErasedProducerJournal from ProducerJournal {
    open(opening: &'a Opening) -> Opened;
    append(incarnation: &'a Incarnation, stream: &'a str, batch: &'a Batch) -> Standing;
    confirm(incarnation: &'a Incarnation, stream: &'a str, through: u64) -> Standing;
    pending(incarnation: &'a Incarnation, stream: &'a str, after: u64, most: u32) -> Vec<StoredBatch>;
    input(incarnation: &'a Incarnation, stream: &'a str, digest: &'a [u8; 32]) -> Option<InputMark>;
    list() -> Vec<ProducerEntry>;
    order(name: &'a ProducerName, order: ProducerOrder) -> bool;
});
