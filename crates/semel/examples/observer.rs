//! An observer, which sees every decision: for metrics, traces or a log.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use semel::{Event, Failure, Observer, Semel};

struct Printing;

impl Observer for Printing {
    fn observe(&self, name: &str, event: &Event<'_>) {
        match event {
            Event::Granted { grant, .. } => println!("{name}: attempt {} begins", grant.attempt),
            Event::Completed { .. } => println!("{name}: completed"),
            Event::Replayed { duplicate, .. } => println!("{name}: duplicate, {duplicate:?}"),
            Event::Released { error, .. } => println!("{name}: failed, {error}"),
            // There are more, such as the time that each effect took.
            _ => {}
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Semel::builder().observer(Arc::new(Printing));
    let semel = builder.open("memory:").await?;
    let charge = semel.operation("charge").transport("delivery-1");
    let refused = async |_| -> Result<(), _> { Err(Failure::not_applied("try later")) };
    let _ = charge.once("payment-1", refused).await;
    let charge = charge.wait(std::time::Duration::from_secs(10));
    for _ in 0..2 {
        let _ = charge.once("payment-2", async |_| Ok(())).await?;
    }
    Ok(())
}

// prints:
// charge: attempt 1 begins
// charge: failed, try later
// charge: attempt 1 begins
// charge: completed
// charge: duplicate, Redelivery
