//! Places for stores on real servers, one for each cell, removed after it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use mysql_async::prelude::Queryable as _;
use semel_core::port::checkpoint::{AnyCheckpointStore, CheckpointStore, Together, Write};
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::{Admission, ClaimRequest, Error, ErrorKind, Mark, Result, Settlement};
use semel_simulation::on_cue::backing::{Backing, Database};
use semel_simulation::on_cue::time::PausedClock;
use semel_store_mysql::MysqlStore;
use semel_store_postgres::PostgresStore;
use semel_store_redis::RedisStore;
use tokio::runtime::{Builder, Handle, Runtime};

use super::prompt::{Hand, Prompt, on_the_spot};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Postgres,
    Mysql,
    Redis,
}

/// A schema, a database or a prefix, which is removed on drop.
pub(crate) struct Site {
    server: Server,
    url: String,
    name: String,
}

impl Server {
    /// Opens an empty store.
    pub(crate) fn open(self, clock: PausedClock) -> Result<(Backing, Site), String> {
        let site = Site::new(self)?;
        let hand = Hand::at(clock);
        let prompt = (clock, hand);
        let backing = elsewhere(async {
            match self {
                Self::Postgres => postgres(&site, prompt).await,
                Self::Mysql => mysql(&site, prompt).await,
                Self::Redis => redis(&site, prompt).await,
            }
        })?;
        Ok((backing, site))
    }

    /// The variable in which `cargo xtask` passes its address.
    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "SEMEL_TEST_POSTGRES_URL",
            Self::Mysql => "SEMEL_TEST_MYSQL_URL",
            Self::Redis => "SEMEL_TEST_REDIS_URL",
        }
    }
}

impl Site {
    fn new(server: Server) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let variable = server.variable();
        let url = std::env::var(variable).map_err(|_| {
            format!("{variable} names no server; `cargo xtask prove` starts one and says where")
        })?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("semel_cell_{}_{number}", std::process::id());
        Ok(Self { server, url, name })
    }

    /// Removes it, with everything in it.
    async fn remove(&self) -> Result<(), String> {
        let name = &self.name;
        match self.server {
            Server::Postgres => {
                let drop = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
                let client = postgres_client(&self.url).await?;
                client.batch_execute(&drop).await.map_err(words)
            }
            Server::Mysql => {
                let drop = format!("DROP DATABASE IF EXISTS {name}");
                let mut connection = mysql_connection(&self.url).await?;
                connection.query_drop(drop).await.map_err(words)?;
                connection.disconnect().await.map_err(words)
            }
            Server::Redis => semel_conformance::redis::empty(&self.url, name).map_err(words),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // A place that is left behind does no harm.
        let _ = elsewhere(self.remove());
    }
}

type Clocks = (PausedClock, Arc<Hand>);

async fn postgres(site: &Site, (clock, hand): Clocks) -> Result<Backing, String> {
    let mut options = semel_store_postgres::Options::default();
    options.clock = Some(hand.clone());
    let url = format!("{}?schema={}&sslmode=disable", site.url, site.name);
    let store = PostgresStore::connect(&url, options).await.map_err(words)?;
    let store = Prompt::new(store, clock, hand).with(runtime());
    let client = Arc::new(postgres_client(&site.url).await?);
    let table = format!("{}.effects", site.name);
    let create = format!("CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY)");
    client.batch_execute(&create).await.map_err(words)?;
    let count = format!("SELECT count(*) FROM {table}");
    Ok(Backing {
        database: Some(Database {
            store: AnyTransactionalStore::new(store.clone()),
            statements: statement(format!("INSERT INTO {table} DEFAULT VALUES")),
            rows: Arc::new(move |_| {
                let row = elsewhere(client.query_one(&count, &[])).expect("a count");
                number(row.get::<_, i64>(0))
            }),
        }),
        ..store.backing()
    })
}

async fn mysql(site: &Site, (clock, hand): Clocks) -> Result<Backing, String> {
    let mut connection = mysql_connection(&site.url).await?;
    let table = format!("{}.effects", site.name);
    for statement in [
        format!("CREATE DATABASE {}", site.name),
        format!("CREATE TABLE {table} (id BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB"),
    ] {
        connection.query_drop(statement).await.map_err(words)?;
    }
    let mut options = semel_store_mysql::Options::default();
    options.clock = Some(hand.clone());
    let (server, _) = site.url.rsplit_once('/').ok_or("no url with a database")?;
    let store = MysqlStore::connect(&format!("{server}/{}", site.name), options).await;
    let store = Prompt::new(store.map_err(words)?, clock, hand).with(runtime());
    let url = site.url.clone();
    let count = format!("SELECT count(*) FROM {table}");
    connection.disconnect().await.map_err(words)?;
    Ok(Backing {
        database: Some(Database {
            store: AnyTransactionalStore::new(store.clone()),
            statements: statement(format!("INSERT INTO {table} () VALUES ()")),
            rows: Arc::new(move |_| {
                let rows = elsewhere(async {
                    let mut connection = mysql_connection(&url).await?;
                    let rows: Option<i64> = connection.query_first(&count).await.map_err(words)?;
                    connection.disconnect().await.map_err(words)?;
                    rows.ok_or("no row".to_owned())
                });
                number(rows.expect("a count"))
            }),
        }),
        ..store.backing()
    })
}

async fn redis(site: &Site, (clock, hand): Clocks) -> Result<Backing, String> {
    let mut options = semel_store_redis::Options::default();
    options.clock = Some(hand.clone());
    let url = format!("{}?prefix={}", site.url, site.name);
    let store = RedisStore::connect(&url, options).await.map_err(words)?;
    let store = Prompt::new(store, clock, hand).with(runtime());
    Ok(Backing {
        store: store.store(),
        checkpoints: AnyCheckpointStore::new(NoCheckpoints),
        database: None,
    })
}

/// A store without such a port.
struct NoCheckpoints;

impl CheckpointStore for NoCheckpoints {
    async fn settle_with(&self, _: Arc<[Settlement]>, _: &Mark) -> Result<Together> {
        Err(unsupported())
    }

    async fn admit_with(&self, _: Vec<ClaimRequest>, _: Write) -> Result<Vec<Admission>> {
        Err(unsupported())
    }

    async fn mark(&self, _: &str) -> Result<Option<u64>> {
        Err(unsupported())
    }
}

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "the store keeps no marks")
}

fn statement(sql: String) -> Statements {
    Statements {
        sql: [sql.into()].into(),
        params: [].into(),
    }
}

fn number(rows: i64) -> usize {
    usize::try_from(rows).expect("a count is not negative")
}

async fn postgres_client(url: &str) -> Result<tokio_postgres::Client, String> {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.map_err(words)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn mysql_connection(url: &str) -> Result<mysql_async::Conn, String> {
    let opts = mysql_async::Opts::from_url(url).map_err(words)?;
    let opts = mysql_async::OptsBuilder::from_opts(opts).prefer_socket(false);
    mysql_async::Conn::new(opts).await.map_err(words)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Waits on this thread for work in the runtime of the servers.
fn elsewhere<T>(call: impl Future<Output = T>) -> T {
    let _elsewhere = runtime().enter();
    on_the_spot(call)
}

/// Its clock is that of the world outside, and goes on while those of the cells stand still.
fn runtime() -> &'static Handle {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        runtime.expect("a runtime")
    });
    RUNTIME.handle()
}
