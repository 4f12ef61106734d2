//! One operation within a savepoint of a transaction of sqlx, for any database.

use ::sqlx::{Connection, Database, Transaction};
use semel_core::{Admission, Claim, ClaimRequest, Outcome, Result, Settled, Window};
use semel_engine::once::inbox::{Call, Turn, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember};

use crate::inbox::no_savepoint;

/// The steps of an inbox.
pub(super) trait Steps: Sync {
    /// The database whose transactions it works in.
    type Db: Database;

    /// Returns what its calls are watched by.
    fn watch(&self) -> &Watch;

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
    call: Call,
    effect: F,
) -> Result<Receipt<T>, OnceError>
where
    I: Steps,
    T: Remember,
    F: AsyncFnOnce(&mut Transaction<'_, I::Db>) -> Result<T, Failure>,
{
    let mut call = call.watched(inbox.watch());
    let answer = within_savepoint(inbox, transaction, &mut call, effect).await;
    call.ended(answer)
}

async fn within_savepoint<I, T, F>(
    inbox: &I,
    transaction: &mut Transaction<'_, I::Db>,
    call: &mut Call,
    effect: F,
) -> Result<Receipt<T>, OnceError>
where
    I: Steps,
    T: Remember,
    F: AsyncFnOnce(&mut Transaction<'_, I::Db>) -> Result<T, Failure>,
{
    // A savepoint that is dropped is rolled back.
    let savepoint = transaction.begin().await;
    let mut savepoint = savepoint.map_err(|why| call.unasked(no_savepoint(why)))?;
    match step(inbox, &mut savepoint, call, effect).await {
        Ok(receipt) => {
            let released = savepoint.commit().await;
            released.map_err(|why| call.unasked(no_savepoint(why)))?;
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
    call: &mut Call,
    effect: F,
) -> Result<Receipt<T>, OnceError>
where
    I: Steps,
    T: Remember,
    F: AsyncFnOnce(&mut Transaction<'_, I::Db>) -> Result<T, Failure>,
{
    let admitted = inbox.admit(transaction, call.ask()).await;
    let claim = match call.turn(admitted)? {
        Turn::Granted(claim) => claim,
        Turn::Replayed(receipt) => return Ok(receipt),
    };
    let (value, outcome, window) = call.run(&claim, effect(transaction)).await?;
    let completed = inbox.complete(transaction, &claim, outcome.clone(), window);
    call.receipt(&claim, value, &outcome, completed.await)
}
