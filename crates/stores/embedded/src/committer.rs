//! The one thread that decides and writes.
//!
//! Calls that queued while the previous sync ran are decided in order, written as one group, and
//! only then answered. There is no timer: an idle store answers at once, a busy one fills its
//! groups.

mod admission;
mod audit;
mod job;
mod transfer;

use std::sync::Arc;

use semel_core::port::store::{Stats, Swept};
use semel_core::{Clock, Note, Parked, ParkedId, Result, Timestamp};
use tokio::sync::mpsc;

use self::audit::AuditSet;
use self::job::{Answer, answer, in_part};
use crate::error::{self, WriteFailure};
use crate::files::{Files, Lock};
use crate::ledger::Ledger;
use crate::parked_log::ParkedLog;
use crate::superblock::Superblock;
use crate::sync;

pub(crate) use self::job::{Job, Reply};

/// Everything that the thread owns.
pub(crate) struct Committer {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) ledger: Ledger,
    pub(crate) parked_log: ParkedLog,
    /// Answers that wait for the group to be durable, by the log that they depend on.
    pub(crate) ledger_answers: Vec<Answer>,
    pub(crate) shelf_answers: Vec<Answer>,
    /// Contents of the audit trail, while entries are imported.
    pub(crate) audit_set: Option<AuditSet>,
    /// Set once a write failed: nobody knows what is on disk, so the store answers nothing from
    /// memory any more.
    pub(crate) is_poisoned: bool,
    /// Lock of the folder, held as long as the thread lives.
    pub(crate) lock: Box<dyn Lock>,
}

