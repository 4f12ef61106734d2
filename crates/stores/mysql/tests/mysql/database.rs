//! Databases of tests, each dropped when its test is done with it.

use std::sync::atomic::{AtomicU64, Ordering};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

/// A database of its own on a server.
pub(crate) struct Database {
    pub(crate) server: String,
    pub(crate) name: String,
}

impl Database {
    /// Creates one on the server of this url.
    pub(crate) async fn on(server: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let database = Self {
            server: server.to_owned(),
            name: format!("semel_test_{}_{number}", std::process::id()),
        };
        let mut connection = connect(server, None).await;
        let make = format!("CREATE DATABASE {}", database.name);
        connection.query_drop(make).await.expect("a database");
        connection.disconnect().await.expect("an end");
        database
    }

    /// Returns the url of the server, with this database in place of the one it names.
    pub(crate) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').expect("a url with a database");
        format!("{server}/{}", self.name)
    }

    /// Opens a connection as a user has one.
    pub(crate) async fn connect(&self) -> Conn {
        connect(&self.server, Some(&self.name)).await
    }

    /// Runs a statement.
    pub(crate) async fn run(&self, statement: &str) {
        let mut connection = self.connect().await;
        let done = connection.query_drop(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        connection.disconnect().await.expect("an end");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // The runtime of the test may be at its end, and the server gone for good.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                if let Ok(mut connection) = try_connect(&server, None).await {
                    let drop = format!("DROP DATABASE IF EXISTS {name}");
                    connection.query_drop(drop).await.expect("no database");
                    connection.disconnect().await.expect("an end");
                }
            });
        });
        dropped.join().expect("the database is dropped");
    }
}

/// Returns the url of the server of the tests.
pub(crate) fn server_url() -> String {
    std::env::var("SEMEL_TEST_MYSQL_URL").expect(
        "SEMEL_TEST_MYSQL_URL names the server: run `cargo xtask services up mariadb` and \
         `source target/services/env`",
    )
}

async fn connect(server: &str, database: Option<&str>) -> Conn {
    let connected = try_connect(server, database).await;
    connected.unwrap_or_else(|error| panic!("no connection to the test server: {error}"))
}

async fn try_connect(server: &str, database: Option<&str>) -> mysql_async::Result<Conn> {
    let opts = Opts::from_url(server).expect("the url of a server");
    let opts = OptsBuilder::from_opts(opts)
        .prefer_socket(false)
        .db_name(database);
    Conn::new(opts).await
}
