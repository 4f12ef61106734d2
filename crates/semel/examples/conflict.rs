//! A key that comes back with another request is told apart from a duplicate.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::Semel;
use serde::Serialize;

#[derive(Serialize)]
struct Payment {
    id: &'static str,
    cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let charge = semel.operation("charge");
    for cents in [100, 100, 900] {
        let payment = Payment { id: "p-1", cents };
        let bound = charge.clone().request(&payment);
        match bound.once(payment.id, async move |_| Ok(cents)).await {
            Ok(receipt) => println!("{cents}: ok, replay: {}", receipt.is_replay()),
            Err(error) => println!("{cents}: {error} [{}]", error.code()),
        }
    }
    Ok(())
}

// prints:
// 100: ok, replay: false
// 100: ok, replay: true
// 900: the key was used with another request: json:/cents differs [fingerprint-conflict]
