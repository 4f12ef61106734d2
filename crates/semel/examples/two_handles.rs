//! Two handles on one SQLite file, as two processes would have them: one effect.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::{Failure, Op, Semel};

async fn slowly(_: Op) -> Result<String, Failure> {
    println!("one of them charges");
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok("ch_1".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let one = Semel::open("sqlite:payments.db").await?;
    let other = Semel::open("sqlite:payments.db").await?;
    let (a, b) = tokio::join!(
        one.once("charge", "payment-1", slowly),
        other.once("charge", "payment-1", slowly),
    );
    let (a, b) = (a?, b?);
    println!(
        "{} and {}, one replay: {}",
        a.value(),
        b.value(),
        a.is_replay() != b.is_replay()
    );
    one.close().await;
    other.close().await;
    Ok(())
}

// prints:
// one of them charges
// ch_1 and ch_1, one replay: true
