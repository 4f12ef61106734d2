//! Settling and admitting together with a mark.

use semel_core::port::checkpoint::{Together, Write};
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Mark, Outcome, Result, Settled, Settlement, Start,
};

use crate::answer::some_number;
use crate::error::gone;
use crate::jobs::{claim_one, wanted_claims};
use crate::locked::{Locked, Wanted};
use crate::pool::PooledConnection;
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::transaction::{Job, Stop, commit};

/// Settles all of a batch and sets the mark, or changes nothing. MRK-1.
pub(crate) struct SettleWith<'b>(pub(crate) &'b [Settlement], pub(crate) &'b Mark);

impl Job for SettleWith<'_> {
    type Answer = Together;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let wanted = Wanted {
            operations: self.0.iter().map(|it| &it.operation).collect(),
            first: set(session, self.1),
            ..Wanted::default()
        };
        let mut locked = Locked::begin(session, connection, wanted).await?;
        let settle = |it: &Settlement| locked.ledger.settle(it.operation.id(), it);
        let answers: Vec<_> = self.0.iter().map(settle).collect();
        if !answers
            .iter()
            .all(|answer| matches!(answer, Settled::Now(_)))
        {
            return Ok(Together::Refused(answers));
        }
        locked.finish().await?;
        Ok(Together::Applied(answers))
    }
}

/// Claims, completes and writes an output in one step. The output is written once: it cannot be undone
/// here. MRK-2.
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
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let wanted = Wanted {
            turnstile: Some("admit"),
            ..wanted_claims(&self.batch)
        };
        let mut locked = Locked::begin(session, connection, wanted).await?;
        let mut answers = Vec::with_capacity(self.batch.len());
        for request in &self.batch {
            let admission = claim_one(&mut locked, request);
            if let Admission::Granted(claim) = &admission {
                let completion = claim.completion(Outcome::empty(), request.window);
                let _ = locked.ledger.settle(request.operation.id(), &completion);
            }
            answers.push(admission);
        }
        // A full disk, or another session's insert, shows here, before anything is in the output.
        locked.flush().await?;
        let Some(write) = self.write.take() else {
            return Err(Stop::Failed(gone()));
        };
        let written = tokio::task::spawn_blocking(move || (write(&answers), answers)).await;
        let (mark, answers) = written.map_err(|_| {
            let message = "the output of an admission panicked while it was written";
            Error::new(ErrorKind::Internal, message).not_applied()
        })?;
        // Nothing of this is tried again: the output is written.
        let is_over = |stop: Stop| Stop::Failed(stop.into_error());
        let ran = locked.connection.run(&set(session, &mark?)).await;
        ran.map_err(|failure| is_over(failure.into()))?;
        commit(session, locked.connection).await.map_err(is_over)?;
        Ok(answers)
    }
}

/// Returns a named number.
pub(crate) async fn mark(session: &Session, name: &str) -> Result<Option<u64>> {
    let mut script = Script::default();
    script.add(&session.texts.mark_get, &[&Literal::bytes(name.as_bytes())]);
    let sets = session.ask(&script).await?;
    sets[0]
        .rows
        .first()
        .map(|row| some_number(row, 0))
        .transpose()
}

/// Sets a mark; the server must answer this before the commit is sent. Otherwise a process that reads the mark next, to
/// find out how far a vanished worker got, does not wait, and that worker's commit arrives after the read.
fn set(session: &Session, mark: &Mark) -> Script {
    let value = Literal::number(mark.value);
    let name = Literal::bytes(mark.name.as_bytes());
    let mut script = Script::default();
    script.add(&session.texts.mark_set, &[&name, &value, &value]);
    script
}
