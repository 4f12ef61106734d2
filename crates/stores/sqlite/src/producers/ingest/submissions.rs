//! Submissions that wait for the thread of the file: those that are there when it turns to them share a transaction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use semel_core::Result;
use semel_core::ingest::{GateAnswer, Submission};
use tokio::sync::oneshot;

use crate::connection_thread::{ConnectionThread, in_transaction};
use crate::error;

/// The submissions of one journal that the thread has not turned to yet.
#[derive(Debug, Default)]
pub(super) struct Submissions(Mutex<Vec<Waiting>>);

#[derive(Debug)]
struct Waiting {
    submission: Submission,
    answer: oneshot::Sender<Result<GateAnswer>>,
}

impl Submissions {
    /// Submits, together with what waits at the same time.
    ///
    /// # Cancel safety   safe: one that nobody waits for any more when its turn comes is not asked; a later one may have
    /// been carried out, and is known when it comes again
    pub(super) async fn submit(
        self: &Arc<Self>,
        thread: &ConnectionThread,
        submission: Submission,
    ) -> Result<GateAnswer> {
        let (answer, mut answered) = oneshot::channel();
        self.lock().push(Waiting { submission, answer });
        let submissions = Arc::clone(self);
        let turn = thread.ask(move |connection| {
            submissions.write(connection);
            Ok(())
        });
        // Another's turn may be its own.
        tokio::select! {
            biased;
            answer = &mut answered => return answer.unwrap_or_else(|_| Err(error::gone())),
            turn = turn => turn?,
        }
        answered.await.unwrap_or_else(|_| Err(error::gone()))
    }

    /// Answers all that wait now; what comes meanwhile has a turn of its own.
    fn write(&self, connection: &Connection) {
        let mut waiting = std::mem::take(&mut *self.lock());
        waiting.retain(|it| !it.answer.is_closed());
        let mut waiting = waiting.into_iter().peekable();
        while waiting.peek().is_some() {
            let (mut group, mut bytes) = (Vec::new(), 0);
            while group.len() < MOST_TOGETHER && bytes < MOST_BYTES_TOGETHER {
                let Some(next) = waiting.next() else {
                    break;
                };
                let messages = next.submission.messages.iter();
                bytes += messages.map(|it| it.payload.len()).sum::<usize>();
                group.push(next);
            }
            answer(connection, group);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a group, in its order. Where one of it fails, nothing of it is written, and each is tried alone.
fn answer(connection: &Connection, group: Vec<Waiting>) {
    let mut is_refused = false;
    let answers = in_transaction(connection, |connection| {
        let submit = |it: &Waiting| super::submit(connection, &it.submission);
        let answers: Result<Vec<_>> = group.iter().map(submit).collect();
        answers.inspect_err(|_| is_refused = true)
    });
    match answers {
        Ok(answers) => {
            for (one, answer) in group.into_iter().zip(answers) {
                one.tell(Ok(answer));
            }
        }
        Err(_) if is_refused && group.len() > 1 => {
            for one in group {
                answer(connection, vec![one]);
            }
        }
        Err(why) => group.into_iter().for_each(|it| it.tell(Err(why.clone()))),
    }
}

impl Waiting {
    fn tell(self, answer: Result<GateAnswer>) {
        // Who stopped waiting sends it again, and it is known.
        let _ = self.answer.send(answer);
    }
}

/// The submissions of a transaction at most.
const MOST_TOGETHER: usize = 1_000;
/// The bytes from which on a transaction takes no further one.
const MOST_BYTES_TOGETHER: usize = 8 << 20;
