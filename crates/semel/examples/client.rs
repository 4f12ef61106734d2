//! A client that retries safely: one key per intent, whatever gets lost.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::io::Error;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::{Router, body::Body, http::Request, routing::post};
use semel::Semel;
use semel::client::{AnswerFrom, Intent, Settings};
use tower::{Layer, ServiceExt, service_fn};

const DAY: Duration = Duration::from_secs(24 * 3_600);
static SENT: AtomicUsize = AtomicUsize::new(0);

async fn charge() -> &'static str {
    println!("charging");
    "charged 4200 cents"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A provider that recognises keys, behind a network that loses its first answer.
    let keys = Semel::open("memory:").await?.http(|_| {})?;
    let app: Router = Router::new().route("/charges", post(charge)).layer(keys);
    let provider = service_fn(move |request| {
        let answer = app.clone().oneshot(request);
        async {
            let Ok(answer) = answer.await;
            let is_lost = SENT.fetch_add(1, SeqCst) == 0;
            (!is_lost)
                .then_some(answer)
                .ok_or_else(|| Error::other("it broke off"))
        }
    });

    let semel = Semel::open("embedded:./data").await?;
    let client = semel.intents(Settings::keyed(DAY), |_| {})?.layer(provider);
    let charge = Intent::of("charge", "order-1017")?;
    for _ in 0..2 {
        let request = Request::post("http://provider/charges").body(Body::from("{}"))?;
        let answer = client.send(&charge, request).await?;
        println!(
            "{} {:?}",
            answer.status(),
            answer.extensions().get::<AnswerFrom>()
        );
    }
    Ok(())
}

// prints:
// charging
// 200 OK Some(ServerRecord { attempts: 2 })
// 200 OK Some(Store)
