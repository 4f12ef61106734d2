//! A dead operation, which failed for good or is out of attempts: a duplicate gets the reason, and
//! nothing runs.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use semel::{Failure, Happened, Semel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let semel = Semel::open("memory:").await?;
    let charge = semel.operation("charge");
    for _ in 0..2 {
        let refused = async |_| -> Result<u64, _> { Err(Failure::dead("no such card")) };
        if let Err(error) = charge.once("payment-1", refused).await {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            println!("{}: {why}, ran: {}", error.code(), error.ran());
            assert_eq!(error.happened(), Happened::No);
        }
    }
    Ok(())
}

// prints:
// dead: no such card, ran: true
// dead: no such card, ran: false
