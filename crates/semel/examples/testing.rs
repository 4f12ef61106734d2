//! A handler under test: a clock that is set by hand, a store that fails on cue, no sleeping.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::testing::{Fault, StoreCall, Testbed};
use semel::{OnceError, Receipt, Semel};

/// The function under test.
async fn charge(semel: &Semel, id: &str) -> Result<Receipt<u64>, OnceError> {
    semel.once("charge", id, async |_| Ok(4_200)).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bed = Testbed::new();
    let (semel, faults) = bed.failing();
    faults.next(StoreCall::Claim, Fault::LoseAnswer);
    faults.next(StoreCall::Settle, Fault::Cut);
    println!("replay: {}", charge(&semel, "payment-1").await?.is_replay());
    println!(
        "replay: {}",
        charge(&bed.semel(), "payment-1").await?.is_replay()
    );
    bed.clock().advance(Duration::from_secs(8 * 86_400));
    println!(
        "after the window, replay: {}",
        charge(&semel, "payment-1").await?.is_replay()
    );
    for event in bed.events() {
        println!("  {event}");
    }
    Ok(())
}

// prints:
// replay: false
// replay: true
// after the window, replay: false
//   store failed: the connection broke
//   granted payment-1 attempt 1
//   store failed: the connection broke
//   completed payment-1
//   replayed payment-1
//   granted payment-1 attempt 1
//   completed payment-1
