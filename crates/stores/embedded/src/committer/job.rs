//! Calls on their way to the committer.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{Together, Write};
use semel_core::port::store::{ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transfer::Item;
use semel_core::{
    Admission, Audited, ClaimRequest, Error, Mark, Note, Operation, Parked, ParkedId, Record,
    Renewal, Renewed, Result, Settled, Settlement,
};
use tokio::sync::oneshot;

use crate::digest::Addresses;
use crate::import::Import;

/// A call: the request, and where its answer goes.
pub(crate) enum Job {
    /// A claim; the flag says that another process claims.
    Claim(Arc<[ClaimRequest]>, Addresses, bool, Reply<Vec<Admission>>),
    Settle(Arc<[Settlement]>, Addresses, Reply<Vec<Settled>>),
    SettleWith(Arc<[Settlement]>, Addresses, Mark, Reply<Together>),
    AdmitWith(Vec<ClaimRequest>, Addresses, Write, Reply<Admitted>),
    Renew(Arc<[Renewal]>, Addresses, Reply<Vec<Renewed>>),
    Operate(Arc<[Directive]>, Addresses, Reply<Vec<Directed>>),
    Get(Arc<[Operation]>, Addresses, Reply<Vec<Option<Record>>>),
    Park(Arc<[Parked]>, Vec<ParkedId>, Reply<Vec<bool>>),
    DropParked(Arc<[ParkedId]>, Option<Note>, Reply<Vec<bool>>),
    List(ListQuery, Reply<Page<Listed>>),
    ListParked(ListQuery, Reply<Page<Parked>>),
    ListAudit(ListQuery, Reply<Page<Audited>>),
    Export(Option<Vec<u8>>, usize, Reply<Page<Item>>),
    Import(Import, Reply<Vec<bool>>),
    Mark(Box<str>, Reply<Option<u64>>),
    Sweep(usize, Reply<Swept>),
    Stats(Reply<Stats>),
}

/// Admissions with the requests they answer. The requests are large, and the caller has time to
/// free them.
pub(crate) type Admitted = (Vec<Admission>, Vec<ClaimRequest>, Addresses);

/// Channel for an answer. The caller may no longer be waiting.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// An answer with its recipient; if its group failed, it is given that failure.
pub(crate) type Answer = Box<dyn FnOnce(Option<&Error>) + Send>;

impl Job {
    /// Answers with an error without having looked at the job.
    pub(super) fn refuse(self, error: &Error) {
        fn with<T>(reply: Reply<T>, error: &Error) {
            // The caller may have stopped waiting.
            let _ = reply.send(Err(error.clone()));
        }
        match self {
            Self::Claim(_, _, _, reply) => with(reply, error),
            Self::AdmitWith(_, _, _, reply) => with(reply, error),
            Self::Settle(_, _, reply) => with(reply, error),
            Self::SettleWith(_, _, _, reply) => with(reply, error),
            Self::Renew(_, _, reply) => with(reply, error),
            Self::Operate(_, _, reply) => with(reply, error),
            Self::Get(_, _, reply) => with(reply, error),
            Self::Park(_, _, reply) | Self::DropParked(_, _, reply) | Self::Import(_, reply) => {
                with(reply, error);
            }
            Self::List(_, reply) => with(reply, error),
            Self::ListParked(_, reply) => with(reply, error),
            Self::ListAudit(_, reply) => with(reply, error),
            Self::Export(_, _, reply) => with(reply, error),
            Self::Mark(_, reply) => with(reply, error),
            Self::Sweep(_, reply) => with(reply, error),
            Self::Stats(reply) => with(reply, error),
        }
    }
}

pub(super) fn answer<T: Send + 'static>(reply: Reply<T>, result: Result<T>) -> Answer {
    Box::new(move |failure| {
        // The caller may have stopped waiting.
        let _ = reply.send(failure.map_or(result, |error| Err(error.clone())));
    })
}

/// Describes the failure of one part of a batch, of which earlier parts may have been written.
pub(super) fn in_part(why: &Error) -> Error {
    Error::new(why.kind(), why.to_string())
        .with_code(why.code())
        .with_source(why.clone())
}
