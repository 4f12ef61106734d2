//! An effect that hangs is given up in time, and its class decides: parked, so that it is never
//! repeated.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::{Failure, Semel};
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let charge = semel.operation("charge").timeout(Duration::from_millis(50));
    let (tell, told) = oneshot::channel();
    let hangs = async move |op: semel::Op| -> Result<(), Failure> {
        // Work that the effect starts elsewhere learns that the attempt has no right to go on.
        tokio::spawn(async move {
            op.cancelled().await;
            tell.send(op.attempt())
        });
        std::future::pending().await
    };
    if let Err(error) = charge.once("payment-1", hangs).await {
        println!("timed out: {}, {}", error.is_timeout(), error.code());
    }
    println!("attempt {} was cancelled", told.await?);
    Ok(())
}

// prints:
// timed out: true, in-doubt
// attempt 1 was cancelled
