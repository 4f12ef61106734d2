//! A database with orders, an outbox, and the inbox of a consumer; those who may be cut off reach it through a proxy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use semel_conformance::proxy::Proxy;

use super::client::{Client, Dialect, File, Terminal};
use crate::worker::Site;
use crate::{Mysql, Postgres};

/// The database of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
    /// An SQLite file.
    Sqlite,
}

impl Origin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
            Self::Sqlite => "SQLite",
        }
    }
}

/// The database, and the way to it that is cut.
pub(crate) struct Database {
    server: Mutex<Server>,
    /// The folder of the file and of the consumer.
    pub(super) home: Site,
    pub(crate) cuts: Option<Proxy>,
}

enum Server {
    Postgres(Postgres),
    Mysql(Mysql),
    /// The file in the home.
    File,
}

impl Database {
    /// Starts a server or makes a file, with empty tables. Needs a tokio runtime.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub(crate) fn start(from: Origin) -> Self {
        let (server, address) = match from {
            Origin::Postgres => {
                let server = Postgres::start();
                let address = address_of(&server.url());
                (Server::Postgres(server), Some(address))
            }
            Origin::Mariadb => {
                let server = Mysql::start();
                let address = server.address();
                (Server::Mysql(server), Some(address))
            }
            Origin::Sqlite => (Server::File, None),
        };
        let database = Self {
            server: Mutex::new(server),
            home: Site::with(&[]),
            cuts: address.map(Proxy::start),
        };
        database.make_tables();
        database
    }

    /// Makes the outbox as an operator does, and then the tables of the orders.
    fn make_tables(&self) {
        if let Server::File = *self.server() {
            let made = Connection::open(self.file()).expect("a file");
            made.execute_batch("pragma journal_mode = wal")
                .expect("a file");
        }
        let url = self.url();
        let migrate = ["store", "migrate", "--yes", "--store", &url];
        let (status, _) = self.home.start(&migrate).wait();
        assert!(status.success(), "{status}: {}", self.home.last_words());
        let number = match *self.server() {
            Server::Postgres(_) => "bigserial primary key",
            Server::Mysql(_) => "bigint auto_increment primary key",
            Server::File => "integer primary key",
        };
        let mut statements = TABLES.replace("NUMBER", number);
        for account in 0..super::orders::ACCOUNTS {
            statements.extend([
                "insert into accounts values ('k",
                &account.to_string(),
                "', 0);\n",
            ]);
        }
        match &*self.server() {
            Server::Postgres(server) => drop(server.query(&statements)),
            Server::Mysql(server) => drop(server.query(&format!("use semel; {statements}"))),
            Server::File => {
                let file = Connection::open(self.file()).expect("a file");
                file.execute_batch(&statements).expect("tables");
            }
        }
    }

    /// Its url as a store, without a proxy.
    pub(crate) fn url(&self) -> String {
        match &*self.server() {
            Server::Postgres(server) => format!("{}?sslmode=disable", server.url()),
            Server::Mysql(server) => mysql_url(server.address()),
            Server::File => format!("sqlite:{}", self.file().display()),
        }
    }

    /// Its url as a store, through the proxy if it is a server.
    pub(crate) fn proxied_url(&self) -> String {
        let Some(cuts) = &self.cuts else {
            return self.url();
        };
        match &*self.server() {
            Server::Postgres(server) => {
                let url = server.url();
                let direct = address_of(&url).to_string();
                let url = url.replace(&direct, &cuts.address().to_string());
                format!("{url}?sslmode=disable")
            }
            Server::Mysql(_) | Server::File => mysql_url(cuts.address()),
        }
    }

    /// A client, directly at the database.
    pub(super) fn client(&self) -> Box<dyn Client> {
        match &*self.server() {
            Server::Postgres(server) => {
                let command = piped(server.terminal());
                Box::new(Terminal::start(command, Dialect::Postgres))
            }
            Server::Mysql(server) => {
                let mut command = piped(server.terminal());
                // A client that connected again would go on in the middle of a transaction.
                command.args(["--unbuffered", "--skip-reconnect", "semel"]);
                Box::new(Terminal::start(command, Dialect::Mysql))
            }
            Server::File => Box::new(File::open(&self.file())),
        }
    }

    /// The rows that a query finds, with `|` between their fields.
    pub(crate) fn rows(&self, select: &str) -> Vec<String> {
        match &*self.server() {
            Server::Postgres(server) => server.query(select),
            Server::Mysql(server) => {
                let rows = server.query(&format!("use semel; {select}"));
                rows.iter().map(|row| row.replace('\t', "|")).collect()
            }
            Server::File => read(&self.file(), select),
        }
    }

    /// The only field of the only row that a query finds.
    pub(super) fn count(&self, select: &str) -> u64 {
        let rows = self.rows(select);
        let count = rows.first().and_then(|row| row.parse().ok());
        count.expect("a count")
    }

    /// Kills the server, and starts it again; returns whether there is one.
    pub(crate) fn kill_and_restart(&self) -> bool {
        match &mut *self.server() {
            Server::Postgres(server) => server.kill_and_restart(),
            Server::Mysql(server) => server.kill_and_restart(),
            Server::File => return false,
        }
        true
    }

    fn file(&self) -> PathBuf {
        self.home.path("shop.db")
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn piped(mut command: Command) -> Command {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn read(file: &Path, select: &str) -> Vec<String> {
    let file = Connection::open(file).expect("a file");
    let mut statement = file.prepare(select).expect("a query");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let field = |column| {
            Ok(match row.get_ref(column)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => other.as_str()?.to_owned(),
            })
        };
        let fields: Vec<String> = (0..columns).map(field).collect::<rusqlite::Result<_>>()?;
        Ok(fields.join("|"))
    });
    let rows = rows.and_then(Iterator::collect);
    rows.expect("rows")
}

/// The address in a url.
fn address_of(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once('@').expect("a user");
    let (address, _) = rest.split_once('/').expect("a database");
    address.parse().expect("an address in numbers")
}

fn mysql_url(address: SocketAddr) -> String {
    format!("mysql://root@{address}/semel?ssl-mode=disabled")
}

/// The books have no key of their own: they must not hide what came twice.
const TABLES: &str = "
create table accounts (account varchar(64) primary key, number bigint not null);
create table sales (label varchar(64), account varchar(64), amount bigint, number bigint, place bigint);
create table received (came NUMBER, label varchar(64), account varchar(64), amount bigint);
";
