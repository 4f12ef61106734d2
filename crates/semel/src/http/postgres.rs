//! Answers in transactions of `tokio-postgres`.

use semel_core::{Result, Settled, Settlement};
use semel_gateway::Transactions;
use semel_store_postgres::tokio_postgres::Transaction;

use super::{is_completed, uncommitted};
use crate::postgres::PostgresInbox;

impl<'t> Transactions<Transaction<'t>> for PostgresInbox {
    async fn commit(
        &self,
        transaction: Transaction<'t>,
        completion: &Settlement,
    ) -> Result<Settled> {
        let settled = self.settle(&transaction, completion).await?;
        if is_completed(&settled) {
            transaction.commit().await.map_err(uncommitted)?;
        }
        Ok(settled)
    }
}
