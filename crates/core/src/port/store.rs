//! The store: one atomic guard-and-change per key, batch by batch.

mod ext;
mod forward;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use super::erased::erase;
use crate::audit::{Audited, Note};
use crate::claim::{Admission, ClaimRequest};
use crate::decide::{Directed, Directive};
use crate::error::Result;
use crate::key::Scope;
use crate::operation::Operation;
use crate::parked::{Parked, ParkedId};
use crate::record::{Record, StateKind};
use crate::settle::{Renewal, Renewed, Settled, Settlement};

pub use ext::StoreExt;

/// Remembers operations, atomically per key, on its own clock.
///
/// Every method that takes a batch answers with as many items in the same order. `Err` means that nothing is
/// known about any item (see the error's certainty); an item that failed alone says so in its place. A key
/// that occurs twice in a batch is decided as if asked twice in a row (BAT-2). Callers with one item use
/// [`StoreExt`].
///
/// A call outlives a caller that stops waiting for it, so it owns its batch, and the store shares the batch
/// instead of copying it. A caller that may have to ask again, or that matches answers with items, keeps a
/// clone of the `Arc`. An `Arc<[T]>` made of a `Vec` costs one allocation and one move of the items; an
/// iterator whose length is known is collected into one without the `Vec`.
///
/// # Cancel safety
///
/// Dropping a future gives up the wait, not the call: a store goes on with what it has begun, and a second
/// request with the same claim id finds out the result (CLM-4, OUT-1).
pub trait Store: Send + Sync + 'static {
    /// Asks for the right to attempt each operation.
    ///
    /// # Guarantee   CLM-1 to CLM-8, FPR-1, WIN-2, DBT-1, VER-1; see [`decide::claim`](crate::decide::claim)
    /// # Shape       absent → granted; completed → replay; claimed → busy; see [`Admission`]
    /// # Cost        one round trip; one durable write if any request has `Start::Marked`
    /// # Errors      `Unavailable`, `Timeout` (maybe applied: ask again), `Poisoned`
    fn claim(
        &self,
        batch: Arc<[ClaimRequest]>,
    ) -> impl Future<Output = Result<Vec<Admission>>> + Send;

    /// Reports on claims: start, complete, release, fail.
    ///
    /// # Guarantee   CLM-3, OUT-1, DBT-2, ATT-1; durable before the answer (DUR-1)
    /// # Shape       mine → the new state; another claim's → fenced
    /// # Cost        one round trip, one durable write
    /// # Errors      as [`Store::claim`]
    fn settle(&self, batch: Arc<[Settlement]>)
    -> impl Future<Output = Result<Vec<Settled>>> + Send;

    /// Extends leases. Need not be durable.
    ///
    /// # Guarantee   CLM-5
    /// # Cost        one round trip
    /// # Errors      as [`Store::claim`]
    fn renew(&self, batch: Arc<[Renewal]>) -> impl Future<Output = Result<Vec<Renewed>>> + Send;

    /// Keeps messages that were set aside; the store sets `since`. Answers, per message, whether it is new.
    ///
    /// # Guarantee   PRK-1; durable before the answer
    /// # Cost        one round trip, one durable write
    /// # Errors      as [`Store::claim`]
    fn park(&self, batch: Arc<[Parked]>) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Removes parked messages. Answers, per id, whether it was there.
    ///
    /// # Guarantee   AUD-1 where there is a note; durable before the answer
    /// # Errors      as [`Store::claim`]
    fn drop_parked(
        &self,
        batch: Arc<[ParkedId]>,
        note: Option<&Note>,
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Reads records with their outcomes, as they stand at the authority.
    ///
    /// # Errors      `Unavailable`, `Timeout`, `Corrupt`
    fn get(
        &self,
        batch: Arc<[Operation]>,
    ) -> impl Future<Output = Result<Vec<Option<Record>>>> + Send;

    /// Lists records, a page at a time, without their outcomes.
    ///
    /// # Guarantee   LST-1
    /// # Cost        a page visits a bounded number of records; see the store for what a filter costs there
    /// # Errors      as [`Store::get`]; `InvalidInput` for a cursor that is not this store's
    fn list(&self, query: &ListQuery) -> impl Future<Output = Result<Page<Listed>>> + Send;

    /// Lists parked messages, a page at a time.
    ///
    /// # Guarantee   LST-1
    /// # Errors      as [`Store::list`]
    fn list_parked(&self, query: &ListQuery) -> impl Future<Output = Result<Page<Parked>>> + Send;

    /// Carries out operators' orders.
    ///
    /// # Guarantee   DBT-5, ORD-1, AUD-1; durable before the answer
    /// # Errors      as [`Store::claim`]
    fn operate(
        &self,
        batch: Arc<[Directive]>,
    ) -> impl Future<Output = Result<Vec<Directed>>> + Send;

    /// Lists the audit trail, oldest first, a page at a time. Of the query, `tenant`, `operation`, `after`
    /// and `limit` count. Entries without a scope are listed only if the query names neither.
    ///
    /// # Guarantee   LST-1
    /// # Errors      as [`Store::list`]
    fn list_audit(&self, query: &ListQuery) -> impl Future<Output = Result<Page<Audited>>> + Send;

    /// Removes records that have passed their window, and marks as in doubt the vanished attempts whose
    /// class is to park. The work is bounded: it visits at most about `limit` records. Call again while
    /// `more`.
    ///
    /// # Guarantee   WIN-1, WIN-3, WIN-4
    /// # Errors      as [`Store::claim`]
    fn sweep(&self, limit: usize) -> impl Future<Output = Result<Swept>> + Send;

    /// Counts records by state. This may take a while on a large store.
    ///
    /// # Errors      as [`Store::get`]
    fn stats(&self) -> impl Future<Output = Result<Stats>> + Send;

    /// Counts as [`Store::stats`] does, in bounded work, for gauges that are sampled over and over: of a store with more
    /// than `most` records it looks at about as many, and estimates the rest by them. A small store is counted.
    ///
    /// By default it counts everything, for a store to which that is little work.
    ///
    /// # Errors      as [`Store::get`]
    fn estimate(&self, most: usize) -> impl Future<Output = Result<Stats>> + Send {
        let _ = most;
        self.stats()
    }

    /// Reports what this store can promise as it is set up now, read from its real settings.
    ///
    /// # Errors      as [`Store::get`]
    fn preflight(&self) -> impl Future<Output = Result<Capabilities>> + Send;
}

