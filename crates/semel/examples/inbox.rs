//! Record and business change in one commit of your own transaction: exactly once, also where the
//! process dies between any two lines.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};
use semel::sqlite::Inbox;
use semel::{Admission, Remember, Semel, Settled, SystemClock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut connection = Connection::open("app.db")?;
    let inbox = Inbox::open(&connection, Arc::new(SystemClock::new()))?;
    connection.execute_batch("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")?;
    connection.execute("INSERT INTO stock VALUES ('book', 10)", [])?;

    let semel = Semel::open("sqlite:app.db").await?;
    let take = semel.operation("take");
    for order in ["order-1", "order-2", "order-1"] {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let request = take.claim_request(order)?;
        match inbox.admit(&transaction, &request)? {
            Admission::Granted(claim) => {
                let sql = "UPDATE stock SET count = count - 1 RETURNING count";
                let left: i64 = transaction.query_row(sql, [], |row| row.get(0))?;
                let outcome = left.to_outcome(1_024);
                let settled = inbox.complete(&transaction, &claim, outcome, request.window)?;
                assert!(matches!(settled, Settled::Now(_)));
                println!("{order}: {left} left");
            }
            Admission::Replay {
                outcome: Some(outcome),
                ..
            } => {
                println!(
                    "{order}: taken before, {} left then",
                    i64::from_outcome(&outcome)?
                );
            }
            other => println!("{order}: {other:?}"),
        }
        transaction.commit()?;
    }
    semel.close().await;
    Ok(())
}

// prints:
// order-1: 9 left
// order-2: 8 left
// order-1: taken before, 9 left then
