//! Many keys in one call: one round trip to claim, one to settle, results in order.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::{Failure, Semel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let payments = [
        ("p-1", 100),
        ("p-2", 0),
        ("p-1", 100),
        ("", 5),
        ("p-3", 300),
    ];
    let results = semel.once_batch("charge", payments, async |_op, cents: u64| {
        if cents == 0 {
            return Err(Failure::dead("nothing to charge"));
        }
        Ok(cents)
    });
    for ((key, _), result) in payments.iter().zip(results.await) {
        match result {
            Ok(receipt) => println!(
                "{key}: {} (replay: {})",
                receipt.value(),
                receipt.is_replay()
            ),
            Err(error) => println!("{key:?}: {}", error.code()),
        }
    }
    Ok(())
}

// prints:
// p-1: 100 (replay: false)
// "p-2": dead
// p-1: 100 (replay: true)
// "": invalid-input
// p-3: 300 (replay: false)
