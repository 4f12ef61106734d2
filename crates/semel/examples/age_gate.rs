//! A request that is older than the window and has no record may be a late duplicate: it is not
//! taken for new.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::{Clock, OnceError, Semel, SystemClock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let hour = Duration::from_secs(3_600);
    let charge = semel.operation("charge").window(24 * hour);
    let now = SystemClock::new().now();
    for (key, age) in [("young", hour), ("old", 25 * hour)] {
        let asked = charge.clone().birth(now.minus(age));
        match asked.once(key, async |_| Ok("charged".to_owned())).await {
            Ok(receipt) => println!("{key}: {}", receipt.value()),
            Err(OnceError::TooOld { .. }) => println!("{key}: too old, look it up"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

// prints:
// young: charged
// old: too old, look it up
