//! The one thread that writes: calls queue up while a transaction commits, and the next one takes
//! them all.
//!
//! An answer is given after the commit. A job that fails undoes no other: a group with a failed job is undone, and its
//! jobs are repeated one by one. An accepted job is done even if its caller stops waiting.

use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use semel_core::{Clock, Error, Result};
use tokio::sync::{mpsc, oneshot};

use crate::error::{self, of_commit, undone};
use crate::ledger::{Ledger, Scopes};
use crate::sql;

/// Accepts jobs for the thread that writes. Dropping it waits until all accepted jobs are done.
pub(crate) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread with a connection of its own.
    pub(crate) fn start(
        connection: Connection,
        clock: Arc<dyn Clock>,
        queue: usize,
    ) -> std::io::Result<Self> {
        let (jobs, accepted) = mpsc::channel(queue.max(1));
        let writer_thread = WriterThread {
            connection,
            clock,
            memory: Memory::default(),
            poisoned: false,
        };
        let thread = std::thread::Builder::new()
            .name("semel-sqlite-writer".into())
            .spawn(move || writer_thread.work(accepted))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Does `work` within a transaction, perhaps several times over, and answers once it is
    /// committed.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Ledger<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.accept(Box::new(Call {
            work,
            answer: None,
            reply,
        }))
        .await?;
        answer.await.unwrap_or_else(|_| Err(error::gone()))
    }

    /// Queues a job.
    pub(crate) async fn accept(&self, job: Box<dyn Job>) -> Result<()> {
        let gone = || error::gone().not_applied();
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).await.map_err(|_| gone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been answered with "gone" already.
            let _ = thread.join();
        }
    }
}

/// Work within a transaction.
pub(crate) trait Job: Send {
    /// Does the work. Called again from the start after an undone transaction.
    fn run(&mut self, ledger: &mut Ledger<'_>, memory: &mut Memory) -> Result<(), Stop>;

    /// Notes that the transaction is committed. Returns whether nothing is left to do.
    fn committed(&mut self) -> bool {
        true
    }

    /// Notes that the commit was refused because of this job alone. Returns whether another try makes sense.
    fn refused(&mut self, _why: &rusqlite::Error) -> bool {
        false
    }

    /// Returns whether it must not share a transaction, because it cannot be done twice.
    fn is_alone(&self) -> bool {
        false
    }

    /// Gives the answer.
    fn answer(self: Box<Self>, done: Result<()>);
}

/// Reason why a job stops.
pub(crate) enum Stop {
    /// It failed.
    Failed(Error),
    /// It wants the transaction undone and repeated: it has learned something.
    Again,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// State that the thread keeps between jobs.
#[derive(Default)]
pub(crate) struct Memory {
    /// Number of jobs with users' statements that guard each message with a savepoint, because one of them failed a
    /// short while ago.
    pub(crate) careful: u32,
}

struct Call<F, T> {
    work: F,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<F, T> Job for Call<F, T>
where
    F: FnMut(&mut Ledger<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, ledger: &mut Ledger<'_>, _: &mut Memory) -> Result<(), Stop> {
        self.answer = Some((self.work)(ledger)?);
        Ok(())
    }

    fn answer(self: Box<Self>, done: Result<()>) {
        let Self { answer, reply, .. } = *self;
        // The caller may have stopped waiting.
        let _ = reply.send(done.and_then(|()| answer.ok_or_else(error::gone)));
    }
}

struct WriterThread {
    connection: Connection,
    clock: Arc<dyn Clock>,
    memory: Memory,
    poisoned: bool,
}

impl WriterThread {
    fn work(mut self, mut accepted: mpsc::Receiver<Box<dyn Job>>) {
        let mut scopes = Scopes::default();
        while let Some(first) = accepted.blocking_recv() {
            let (mut group, mut next) = (Vec::new(), Some(first));
            let alone = loop {
                match next {
                    Some(job) if job.is_alone() => break Some(job),
                    Some(job) => group.push(job),
                    None => break None,
                }
                if group.len() == MAX_GROUP {
                    break None;
                }
                next = accepted.try_recv().ok();
            };
            self.serve(group, &mut scopes);
            if let Some(job) = alone {
                self.serve_alone(job, &mut scopes);
            }
        }
    }