/// The worst loss that the stored data survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing survives the exit of the process.
    Process,
    /// Survives `kill -9` of the store, not the loss of power.
    Kill,
    /// Survives the loss of power.
    PowerCut,
    /// Survives the loss of a machine.
    NodeLoss,
}

/// The promises that a store can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The kind of store, as in its URL.
    pub kind: &'static str,
    /// The worst loss that an answer survives.
    pub durability: Durability,
    /// True if several processes may use the store at once.
    pub shared: bool,
    /// Findings worth a person's attention, one line each.
    pub warnings: Vec<Box<str>>,
}

/// A selection of records, parked messages or audit entries to list. Filters that are set together select what
/// each of them selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only this tenant, byte for byte, whatever the operation. The empty one is a tenant like any other: that
    /// of stores that have no more.
    pub tenant: Option<Box<str>>,
    /// Only operations of this name, byte for byte, whatever the tenant.
    pub operation: Option<Box<str>>,
    /// Only records in this state.
    pub state: Option<StateKind>,
    /// Only records that may have repeated their effect.
    pub repeated: bool,
    /// Only parked messages with one of these reasons (codes); empty is any.
    pub reasons: Vec<Box<str>>,
    /// The cursor to continue from: [`Page::next`] of the page before. It belongs to the query that made it,
    /// in which only the limit may change.
    pub after: Option<Bytes>,
    /// At most this many; a store may return fewer, or none, and still say `next`.
    pub limit: usize,
}

