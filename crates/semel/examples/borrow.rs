//! An effect that borrows runs in the caller's own task.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::Semel;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let mut ledger = vec!["opened".to_owned()];
    let post = semel.operation("post");
    for entry in ["rent", "rent", "food"] {
        let _ = post
            .once_here(entry, async |op| {
                ledger.push(format!("{entry}, attempt {}", op.attempt()));
                Ok(())
            })
            .await?;
    }
    println!("{ledger:?}");
    Ok(())
}

// prints:
// ["opened", "rent, attempt 1", "food, attempt 1"]
