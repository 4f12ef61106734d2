//! Settling and admitting together with a mark.

use deadpool_postgres::Transaction;
use semel_core::port::checkpoint::{Together, Write};
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Mark, Outcome, Result, Settled, Settlement, Start,
};

use crate::connection::Runs;
use crate::error::contended;
use crate::jobs::{claim_all, lock, wanted_claims};
use crate::locked::{Locked, Stop};
use crate::session::Session;
use crate::transaction::Job;

/// Settles all of a batch and sets the mark, or changes nothing. MRK-1.
pub(crate) struct SettleWith<'b>(pub(crate) &'b [Settlement], pub(crate) &'b Mark);

impl Job for SettleWith<'_> {
    type Answer = Together;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, transaction, operations, false).await?;
        let settle = |it: &Settlement| locked.ledger.settle(it.operation.id(), it);
        let answers: Vec<_> = self.0.iter().map(settle).collect();
        if !answers
            .iter()
            .all(|answer| matches!(answer, Settled::Now(_)))
        {
            return Ok(Together::Refused(answers));
        }
        locked.flush().await?;
        set_mark(session, transaction, self.1).await?;
        Ok(Together::Applied(answers))
    }
}

/// Claims, completes and writes an output in one step. It runs only once, since the output cannot
/// be undone here. MRK-2.
pub(crate) struct AdmitWith {
    batch: Vec<ClaimRequest>,
    write: Option<Write>,
}

impl AdmitWith {
    pub(crate) fn new(batch: Vec<ClaimRequest>, write: Write) -> Result<Self> {
        if batch.iter().any(|request| request.start != Start::Unmarked) {
            let message = "what is admitted together with a mark is never marked as started";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Self {
            batch,
            write: Some(write),
        })
    }
}

impl Job for AdmitWith {
    type Answer = Vec<Admission>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let wanted = wanted_claims(session, &self.batch);
        let mut locked = Locked::begin(transaction, &session.texts, wanted).await?;
        let mut answers = Vec::with_capacity(self.batch.len());
        for request in &self.batch {
            let admission = claim_all(&mut locked, std::slice::from_ref(request)).remove(0);
            if let Admission::Granted(claim) = &admission {
                let completion = claim.completion(Outcome::empty(), request.window);
                let _ = locked.ledger.settle(request.operation.id(), &completion);
            }
            answers.push(admission);
        }
        // A full disk, or another session's insert, shows here, before anything is in the output.
        locked.flush().await?;
        let Some(write) = self.write.take() else {
            return Err(Stop::Failed(contended()));
        };
        let written = tokio::task::spawn_blocking(move || (write(&answers), answers)).await;
        let (mark, answers) = written.map_err(|_| {
            let message = "the output of an admission panicked while it was written";
            Error::new(ErrorKind::Internal, message).not_applied()
        })?;
        set_mark(session, transaction, &mark?).await?;
        Ok(answers)
    }
}

async fn set_mark(session: &Session, client: &impl Runs, mark: &Mark) -> Result<(), Stop> {
    let value = mark.value.cast_signed();
    client
        .rows(&session.texts.mark_set, &[&&*mark.name, &value])
        .await?;
    Ok(())
}
