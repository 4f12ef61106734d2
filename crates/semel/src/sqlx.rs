//! Records, and messages of an outbox, in transactions of [`sqlx`]: effect and record commit together.
//!
//! Pool, transaction and commit are yours; these inboxes run their own few statements in between. They
//! hold no connection, and cost nothing to clone. They decide as the inbox of the store's own driver does,
//! with the same statements.
//!
//! *In one call*: `once` admits, runs your effect and completes; you commit. The same steps are available
//! one by one:
//!
//! *Inline*: admit, change, complete and commit in one transaction; another transaction with the same key
//! waits for the commit. *Leased*, for work that takes long: admit and commit; later, in a second
//! transaction, change, complete and commit. A completion whose claim was lost is
//! [`Settled::Fenced`](crate::Settled::Fenced): it has changed nothing, and you roll back.
//!
//! After an error, roll back; [`Error::advice`](crate::Error::advice) says whether to begin again. No
//! answer of an inbox is applied before your commit. If the commit fails without an answer, nobody knows
//! whether it happened: begin again with the same claim id, and the answer is a replay if it was applied.

#[cfg(feature = "sqlx-mysql")]
mod mysql;
mod once;
#[cfg(feature = "sqlx-postgres")]
mod postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlite;

#[cfg(feature = "sqlx-mysql")]
pub use self::mysql::{MysqlInbox, MysqlOutbox};
#[cfg(feature = "sqlx-postgres")]
pub use self::postgres::{PostgresInbox, PostgresOutbox};
#[cfg(feature = "sqlx-sqlite")]
pub use self::sqlite::{SqliteInbox, SqliteOutbox};
