//! Transactions of the store's own: begun, tried again where others were in the way, committed.

use std::future::Future;

use semel_core::{Error, Result};

use crate::answer::Set;
use crate::error::{Failure, contended};
use crate::pool::PooledConnection;
use crate::script::Script;
use crate::session::{Session, pause};

/// Reason why a transaction did not come to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The server refused, or did not answer, before it was asked to commit.
    Server(Failure),
    /// The call ends with this error.
    Failed(Error),
    /// Another session inserted a row that was absent: begin again.
    Again,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    /// Returns the error of a transaction that is not tried again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Server(failure) => failure.uncommitted(),
            Self::Failed(error) => error,
            Self::Again => contended(),
        }
    }

    fn may_pass(&self, tries: u32) -> bool {
        match self {
            Self::Server(failure) => failure.may_pass(tries),
            Self::Failed(_) => false,
            Self::Again => tries < ROUNDS,
        }
    }
}

/// Work within one transaction. It may be run several times, each time from the beginning.
pub(crate) trait Job: Send {
    /// Its result.
    type Answer: Send;

    /// Does the work, its commit included. A transaction that it leaves open is rolled back.
    fn run<'a>(
        &'a mut self,
        session: &'a Session,
        connection: &'a mut PooledConnection,
    ) -> impl Future<Output = Result<Self::Answer, Stop>> + Send + 'a;
}

/// Does a job.
pub(crate) async fn transact<J: Job>(session: &Session, mut job: J) -> Result<J::Answer> {
    let mut tries = 0;
    loop {
        let mut connection = session.connection().await?;
        let ran = job.run(session, &mut connection).await;
        end(session, connection).await;
        match ran {
            Ok(answer) => return Ok(answer),
            Err(stop) if stop.may_pass(tries) => {
                tries += 1;
                pause(tries).await;
            }
            Err(stop) => return Err(stop.into_error()),
        }
    }
}

/// Commits the open transaction of a connection.
pub(crate) async fn commit(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<(), Stop> {
    let mut script = Script::default();
    script.add(&session.texts.commit, &[]);
    let committed = connection.run(&script).await;
    committed_or(committed.map(drop), connection)
}

/// Judges the end of a commit: undone and to be tried again, or final.
pub(crate) fn committed_or<T>(
    ran: Result<T, Failure>,
    connection: &mut PooledConnection,
) -> Result<T, Stop> {
    match ran {
        Ok(done) => {
            connection.ended();
            Ok(done)
        }
        Err(failure) if failure.is_passing() => Err(Stop::Server(failure)),
        Err(failure) => Err(Stop::Failed(failure.of_commit())),
    }
}

/// Runs a whole transaction in one script, which may be repeated from its begin.
pub(crate) async fn run_through(
    session: &Session,
    connection: &mut PooledConnection,
    script: &Script,
) -> Result<Vec<Set>> {
    let commit = script.statements - 1;
    let mut tries = 0;
    loop {
        match connection.run(script).await {
            Ok(sets) => {
                connection.ended();
                return Ok(sets);
            }
            Err(failure) => {
                if connection.is_open() {
                    let mut undo = Script::default();
                    undo.add(&session.texts.rollback, &[]);
                    if connection.run(&undo).await.is_ok() {
                        connection.ended();
                    }
                }
                if !failure.may_pass(tries) {
                    let is_before = failure.refusal().is_some() && failure.at < commit;
                    return Err(if is_before {
                        failure.uncommitted()
                    } else {
                        failure.of_commit()
                    });
                }
                tries += 1;
                pause(tries).await;
            }
        }
    }
}

/// Rolls back an open transaction, and gives the connection back. One that fails at that is closed.
pub(crate) async fn end(session: &Session, mut connection: PooledConnection) {
    if connection.is_open() {
        let mut script = Script::default();
        script.add(&session.texts.rollback, &[]);
        if connection.run(&script).await.is_ok() {
            connection.ended();
        }
    }
    connection.give_back();
}

/// Beginnings of a transaction that other sessions keep overtaking.
const ROUNDS: u32 = 32;