impl Committer {
    /// Works until every sender is gone, then notes in the superblock up to where both logs are
    /// durable.
    pub(crate) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(job) = sync::next(&mut jobs) {
            self.take(job);
            let mut count = 1;
            while count < JOBS_AT_ONCE && self.pending_len() < GROUP_BYTES {
                let Ok(job) = jobs.try_recv() else { break };
                self.take(job);
                count += 1;
            }
            self.commit();
            self.keep_up();
        }
        self.close();
    }

    fn pending_len(&self) -> usize {
        self.ledger.pending_len() + self.parked_log.pending_len()
    }

    /// Decides a job. Its answer waits for the group, unless it failed at once.
    fn take(&mut self, job: Job) {
        if self.is_poisoned {
            job.refuse(&error::poisoned());
            return;
        }
        if !matches!(job, Job::Import(..)) {
            self.audit_set = None;
        }
        let now = self.clock.now();
        match job {
            Job::Claim(batch, addresses, is_lent, reply) => {
                let answers = self.each(&batch, |ledger, index, request| {
                    ledger.read_ahead(&addresses, index);
                    ledger.claim(request, addresses.get(index), now, is_lent)
                });
                self.ledger.forget_readahead();
                self.answer(reply, answers);
            }
            Job::Settle(batch, addresses, reply) => {
                let answers = self.each(&batch, |ledger, index, settlement| {
                    ledger.warm_next(&addresses, index);
                    ledger.settle(settlement, addresses.get(index), now)
                });
                self.answer(reply, answers);
            }
            Job::SettleWith(batch, addresses, mark, reply) => {
                let admission = self.ledger.settle_with(&batch, &addresses, &mark, now);
                self.answer(reply, admission);
            }
            Job::AdmitWith(batch, addresses, write, reply) => {
                let admissions = self.admit_with(&batch, &addresses, write, now);
                self.answer(reply, admissions.map(|it| (it, batch, addresses)));
            }
            Job::Renew(batch, addresses, reply) => {
                let answers = self.each(&batch, |ledger, index, renewal| {
                    ledger.renew(renewal, addresses.get(index), now)
                });
                self.answer(reply, answers);
            }
            Job::Operate(batch, addresses, reply) => {
                let answers = self.each(&batch, |ledger, index, directive| {
                    ledger.operate(directive, addresses.get(index), now)
                });
                self.answer(reply, answers);
            }
            Job::Get(batch, addresses, reply) => {
                let records = batch.iter().enumerate();
                let records: Result<_> = records
                    .map(|(index, operation)| self.ledger.get(operation, addresses.get(index), now))
                    .collect();
                self.answer(reply, records);
            }
            Job::Park(batch, ids, reply) => self.park(&batch, &ids, reply),
            Job::DropParked(batch, note, reply) => self.drop_parked(&batch, note.as_ref(), reply),
            Job::List(query, reply) => {
                let page = self.ledger.list(&query, now);
                self.answer(reply, page);
            }
            Job::ListParked(query, reply) => {
                let page = self.parked_log.list(&query);
                self.shelf_answers.push(answer(reply, page));
            }
            Job::ListAudit(query, reply) => {
                let page = self.list_audit(&query);
                self.answer(reply, page);
            }
            Job::Export(after, limit, reply) => {
                let page = self.export(after.as_deref(), limit, now);
                self.answer(reply, page);
            }
            Job::Import(import, reply) => {
                let answers = self.import(import, now);
                self.answer(reply, answers);
            }
            Job::Mark(name, reply) => {
                let value = self.ledger.mark(&name);
                self.answer(reply, Ok(value));
            }
            Job::Sweep(limit, reply) => self.sweep(limit, now, reply),
            Job::Stats(reply) => {
                let stats = self.stats(now);
                self.answer(reply, stats);
            }
        }
    }

    /// Counts what both logs hold.
    fn stats(&self, now: Timestamp) -> Result<Stats> {
        let mut stats = self.ledger.stats(now)?;
        stats.parked = self.parked_log.count();
        stats.audited = self.ledger.audited() + self.parked_log.audited();
        stats.disk_bytes = Some(self.ledger.len_bytes() + self.parked_log.len_bytes());
        Ok(stats)
    }

    /// Decides every item of a batch. Items are independent, so a large batch may be written in
    /// parts.
    fn each<I, A>(
        &mut self,
        batch: &[I],
        mut decide: impl FnMut(&mut Ledger, usize, &I) -> A,
    ) -> Result<Vec<A>> {
        let mut answers = Vec::with_capacity(batch.len());
        for (index, item) in batch.iter().enumerate() {
            answers.push(decide(&mut self.ledger, index, item));
            self.ledger.split_frame();
            if self.ledger.pending_len() >= PART_BYTES {
                self.commit_ledger().map_err(|why| in_part(&why))?;
                self.keep_up();
                self.refuse_if_poisoned()?;
            }
        }
        Ok(answers)
    }

    fn park(&mut self, batch: &[Parked], ids: &[ParkedId], reply: Reply<Vec<bool>>) {
        let now = self.clock.now();
        let answers = self.each_parked(batch, |parked_log, index, message| {
            Ok(parked_log.park(ids[index], message, now))
        });
        self.shelf_answers.push(answer(reply, answers));
    }

    fn drop_parked(&mut self, batch: &[ParkedId], note: Option<&Note>, reply: Reply<Vec<bool>>) {
        let now = self.clock.now();
        let answers = self.each_parked(batch, |parked_log, _, id| {
            parked_log.drop_parked(*id, note, now)
        });
        self.shelf_answers.push(answer(reply, answers));
    }

    /// Does what [`Committer::each`] does, for the log of parked messages.
    fn each_parked<I>(
        &mut self,
        batch: &[I],
        mut decide: impl FnMut(&mut ParkedLog, usize, &I) -> Result<bool>,
    ) -> Result<Vec<bool>> {
        let mut answers = Vec::with_capacity(batch.len());
        for (index, item) in batch.iter().enumerate() {
            let answer = decide(&mut self.parked_log, index, item);
            answers.push(answer.map_err(|why| in_part(&why))?);
            if self.parked_log.pending_len() >= PART_BYTES {
                self.commit_parked_log().map_err(|why| in_part(&why))?;
                self.keep_up();
                self.refuse_if_poisoned()?;
            }
        }
        Ok(answers)
    }

    /// Sweeps, and frees the segments that it finds expired.
    fn sweep(&mut self, limit: usize, now: Timestamp, reply: Reply<Swept>) {
        let mut swept = self.ledger.sweep(limit, now);
        let outcome = self.commit_ledger().and_then(|()| {
            let retired = self.ledger.retire_active(now);
            self.settle_upkeep(retired.map(|()| false));
            for _ in 0..=limit / RECORDS_PER_STEP {
                if !self.keep_up() {
                    break;
                }
            }
            self.refuse_if_poisoned()
        });
        swept.removed += self.ledger.take_removed();
        self.ledger_answers
            .push(answer(reply, outcome.map(|()| swept)));
    }

    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, result: Result<T>) {
        self.ledger_answers.push(answer(reply, result));
    }

    /// Makes the group durable and answers it.
    fn commit(&mut self) {
        // The callers are answered in either case.
        let _ = self.commit_parked_log();
        let _ = self.commit_ledger();
    }

    fn commit_parked_log(&mut self) -> Result<()> {
        let written = self.parked_log.commit();
        let written = self.judge(written);
        self.shelf_answers
            .drain(..)
            .for_each(|answer| answer(written.as_ref().err()));
        written
    }

    fn commit_ledger(&mut self) -> Result<()> {
        let written = self.ledger.commit();
        let written = self.judge(written);
        self.ledger_answers
            .drain(..)
            .for_each(|answer| answer(written.as_ref().err()));
        written
    }

    fn judge<T>(&mut self, written: Result<T, WriteFailure>) -> Result<T> {
        if written.is_err() {
            self.audit_set = None;
        }
        written.map_err(|failure| match failure {
            WriteFailure::Undone(why) => why,
            WriteFailure::Unknown(why) => {
                self.is_poisoned = true;
                why
            }
        })
    }

    fn refuse_if_poisoned(&self) -> Result<()> {
        if self.is_poisoned {
            Err(error::poisoned())
        } else {
            Ok(())
        }
    }

    /// Does one step of upkeep in both logs. Returns whether there is more to do now.
    fn keep_up(&mut self) -> bool {
        if self.is_poisoned {
            return false;
        }
        let now = self.clock.now();
        let kept_up = self.ledger.keep_up(now);
        let more = self.settle_upkeep(kept_up);
        if self.is_poisoned {
            return false;
        }
        let kept_up = self.parked_log.keep_up(now);
        self.settle_upkeep(kept_up) | more
    }

    /// Swallows an upkeep step that found no room, to be tried again later; any other failure
    /// poisons the store.
    fn settle_upkeep(&mut self, step: Result<bool, WriteFailure>) -> bool {
        self.judge(step).unwrap_or(false)
    }

    /// Records up to where both logs are durable, so that the next opening can tell damage below
    /// that from a torn tail.
    fn close(self) {
        let Self {
            files,
            mut superblock,
            ledger,
            parked_log,
            is_poisoned,
            lock,
            ..
        } = self;
        if !is_poisoned {
            superblock.records = ledger.position();
            superblock.parked = parked_log.position();
            // If this one cannot be written, the one from the last opening stands.
            let _ = superblock.write(&*files);
        }
        drop((ledger, parked_log));
        drop(lock);
    }
}

/// Limits of one group: the most calls it takes in, and the bytes at which it is closed.
const JOBS_AT_ONCE: usize = 4_096;
const GROUP_BYTES: usize = 4 << 20;
/// Size beyond which a batch is written in parts.
const PART_BYTES: usize = 32 << 20;
/// Records of a sweep's limit that count as one step of upkeep.
const RECORDS_PER_STEP: usize = 64;
