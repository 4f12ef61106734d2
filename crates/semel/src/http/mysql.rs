//! Answers in transactions of `mysql_async`.

use semel_core::{Result, Settled, Settlement};
use semel_gateway::Transactions;
use semel_store_mysql::mysql_async::Transaction;

use super::{is_completed, uncommitted};
use crate::mysql::MysqlInbox;

impl<'t> Transactions<Transaction<'t>> for MysqlInbox {
    async fn commit(
        &self,
        mut transaction: Transaction<'t>,
        completion: &Settlement,
    ) -> Result<Settled> {
        let settled = self.settle(&mut transaction, completion).await?;
        if is_completed(&settled) {
            transaction.commit().await.map_err(uncommitted)?;
        }
        Ok(settled)
    }
}
