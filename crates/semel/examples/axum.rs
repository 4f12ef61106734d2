//! An API that may be retried: a client that sends a request again under its key gets the first answer.
#![expect(clippy::print_stdout, reason = "an example prints")]

use axum::{Extension, Router, body::Body, http::Request, routing::post};
use semel::{Op, Semel};
use tower::ServiceExt;

// Every request has a key here. Where one may run without (no `require_key`, `shadow`, or `OnOutage::Open`), a handler
// takes `Option<Extension<Op>>`.
async fn charge(Extension(op): Extension<Op>) -> String {
    println!("charging, key {}…", &op.idempotency_key()[..8]);
    "charged 4200 cents".to_owned()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::open("memory:").await?;
    let keys = semel.http(|route| route.require_key = true)?;
    let app: Router = Router::new().route("/charges", post(charge)).layer(keys);

    // A client that got no answer, and two that did something wrong. A server is `axum::serve(listener, app)`.
    for (key, path) in [
        ("pay-1", "/charges"),
        ("pay-1", "/charges"),
        ("pay-1", "/charges?x=1"),
        ("", "/charges"),
    ] {
        let request = Request::post(path).header("idempotency-key", key);
        let response = app.clone().oneshot(request.body(Body::empty())?).await?;
        let replayed = response.headers().contains_key("idempotency-replayed");
        println!("{} replayed: {replayed}", response.status());
    }
    Ok(())
}

// prints:
// charging, key 977dd2f8…
// 200 OK replayed: false
// 200 OK replayed: true
// 422 Unprocessable Entity replayed: false
// 400 Bad Request replayed: false
