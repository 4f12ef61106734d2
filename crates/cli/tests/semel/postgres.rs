//! The binary with its store on a real PostgreSQL server, which `SEMEL_TEST_POSTGRES_URL` names.

mod init;
mod outage;
mod outcomes;
#[cfg(feature = "nats")]
mod producers;
mod relays;
mod run;
mod secrets;
mod silence;
mod transfer;
mod values;
mod verbs;
mod weak;
mod wrong;

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::servers::{GUARDED, PASSWORD};
use crate::site::Site;
use crate::starts::Fresh;

/// A schema that no other test uses, dropped at the end. It is not created before a test does so.
pub(crate) struct Schema {
    name: String,
    runtime: Runtime,
    client: Client,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&server(), NoTls)
                .await
                .expect("the server of the tests");
            tokio::spawn(connection);
            client
        });
        Self {
            name: format!("cli_{}_{number}", std::process::id()),
            runtime,
            client,
        }
    }

    /// Makes one with tables of a business in it.
    fn with(tables: &str) -> Self {
        let schema = Self::new();
        let name = &schema.name;
        schema.execute(&format!(
            "create schema {name}; set search_path = {name}; {tables}"
        ));
        schema
    }

    /// The url of the store.
    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}&sslmode=disable", server(), self.name)
    }

    /// The url for the one role that the server asks for its password.
    fn guarded(&self, password: &str) -> String {
        let (_, place) = server().split_once('@').map_or_else(
            || panic!("SEMEL_TEST_POSTGRES_URL has no user"),
            |(user, place)| (user.to_owned(), place.to_owned()),
        );
        format!(
            "postgres://{GUARDED}:{password}@{place}?schema={}&sslmode=disable",
            self.name
        )
    }

    /// Creates the one role that `cargo xtask services` has asked for its password, unless it exists, and lets
    /// it use the schema.
    fn let_in(&self) {
        let name = &self.name;
        self.execute(&format!(
            "do $$ begin create role {GUARDED} login password '{PASSWORD}'; \
             exception when duplicate_object or unique_violation then null; end $$"
        ));
        self.execute(&format!(
            "create schema if not exists {name} authorization {GUARDED}"
        ));
    }

    /// Keeps others from changing the record of an operation, until [`Schema::unlock`].
    pub(crate) fn lock(&self, operation_id: &str) {
        let name = &self.name;
        self.execute(&format!(
            "begin; select from {name}.records where id = decode('{operation_id}', 'hex') for update"
        ));
    }

    pub(crate) fn unlock(&self) {
        self.execute("rollback");
    }

    fn execute(&self, sql: &str) {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// The rows of a query, each with its columns as text, joined by `|`; NULL is `NULL`.
    fn rows(&self, sql: &str) -> Vec<String> {
        let answers = self.runtime.block_on(self.client.simple_query(sql));
        let answers = answers.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let rows = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => {
                let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                Some(columns.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        });
        rows.collect()
    }

    /// Tells whether anything of the schema exists.
    fn is_there(&self) -> bool {
        let name = &self.name;
        let rows = self.rows(&format!("select to_regnamespace('{name}') is not null"));
        rows == ["t"]
    }

    fn count(&self, table: &str) -> u64 {
        let rows = self.rows(&format!("select count(*) from {}.{table}", self.name));
        rows[0].parse().expect("a count")
    }
}

impl Fresh for Schema {
    fn fresh() -> Self {
        Self::with("create table charges (id text)")
    }

    fn store_url(&self) -> String {
        self.url()
    }

    fn statement(&self) -> Option<String> {
        Some(format!("insert into {}.charges values (:id)", self.name))
    }

    fn charges(&self) -> u64 {
        self.count("charges")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop = format!("drop schema if exists {} cascade", self.name);
        // The store of a killed process may still be executing its last statement.
        let _ = self.runtime.block_on(self.client.batch_execute(&drop));
    }
}

/// The url of the server.
fn server() -> String {
    std::env::var("SEMEL_TEST_POSTGRES_URL").expect(
        "SEMEL_TEST_POSTGRES_URL names no server: run `cargo xtask services up postgres` and \
         `source target/services/env`",
    )
}

/// A folder with a pipeline `p` on this store, with this input, these settings and this effect.
fn site(url: &str, pipeline: &str, effect: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{url}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\n{pipeline}\n[pipelines.p.effect]\n{effect}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", input)])
}
