//! An API whose answers commit with its work: one transaction, exactly once, even if the process dies between the commit
//! and the answer.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{Request, StatusCode};
use axum::{Extension, Router, body::Body, response::Response, routing::post};
use semel::rusqlite::{Connection, TransactionBehavior};
use semel::{Semel, http, sqlite};
use tower::ServiceExt;

type Database = Extension<Arc<Mutex<Connection>>>;
type Inbox = Extension<http::RequestInbox<sqlite::SqliteInbox>>;

async fn order(Extension(app): Database, Extension(inbox): Inbox) -> Result<Response, StatusCode> {
    let oops = |_| StatusCode::INTERNAL_SERVER_ERROR;
    let mut app = app.lock().unwrap_or_else(PoisonError::into_inner);
    let tx = app
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(oops)?;
    let take = "UPDATE stock SET count = count - 1 RETURNING count";
    let left: i64 = tx.query_row(take, [], |row| row.get(0)).map_err(oops)?;
    println!("taking one of {}", left + 1);
    // Records this answer, commits, and gives it back. An error rolls back, and frees the key.
    let committed = inbox.commit_blocking(tx, format!("{left} left"));
    committed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Connection::open("app.db")?;
    app.execute_batch("CREATE TABLE stock (count INTEGER); INSERT INTO stock VALUES (10)")?;
    let semel = Semel::open("sqlite:app.db").await?;
    let inbox = sqlite::SqliteInbox::open(&app)?;
    let keys = semel.http_with_inbox(inbox, |route| route.require_key = true)?;
    let app = Extension(Arc::new(Mutex::new(app)));
    let service: Router = Router::new()
        .route("/orders", post(order))
        .layer(keys)
        .layer(app);

    for key in ["order-1", "order-2", "order-1"] {
        let request = Request::post("/orders").header("idempotency-key", key);
        let response = service
            .clone()
            .oneshot(request.body(Body::empty())?)
            .await?;
        let replayed = response.headers().contains_key("idempotency-replayed");
        let body = axum::body::to_bytes(response.into_body(), 100).await?;
        println!(
            "{key}: {}, replayed: {replayed}",
            String::from_utf8_lossy(&body)
        );
    }
    Ok(())
}

// prints:
// taking one of 10
// order-1: 9 left, replayed: false
// taking one of 9
// order-2: 8 left, replayed: false
// order-1: 9 left, replayed: true
