//! The store's calls for one item, for callers. Implementors provide the batch methods only.

use std::future::Future;
use std::sync::Arc;

use super::Store;
use crate::audit::Note;
use crate::claim::{Admission, ClaimRequest};
use crate::decide::{Directed, Directive};
use crate::error::{Error, ErrorKind, Result};
use crate::operation::Operation;
use crate::parked::{Parked, ParkedId};
use crate::record::Record;
use crate::settle::{Renewal, Renewed, Settled, Settlement};

/// The batch methods of a [`Store`] for one item each. Every store has them, and no store implements its own.
/// A call owns its item, as a batch; a caller that may have to ask again keeps a clone.
///
/// An item that failed alone fails its call, so `Failed` is among the errors and never among the answers. A store that
/// returns no answer has broken its contract: `Internal`, maybe applied.
pub trait StoreExt: Store {
    /// Asks for the right to attempt an operation.
    ///
    /// # Guarantee       as [`Store::claim`]
    /// # Shape           as [`Store::claim`], without [`Admission::Failed`]
    /// # Cost            as [`Store::claim`]
    /// # Errors          as [`Store::claim`], and that of the item
    /// # Cancel safety   as [`Store`]
    fn claim_one(&self, request: ClaimRequest) -> impl Future<Output = Result<Admission>> + Send;

    /// Reports on a claim: start, complete, release, fail.
    ///
    /// # Guarantee       as [`Store::settle`]
    /// # Shape           as [`Store::settle`], without [`Settled::Failed`]
    /// # Cost            as [`Store::settle`]
    /// # Errors          as [`Store::settle`], and that of the item
    /// # Cancel safety   as [`Store`]
    fn settle_one(&self, settlement: Settlement) -> impl Future<Output = Result<Settled>> + Send;

    /// Extends a lease.
    ///
    /// # Guarantee       as [`Store::renew`]
    /// # Shape           as [`Store::renew`], without [`Renewed::Failed`]
    /// # Cost            as [`Store::renew`]
    /// # Errors          as [`Store::renew`], and that of the item
    /// # Cancel safety   as [`Store`]
    fn renew_one(&self, renewal: Renewal) -> impl Future<Output = Result<Renewed>> + Send;

    /// Keeps a message that was set aside. Answers whether it is new.
    ///
    /// # Guarantee       as [`Store::park`]
    /// # Shape           new → `true`; kept before → `false`
    /// # Cost            as [`Store::park`]
    /// # Errors          as [`Store::park`]
    /// # Cancel safety   as [`Store`]
    fn park_one(&self, message: Parked) -> impl Future<Output = Result<bool>> + Send;

    /// Removes a parked message. Answers whether it was there.
    ///
    /// # Guarantee       as [`Store::drop_parked`]
    /// # Shape           removed → `true`; not there → `false`
    /// # Cost            as [`Store::drop_parked`]
    /// # Errors          as [`Store::drop_parked`]
    /// # Cancel safety   as [`Store`]
    fn drop_parked_one(
        &self,
        id: ParkedId,
        note: Option<&Note>,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Reads a record with its outcome, as it stands at the authority.
    ///
    /// # Guarantee       as [`Store::get`]
    /// # Shape           absent → `None`
    /// # Cost            as [`Store::get`]
    /// # Errors          as [`Store::get`]
    /// # Cancel safety   as [`Store`]
    fn get_one(&self, operation: Operation) -> impl Future<Output = Result<Option<Record>>> + Send;

    /// Carries out an operator's order.
    ///
    /// # Guarantee       as [`Store::operate`]
    /// # Shape           as [`Store::operate`], without [`Directed::Failed`]
    /// # Cost            as [`Store::operate`]
    /// # Errors          as [`Store::operate`], and that of the item
    /// # Cancel safety   as [`Store`]
    fn operate_one(&self, directive: Directive) -> impl Future<Output = Result<Directed>> + Send;
}

impl<S: Store> StoreExt for S {
    async fn claim_one(&self, request: ClaimRequest) -> Result<Admission> {
        match only(self.claim(Arc::new([request])).await?)? {
            Admission::Failed(error) => Err(error),
            admission => Ok(admission),
        }
    }

    async fn settle_one(&self, settlement: Settlement) -> Result<Settled> {
        match only(self.settle(Arc::new([settlement])).await?)? {
            Settled::Failed(error) => Err(error),
            settled => Ok(settled),
        }
    }

    async fn renew_one(&self, renewal: Renewal) -> Result<Renewed> {
        match only(self.renew(Arc::new([renewal])).await?)? {
            Renewed::Failed(error) => Err(error),
            renewed => Ok(renewed),
        }
    }

    async fn park_one(&self, message: Parked) -> Result<bool> {
        only(self.park(Arc::new([message])).await?)
    }

    async fn drop_parked_one(&self, id: ParkedId, note: Option<&Note>) -> Result<bool> {
        only(self.drop_parked(Arc::new([id]), note).await?)
    }

    async fn get_one(&self, operation: Operation) -> Result<Option<Record>> {
        only(self.get(Arc::new([operation])).await?)
    }

    async fn operate_one(&self, directive: Directive) -> Result<Directed> {
        match only(self.operate(Arc::new([directive])).await?)? {
            Directed::Failed(error) => Err(error),
            directed => Ok(directed),
        }
    }
}

/// The answer to a batch of one.
fn only<T>(mut answers: Vec<T>) -> Result<T> {
    answers.pop().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store answered an item of a batch with nothing",
        )
    })
}

#[cfg(test)]
mod tests;