impl ListQuery {
    /// Selects one scope: a tenant and an operation name.
    ///
    /// # Shape
    /// `ListQuery { limit: 100, ..ListQuery::in_scope(&scope) }`
    pub fn in_scope(scope: &Scope) -> Self {
        Self {
            tenant: Some(scope.tenant().into()),
            operation: Some(scope.operation().into()),
            ..Self::default()
        }
    }

    /// Selects one scope, or all where there is none.
    pub fn in_scope_or_all(scope: Option<&Scope>) -> Self {
        scope.map_or_else(Self::default, Self::in_scope)
    }

    /// Returns whether the tenant and the operation name of `scope` are selected. Every store filters by this.
    pub fn fits(&self, scope: &Scope) -> bool {
        self.fits_parts(scope.tenant(), scope.operation())
    }

    /// Returns whether a tenant and an operation name are selected, for stores that read them without making a
    /// scope of them.
    pub fn fits_parts(&self, tenant: &str, operation: &str) -> bool {
        self.tenant.as_deref().is_none_or(|it| it == tenant)
            && self.operation.as_deref().is_none_or(|it| it == operation)
    }

    /// Returns whether a record is selected; one that counts as absent is not asked about.
    pub fn fits_record(&self, operation: &Operation, record: &Record) -> bool {
        self.state.is_none_or(|kind| kind == record.state.kind())
            && (!self.repeated || record.possible_repeats > 0)
            && self.fits(&operation.scope)
    }

    /// Returns whether a parked message is selected.
    pub fn fits_parked(&self, message: &Parked) -> bool {
        (self.reasons.is_empty() || self.reasons.contains(&message.reason))
            && self.fits(&message.scope)
    }

    /// Returns whether an entry of the audit trail is selected. One without a scope is of no tenant and of no
    /// operation.
    pub fn fits_entry(&self, entry: &Audited) -> bool {
        match &entry.scope {
            Some(scope) => self.fits(scope),
            None => !self.is_scoped(),
        }
    }

    /// Returns whether the query names a tenant or an operation.
    pub const fn is_scoped(&self) -> bool {
        self.tenant.is_some() || self.operation.is_some()
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor for the next page; `None` at the end.
    pub next: Option<Bytes>,
}

/// A record with the operation that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The operation.
    pub operation: Operation,
    /// Its record.
    pub record: Record,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records removed.
    pub removed: u64,
    /// Started operations found in doubt.
    pub doubted: u64,
    /// Claimed or released operations without activity for their default window: a possible loss.
    pub abandoned: u64,
    /// True if there is more to do now.
    pub more: bool,
}

/// The contents of a store, counted: made by [`Stats::new`], with whatever else the store counts set then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records by state, in the order of [`StateKind::ALL`].
    pub records: [u64; 6],
    /// Entities of which a version or a holder is remembered. They have no window.
    pub entities: u64,
    /// Parked messages.
    pub parked: u64,
    /// Bytes on disk, where the store can tell.
    pub disk_bytes: Option<u64>,
    /// Entries of the audit trail.
    pub audited: u64,
    /// Records that have passed their window and that no sweep has removed yet, where the store can tell. They count
    /// as absent, and not in `records`: they are what an operation that begins once more is recognized by.
    pub remembered: Option<u64>,
}

impl Stats {
    /// So many records, in the order of [`StateKind::ALL`], and nothing else.
    pub const fn new(records: [u64; 6]) -> Self {
        Self {
            records,
            entities: 0,
            parked: 0,
            disk_bytes: None,
            audited: 0,
            remembered: None,
        }
    }
}

/// The share of all ids that are no greater than a certain one. Ids are hashes and so spread evenly: a count of the records
/// with the lowest ids, divided by the share of the last of them, estimates the count of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdShare(u64);

impl IdShare {
    /// The share up to the id that begins with these bytes.
    pub const fn up_to(beginning: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(beginning))
    }

    /// Returns the estimate of how many there are, if so many have an id in this share.
    pub fn whole(self, counted: u64) -> u64 {
        let all = (u128::from(counted) << 64) / (u128::from(self.0) + 1);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

/// Counts of some records by state, in the order of [`StateKind::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// All of them.
    pub all: [u64; 6],
    /// Those that have passed their window, and count as absent.
    pub absent: [u64; 6],
}

