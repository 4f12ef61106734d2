//! A thread with a connection of its own, which answers one question after the other. Not for the writes of a store, which
//! share transactions.

use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel_core::Result;
use tokio::sync::{mpsc, oneshot};

use crate::error;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// Accepts questions for the thread. Dropping it waits until all accepted ones are answered.
pub(crate) struct ConnectionThread {
    questions: Option<mpsc::Sender<Question>>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionThread {
    /// Starts the thread under this name.
    pub(crate) fn start(name: &str, connection: Connection, queue: usize) -> Result<Self> {
        let (questions, mut accepted) = mpsc::channel::<Question>(queue.max(1));
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                while let Some(question) = accepted.blocking_recv() {
                    question(&connection);
                }
            })
            .map_err(error::no_thread)?;
        Ok(Self {
            questions: Some(questions),
            thread: Some(thread),
        })
    }

    /// Answers `question`. One that nobody waits for any more when its turn comes is not asked.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let gone = || error::gone().not_applied();
        let (reply, answer) = oneshot::channel();
        let questions = self.questions.as_ref().ok_or_else(gone)?;
        let question: Question = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            // The caller may have stopped waiting meanwhile.
            let _ = reply.send(question(connection));
        });
        questions.send(question).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Answers a question about one state of the file.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(move |connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Deferred);
            let transaction = transaction.map_err(error::undone)?;
            question(&transaction)
        })
        .await
    }

    /// Changes the file in one transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(move |connection| in_transaction(connection, work))
            .await
    }
}

/// Does `work` in one transaction that changes the file; undoes all of it where it fails.
pub(crate) fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(error::undone)?;
    let answer = work(&transaction)?;
    let committed = transaction.commit();
    committed.map_err(|why| error::of_commit(why, false))?;
    Ok(answer)
}

impl Drop for ConnectionThread {
    fn drop(&mut self) {
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been answered with "gone" already.
            let _ = thread.join();
        }
    }
}
