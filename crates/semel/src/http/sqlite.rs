//! Answers in transactions of `rusqlite`.

use semel_core::{Result, Settled, Settlement};
use semel_gateway::BlockingTransactions;
use semel_store_sqlite::rusqlite::{DropBehavior, Transaction};

use super::{is_completed, uncommitted};
use crate::sqlite::SqliteInbox;

impl<'t> BlockingTransactions<Transaction<'t>> for SqliteInbox {
    fn commit(&self, mut transaction: Transaction<'t>, completion: &Settlement) -> Result<Settled> {
        // Whatever the user has it do: what is not completed is not committed.
        transaction.set_drop_behavior(DropBehavior::Rollback);
        let settled = self.settle(&transaction, completion)?;
        if is_completed(&settled) {
            transaction.commit().map_err(uncommitted)?;
        }
        Ok(settled)
    }
}
