//! Submissions that wait for the disk: while some are written, the others gather, and are written together.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::ingest::{GateAnswer, Position, Submission};
use semel_core::producer::ProducerName;
use semel_core::producer::ledger::Ledger;
use semel_core::{ErrorKind, Result};
use tokio::sync::oneshot;

use crate::files::Files;
use crate::producers::file::JournalFile;
use crate::producers::record::{Location, Record};
use crate::producers::{Shared, no_folder};
use crate::wire::Put;

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
        let has_writer = {
            let mut state = self.lock();
            state.waiting.push(Waiting { submission, answer });
            std::mem::replace(&mut state.has_writer, true)
        };
        if !has_writer {
            let writer = Writer {
                submissions: Arc::clone(self),
                is_done: false,
            };
            let shared = Arc::clone(shared);
            // A runtime that ends drops the writer here and now, which takes the lock again.
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
                // A panic is over this producer alone: nothing was taken into its state that is not on the disk.
                let answers = AssertUnwindSafe(|| submit(shared, &producer, &submissions));
                let answers = catch_unwind(answers).unwrap_or_default();
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
    let Answers {
        mut all, durable, ..
    } = answers;
    if let Err(error) = submitted {
        // What was decided by a state that is not on the disk is not decided.
        all.truncate(durable);
        all.resize(submissions.len(), Err(error));
    }
    all
}

/// The answers to submissions of one producer, and what is to be written before they are told.
#[derive(Default)]
struct Answers<'s> {
    all: Vec<Result<GateAnswer>>,
    /// The number of those whose state is on the disk.
    durable: usize,
    /// Records of new messages, each with its length before it.
    staged: Vec<u8>,
    /// The sequence of the next message behind those, by stream.
    next: BTreeMap<&'s str, u64>,
    /// Their digests.
    digests: BTreeSet<(&'s str, [u8; 32])>,
}

impl<'s> Answers<'s> {
    fn of(
        &mut self,
        shared: &Shared,
        name: &ProducerName,
        submissions: &[&'s Submission],
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
            // Who sends what is here already is told that it is kept.
            log.secure(files)?;
            for submission in submissions {
                let answer = self.take(log, files, submission)?;
                self.all.push(answer);
                if self.staged.is_empty() {
                    self.durable = self.all.len();
                } else if self.staged.len() >= MOST_BYTES_TOGETHER {
                    self.write(log, files)?;
                }
            }
            self.write(log, files)
        });
        submitted?.ok_or_else(no_folder)
    }

    /// Decides about a submission, and stages what is new.
    fn take(
        &mut self,
        log: &mut JournalFile,
        files: &dyn Files,
        submission: &'s Submission,
    ) -> Result<Result<GateAnswer>> {
        let answer = self.decide(log, submission);
        let GateAnswer::Taken {
            known, new, next, ..
        } = answer
        else {
            return Ok(Ok(answer));
        };
        let stream = &*submission.stream;
        let position = log.ledger.as_ref().map(|it| it.position(stream));
        if position.is_none_or(|it| it.epoch < submission.epoch() || it.next.is_none()) {
            self.write(log, files)?;
            let ledger = log.renewed();
            let mut ledger = ledger.unwrap_or_else(|| Ledger::of_sender(&submission.producer()));
            log.begin_at(submission.at.as_millis());
            ledger.adopt(submission);
            // With the power off in between, nothing was promised: the same messages come again, or none.
            log.rewrite(files, &ledger)?;
        }
        if new == 0 {
            return Ok(Ok(answer));
        }
        let batch = submission.batch(known, new, next);
        let record = Record::Append(stream, &batch);
        if log.has_groups() && batch.body.len() < MOST_BYTES_TOGETHER {
            let mut bytes = Vec::with_capacity(batch.body.len() + 128);
            record.write(&mut bytes);
            self.staged.put_bytes(&bytes);
            self.next.insert(stream, next);
            let digest = submission.digest();
            self.digests.extend(digest.map(|it| (stream, *it)));
            return Ok(Ok(answer));
        }
        self.write(log, files)?;
        match log.add(files, &record) {
            // Nothing of the others.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Err(error)),
            added => added.map(|()| Ok(answer)),
        }
    }

    /// Decides by the state of the log, and of what is staged behind it.
    fn decide(&self, log: &JournalFile, submission: &Submission) -> GateAnswer {
        let stream = &*submission.stream;
        if self.staged.is_empty() || semel_core::planted("X43") {
            return submission.decide_in(log.ledger.as_ref());
        }
        let ledger = log.ledger.as_ref();
        let position = ledger.map(|it| it.position(stream)).map(|it| Position {
            next: self.next.get(stream).copied().or(it.next),
            ..it
        });
        let is_staged = |digest: &[u8; 32]| self.digests.contains(&(stream, *digest));
        let is_known = |digest: &[u8; 32]| {
            let input = ledger.and_then(|it| it.input(stream, digest).ok()?);
            input.is_some()
        };
        let digest = submission.digest();
        let is_remembered = digest.is_some_and(|it| is_staged(it) || is_known(it));
        submission.decide(position, is_remembered)
    }

    /// Writes what is staged. What was decided until now is on the disk then.
    fn write(&mut self, log: &mut JournalFile, files: &dyn Files) -> Result<()> {
        if !self.staged.is_empty() {
            log.add(files, &Record::Together(&self.staged))?;
            self.staged.clear();
            self.next.clear();
            self.digests.clear();
        }
        self.durable = self.all.len();
        Ok(())
    }
}

/// The submissions that are written together at most; others wait for the next write.
const MOST_TOGETHER: usize = 1_000;
/// The bytes from which on they are written.
const MOST_BYTES_TOGETHER: usize = 8 << 20;
