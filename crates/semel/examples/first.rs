//! First use: three deliveries, one charge. Run it twice: the second time there is none.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::Semel;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("embedded:./semel-data").await?;
    for delivery in 1..=3 {
        let receipt = semel.once("charge", "payment-1", async |op| {
            println!("charging, key {}…", &op.idempotency_key()[..8]);
            Ok(4_200_u64)
        });
        println!("delivery {delivery}: {} cents", receipt.await?.value());
    }
    semel.close().await;
    Ok(())
}

// prints:
// charging, key fd3aaf94…
// delivery 1: 4200 cents
// delivery 2: 4200 cents
// delivery 3: 4200 cents
