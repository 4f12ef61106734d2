//! The drivers: each with a table of charges beside the records of a store.

use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use semel::http::RequestInbox;
use semel::mysql_async::{self, TxOpts, prelude::Queryable};
use semel::rusqlite::{Connection, TransactionBehavior};
use semel::sqlx::{MysqlInbox, PostgresInbox, SqliteInbox};
use semel::tokio_postgres::{Client, NoTls};
use semel::{Op, SystemClock, mysql, postgres, sqlite};
use sqlx::{AssertSqlSafe, Connection as _, MySqlPool, PgPool, SqlitePool};

use super::savepoints::end_on_sqlx;
use super::{Hold, stop_here};
use crate::server::Place;

/// A driver, connected to a database.
pub(super) trait Door: Clone + Send + Sync + 'static {
    type Inbox: Clone + Send + Sync + 'static;
    const NAME: &'static str;

    /// A place of its own on a server, or a folder.
    fn place() -> Box<dyn Spot>;

    fn url(place: &dyn Spot) -> String {
        place.url()
    }

    fn open(url: &str) -> impl Future<Output = Self> + Send;
    fn store_url(&self) -> String;
    fn inbox(&self) -> Self::Inbox;
    fn create(&self) -> impl Future<Output = ()> + Send;
    fn charges(&self) -> impl Future<Output = i64> + Send;

    /// Books a charge, and commits it with an answer.
    fn charge(
        &self,
        inbox: &RequestInbox<Self::Inbox>,
        hold: Hold,
    ) -> impl Future<Output = Result<Response, String>> + Send;
}

/// A place that is emptied when it is dropped.
pub(super) trait Spot: Send {
    fn url(&self) -> String;
}

impl Spot for Place {
    fn url(&self) -> String {
        Self::url(self)
    }
}

impl Spot for tempfile::TempDir {
    fn url(&self) -> String {
        format!("sqlite:{}", self.path().join("app.db").display())
    }
}

fn on(server: &str) -> Box<dyn Spot> {
    Box::new(Place::on(server).expect("a server"))
}

fn folder() -> Box<dyn Spot> {
    Box::new(tempfile::tempdir().expect("a folder"))
}

const ANSWER: (StatusCode, &str) = (StatusCode::CREATED, "charged");

const DECLINED: &str = "the card was declined";

fn told(why: impl Display) -> String {
    why.to_string()
}

/// The statement that books a charge; the text of the key has hexadecimal digits alone.
fn insert(table: &str, op: &Op) -> String {
    format!("INSERT INTO {table} VALUES ('{}')", op.idempotency_key())
}

async fn hold_or_fail(hold: Hold) -> Result<(), String> {
    match hold {
        Hold::Nowhere | Hold::After | Hold::UndoesSavepoint | Hold::CommitsSavepoint => Ok(()),
        Hold::Fails | Hold::RollsBack => Err(DECLINED.to_owned()),
        Hold::Panics => panic!("{DECLINED}"),
        Hold::Before => {
            stop_here();
            std::future::pending().await
        }
    }
}

/// The server, and the name of the schema or the prefix.
fn parts(url: &str) -> (&str, &str) {
    let (server, rest) = url.split_once('?').expect("parameters");
    (server, rest.split(['=', '&']).nth(1).expect("a name"))
}

#[derive(Clone)]
pub(super) struct SqlxPostgres {
    url: String,
    pool: PgPool,
}

impl Door for SqlxPostgres {
    type Inbox = PostgresInbox;
    const NAME: &'static str = "sqlx-postgres";

    fn place() -> Box<dyn Spot> {
        on("postgres")
    }