    fn serve(&mut self, mut group: Vec<Box<dyn Job>>, scopes: &mut Scopes) {
        if group.len() > 1 {
            match self.transact(&mut group, scopes) {
                Ok(()) => {
                    let (done, rest): (Vec<_>, Vec<_>) = group
                        .into_iter()
                        .map(|mut job| (job.committed(), job))
                        .partition(|(done, _)| *done);
                    for (_, job) in done {
                        job.answer(Ok(()));
                    }
                    for (_, job) in rest {
                        self.serve_alone(job, scopes);
                    }
                    return;
                }
                // On the disk or not: only the callers try again.
                Err(Failure::Unknown(error) | Failure::Unavailable(error)) => {
                    for job in group {
                        job.answer(Err(error.clone()));
                    }
                    return;
                }
                Err(Failure::Again | Failure::Undone(_) | Failure::Refused(_)) => {}
            }
        }
        for job in group {
            self.serve_alone(job, scopes);
        }
    }

    fn serve_alone(&mut self, job: Box<dyn Job>, scopes: &mut Scopes) {
        let mut one = [job];
        let done = loop {
            match self.transact(&mut one, scopes) {
                Ok(()) if one[0].committed() => break Ok(()),
                Ok(()) | Err(Failure::Again) => {}
                Err(Failure::Refused(why)) if one[0].refused(&why) => {}
                Err(Failure::Refused(why)) => break Err(of_commit(why, true)),
                Err(
                    Failure::Undone(error) | Failure::Unknown(error) | Failure::Unavailable(error),
                ) => break Err(error),
            }
        };
        let [job] = one;
        job.answer(done);
    }

    fn transact(&mut self, jobs: &mut [Box<dyn Job>], scopes: &mut Scopes) -> Result<(), Failure> {
        if self.poisoned {
            return Err(Failure::Unavailable(error::poisoned()));
        }
        let done = self.transact_once(jobs, scopes);
        if done.is_err() {
            scopes.clear();
            if !self.connection.is_autocommit() {
                // If even this fails, the next BEGIN does as well and says why.
                let _ = execute(&self.connection, sql::ROLLBACK);
            }
        }
        done
    }

    fn transact_once(
        &mut self,
        jobs: &mut [Box<dyn Job>],
        scopes: &mut Scopes,
    ) -> Result<(), Failure> {
        let connection = &self.connection;
        execute(connection, sql::BEGIN).map_err(|error| Failure::Unavailable(undone(error)))?;
        for job in jobs {
            // Read within the lock, so that two steps on one key never see time run backwards.
            let now = self.clock.now();
            let mut ledger = Ledger::new(connection, scopes, now).map_err(Failure::Undone)?;
            match job.run(&mut ledger, &mut self.memory) {
                Ok(()) => ledger.flush().map_err(Failure::Undone)?,
                Err(Stop::Failed(error)) => return Err(Failure::Undone(error)),
                Err(Stop::Again) => return Err(Failure::Again),
            }
        }
        let Err(error) = execute(connection, sql::COMMIT) else {
            return Ok(());
        };
        let open = !connection.is_autocommit();
        self.poisoned = error::is_failed_flush(&error);
        if open && error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) {
            return Err(Failure::Refused(error));
        }
        Err(Failure::Unknown(of_commit(error, open)))
    }
}

/// Ways in which a transaction fails.
enum Failure {
    /// It did not begin.
    Unavailable(Error),
    /// A job failed; surely nothing was applied.
    Undone(Error),
    /// A job wants the transaction repeated.
    Again,
    /// The commit was refused for a constraint that is checked there; nothing was applied.
    Refused(rusqlite::Error),
    /// The commit failed; the error says whether something may have been applied.
    Unknown(Error),
}

fn execute(connection: &Connection, text: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(text)?.raw_execute().map(drop)
}

/// The most jobs in one transaction.
const MAX_GROUP: usize = 64;
