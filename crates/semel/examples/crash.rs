//! A process that dies in the middle of two effects, and the process that follows it.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::process::{Command, exit};
use std::time::Duration;

use semel::{Failure, OnDoubt, Op, Semel};

async fn hangs(_: Op) -> Result<bool, Failure> {
    std::future::pending().await
}

async fn works(op: Op) -> Result<bool, Failure> {
    Ok(op.is_possible_repeat())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_child = std::env::args().len() > 1;
    if !is_child {
        let child = Command::new(std::env::current_exe()?)
            .arg("child")
            .status()?;
        println!("the child died: {}", child.code() == Some(9));
    }
    let semel = Semel::open("embedded:./semel-data").await?;
    let lease = Duration::from_millis(500);
    let charge = semel.operation("charge").lease(lease);
    let index = semel
        .operation("index")
        .lease(lease)
        .unkeyed(OnDoubt::Repeat);
    if is_child {
        let begun = [charge.once("payment-1", hangs), index.once("page-1", hangs)];
        let _begun = begun.map(tokio::spawn);
        tokio::time::sleep(Duration::from_millis(200)).await;
        exit(9);
    }
    if let Err(error) = charge.once("payment-1", works).await {
        println!("charge: {error}");
    }
    let receipt = index.once("page-1", works).await?;
    println!("index: ran again, possible repeat: {}", receipt.value());
    semel.close().await;
    Ok(())
}

// prints:
// the child died: true
// charge: the effect may have happened; the operation is in doubt
// index: ran again, possible repeat: true
