//! A connection of [`sqlx`] to SQLite, lent to [`rusqlite`]: the same session, transaction and savepoints.
//!
//! So what is written for one driver runs within a transaction of the other, and is not written twice.
//! Both are built on one SQLite: they link the same `libsqlite3-sys`, or Cargo does not build them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sqlx::Connection;
//!
//! let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await?;
//! let mut tx = connection.begin().await?;
//! sqlx::query("CREATE TABLE t (a)").execute(&mut *tx).await?;
//! let columns: i64 = semel_sqlx_rusqlite::lend(&mut tx, |connection| {
//!     connection.query_row("SELECT count(*) FROM pragma_table_info('t')", [], |row| row.get(0))
//! })
//! .await??;
//! assert_eq!(columns, 1);
//! # Ok(())
//! # }
//! ```

pub use rusqlite::Connection;
use sqlx::SqliteConnection;

/// Runs `work` on the connection, on the thread that polls this; sqlx's own thread waits meanwhile.
///
/// Statements that `work` caches are gone at its end. What it changes of the session (a transaction, a
/// pragma) stays; a transaction that it begins or ends is one that sqlx does not know of.
///
/// # Errors
/// The thread of the connection is gone.
///
/// # Cancel safety
/// A call that is dropped has run `work` to its end or not begun it.
pub async fn lend<T>(
    connection: &mut SqliteConnection,
    work: impl FnOnce(&Connection) -> T,
) -> Result<T, sqlx::Error> {
    let mut lock = connection.lock_handle().await?;
    let handle = lock.as_raw_handle().as_ptr();
    #[expect(
        unsafe_code,
        reason = "the only way to a session that another driver has opened"
    )]
    // SAFETY: `handle` is an open `sqlite3`, of the library that `rusqlite` links too. As long as `lock`
    // lives, sqlx's thread makes no call on it or on its statements, and does not close it; so nobody else
    // uses it. `lent` does not close it either, is only borrowed by `work`, for every lifetime, so that
    // neither it nor a statement outlives the call, and is dropped before `lock` (locals are dropped in
    // reverse order), with its cached statements, also where `work` panics.
    let lent = unsafe { Connection::from_handle(handle) };
    match lent {
        Ok(lent) => Ok(work(&lent)),
        // It was looked at and not taken: there is no other error of this function.
        Err(error) => Err(sqlx::Error::Configuration(error.into())),
    }
}
