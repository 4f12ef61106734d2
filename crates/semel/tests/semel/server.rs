//! A place of its own on the servers of the tests, emptied at the end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::prelude::Queryable;
use tokio_postgres::NoTls;

/// A schema or a prefix that no other test uses.
pub(crate) struct Place {
    kind: Kind,
    name: String,
}

#[derive(Clone, Copy)]
enum Kind {
    Mysql,
    Postgres,
    Redis,
}

impl Place {
    /// A place on the server of that kind, if that kind has a server.
    pub(crate) fn on(kind: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            kind: match kind {
                "mysql" => Kind::Mysql,
                "postgres" => Kind::Postgres,
                "redis" => Kind::Redis,
                _ => return None,
            },
            name: format!("library_{}_{number}_", std::process::id()),
        })
    }

    /// The url of the store in it.
    pub(crate) fn url(&self) -> String {
        let (server, name) = (self.kind.server(), &self.name);
        match self.kind {
            Kind::Mysql | Kind::Redis => format!("{server}?prefix={name}"),
            Kind::Postgres => format!("{server}?schema={name}&sslmode=disable"),
        }
    }
}

impl Kind {
    fn server(self) -> String {
        let (variable, name) = match self {
            Self::Mysql => ("SEMEL_TEST_MYSQL_URL", "mariadb"),
            Self::Postgres => ("SEMEL_TEST_POSTGRES_URL", "postgres"),
            Self::Redis => ("SEMEL_TEST_REDIS_URL", "redis"),
        };
        std::env::var(variable).unwrap_or_else(|_| {
            panic!(
                "{variable} names no server: run `cargo xtask services up {name}` and `source \
                 target/services/env`"
            )
        })
    }

    async fn empty(self, name: &str) {
        let server = self.server();
        match self {
            Self::Mysql => {
                let pool = mysql_async::Pool::new(server.as_str());
                let mut connection = pool.get_conn().await.expect("the server of the tests");
                // A test that failed may hold locks for as long as this takes.
                let patience = connection.query_drop("set lock_wait_timeout = 5");
                patience.await.expect("a setting");
                // Not `like`: its `_` is any character, and the place of another test would be
                // dropped too.
                let length = name.len();
                let tables: Vec<(String, String)> = connection
                    .query(format!(
                        "select table_name, table_type from information_schema.tables where \
                         table_schema = database() and left(table_name, {length}) = '{name}'"
                    ))
                    .await
                    .expect("tables");
                for (table, kind) in tables {
                    let kind = if kind == "VIEW" { "view" } else { "table" };
                    let drop = connection.query_drop(format!("drop {kind} {table}"));
                    drop.await.expect("a table that is there");
                }
                drop(connection);
                pool.disconnect().await.expect("an end");
            }
            Self::Postgres => {
                let (client, connection) = tokio_postgres::connect(&server, NoTls)
                    .await
                    .expect("the server of the tests");
                tokio::spawn(connection);
                let drop = format!("drop schema if exists {name} cascade");
                client.batch_execute(&drop).await.expect("a schema");
            }
            Self::Redis => {
                let (_, place) = server.split_once("://").expect("a url");
                let mut server = TcpStream::connect(place).expect("the server of the tests");
                let remove = "EVAL \"for _, key in ipairs(redis.call('keys', ARGV[1])) do \
                              redis.call('del', key) end\" 0 ";
                write!(server, "{remove}{name}*\r\nQUIT\r\n").expect("a server that listens");
                let _ = server.read_to_end(&mut Vec::new());
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (kind, name) = (self.kind, self.name.clone());
        // A runtime of its own: a test drops this within one.
        let emptying = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(kind.empty(&name));
        });
        let emptied = emptying.join();
        assert!(
            emptied.is_ok() || std::thread::panicking(),
            "the place is emptied"
        );
    }
}
