//! Connections that statements run on, and the rows of their answers.

use std::future::Future;

use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::types::{FromSql, ToSql, Type};
use deadpool_postgres::tokio_postgres::{self, Row};

use crate::failure::Failure;
use crate::sql::Text;

/// Runs statements: a connection of the pool, a transaction on it, or a user's own transaction on a
/// connection of any driver.
pub(crate) trait Runs: Sync {
    /// A row as the driver hands it over.
    type Row: Cells + Send + Sync;

    /// Runs a statement and returns its rows.
    fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Failure>> + Send;
}

/// A user's transaction, in which a savepoint may be set.
pub(crate) trait Nests: Runs {
    /// Runs statements without parameters or rows.
    fn order(&self, sql: &str) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The columns of a row.
pub(crate) trait Cells {
    /// Returns the value of a column.
    fn try_get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, Failure>;
}

impl Runs for Object {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare_typed_cached(&text.sql, &text.types).await?;
        Ok(self.query(&statement, parameters).await?)
    }
}

impl Runs for deadpool_postgres::Transaction<'_> {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare_typed_cached(&text.sql, &text.types).await?;
        Ok(self.query(&statement, parameters).await?)
    }
}

impl Runs for tokio_postgres::Transaction<'_> {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters
            .iter()
            .copied()
            .zip(text.types.iter().cloned())
            .collect();
        Ok(self.query_typed(&text.sql, &typed).await?)
    }
}

impl Nests for tokio_postgres::Transaction<'_> {
    async fn order(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.batch_execute(sql).await?)
    }
}

impl Cells for Row {
    fn try_get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, Failure> {
        Ok(Self::try_get(self, column)?)
    }
}
