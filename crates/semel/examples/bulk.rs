//! One effect for all granted items: one request to a provider that takes many at once.
#![expect(clippy::print_stdout, reason = "an example prints")]

use semel::{Failure, Granted, Semel};

async fn send_all(mails: &[&str]) -> Vec<Result<u64, Failure>> {
    tokio::task::yield_now().await;
    println!("sending {} mails in one request", mails.len());
    let sent = mails.iter().map(|mail| Ok(mail.len() as u64));
    sent.collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let send = semel.operation("send");
    for mails in [["ada", "grace"], ["grace", "barbara"]] {
        let items = mails.map(|mail| (mail, mail));
        let results = send
            .batch(items)
            .whole(async |granted: Vec<Granted<&str>>| {
                let mails: Vec<_> = granted.iter().map(|granted| granted.item).collect();
                send_all(&mails).await
            });
        for (mail, result) in mails.iter().zip(results.await) {
            println!("{mail}: replay {}", result?.is_replay());
        }
    }
    Ok(())
}

// prints:
// sending 2 mails in one request
// ada: replay false
// grace: replay false
// sending 1 mails in one request
// grace: replay true
// barbara: replay false