    async fn open(url: &str) -> Self {
        let pool = PgPool::connect(&format!("{}?sslmode=disable", parts(url).0)).await;
        Self {
            url: url.to_owned(),
            pool: pool.expect("a pool"),
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> PostgresInbox {
        PostgresInbox::in_schema(parts(&self.url).1)
    }

    async fn create(&self) {
        let schema = parts(&self.url).1;
        let made = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.charges (id text)");
        let made = sqlx::raw_sql(AssertSqlSafe(made)).execute(&self.pool).await;
        made.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = format!("SELECT count(*) FROM {}.charges", parts(&self.url).1);
        let count = sqlx::query_scalar(AssertSqlSafe(count));
        count.fetch_one(&self.pool).await.expect("a count")
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<PostgresInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let mut tx = self.pool.begin().await.map_err(told)?;
        let table = format!("{}.charges", parts(&self.url).1);
        let insert = insert(&table, inbox.op());
        let again = insert.clone();
        let insert = sqlx::raw_sql(AssertSqlSafe(insert));
        insert.execute(&mut *tx).await.map_err(told)?;
        end_on_sqlx!(tx, again, inbox, hold)
    }
}

#[derive(Clone)]
pub(super) struct PostgresDriver {
    url: String,
    client: Arc<tokio::sync::Mutex<Client>>,
}

impl Door for PostgresDriver {
    type Inbox = postgres::PostgresInbox;
    const NAME: &'static str = "tokio-postgres";

    fn place() -> Box<dyn Spot> {
        on("postgres")
    }

    async fn open(url: &str) -> Self {
        let connected = tokio_postgres::connect(parts(url).0, NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        Self {
            url: url.to_owned(),
            client: Arc::new(tokio::sync::Mutex::new(client)),
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> postgres::PostgresInbox {
        postgres::PostgresInbox::in_schema(parts(&self.url).1)
    }

    async fn create(&self) {
        let schema = parts(&self.url).1;
        let made = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.charges (id text)");
        let client = self.client.lock().await;
        client.batch_execute(&made).await.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = format!("SELECT count(*) FROM {}.charges", parts(&self.url).1);
        let client = self.client.lock().await;
        let row = client.query_one(&count, &[]).await;
        row.expect("a count").get(0)
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<postgres::PostgresInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let mut client = self.client.lock().await;
        let tx = client.transaction().await.map_err(told)?;
        let table = format!("{}.charges", parts(&self.url).1);
        let insert = insert(&table, inbox.op());
        tx.batch_execute(&insert).await.map_err(told)?;
        if hold == Hold::RollsBack {
            tx.rollback().await.map_err(told)?;
            return Err(DECLINED.to_owned());
        }
        hold_or_fail(hold).await?;
        inbox.commit(tx, ANSWER).await.map_err(told)
    }
}

#[derive(Clone)]
pub(super) struct SqlxMysql {
    url: String,
    pool: MySqlPool,
}

impl Door for SqlxMysql {
    type Inbox = MysqlInbox;
    const NAME: &'static str = "sqlx-mysql";

    fn place() -> Box<dyn Spot> {
        on("mysql")
    }

    async fn open(url: &str) -> Self {
        let pool = MySqlPool::connect(parts(url).0).await;
        Self {
            url: url.to_owned(),
            pool: pool.expect("a pool"),
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> MysqlInbox {
        MysqlInbox::with_prefix(parts(&self.url).1).expect("a prefix")
    }

    async fn create(&self) {
        let made = format!("CREATE TABLE {}charges (id text)", parts(&self.url).1);
        let made = sqlx::raw_sql(AssertSqlSafe(made)).execute(&self.pool).await;
        made.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = format!("SELECT count(*) FROM {}charges", parts(&self.url).1);
        let count = sqlx::query_scalar(AssertSqlSafe(count));
        count.fetch_one(&self.pool).await.expect("a count")
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<MysqlInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let mut tx = self.pool.begin().await.map_err(told)?;
        let table = format!("{}charges", parts(&self.url).1);
        let insert = insert(&table, inbox.op());
        let again = insert.clone();
        let insert = sqlx::raw_sql(AssertSqlSafe(insert));
        insert.execute(&mut *tx).await.map_err(told)?;
        end_on_sqlx!(tx, again, inbox, hold)
    }
}

#[derive(Clone)]
pub(super) struct MysqlDriver {
    url: String,
    pool: mysql_async::Pool,
}

impl Door for MysqlDriver {
    type Inbox = mysql::MysqlInbox;
    const NAME: &'static str = "mysql_async";

    fn place() -> Box<dyn Spot> {
        on("mysql")
    }

    async fn open(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            pool: mysql_async::Pool::new(parts(url).0),
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> mysql::MysqlInbox {
        mysql::MysqlInbox::with_prefix(parts(&self.url).1).expect("a prefix")
    }

    async fn create(&self) {
        let made = format!("CREATE TABLE {}charges (id text)", parts(&self.url).1);
        let mut connection = self.pool.get_conn().await.expect("a connection");
        connection.query_drop(made).await.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = format!("SELECT count(*) FROM {}charges", parts(&self.url).1);
        let mut connection = self.pool.get_conn().await.expect("a connection");
        let count = connection.query_first(count).await.expect("a row");
        count.expect("a count")
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<mysql::MysqlInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let begun = self.pool.start_transaction(TxOpts::default()).await;
        let mut tx = begun.map_err(told)?;
        let table = format!("{}charges", parts(&self.url).1);
        let insert = insert(&table, inbox.op());
        tx.query_drop(insert).await.map_err(told)?;
        if hold == Hold::RollsBack {
            tx.rollback().await.map_err(told)?;
            return Err(DECLINED.to_owned());
        }
        hold_or_fail(hold).await?;
        inbox.commit(tx, ANSWER).await.map_err(told)
    }
}

/// The path of the file.
fn path(url: &str) -> &str {
    url.strip_prefix("sqlite:").expect("a file")
}

#[derive(Clone)]
pub(super) struct SqlxSqlite {
    url: String,
    pool: SqlitePool,
    inbox: SqliteInbox,
}

impl Door for SqlxSqlite {
    type Inbox = SqliteInbox;
    const NAME: &'static str = "sqlx-sqlite";

    fn place() -> Box<dyn Spot> {
        folder()
    }

    async fn open(url: &str) -> Self {
        let pool = SqlitePool::connect(&format!("sqlite://{}?mode=rwc", path(url))).await;
        let pool = pool.expect("a pool");
        let mut connection = pool.acquire().await.expect("a connection");
        let inbox = SqliteInbox::open(&mut connection, Arc::new(SystemClock::new())).await;
        drop(connection);
        Self {
            url: url.to_owned(),
            pool,
            inbox: inbox.expect("an inbox"),
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> SqliteInbox {
        self.inbox.clone()
    }

    async fn create(&self) {
        let made = sqlx::query("CREATE TABLE charges (id TEXT)");
        made.execute(&self.pool).await.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM charges");
        count.fetch_one(&self.pool).await.expect("a count")
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<SqliteInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let mut tx = self
            .pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(told)?;
        let insert = insert("charges", inbox.op());
        let again = insert.clone();
        let insert = sqlx::raw_sql(AssertSqlSafe(insert));
        insert.execute(&mut *tx).await.map_err(told)?;
        end_on_sqlx!(tx, again, inbox, hold)
    }
}

#[derive(Clone)]
pub(super) struct Rusqlite {
    url: String,
    connection: Arc<std::sync::Mutex<Connection>>,
    inbox: sqlite::SqliteInbox,
}

impl Rusqlite {
    /// Does `work` on the connection, which blocks.
    fn on<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let connection = self.connection.lock();
        work(&mut connection.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Door for Rusqlite {
    type Inbox = sqlite::SqliteInbox;
    const NAME: &'static str = "rusqlite";

    fn place() -> Box<dyn Spot> {
        folder()
    }

    async fn open(url: &str) -> Self {
        let connection = Connection::open(path(url)).expect("a file");
        let patience = connection.busy_timeout(Duration::from_secs(60));
        patience.expect("a setting");
        let inbox = sqlite::SqliteInbox::open(&connection).expect("an inbox");
        Self {
            url: url.to_owned(),
            connection: Arc::new(std::sync::Mutex::new(connection)),
            inbox,
        }
    }

    fn store_url(&self) -> String {
        self.url.clone()
    }

    fn inbox(&self) -> sqlite::SqliteInbox {
        self.inbox.clone()
    }

    async fn create(&self) {
        let made = self.on(|it| it.execute_batch("CREATE TABLE charges (id TEXT)"));
        made.expect("a table");
    }

    async fn charges(&self) -> i64 {
        let count = "SELECT count(*) FROM charges";
        let count = self.on(|it| it.query_row(count, [], |row| row.get(0)));
        count.expect("a count")
    }

    async fn charge(
        &self,
        inbox: &RequestInbox<sqlite::SqliteInbox>,
        hold: Hold,
    ) -> Result<Response, String> {
        let (door, inbox) = (self.clone(), inbox.clone());
        let charging = tokio::task::spawn_blocking(move || {
            door.on(|connection| {
                let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate);
                let tx = tx.map_err(told)?;
                let insert = insert("charges", inbox.op());
                tx.execute(&insert, []).map_err(told)?;
                match hold {
                    Hold::Nowhere | Hold::After => {}
                    Hold::Panics => panic!("{DECLINED}"),
                    Hold::RollsBack => {
                        tx.rollback().map_err(told)?;
                        return Err(DECLINED.to_owned());
                    }
                    Hold::Fails | Hold::UndoesSavepoint | Hold::CommitsSavepoint => {
                        return Err(DECLINED.to_owned());
                    }
                    Hold::Before => {
                        stop_here();
                        loop {
                            std::thread::park();
                        }
                    }
                }
                inbox.commit_blocking(tx, ANSWER).map_err(told)
            })
        });
        charging.await.map_err(told)?
    }
}
