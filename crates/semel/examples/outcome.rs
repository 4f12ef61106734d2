//! A type that changes over time, while records of the old one live on. Semel reads an outcome as the
//! type that it was written as, or not at all. It does not run the effect again either way.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use semel::{Semel, Typed};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ChargeV1 {
    euros: u64,
}

impl Typed for ChargeV1 {
    const TYPE: &'static str = "charge";
    const VERSION: u32 = 1;
}

#[derive(Serialize, Deserialize)]
struct Charge {
    cents: u64,
}

impl Typed for Charge {
    const TYPE: &'static str = "charge";
    const VERSION: u32 = 2;

    fn upgrade(version: u32, json: &str) -> Option<Self> {
        let old: ChargeV1 = (version == 1).then(|| serde_json::from_str(json).ok())??;
        Some(Self {
            cents: old.euros * 100,
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let semel = Semel::open("memory:").await?;
    // Last year's program, and today's.
    let _ = semel
        .once("charge", "p-1", async |_| Ok(ChargeV1 { euros: 42 }))
        .await?;
    let receipt = semel
        .once("charge", "p-1", async |_| Ok(Charge { cents: 1 }))
        .await?;
    println!(
        "{} cents, replay: {}",
        receipt.value().cents,
        receipt.is_replay()
    );

    // Today's record, and last year's program once more.
    let _ = semel
        .once("charge", "p-2", async |_| Ok(Charge { cents: 7 }))
        .await?;
    let refused = semel
        .once("charge", "p-2", async |_| Ok(ChargeV1 { euros: 0 }))
        .await;
    if let Err(error) = refused {
        println!("{error}");
        println!(
            "{}",
            error.source().map(ToString::to_string).unwrap_or_default()
        );
    }
    Ok(())
}

// prints:
// 4200 cents, replay: true
// the effect happened, and its outcome cannot be given back
// the outcome on record is `charge` version 2, not `charge` version 1
