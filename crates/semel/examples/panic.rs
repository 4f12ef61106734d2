//! An effect that panics is caught: the record says what is known, and the caller gets an error.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::{Failure, OnDoubt, Semel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::panic::set_hook(Box::new(|_| println!("the hook hears it")));
    let semel = Semel::open("memory:").await?;
    let panics = async |_: semel::Op| -> Result<u64, Failure> { panic!("a bug") };
    let park = semel.operation("charge");
    if let Err(error) = park.once("payment-1", panics).await {
        println!("panic: {}, {}", error.is_panic(), error.code());
    }
    // Where repeating does no harm, the next call runs it again.
    let repeat = semel.operation("index").unkeyed(OnDoubt::Repeat);
    let _ = repeat.once("page-1", panics).await;
    let receipt = repeat
        .once("page-1", async |op| Ok(op.is_possible_repeat()))
        .await?;
    println!("possible repeat: {}", receipt.value());
    Ok(())
}

// prints:
// the hook hears it
// panic: true, in-doubt
// the hook hears it
// possible repeat: true
