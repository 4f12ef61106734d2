//! An effect that was surely not applied may be tried again: by the next call, or within one.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::{Advice, Failure, Semel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let send = semel
        .operation("send")
        .backoff(Duration::from_millis(20), Duration::from_secs(1));

    // One attempt per call.
    let refused = async |_| -> Result<(), _> { Err(Failure::not_applied("mailbox is busy")) };
    if let Err(error) = send.once("mail-1", refused).await {
        let again = matches!(error.advice(), Advice::Retry { .. });
        println!("{error}; again: {again}");
    }

    // As many as necessary.
    let receipt = send
        .once_retrying("mail-1", |op: semel::Op| async move {
            println!("attempt {}", op.attempt());
            if op.attempt() < 4 {
                return Err(Failure::not_applied("mailbox is busy"));
            }
            Ok("accepted".to_owned())
        })
        .await?;
    println!("{}", receipt.value());
    Ok(())
}

// prints:
// the effect failed and did not happen; again: true
// attempt 2
// attempt 3
// attempt 4
// accepted
