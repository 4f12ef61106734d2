//! A schema of its own on the server that `SEMEL_TEST_POSTGRES_URL` names, dropped at the end.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{Client, NoTls};

/// A schema that only this test uses.
pub(crate) struct Site {
    schema: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            schema: format!("test_{}_{number}", std::process::id()),
        }
    }

    /// Returns the url of the store.
    pub(crate) fn url(&self) -> String {
        format!(
            "{}?schema={}&connections=8&{}",
            server(),
            self.schema,
            self.session()
        )
    }

    /// Opens a connection, with the schema as the place for tables.
    pub(crate) async fn client(&self) -> Client {
        self.connecting().await
    }

    /// Does the same, for whoever goes on without this.
    pub(crate) fn connecting(&self) -> impl Future<Output = Client> + Send + use<> {
        let url = format!("{}?{}", server(), self.session());
        async move {
            let (client, connection) = tokio_postgres::connect(&url, NoTls)
                .await
                .expect("a connection");
            tokio::spawn(connection);
            client
        }
    }

    fn session(&self) -> String {
        format!("sslmode=disable&options=-csearch_path%3D{}", self.schema)
    }
}

/// Returns the url of the server.
pub(crate) fn server() -> String {
    std::env::var("SEMEL_TEST_POSTGRES_URL").expect(
        "SEMEL_TEST_POSTGRES_URL names no server: run `cargo xtask services up postgres` and \
         `source target/services/env`",
    )
}

impl Drop for Site {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async move {
                if let Ok((client, connection)) = tokio_postgres::connect(&server(), NoTls).await {
                    tokio::spawn(connection);
                    let _ = client.batch_execute(&drop).await;
                }
            });
        });
        let _ = dropping.join();
    }
}
