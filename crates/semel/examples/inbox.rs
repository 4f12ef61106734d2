//! Record and business change in one commit of your own transaction: exactly once, even if the
//! process dies between any two lines.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::rusqlite::{Connection, TransactionBehavior};
use semel::sqlite::SqliteInbox;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = Connection::open("app.db")?;
    let inbox = SqliteInbox::open(&connection)?;
    connection.execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")?;
    connection.execute("INSERT INTO stock VALUES ('book', 10)", [])?;

    for order in ["order-1", "order-2", "order-1"] {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let receipt = inbox.once(&tx, "take", order, |tx| {
            let sql = "UPDATE stock SET count = count - 1 RETURNING count";
            let left: i64 = tx.query_row(sql, [], |row| row.get(0))?;
            Ok(left)
        })?;
        tx.commit()?;
        let before = if receipt.is_replay() {
            ", taken before"
        } else {
            ""
        };
        println!("{order}: {} left{before}", receipt.value());
    }
    Ok(())
}

// prints:
// order-1: 9 left
// order-2: 8 left
// order-1: 9 left, taken before
