//! A place of its own on the servers of the tests, emptied at the end.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::NoTls;

/// A schema that nobody else uses.
pub(crate) struct Place {
    name: String,
}

impl Place {
    /// One on the server of that kind, if it is one of a server.
    pub(crate) fn on(kind: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        (kind == "postgres").then(|| Self {
            name: format!("library_{}_{number}_", std::process::id()),
        })
    }

    /// The url of the store in it.
    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}&sslmode=disable", server(), self.name)
    }
}

fn server() -> String {
    std::env::var("SEMEL_TEST_POSTGRES_URL").expect(
        "SEMEL_TEST_POSTGRES_URL names no server: run `cargo xtask services up postgres` and `source \
         target/services/env`",
    )
}

async fn empty(name: &str) {
    let (client, connection) = tokio_postgres::connect(&server(), NoTls)
        .await
        .expect("the server of the tests");
    tokio::spawn(connection);
    let drop = format!("drop schema if exists {name} cascade");
    client.batch_execute(&drop).await.expect("a schema");
}

impl Drop for Place {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A runtime of its own: a test drops this within one.
        let emptying = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(empty(&name));
        });
        let emptied = emptying.join();
        assert!(
            emptied.is_ok() || std::thread::panicking(),
            "the place is emptied"
        );
    }
}
