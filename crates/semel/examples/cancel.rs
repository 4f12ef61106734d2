//! A caller that goes away: an effect that has begun runs on, and the next call gets its outcome.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::Semel;
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let call = semel.once("charge", "payment-1", async |_| {
        sleep(Duration::from_millis(200)).await;
        println!("charged");
        Ok(4_200_u64)
    });
    // The client hangs up.
    let gone = timeout(Duration::from_millis(50), call).await.is_err();
    println!("caller gone: {gone}");
    let receipt = semel.once("charge", "payment-1", async |_| Ok(0)).await?;
    println!("{} cents, replay: {}", receipt.value(), receipt.is_replay());
    Ok(())
}

// prints:
// caller gone: true
// charged
// 4200 cents, replay: true
