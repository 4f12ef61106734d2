//! The store as calls of `once` reach it. They run on tasks of their own, which a kill leaves behind: nothing of
//! those reaches the store any more.

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Note, Operation, Parked, ParkedId, Record, Renewal, Renewed,
    Result, Settled, Settlement, Store,
};

use crate::seeded::once::Mortal;
use crate::seeded::store::SimStore;

/// One process's way to the store.
#[derive(Clone)]
pub(crate) struct OnceStore(pub(crate) SimStore);

macro_rules! while_it_lives {
    ($($method:ident($($name:ident: $type:ty),*) -> $answer:ty;)+) => {
        $(async fn $method(&self, $($name: $type),*) -> Result<$answer> {
            let Self(inner) = self;
            Mortal::new(&inner.0, inner.$method($($name),*)).await
        })+
    };
}

#[deny(clippy::missing_trait_methods)]
impl Store for OnceStore {
    while_it_lives! {
        claim(batch: &[ClaimRequest]) -> Vec<Admission>;
        settle(batch: &[Settlement]) -> Vec<Settled>;
        renew(batch: &[Renewal]) -> Vec<Renewed>;
        park(batch: &[Parked]) -> Vec<bool>;
        drop_parked(batch: &[ParkedId], note: Option<&Note>) -> Vec<bool>;
        get(batch: &[Operation]) -> Vec<Option<Record>>;
        list(query: &ListQuery) -> Page<Listed>;
        list_parked(query: &ListQuery) -> Page<Parked>;
        operate(batch: &[Directive]) -> Vec<Directed>;
        list_audit(query: &ListQuery) -> Page<Audited>;
        sweep(limit: usize) -> Swept;
        stats() -> Stats;
        preflight() -> Capabilities;
    }
}
