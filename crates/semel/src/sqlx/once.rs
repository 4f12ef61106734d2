//! One operation within a savepoint of a transaction of sqlx, for any database.

use ::sqlx::{Connection, Database, Transaction};
use semel_core::{Admission, Claim, ClaimRequest, Outcome, Result, Settled, Window};
use semel_engine::once::inbox::{Call, Turn};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember};

use crate::inbox::no_savepoint;

/// The steps of an inbox.
pub(super) trait Steps: Sync {
    /// The database whose transactions it works in.
    type Db: Database;

    /// Asks for the right to run an effect.
    fn admit(
        &self,
        transaction: &mut Transaction<'_, Self::Db>,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Admission>> + Send;

    /// Records that an effect happened.
    fn complete(
        &self,
        transaction: &mut Transaction<'_, Self::Db>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> impl Future<Output = Result<Settled>> + Send;
}

/// Runs `effect` and its record behind a savepoint, which is undone after an error.
pub(super) async fn run<I, T, F>(
    inbox: &I,
    transaction: &mut Transaction<'_, I::Db>,
    call: &Call,
    effect: F,
) -> Result<Receipt<T>, OnceError>
where
    I: Steps,
    T: Remember,
    F: AsyncFnOnce(&mut Transaction<'_, I::Db>) -> Result<T, Failure>,
{
    let refused = |why| call.unasked(no_savepoint(why));
    // A savepoint that is dropped is rolled back.
    let mut savepoint = transaction.begin().await.map_err(refused)?;
    match step(inbox, &mut savepoint, call, effect).await {
        Ok(receipt) => {
            savepoint.commit().await.map_err(refused)?;
            Ok(receipt)
        }
        Err(error) => {
            // If the transaction is gone, there is nothing to undo.
            let _ = savepoint.rollback().await;
            Err(error)
        }
    }
}

async fn step<I, T, F>(
    inbox: &I,
    transaction: &mut Transaction<'_, I::Db>,
    call: &Call,
    effect: F,
) -> Result<Receipt<T>, OnceError>
where
    I: Steps,
    T: Remember,
    F: AsyncFnOnce(&mut Transaction<'_, I::Db>) -> Result<T, Failure>,
{
    let request = call.request();
    let claim = match call.turn(inbox.admit(transaction, request).await)? {
        Turn::Granted(claim) => claim,
        Turn::Replayed(receipt) => return Ok(receipt),
    };
    let value = effect(transaction).await;
    let value = value.map_err(|failure| call.failed(&claim, failure))?;
    let outcome = Call::outcome(&value);
    let completed = inbox.complete(transaction, &claim, outcome.clone(), request.window);
    call.receipt(&claim, value, &outcome, completed.await)
}
