//! Clients that write orders with plain SQL: those of the databases themselves, and none of Semel's.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::Connection;

use super::orders::{End, Transaction};

/// The end of a transaction, in the view of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Committed,
    Undone,
    /// The client is gone, and the transaction may have been committed.
    Unknown,
}

/// A client of a database, with a connection of its own.
pub(super) trait Client: Send {
    /// Carries a transaction out. A client that is gone takes no other.
    fn transact(&mut self, transaction: &Transaction) -> Ended;
}

/// The dialects of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    Mysql,
    Sqlite,
}

impl Dialect {
    fn begin(self) -> &'static str {
        match self {
            Self::Postgres => "begin;",
            Self::Mysql => "start transaction;",
            Self::Sqlite => "begin immediate;",
        }
    }

    /// The messages of a transaction.
    pub(super) fn messages(self, transaction: &Transaction) -> String {
        let mut sql = String::new();
        for order in &transaction.orders {
            let key = match &*order.account {
                "" => "null".to_owned(),
                account => format!("'{account}'"),
            };
            let payload = match self {
                Self::Postgres => format!("convert_to('{}', 'UTF8')", order.message()),
                Self::Mysql | Self::Sqlite => format!("'{}'", order.message()),
            };
            writeln!(
                sql,
                "insert into semel_outbox (stream, order_key, payload) values ('orders', {key}, {payload});"
            )
            .expect("a string takes what is written");
        }
        sql
    }

    /// The orders themselves. A number of an account rises in the order of commits: whoever takes one keeps others
    /// waiting to its end.
    pub(super) fn orders(transaction: &Transaction) -> String {
        let mut sql = String::new();
        for account in transaction.accounts() {
            let next =
                format!("update accounts set number = number + 1 where account = '{account}';\n");
            sql += &next;
        }
        for (place, order) in transaction.orders.iter().enumerate() {
            let (label, account, amount) = (&order.label, &order.account, order.amount);
            writeln!(
                sql,
                "insert into sales values ('{label}', '{account}', {amount}, \
                 coalesce((select number from accounts where account = '{account}'), 0), {place});"
            )
            .expect("a string takes what is written");
        }
        sql
    }
}

/// A command-line client of a server, which reads statements from its standard input, and dies of the first that fails.
pub(super) struct Terminal {
    dialect: Dialect,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    count: u64,
}

impl Terminal {
    /// Starts a client with pipes.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub(super) fn start(mut command: Command, dialect: Dialect) -> Self {
        let mut process = command.spawn().expect("a client of a database");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Self {
            dialect,
            process,
            input,
            output,
            count: 0,
        }
    }

    /// Waits until the client has come to the end of what it was told.
    fn is_done(&mut self) -> bool {
        self.count += 1;
        let mark = format!("done {}", self.count);
        let ask = match self.dialect {
            Dialect::Postgres => format!("\\echo {mark}\n"),
            Dialect::Mysql | Dialect::Sqlite => format!("select '{mark}';\n"),
        };
        if self.input.write_all(ask.as_bytes()).is_err() || self.input.flush().is_err() {
            return false;
        }
        let mut line = String::new();
        while matches!(self.output.read_line(&mut line), Ok(1..)) {
            if line.trim_end() == mark {
                return true;
            }
            line.clear();
        }
        false
    }
}

impl Client for Terminal {
    fn transact(&mut self, transaction: &Transaction) -> Ended {
        let pause = match self.dialect {
            _ if !transaction.is_late => "",
            Dialect::Postgres => "select pg_sleep(0.2);\n",
            Dialect::Mysql | Dialect::Sqlite => "select sleep(0.2);\n",
        };
        let body = [
            self.dialect.begin(),
            "\n",
            &self.dialect.messages(transaction),
            pause,
            &Dialect::orders(transaction),
        ]
        .concat();
        let (end, ended) = match transaction.end {
            End::Commit => ("commit;\n", Ended::Committed),
            End::Rollback => ("rollback;\n", Ended::Undone),
            End::Death => ("", Ended::Unknown),
        };
        // A client that is gone takes none of it.
        let written = self.input.write_all([&body, end].concat().as_bytes());
        if written.is_err() || !self.is_done() {
            return Ended::Unknown;
        }
        if transaction.end == End::Death {
            let _ = self.process.kill();
        }
        ended
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to an SQLite file.
pub(super) struct File {
    path: PathBuf,
    connection: Connection,
}

impl File {
    /// Opens the file.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub(super) fn open(path: &Path) -> Self {
        let connection = Connection::open(path).expect("a database");
        let patience = Duration::from_secs(120);
        connection.busy_timeout(patience).expect("a setting");
        Self {
            path: path.to_owned(),
            connection,
        }
    }
}

impl Client for File {
    fn transact(&mut self, transaction: &Transaction) -> Ended {
        let dialect = Dialect::Sqlite;
        let execute = |connection: &Connection, sql: &str| {
            let done = connection.execute_batch(sql);
            done.expect("the file takes a statement");
        };
        execute(&self.connection, dialect.begin());
        execute(&self.connection, &dialect.messages(transaction));
        if transaction.is_late {
            sleep(Duration::from_millis(30));
        }
        execute(&self.connection, &Dialect::orders(transaction));
        match transaction.end {
            End::Commit => execute(&self.connection, "commit"),
            End::Rollback => execute(&self.connection, "rollback"),
            // A connection that is closed undoes what it has not committed.
            End::Death => {
                *self = Self::open(&self.path);
                return Ended::Undone;
            }
        }
        match transaction.end {
            End::Commit => Ended::Committed,
            End::Rollback | End::Death => Ended::Undone,
        }
    }
}
