//! A provider that honours idempotency keys: the call is repeated with the same key after a doubt,
//! and the provider charges once.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel::Semel;

/// Charges each key once, and loses its first answer.
#[derive(Default)]
struct Provider(Mutex<BTreeMap<String, u64>>);

impl Provider {
    fn charge(&self, key: &str, cents: u64) -> Result<u64, Error> {
        let mut charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = charges.insert(key.to_owned(), cents).is_none();
        println!(
            "provider: {}",
            if is_new { "charged" } else { "charged before" }
        );
        if is_new {
            return Err(Error::new(ErrorKind::ConnectionReset, "connection reset"));
        }
        Ok(cents)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let provider = Arc::new(Provider::default());
    let charge = semel
        .operation("charge")
        .keyed(Duration::from_secs(23 * 3_600))
        .backoff(Duration::from_millis(1), Duration::from_millis(1));
    let receipt = charge
        .once_retrying("payment-1", move |op| {
            let provider = Arc::clone(&provider);
            async move { Ok(provider.charge(op.idempotency_key(), 4_200)?) }
        })
        .await?;
    println!(
        "{} cents in attempt {:?}",
        receipt.value(),
        receipt.attempt()
    );
    Ok(())
}

// prints:
// provider: charged
// provider: charged before
// 4200 cents in attempt Some(2)
