//! The inbox: a record in the transaction of a user's own connection.

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::tokio_postgres::Transaction;
use semel_core::{
    Admission, Claim, ClaimRequest, Clock, Outcome, Result, Settled, Settlement, Window,
};

use crate::connection::{Nests, Runs};
use crate::driver::Driver;
use crate::error::contended;
use crate::locked::{Locked, Stop, Wanted};
use crate::row::millis;
use crate::session::TRIES;
use crate::sql::Texts;
use crate::user_connection::UserConnection;

/// Admits and completes operations within transactions that the user begins and commits, on the
/// user's own `tokio-postgres` connection to the store's database.
///
/// *Inline* (A1): admit, change, complete and commit in one transaction; other transactions with the same key wait
/// until the commit. *Leased* (A2), where the work takes long: admit and commit; later, in a second transaction,
/// change, complete and commit. A completion whose claim was lost is [`Settled::Fenced`]: it has touched nothing, and
/// the user rolls back.
///
/// Transactions are best `READ COMMITTED`, PostgreSQL's default. In a stricter one, a key that another transaction took
/// meanwhile is a serialization failure: roll back and begin again.
///
/// ```no_run
/// # use semel_core::{Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Window};
/// # use semel_store_postgres::InboxSteps;
/// # async fn deliver(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = InboxSteps::in_schema("semel");
/// let transaction = client.transaction().await?;
/// let request = ClaimRequest::new(Scope::new("", "payments")?, Key::parse("pay-1")?, ClaimId::from_u128(7));
/// if let Admission::Granted(claim) = inbox.admit(&transaction, &request).await? {
///     transaction.execute("INSERT INTO payments VALUES ('pay-1', 100)", &[]).await?;
///     let settled = inbox.complete(&transaction, &claim, Outcome::empty(), Window::DEFAULT).await?;
///     assert!(matches!(settled, Settled::Now(_)));
/// }
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InboxSteps {
    texts: Arc<Texts>,
    clock: Option<Arc<dyn Clock>>,
}

impl InboxSteps {
    /// Returns the inbox of the store in this schema, which a store or `semel store migrate` has created.
    pub fn in_schema(schema: &str) -> Self {
        Self::new(Texts::in_schema(schema), None)
    }

    pub(crate) fn new(texts: Texts, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            texts: Arc::new(texts),
            clock,
        }
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction is committed; a
    /// rollback revokes it.
    ///
    /// # Guarantee   INB-1 and those of `Store::claim`
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        four statements on rows of one key, seven where it is gated; waits for another
    /// transaction at the same key
    /// # Errors
    /// `Throttled` (others were at the same key: roll back and begin again), `Unavailable`; after any
    /// error PostgreSQL refuses everything but a rollback, so nothing was applied.
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn admit(
        &self,
        transaction: &Transaction<'_>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit_in(transaction, request).await
    }

    /// Does what [`InboxSteps::admit`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn admit_on(
        &self,
        driver: &mut impl Driver,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit_in(&UserConnection::new(driver), request).await
    }

    async fn admit_in<C: Nests>(
        &self,
        transaction: &C,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        for _ in 0..TRIES {
            // Record and entity are two rows: should another transaction take the second meanwhile, the first is
            // undone.
            if request.gate.is_some() {
                savepoint(transaction, "SAVEPOINT semel_inbox").await?;
            }
            let wanted = Wanted {
                operations: vec![&request.operation],
                entities: request
                    .gate
                    .iter()
                    .map(|gate| (&request.operation.scope, &gate.entity))
                    .collect(),
                tokens: 1,
                outcomes: request.wants_outcome,
                given_now: self.given_now(),
            };
            let mut locked = Locked::begin(transaction, &self.texts, wanted)
                .await
                .map_err(Stop::into_error)?;
            let id = request.operation.id();
            let answer = locked.ledger.claim(id, request, &mut locked.tokens);
            match locked.flush().await {
                Ok(()) => {
                    if request.gate.is_some() {
                        savepoint(transaction, "RELEASE semel_inbox").await?;
                    }
                    return answer.ok_or_else(contended);
                }
                Err(Stop::Again) if request.gate.is_some() => {
                    let undo = "ROLLBACK TO semel_inbox; RELEASE semel_inbox";
                    savepoint(transaction, undo).await?;
                }
                Err(Stop::Again) => {}
                Err(stop) => return Err(stop.into_error()),
            }
        }
        Err(contended())
    }

    /// Records that the effect of `claim` happened within `transaction`.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and the user rolls back
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn complete(
        &self,
        transaction: &Transaction<'_>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.settle(transaction, &claim.completion(outcome, window))
            .await
    }

    /// Does what [`InboxSteps::complete`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn complete_on(
        &self,
        driver: &mut impl Driver,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.settle_on(driver, &claim.completion(outcome, window))
            .await
    }

    /// Reports any other step of a claim within `transaction`.
    ///
    /// # Guarantee   those of `Store::settle`
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn settle(
        &self,
        transaction: &Transaction<'_>,
        settlement: &Settlement,
    ) -> Result<Settled> {
        self.settle_in(transaction, settlement).await
    }

    /// Does what [`InboxSteps::settle`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`InboxSteps::admit`].
    pub async fn settle_on(
        &self,
        driver: &mut impl Driver,
        settlement: &Settlement,
    ) -> Result<Settled> {
        self.settle_in(&UserConnection::new(driver), settlement)
            .await
    }

    async fn settle_in<C: Runs>(
        &self,
        transaction: &C,
        settlement: &Settlement,
    ) -> Result<Settled> {
        for _ in 0..TRIES {
            let wanted = Wanted {
                operations: vec![&settlement.operation],
                given_now: self.given_now(),
                ..Wanted::default()
            };
            let mut locked = Locked::begin(transaction, &self.texts, wanted)
                .await
                .map_err(Stop::into_error)?;
            let answer = locked.ledger.settle(settlement.operation.id(), settlement);
            match locked.flush().await {
                Ok(()) => return Ok(answer),
                Err(Stop::Again) => {}
                Err(stop) => return Err(stop.into_error()),
            }
        }
        Err(contended())
    }

    fn given_now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| millis(clock.now()))
    }
}

async fn savepoint(transaction: &impl Nests, order: &str) -> Result<()> {
    let done = transaction.order(order).await;
    done.map_err(|error| Stop::from(error).into_error())
}

impl fmt::Debug for InboxSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InboxSteps")
    }
}
