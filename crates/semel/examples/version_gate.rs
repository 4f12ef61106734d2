//! Updates of one entity that arrive out of order: an older version never overwrites a newer one.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::{OnDoubt, OnceError, Semel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    // Writing a version again does no harm, so a doubt is resolved by repeating.
    let store = semel.operation("store").unkeyed(OnDoubt::Repeat);
    for version in [1, 3, 2, 3, 4] {
        let update = store.clone().version("account-7", version);
        match update.once(("account-7", version), async |_| Ok(())).await {
            Ok(receipt) if receipt.is_replay() => println!("version {version}: duplicate"),
            Ok(_) => println!("version {version}: written"),
            Err(OnceError::Stale { applied, .. }) => {
                println!("version {version}: stale, there is {applied}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

// prints:
// version 1: written
// version 3: written
// version 2: stale, there is 3
// version 3: duplicate
// version 4: written
