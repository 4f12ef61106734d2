//! Answers in transactions of `sqlx`.

use ::sqlx::{Database, Transaction};
use semel_core::{Error, ErrorKind, Result, Settled, Settlement};
use semel_gateway::Transactions;
use sqlx_core::transaction::TransactionManager;

use super::{is_completed, uncommitted};

/// Refuses a savepoint: the transaction around it can still take back what it commits.
fn is_whole<D: Database>(transaction: &D::Connection) -> Result<()> {
    if D::TransactionManager::get_transaction_depth(transaction) == 1 {
        return Ok(());
    }
    let message = "this transaction is a savepoint, which the one around it can still take back: commit the savepoint, \
                   and hand over the transaction around it; nothing was committed";
    Err(Error::new(ErrorKind::InvalidInput, message).not_applied())
}

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
                // Behind a statement, since a savepoint that was dropped is rolled back with the next one.
                is_whole::<::sqlx::$database>(&transaction)?;
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
