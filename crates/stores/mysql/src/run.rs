//! Runs a script on a connection: ours, or a user's.

use std::future::Future;

use mysql_async::prelude::Queryable;
use mysql_async::{DriverError, Row, Transaction};
use semel_core::Error;

use crate::answer::{Cells, Set};
use crate::error::{Failure, Why};
use crate::script::Script;

/// A connection that is in a transaction of its user's.
pub(crate) trait Runs: Send {
    /// A row of its answers.
    type Row: Cells + Send + Sync;

    /// Sends a script and reads the rows of each statement. An error says that nothing was applied:
    /// nothing was asked to commit.
    fn rows(
        &mut self,
        script: &Script,
    ) -> impl Future<Output = Result<Vec<Vec<Self::Row>>, Error>> + Send;
}

impl Runs for Transaction<'_> {
    type Row = Row;

    async fn rows(&mut self, script: &Script) -> Result<Vec<Vec<Row>>, Error> {
        let sets = run(self, script).await.map_err(Failure::uncommitted)?;
        Ok(sets.into_iter().map(|set| set.rows).collect())
    }
}

/// Sends a script and reads every result. The server stops at the first statement that fails.
pub(crate) async fn run(conn: &mut impl Queryable, script: &Script) -> Result<Vec<Set>, Failure> {
    let failed = |at, error| Failure {
        at,
        why: match error {
            mysql_async::Error::Server(error) => Why::Refused(error),
            error => Why::Broken(error),
        },
    };
    let mut sets = Vec::with_capacity(script.statements);
    let query = conn.query_iter(&script.text[..]).await;
    let mut result = query.map_err(|error| failed(0, error))?;
    for at in 0..script.statements {
        let affected = result.affected_rows();
        let ends_here = at + 1 < script.statements && result.is_empty();
        let rows: Vec<Row> = result.collect().await.map_err(|error| failed(at, error))?;
        if ends_here {
            let payload = Vec::new();
            return Err(failed(
                at + 1,
                DriverError::UnexpectedPacket { payload }.into(),
            ));
        }
        sets.push(Set { affected, rows });
    }
    // Further results belong to nobody; an error there is one of the last statement.
    let rest = result.drop_result().await;
    rest.map_err(|error| failed(script.statements.saturating_sub(1), error))?;
    Ok(sets)
}
