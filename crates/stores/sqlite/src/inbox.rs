//! The inbox: a record in the transaction of a user's own connection.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, TransactionState};
use semel_core::{
    Admission, Claim, ClaimRequest, Clock, Error, ErrorKind, OpId, Outcome, Result, Settled,
    Settlement, Window,
};

use crate::error::undone;
use crate::ledger::{Ledger, Scopes};
use crate::{open, sql};

/// Admits and completes operations within transactions that the user begins and commits, on the
/// user's own connection to the store's file.
///
/// *Inline* (A1): admit, change, complete and commit in one transaction. *Leased* (A2), where the
/// work takes long: admit and commit; later, in a second transaction, change, complete and commit.
/// A completion whose claim was lost is [`Settled::Fenced`]: it has touched nothing, and the user
/// rolls back.
///
/// Begin transactions with `TransactionBehavior::Immediate`. A deferred one that has read before it comes here may find
/// that it cannot write any more; it then gets an error and rolls back. A savepoint is as good as a transaction: rolled
/// back, it takes back what was admitted behind it.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use rusqlite::{Connection, TransactionBehavior};
/// # use semel_core::{Admission, ClaimId, ClaimRequest, Clock, Key, Outcome, Scope, Settled, Timestamp, Window};
/// # use semel_store_sqlite::InboxSteps;
/// # struct Stopped;
/// # impl Clock for Stopped {
/// #     fn now(&self) -> Timestamp { Timestamp::from_millis(1_000) }
/// #     fn monotonic(&self) -> Duration { Duration::ZERO }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let mut connection = Connection::open(folder.path().join("app.db"))?;
/// let inbox = InboxSteps::open(&connection, Arc::new(Stopped))?;
/// connection.execute_batch("CREATE TABLE payments (id TEXT PRIMARY KEY, amount INTEGER)")?;
///
/// for _delivery in 0..2 {
///     let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
///     let scope = Scope::new("", "payments")?;
///     let request = ClaimRequest::new(scope, Key::parse("pay-1")?, ClaimId::from_u128(7));
///     if let Admission::Granted(claim) = inbox.admit(&transaction, &request)? {
///         transaction.execute("INSERT INTO payments VALUES ('pay-1', 100)", [])?;
///         let settled = inbox.complete(&transaction, &claim, Outcome::empty(), Window::DEFAULT)?;
///         assert!(matches!(settled, Settled::Now(_)));
///     }
///     transaction.commit()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InboxSteps {
    clock: Arc<dyn Clock>,
}

impl InboxSteps {
    /// Opens an inbox in the file of `connection`, and creates our tables if there are none.
    ///
    /// # Errors
    /// As `SqliteStore::open`; `InvalidInput` within a transaction.
    pub fn open(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Self> {
        open::prepare_tables(connection)?;
        Ok(Self { clock })
    }

    /// Creates an inbox for a file that has our tables.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction is committed; a
    /// rollback revokes it.
    ///
    /// # Guarantee   INB-1 and those of `Store::claim`
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        two or three statements on rows of one key; no flush of its own
    /// # Errors
    /// `Unavailable` (not applied: roll back and try again); `InvalidInput` outside of a transaction.
    pub fn admit(&self, transaction: &Connection, request: &ClaimRequest) -> Result<Admission> {
        self.step(transaction, request.operation.id(), |ledger, id| {
            ledger.want_outcomes(request.wants_outcome);
            ledger.claim(id, request)
        })
    }

    /// Records that the effect of `claim` happened within `transaction`. Best the last statement: from here on other
    /// writers wait.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and the user rolls back
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub fn complete(
        &self,
        transaction: &Connection,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.settle(transaction, &claim.completion(outcome, window))
    }

    /// Reports any other step of a claim within `transaction`.
    ///
    /// # Guarantee   those of `Store::settle`
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub fn settle(&self, transaction: &Connection, settlement: &Settlement) -> Result<Settled> {
        self.step(transaction, settlement.operation.id(), |ledger, id| {
            ledger.settle(id, settlement)
        })
    }

    fn step<A>(
        &self,
        transaction: &Connection,
        id: OpId,
        step: impl FnOnce(&mut Ledger<'_>, OpId) -> Result<A>,
    ) -> Result<A> {
        if transaction.is_autocommit() {
            let message = "an inbox works within a transaction; begin one first";
            return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
        }
        if transaction
            .transaction_state(Some("main"))
            .map_err(undone)?
            != TransactionState::Write
        {
            let mut lock = transaction
                .prepare_cached(sql::WRITE_LOCK)
                .map_err(undone)?;
            lock.raw_execute().map_err(undone)?;
        }
        // Not kept between calls: the user may roll back the scopes that were added.
        let mut scopes = Scopes::default();
        let mut ledger = Ledger::new(transaction, &mut scopes, self.clock.now())?;
        let answer = step(&mut ledger, id)?;
        ledger.flush()?;
        Ok(answer)
    }
}

impl fmt::Debug for InboxSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InboxSteps")
    }
}
