//! Submissions that wait for the disk: while some are written, the others gather, and are written together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::ingest::{GateAnswer, Submission};
use semel_core::producer::ProducerName;
use semel_core::producer::ledger::Ledger;
use semel_core::{ErrorKind, Result};
use tokio::sync::oneshot;

use crate::files::Files;
use crate::producers::file::JournalFile;
use crate::producers::record::{Location, Record};
use crate::producers::{Shared, no_folder};

/// The submissions of one journal that are not written yet.
#[derive(Default)]
pub(super) struct Submissions(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// True while a thread writes, which takes what comes meanwhile as well.
    has_writer: bool,
}

struct Waiting {
    submission: Submission,
    answer: oneshot::Sender<Result<GateAnswer>>,
}

impl Submissions {
    /// Takes a submission. The channel is closed without an answer if its thread died.
    pub(super) fn add(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        submission: Submission,
    ) -> oneshot::Receiver<Result<GateAnswer>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.push(Waiting { submission, answer });
        if !std::mem::replace(&mut state.has_writer, true) {
            let writer = Writer {
                submissions: Arc::clone(self),
                is_done: false,
            };
            let shared = Arc::clone(shared);
            tokio::task::spawn_blocking(move || writer.run(&shared));
        }
        answered
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one that writes.
struct Writer {
    submissions: Arc<Submissions>,
    is_done: bool,
}

impl Writer {
    fn run(mut self, shared: &Shared) {
        while let Some(waiting) = self.next() {
            let mut by_producer = BTreeMap::<ProducerName, Vec<Waiting>>::new();
            for one in waiting {
                let producer = one.submission.producer();
                by_producer.entry(producer).or_default().push(one);
            }
            for (producer, group) in by_producer {
                let submissions: Vec<_> = group.iter().map(|it| &it.submission).collect();
                let answers = submit(shared, &producer, &submissions);
                for (one, answer) in group.into_iter().zip(answers) {
                    // Who stopped waiting sends it again, and it is known.
                    let _ = one.answer.send(answer);
                }
            }
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut state = self.submissions.lock();
        self.is_done = state.waiting.is_empty();
        state.has_writer = !self.is_done;
        let count = state.waiting.len().min(MOST_TOGETHER);
        (count > 0).then(|| state.waiting.drain(..count).collect())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.submissions.lock();
            state.has_writer = false;
            state.waiting.clear();
        }
    }
}

/// Decides about submissions of one producer, in their order; the answers are in the same.
fn submit(
    shared: &Shared,
    name: &ProducerName,
    submissions: &[&Submission],
) -> Vec<Result<GateAnswer>> {
    let mut answers = Answers::default();
    let submitted = answers.of(shared, name, submissions);
    let Answers { mut all, durable } = answers;
    if let Err(error) = submitted {
        // What was decided by a state that is not on the disk is not decided.
        all.truncate(durable);
        all.resize(submissions.len(), Err(error));
    }
    all
}

/// The answers to submissions of one producer.
#[derive(Default)]
struct Answers {
    all: Vec<Result<GateAnswer>>,
    /// The number of those whose state is on the disk.
    durable: usize,
}

impl Answers {
    fn of(
        &mut self,
        shared: &Shared,
        name: &ProducerName,
        submissions: &[&Submission],
    ) -> Result<()> {
        if !shared.has_log(name)? {
            // What is refused leaves nothing, neither a folder nor a lock.
            let decide = |it: &&Submission| it.decide_in::<Location>(None);
            let refused: Vec<_> = submissions.iter().map(decide).collect();
            let is_taken = |it: &GateAnswer| matches!(it, GateAnswer::Taken { .. });
            if !refused.iter().any(is_taken) {
                self.all.extend(refused.into_iter().map(Ok));
                return Ok(());
            }
        }
        let submitted = shared.with(name, true, |log, files| {
            log.shorten(files)?;
            let mut staged = Vec::new();
            for submission in submissions {
                self.decide(log, files, submission, &mut staged)?;
            }
            self.make_durable(log, files, &mut staged)
        });
        submitted?.ok_or_else(no_folder)
    }

    fn decide(
        &mut self,
        log: &mut JournalFile,
        files: &dyn Files,
        submission: &Submission,
        staged: &mut Vec<u8>,
    ) -> Result<()> {
        let answer = submission.decide_in(log.ledger.as_ref());
        let GateAnswer::Taken {
            known, new, next, ..
        } = answer
        else {
            self.all.push(Ok(answer));
            return Ok(());
        };
        let position = log
            .ledger
            .as_ref()
            .map(|it| it.position(&submission.stream));
        if position.is_none_or(|it| it.epoch < submission.epoch() || it.next.is_none()) {
            self.make_durable(log, files, staged)?;
            let ledger = log.renewed();
            let mut ledger = ledger.unwrap_or_else(|| Ledger::of_sender(&submission.producer()));
            log.begin_at(submission.at.as_millis());
            ledger.adopt(submission);
            // With the power off in between, nothing was promised: the same messages come again, or none.
            log.rewrite(files, &ledger)?;
        }
        let mut answer = Ok(answer);
        if new > 0 {
            let batch = submission.batch(known, new, next);
            if log.has_groups() && batch.body.len() < MOST_BYTES_TOGETHER {
                log.stage(&submission.stream, &batch, staged)?;
            } else {
                self.make_durable(log, files, staged)?;
                let added = log.add(files, &Record::Append(&submission.stream, &batch));
                match added {
                    // Nothing of the others.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => answer = Err(error),
                    added => added?,
                }
            }
        }
        self.all.push(answer);
        if staged.len() >= MOST_BYTES_TOGETHER {
            self.make_durable(log, files, staged)?;
        }
        Ok(())
    }

    /// Writes what is staged. What was decided until now is on the disk then.
    fn make_durable(
        &mut self,
        log: &mut JournalFile,
        files: &dyn Files,
        staged: &mut Vec<u8>,
    ) -> Result<()> {
        if !staged.is_empty() {
            log.add_staged(files, staged)?;
            staged.clear();
        }
        self.durable = self.all.len();
        Ok(())
    }
}

/// The submissions that are written together at most; others wait for the next write.
const MOST_TOGETHER: usize = 1_000;
/// The bytes from which on they are written.
const MOST_BYTES_TOGETHER: usize = 8 << 20;
