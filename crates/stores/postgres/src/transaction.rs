//! Transactions of the store's own: begun, tried again where others were in the way, committed.

use std::future::Future;
use std::mem::ManuallyDrop;

use deadpool_postgres::Transaction;
use semel_core::Result;

use crate::error::{is_passing, of_commit};
use crate::locked::Stop;
use crate::session::{Session, Tries};

/// Work within one transaction. It may be run several times, each time from the beginning.
pub(crate) trait Job: Send {
    /// Its result.
    type Answer: Send;

    /// Does the work; the caller begins and commits.
    fn run<'a>(
        &'a mut self,
        session: &'a Session,
        transaction: &'a Transaction<'_>,
    ) -> impl Future<Output = Result<Self::Answer, Stop>> + Send + 'a;
}

/// Does a job in a transaction and commits it.
pub(crate) async fn transact<J: Job>(session: &Session, mut job: J) -> Result<J::Answer> {
    let mut tries = Tries::begin();
    loop {
        let mut client = session.client().await?;
        match attempt(session, &mut client, &mut job).await {
            Ok(done) => return done,
            Err(stop) if tries.are_left() && may_pass(&stop) => {
                drop(client);
                tries.pause().await;
            }
            Err(stop) => return Err(stop.into_error()),
        }
    }
}

/// Runs one transaction; the outer error is from before the commit.
async fn attempt<J: Job>(
    session: &Session,
    client: &mut deadpool_postgres::Object,
    job: &mut J,
) -> Result<Result<J::Answer>, Stop> {
    if semel_core::planted("M31") {
        return Box::pin(left_open(session, client, job)).await;
    }
    let transaction = client.transaction().await?;
    match job.run(session, &transaction).await {
        Ok(answer) => match transaction.commit().await {
            Ok(()) => Ok(Ok(answer)),
            Err(error) if is_passing(&error) => Err(error.into()),
            Err(error) => Ok(Err(of_commit(error))),
        },
        Err(stop) => {
            // The next user of the connection finds it broken.
            let _ = transaction.rollback().await;
            Err(stop)
        }
    }
}

/// Behaves like a driver that rolls nothing back when a call is given up.
async fn left_open<J: Job>(
    session: &Session,
    client: &mut deadpool_postgres::Object,
    job: &mut J,
) -> Result<Result<J::Answer>, Stop> {
    let transaction = ManuallyDrop::new(client.transaction().await?);
    let answer = job.run(session, &transaction).await?;
    let committed = ManuallyDrop::into_inner(transaction).commit().await;
    Ok(committed.map(|()| answer).map_err(of_commit))
}

fn may_pass(stop: &Stop) -> bool {
    match stop {
        Stop::Server(error) => is_passing(error),
        Stop::Failed(_) => false,
        Stop::Again => true,
    }
}
