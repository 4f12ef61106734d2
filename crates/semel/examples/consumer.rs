//! A handler over a file of messages: duplicates are acknowledged without a call.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::file::{FileSource, Options};
use semel::{Fate, Message, Semel};
use serde::Deserialize;

#[derive(Deserialize)]
struct Payment {
    id: String,
    cents: u64,
}

const PAYMENTS: &str = r#"{"id":"p-1","cents":100}
{"id":"p-2","cents":200}
{"id":"p-1","cents":100}
{"id":"p-1","cents":999}
{"cents":5}
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write("payments.ndjson", PAYMENTS)?;
    let semel = Semel::open("embedded:./semel-data").await?;
    let source = FileSource::open("payments.ndjson", Options::default()).await?;
    let summary = semel
        .consumer("payments", source)?
        .key("json:/id")?
        .concurrency(1)
        .run(async |message: Message| {
            let payment: Payment = message.json()?;
            println!("charging {} for {}", payment.cents, payment.id);
            Ok(format!("charged {}", payment.cents))
        })
        .await?;
    for fate in [
        Fate::Applied,
        Fate::Replayed,
        Fate::Conflict,
        Fate::Quarantined,
    ] {
        println!("{fate:?}: {}", summary.of(fate));
    }
    semel.close().await;
    Ok(())
}

// prints:
// charging 100 for p-1
// charging 200 for p-2
// Applied: 2
// Replayed: 1
// Conflict: 1
// Quarantined: 1
