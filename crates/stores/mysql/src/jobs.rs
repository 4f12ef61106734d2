//! Steps of the port that need a transaction: gated claims, settlements and renewals, and orders.

use semel_core::decide::{Directed, Directive};
use semel_core::{
    Admission, ClaimRequest, Operation, Renewal, Renewed, Result, Settled, Settlement,
};

use crate::error::contended;
use crate::locked::{Locked, Wanted};
use crate::pool::PooledConnection;
use crate::session::Session;
use crate::transaction::{Job, Stop};

/// A batch of claims of which some are gated.
pub(crate) struct Claim<'b>(pub(crate) &'b [ClaimRequest]);

impl Job for Claim<'_> {
    type Answer = Vec<Admission>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let mut locked = Locked::begin(session, connection, wanted_claims(self.0)).await?;
        let answers = self.0.iter().map(|request| claim_one(&mut locked, request));
        let answers = answers.collect();
        locked.finish().await?;
        Ok(answers)
    }
}

/// Collects the rows that a batch of claims needs.
pub(crate) fn wanted_claims(batch: &[ClaimRequest]) -> Wanted<'_> {
    let gates = batch.iter().filter_map(|request| {
        let gate = request.gate.as_ref()?;
        Some((&request.operation.scope, &gate.entity))
    });
    Wanted {
        operations: batch.iter().map(|request| &request.operation).collect(),
        entities: gates.collect(),
        tokens: batch.len(),
        outcomes: batch.iter().any(|request| request.wants_outcome),
        ..Wanted::default()
    }
}

/// Decides a claim; there is a token for each.
pub(crate) fn claim_one(locked: &mut Locked<'_>, request: &ClaimRequest) -> Admission {
    let id = request.operation.id();
    let answer = locked.ledger.claim(id, request, &mut locked.tokens);
    answer.unwrap_or_else(|| Admission::Failed(contended()))
}

/// A batch of settlements of any records.
pub(crate) struct Settle<'b>(pub(crate) &'b [Settlement]);

impl Job for Settle<'_> {
    type Answer = Vec<Settled>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, connection, operations, false).await?;
        let settle = |it: &Settlement| locked.ledger.settle(it.operation.id(), it);
        let answers = self.0.iter().map(settle).collect();
        locked.finish().await?;
        Ok(answers)
    }
}

/// A batch of renewals of any records.
pub(crate) struct Renew<'b>(pub(crate) &'b [Renewal]);

impl Job for Renew<'_> {
    type Answer = Vec<Renewed>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, connection, operations, false).await?;
        let renew = |it: &Renewal| locked.ledger.renew(it.operation.id(), it);
        let answers = self.0.iter().map(renew).collect();
        locked.finish().await?;
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
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let operations = self.0.iter().map(|it| &it.operation);
        let mut locked = lock(session, connection, operations, true).await?;
        let operate = |it: &Directive| locked.ledger.operate(it.operation.id(), it);
        let answers = self.0.iter().map(operate).collect();
        locked.finish().await?;
        Ok(answers)
    }
}

/// Locks and reads operations and the entities that gate them.
pub(crate) async fn lock<'t, 'b>(
    session: &'t Session,
    connection: &'t mut PooledConnection,
    operations: impl Iterator<Item = &'b Operation>,
    outcomes: bool,
) -> Result<Locked<'t>, Stop> {
    let wanted = Wanted {
        operations: operations.collect(),
        outcomes,
        ..Wanted::default()
    };
    Locked::begin(session, connection, wanted).await
}
