//! Answers in transactions of `sqlx`.

use ::sqlx::Transaction;
use semel_core::{Result, Settled, Settlement};
use semel_gateway::Transactions;

use super::{is_completed, uncommitted};

/// Commits in the transactions of a database.
macro_rules! commits {
    ($feature:literal, $inbox:ident, $database:ident) => {
        #[cfg(feature = $feature)]
        impl<'t> Transactions<Transaction<'t, ::sqlx::$database>> for crate::sqlx::$inbox {
            async fn commit(
                &self,
                mut transaction: Transaction<'t, ::sqlx::$database>,
                completion: &Settlement,
            ) -> Result<Settled> {
                let settled = self.settle(&mut transaction, completion).await?;
                if is_completed(&settled) {
                    transaction.commit().await.map_err(uncommitted)?;
                }
                Ok(settled)
            }
        }
    };
}

commits!("sqlx-mysql", MysqlInbox, MySql);
commits!("sqlx-postgres", PostgresInbox, Postgres);
commits!("sqlx-sqlite", SqliteInbox, Sqlite);
