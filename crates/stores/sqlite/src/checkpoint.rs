//! Settling and admitting together with a mark.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::params;
use semel_core::port::checkpoint::{Together, Write};
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Mark, OpId, Outcome, Result, Settled, Settlement,
    Start,
};
use tokio::sync::oneshot;

use crate::error::{gone, undone};
use crate::ledger::Ledger;
use crate::sql;
use crate::writer::{Job, Memory, Stop};

/// Settles all of `batch`, whose operations have these ids, and sets the mark, or decides nothing. MRK-1.
pub(crate) fn settle_with(
    ledger: &mut Ledger<'_>,
    ids: &[OpId],
    batch: &[Settlement],
    mark: &Mark,
) -> Result<Together> {
    let items = ids.iter().zip(batch);
    let answers = items.map(|(id, item)| ledger.settle(*id, item));
    let answers = answers.collect::<Result<Vec<_>>>()?;
    if !answers
        .iter()
        .all(|answer| matches!(answer, Settled::Now(_)))
    {
        ledger.forget_decisions();
        return Ok(Together::Refused(answers));
    }
    set_mark(ledger, mark)?;
    Ok(Together::Applied(answers))
}

/// One call of `admit_with`. It runs only once, in a transaction of its own: the output cannot be
/// undone here. MRK-2.
pub(crate) struct Admit {
    batch: Vec<(OpId, ClaimRequest)>,
    write: Option<Write>,
    answers: Vec<Admission>,
    reply: oneshot::Sender<Result<Vec<Admission>>>,
}

impl Admit {
    pub(crate) fn new(
        batch: Vec<ClaimRequest>,
        write: Write,
        reply: oneshot::Sender<Result<Vec<Admission>>>,
    ) -> Result<Self> {
        if batch.iter().any(|request| request.start != Start::Unmarked) {
            let message = "what is admitted together with a mark is never marked as started";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let with_id = |request: ClaimRequest| (request.operation.id(), request);
        Ok(Self {
            answers: Vec::with_capacity(batch.len()),
            batch: batch.into_iter().map(with_id).collect(),
            write: Some(write),
            reply,
        })
    }
}

impl Job for Admit {
    fn run(&mut self, ledger: &mut Ledger<'_>, _: &mut Memory) -> Result<(), Stop> {
        let write = self.write.take().ok_or_else(gone)?;
        ledger.want_outcomes(self.batch.iter().any(|(_, request)| request.wants_outcome));
        ledger.reserve(self.batch.len());
        for (id, request) in &self.batch {
            let admission = ledger.claim(*id, request)?;
            if let Admission::Granted(claim) = &admission {
                let completion = claim.completion(Outcome::empty(), request.window);
                let _ = ledger.settle(*id, &completion)?;
            }
            self.answers.push(admission);
        }
        // A full disk shows here, before anything is in the output.
        ledger.flush()?;
        let answers = &self.answers;
        let mark = catch_unwind(AssertUnwindSafe(|| write(answers))).unwrap_or_else(|_| {
            let message = "the output of an admission panicked while it was written";
            Err(Error::new(ErrorKind::Internal, message).not_applied())
        })?;
        set_mark(ledger, &mark)?;
        Ok(())
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, done: Result<()>) {
        // The caller may have stopped waiting.
        let Self { answers, reply, .. } = *self;
        let _ = reply.send(done.map(|()| answers));
    }
}

fn set_mark(ledger: &Ledger<'_>, mark: &Mark) -> Result<()> {
    let mut set = ledger
        .connection
        .prepare_cached(sql::MARK_SET)
        .map_err(undone)?;
    set.execute(params![&*mark.name, mark.value.cast_signed()])
        .map_err(undone)
        .map(drop)
}
