//! Steps of the port that need a transaction: gated claims, settlements and renewals, and orders.

use deadpool_postgres::Transaction;
use semel_core::decide::{Directed, Directive};
use semel_core::{
    Admission, ClaimRequest, Operation, Renewal, Renewed, Result, Settled, Settlement,
};

use crate::locked::{Locked, Stop, Wanted};
use crate::session::Session;
use crate::transaction::Job;

/// A batch of claims of which some are gated.
pub(crate) struct Claim<'b>(pub(crate) &'b [ClaimRequest]);

impl Job for Claim<'_> {
    type Answer = Vec<Admission>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let mut locked =
            Locked::begin(transaction, &session.texts, wanted_claims(session, self.0)).await?;
        let answers = claim_all(&mut locked, self.0);
        locked.flush().await?;
        Ok(answers)
    }
}

/// Collects the rows that a batch of claims needs.
pub(crate) fn wanted_claims<'b>(session: &Session, batch: &'b [ClaimRequest]) -> Wanted<'b> {
    let gates = batch.iter().filter_map(|request| {
        let gate = request.gate.as_ref()?;
        Some((&request.operation.scope, &gate.entity))
    });
    Wanted {
        operations: batch.iter().map(|request| &request.operation).collect(),
        entities: gates.collect(),
        tokens: batch.len(),
        outcomes: batch.iter().any(|request| request.wants_outcome),
        given_now: session.given_now(),
    }
}

/// Decides every claim; there is a token for each.
pub(crate) fn claim_all<C: crate::connection::Runs>(
    locked: &mut Locked<'_, C>,
    batch: &[ClaimRequest],
) -> Vec<Admission> {
    let answer = |request: &ClaimRequest| {
        let id = request.operation.id();
        let answer = locked.ledger.claim(id, request, &mut locked.tokens);
        answer.unwrap_or_else(|| Admission::Failed(crate::error::contended()))
    };
    batch.iter().map(answer).collect()
}

/// A batch of settlements of which some are of gated records.
pub(crate) struct Settle<'b>(pub(crate) &'b [Settlement]);

impl Job for Settle<'_> {
    type Answer = Vec<Settled>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, transaction, operations, false).await?;
        let settle = |it: &Settlement| locked.ledger.settle(it.operation.id(), it);
        let answers = self.0.iter().map(settle).collect();
        locked.flush().await?;
        Ok(answers)
    }
}

/// A batch of renewals of which some are of gated records.
pub(crate) struct Renew<'b>(pub(crate) &'b [Renewal]);

impl Job for Renew<'_> {
    type Answer = Vec<Renewed>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, transaction, operations, false).await?;
        let renew = |it: &Renewal| locked.ledger.renew(it.operation.id(), it);
        let answers = self.0.iter().map(renew).collect();
        locked.flush().await?;
        Ok(answers)
    }
}

/// A batch of operators' orders.
pub(crate) struct Operate<'b>(pub(crate) &'b [Directive]);

impl Job for Operate<'_> {
    type Answer = Vec<Directed>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, transaction, operations, true).await?;
        let operate = |it: &Directive| locked.ledger.operate(it.operation.id(), it);
        let answers = self.0.iter().map(operate).collect();
        locked.flush().await?;
        Ok(answers)
    }
}

/// Locks and reads operations and the entities that gate them.
pub(crate) async fn lock<'t, 'b, C: crate::connection::Runs>(
    session: &'t Session,
    client: &'t C,
    operations: impl Iterator<Item = &'b Operation>,
    outcomes: bool,
) -> Result<Locked<'t, C>, Stop> {
    let wanted = Wanted {
        operations: operations.collect(),
        outcomes,
        given_now: session.given_now(),
        ..Wanted::default()
    };
    Locked::begin(client, &session.texts, wanted).await
}
