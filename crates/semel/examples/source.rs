//! A source of your own: anything that delivers messages at least once and takes acknowledgements.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::{
    Acknowledgement, Delivery, DeliveryId, Fate, Fetched, Message, Progress, Result, Semel, Source,
};

/// A queue that delivers everything twice.
struct Twice {
    messages: Vec<&'static str>,
    next: usize,
}

impl Source for Twice {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let end = (self.next + max).min(self.messages.len() * 2);
        if self.next == end {
            return Ok(Fetched::Ended);
        }
        let deliveries = (self.next..end).map(|number| {
            let payload = self.messages[number / 2];
            // The same for each delivery of one message: that makes it a redelivery.
            let coordinates = format!("queue:{}", number / 2);
            Delivery::new(DeliveryId(number as u64), payload, coordinates)
        });
        let deliveries = deliveries.collect();
        self.next = end;
        Ok(Fetched::Deliveries(deliveries))
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        for told in batch {
            println!("delivery {}: {:?}", told.delivery.0, told.fate);
        }
        Ok(())
    }

    async fn requeue(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let messages = vec!["a", "b"];
    let summary = semel
        .consumer("letters", Twice { messages, next: 0 })?
        .concurrency(1)
        .batch(1)
        .run(async |message: Message| {
            println!("effect of {}", message.key());
            Ok(())
        })
        .await?;
    println!(
        "{} applied, {} replayed",
        summary.of(Fate::Applied),
        summary.of(Fate::Replayed)
    );
    Ok(())
}

// prints:
// effect of a
// delivery 0: Applied
// delivery 1: Replayed
// effect of b
// delivery 2: Applied
// delivery 3: Replayed
// 2 applied, 2 replayed