impl StateCounts {
    /// The number of records that were looked at.
    pub fn total(&self) -> u64 {
        self.all.iter().sum()
    }

    /// Returns the estimate of a store whose records with the lowest ids are these, up to a share of all ids. Of the
    /// states that are `listed`, few in a large store, each record was counted.
    pub fn whole(
        &self,
        share: IdShare,
        listed: &Self,
        is_listed: impl Fn(StateKind) -> bool,
    ) -> Stats {
        let mut stats = Stats::default();
        let mut remembered = 0;
        for (place, state) in StateKind::ALL.into_iter().enumerate() {
            let (all, absent) = if is_listed(state) {
                (listed.all[place], listed.absent[place])
            } else {
                (
                    share.whole(self.all[place]),
                    share.whole(self.absent[place]),
                )
            };
            stats.records[place] = all.saturating_sub(absent);
            remembered += absent;
        }
        stats.remembered = Some(remembered);
        stats
    }
}

/// Any store, picked at run time.
#[derive(Clone)]
pub struct AnyStore(Arc<dyn Erased>);

impl AnyStore {
    /// Erases `store`.
    pub fn new(store: impl Store) -> Self {
        Self(Arc::new(store))
    }
}

impl std::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyStore")
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for AnyStore {
    crate::forward_store!(self => self.0);
}

erase!(
    #[expect(clippy::elidable_lifetime_names, reason = "most methods need the name")]
    Erased from Store {
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
    }
);

/// A shared store is a store.
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Arc<S> {
    crate::forward_store!(self => **self);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn scope(tenant: &str, operation: &str) -> Scope {
        Scope::new(tenant, operation).expect("a scope")
    }

    #[test]
    fn a_query_selects_by_tenant_by_operation_or_by_both() {
        let all = [scope("a", "pay"), scope("a", "ship"), scope("", "pay")];
        let fitting = |query: &ListQuery| all.clone().map(|it| query.fits(&it));
        let by = |tenant: Option<&str>, operation: Option<&str>| ListQuery {
            tenant: tenant.map(Into::into),
            operation: operation.map(Into::into),
            ..ListQuery::default()
        };
        assert_eq!(fitting(&by(None, None)), [true; 3]);
        assert_eq!(fitting(&by(Some("a"), None)), [true, true, false]);
        assert_eq!(fitting(&by(Some(""), None)), [false, false, true]);
        assert_eq!(fitting(&by(None, Some("pay"))), [true, false, true]);
        assert_eq!(fitting(&by(Some("a"), Some("pay"))), [true, false, false]);
        assert_eq!(fitting(&by(Some("A"), None)), [false; 3]);
        assert_eq!(fitting(&by(None, Some(""))), [false; 3]);
        let one = ListQuery::in_scope(&all[1]);
        assert_eq!(one, by(Some("a"), Some("ship")));
        assert_eq!(ListQuery::in_scope_or_all(Some(&all[1])), one);
        assert_eq!(ListQuery::in_scope_or_all(None), ListQuery::default());
    }

    #[test]
    fn an_entry_without_a_scope_is_of_no_tenant_and_no_operation() {
        let entry = |scope| Audited {
            at: Timestamp::EPOCH,
            note: Note {
                by: "on call".into(),
                reason: "".into(),
            },
            action: "sweep".into(),
            scope,
            key: None,
            before: "".into(),
            after: "".into(),
        };
        let (of_all, of_pay) = (entry(None), entry(Some(scope("", "pay"))));
        for (tenant, operation, fitting) in [
            (None, None, [true, true]),
            (Some(""), None, [false, true]),
            (None, Some("pay"), [false, true]),
            (None, Some("ship"), [false, false]),
        ] {
            let query = ListQuery {
                tenant: tenant.map(Into::into),
                operation: operation.map(Into::into),
                ..ListQuery::default()
            };
            let found = [&of_all, &of_pay].map(|it| query.fits_entry(it));
            assert_eq!(found, fitting, "{tenant:?} {operation:?}");
        }
    }
}
