//! A consumer that is stopped: it finishes what runs and begins nothing more, and the next run
//! continues where it stopped.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Duration;

use semel::testing::ListSource;
use semel::{Fate, Message, Semel};
use tokio::sync::Notify;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    for run in 1..=2 {
        let enough = Arc::new(Notify::new());
        let stop = Arc::clone(&enough);
        let numbers = (1..=5).map(|number| number.to_string());
        let summary = semel
            .consumer("numbers", ListSource::new(numbers))?
            .concurrency(1)
            .batch(1)
            .stop_when(async move { stop.notified().await })
            .run(move |message: Message| {
                let enough = Arc::clone(&enough);
                async move {
                    println!("run {run}: {}", message.key());
                    if message.payload() == "3" {
                        // A signal handler would do this.
                        enough.notify_one();
                        // The consumer is asked to stop while this message still runs.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Ok(())
                }
            })
            .await?;
        println!("run {run}: {} applied", summary.of(Fate::Applied));
    }
    Ok(())
}

// prints:
// run 1: 1
// run 1: 2
// run 1: 3
// run 1: 3 applied
// run 2: 4
// run 2: 5
// run 2: 2 applied
