//! An effect of your own for a consumer: besides running, it answers what became of a call in
//! doubt, so that no person has to find out.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use semel::testing::ListSource;
use semel::{Call, Effect, Fate, Probe, Semel, Verdict};

/// Charges, loses the answer, and can look the charge up by its key.
struct Charging;

impl Effect for Charging {
    async fn call(&self, call: Call) -> Verdict {
        println!("charging {}", call.claim.operation.key);
        Verdict::MaybeApplied {
            error: "connection reset".into(),
        }
    }

    async fn probe(&self, call: &Call) -> Probe {
        println!("looking up {}…", &call.idempotency_key()[..8]);
        Probe::Applied("ch_1".into())
    }

    fn quiet(&self) -> Duration {
        Duration::from_secs(30)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    for delivery in 1..=2 {
        let source = ListSource::new(["payment-1"]);
        let summary = semel
            .consumer("charge", source)?
            .run_effect(Charging)
            .await?;
        let [doubt, replayed] = [Fate::InDoubt, Fate::Replayed].map(|fate| summary.of(fate));
        println!("delivery {delivery}: {doubt} in doubt, {replayed} replayed");
    }
    Ok(())
}

// prints:
// charging payment-1
// delivery 1: 1 in doubt, 0 replayed
// looking up fd3aaf94…
// delivery 2: 0 in doubt, 1 replayed
