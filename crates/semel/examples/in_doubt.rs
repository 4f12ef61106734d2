//! An operation in doubt: nobody knows whether the effect happened. Semel never repeats it on its
//! own. An operator resolves the doubt, and duplicates get the outcome.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io;

use semel::port::store::{ListQuery, Store};
use semel::{Note, Semel, StateKind};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let charge = semel.operation("charge");
    let broken = async |_| -> Result<String, _> { Err(io::Error::other("connection reset"))? };
    if let Err(error) = charge.once("payment-1", broken).await {
        println!("{error}");
    }
    let query = ListQuery {
        state: Some(StateKind::InDoubt),
        limit: 100,
        ..ListQuery::default()
    };
    for listed in semel.store()?.list(&query).await?.items {
        let why = listed.record.last_error.unwrap_or_default();
        println!("in doubt: {} ({why})", listed.operation.key);
    }

    // The provider's list says that it was charged.
    let note = Note {
        by: "ada".into(),
        reason: "found ch_1 at the provider".into(),
    };
    let charged = "ch_1".to_owned();
    let _ = charge.resolve_applied("payment-1", &charged, note).await?;
    let receipt = charge.once("payment-1", broken).await?;
    println!("{}, replay: {}", receipt.value(), receipt.is_replay());
    Ok(())
}

// prints:
// the effect may have happened; the operation is in doubt
// in doubt: payment-1 (connection reset)
// ch_1, replay: true
