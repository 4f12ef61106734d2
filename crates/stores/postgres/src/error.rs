//! Meaning of PostgreSQL's failures: kind, code, certainty and advice.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use deadpool_postgres::tokio_postgres::{self, error::SqlState};
use deadpool_postgres::{HookError, PoolError};
use semel_core::{Code, Error, ErrorKind, connection};

use crate::failure::Failure;

/// Error for a failure of a statement that commits by itself, or of one before the commit. An answer of the server says
/// that it was undone; a connection that broke says nothing.
pub(crate) fn undone(failure: impl Into<Failure>) -> Error {
    let failure = failure.into();
    let is_answered = failure.answer().is_some_and(|(state, _)| {
        !LEAVING.iter().any(|it| it.code() == state)
            && state != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN.code()
    });
    let error = classify(failure);
    if is_answered {
        error.not_applied()
    } else {
        error
    }
}

/// Error for a failure in a transaction that has not been asked to commit: the server undoes it, whatever became of the
/// connection.
pub(crate) fn uncommitted(failure: impl Into<Failure>) -> Error {
    classify(failure.into()).not_applied()
}

/// Error for a failure of the commit itself: refused by the server, or unknown.
pub(crate) fn of_commit(error: tokio_postgres::Error) -> Error {
    undone(error)
}

/// Returns whether trying again at once is likely to succeed, with nothing applied.
pub(crate) fn is_passing(failure: &impl Refuses) -> bool {
    let state = failure.state();
    state.is_some_and(|state| PASSING.iter().any(|it| it.code() == state))
}

/// Returns whether a claim was undone because its token was overtaken: `claim.sql` divides by zero then.
pub(crate) fn is_overtaken(failure: &impl Refuses) -> bool {
    failure.state() == Some(SqlState::DIVISION_BY_ZERO.code())
}

/// Returns whether the row to be inserted is already there.
pub(crate) fn is_there(failure: &impl Refuses) -> bool {
    failure.state() == Some(SqlState::UNIQUE_VIOLATION.code())
}

/// A failure that may be an answer of the server.
pub(crate) trait Refuses {
    /// Its `SQLSTATE`.
    fn state(&self) -> Option<&str>;
}

impl Refuses for tokio_postgres::Error {
    fn state(&self) -> Option<&str> {
        Some(self.code()?.code())
    }
}

impl Refuses for Failure {
    fn state(&self) -> Option<&str> {
        Some(self.answer()?.0)
    }
}

/// Error for a pool that could not give out a connection to `hosts`.
pub(crate) fn no_connection(error: PoolError, hosts: &str, patience: Duration) -> Error {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            not_connected(error, hosts)
        }
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => unavailable(&format!(
            "all connections to PostgreSQL are in use, and none became free within {patience:?}; \
             raise `connections` in the store's url"
        ))
        .not_applied()
        .retry_after(Duration::from_millis(200)),
        PoolError::Timeout(_) => unavailable(&format!(
            "PostgreSQL cannot be reached at {hosts}: no answer within {patience:?}; check host and \
             port, and that it runs"
        ))
        .not_applied()
        .retry_after(Duration::from_secs(1)),
        error => unavailable("no connection to PostgreSQL can be made")
            .not_applied()
            .with_source(error),
    }
}

/// Error for a connection to `hosts` that could not be opened. The driver tells the reason only by its words.
fn not_connected(error: tokio_postgres::Error, hosts: &str) -> Error {
    let how = match &*error.to_string() {
        "error connecting to server" => Some(""),
        "error communicating with the server" => Some("the connection broke: "),
        "error performing TLS handshake" if is_network(&error) => Some("the connection broke: "),
        _ => None,
    };
    if error.code().is_none()
        && let Some(how) = how
        && let Some(why) = connection::cause(&error)
    {
        let message = format!(
            "PostgreSQL cannot be reached at {hosts}: {how}{why}; check host and port, and that it runs"
        );
        return unavailable(&message)
            .not_applied()
            .retry_after(Duration::from_millis(500))
            .with_source(error);
    }
    classify(error.into()).not_applied()
}

/// Error for a stored value of a producer that does not hold what it must. No backup mends it.
pub(crate) fn damaged(what: &str) -> Error {
    let message = format!(
        "the {what} in the store does not check out; go on under another name of a producer: a store that is restored \
         has given out its sequences and ids before"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// Error for a stored row that does not hold what it must.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {what} does not check out; restore the store's tables from a backup"),
    )
}

/// Error for a key at which too many others were writing.
pub(crate) fn contended() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "others kept changing the same record; try again",
    )
    .retry_after(Duration::from_millis(100))
}

/// Error for a call whose task is gone.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Internal, "a call of the store panicked")
}

/// Error for a setting of the url or of the server that a person must change.
pub(crate) fn misconfigured(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreUnavailable)
        .not_applied()
}

/// Classifies PostgreSQL's codes; the only place that knows them. An unclassified one is our bug, maybe applied.
fn classify(failure: Failure) -> Error {
    match failure.answer() {
        Some((state, said)) => {
            let error = told(state, &one_line(said));
            failure.because(error)
        }
        None => match failure {
            Failure::Driver(error) => broken(error),
            Failure::Refused(_) => {
                failure.because(unavailable("the connection to PostgreSQL broke"))
            }
            Failure::Unreadable(why) => Error::new(
                ErrorKind::Internal,
                format!("PostgreSQL and this store do not agree on the type of a value: {why}"),
            ),
        },
    }
}

/// Returns the error for an answer of the server.
fn told(state: &str, said: &str) -> Error {
    match state {
        "40001" | "40P01" | "55P03" => Error::new(
            ErrorKind::Throttled,
            "others were at the same records for too long; try again",
        )
        .retry_after(Duration::from_millis(100)),
        // The user's own transaction: those of the store end with their first error.
        "25P02" => Error::new(
            ErrorKind::InvalidInput,
            "an earlier statement of this transaction has failed; roll back and begin again",
        ),
        "25P03" => unavailable(
            "a transaction of this process stood still for too long, and PostgreSQL has undone it",
        )
        .retry_after(Duration::from_millis(100)),
        "57014" => Error::new(
            ErrorKind::Timeout,
            "PostgreSQL gave a statement up after its time limit",
        ),
        "28P01" | "28000" => misconfigured(&format!(
            "PostgreSQL refuses the user of the store's url ({said}); check user, password and pg_hba.conf"
        )),
        "3D000" => misconfigured(&format!("{said}; create the database or correct store.url")),
        "42501" => misconfigured(&format!(
            "the user of the store's url lacks a right ({said}); see docs/spec/postgres.md for the \
             rights that are needed"
        )),
        "42P01" | "3F000" | "42703" => misconfigured(&format!(
            "tables of the store are missing or not as they were made ({said}); run `semel store \
             migrate` or correct the schema in store.url"
        )),
        "25006" => Error::new(
            ErrorKind::Unavailable,
            "PostgreSQL is read-only: a replica, or default_transaction_read_only; name the primary \
             in store.url",
        )
        .with_code(Code::StoreReadOnly),
        "53100" => unavailable("the disk under PostgreSQL is full; free some space")
            .with_code(Code::StoreFull)
            .retry_after(Duration::from_secs(5)),
        "53300" => unavailable(
            "PostgreSQL has no connection left; lower `connections` or raise max_connections",
        )
        .retry_after(Duration::from_secs(1)),
        "53200" | "53400" | "53000" => unavailable(&format!("PostgreSQL is short of resources: {said}"))
            .retry_after(Duration::from_secs(1)),
        "57P01" | "57P02" | "57P03" | "57P05" => {
            unavailable(&format!("PostgreSQL is going down or coming up: {said}"))
                .retry_after(Duration::from_millis(500))
        }
        "58030" | "XX001" | "XX002" => Error::new(
            ErrorKind::Corrupt,
            format!("PostgreSQL cannot read its own files: {said}"),
        ),
        other if other.starts_with("08") => unavailable(&format!("the connection failed: {said}")),
        other => Error::new(
            ErrorKind::Internal,
            format!("PostgreSQL refused a statement of this store: {said} ({other})"),
        ),
    }
}

/// Error for a broken connection, or for bytes on it that make no sense: not an answer of the server. The driver tells
/// its kinds only by their words; one with other words is a connection that broke.
fn broken(error: tokio_postgres::Error) -> Error {
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let cause = one_line(&cause);
    let classified = match &*error.to_string() {
        "error performing TLS handshake" if !is_network(&error) => misconfigured(&format!(
            "no encrypted connection to PostgreSQL could be made: TLS: {cause}; check `sslmode`, `sslrootcert` \
             and the server's certificate"
        )),
        "invalid configuration" => misconfigured(&format!(
            "the store's url does not say enough to connect to PostgreSQL ({cause})"
        )),
        "authentication error" => misconfigured(&format!(
            "PostgreSQL and the store's url do not agree on how to log in ({cause}); check the password"
        )),
        "error connecting to server" => {
            unavailable("PostgreSQL cannot be reached; check host and port, and that it runs")
                .retry_after(Duration::from_millis(500))
        }
        _ => unavailable("the connection to PostgreSQL broke"),
    };
    classified.with_source(error)
}

/// Returns whether a handshake ended because the connection did, and not over a certificate.
fn is_network(error: &tokio_postgres::Error) -> bool {
    let source = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() != io::ErrorKind::InvalidData)
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}

/// Returns the database's own words as one line.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MOST).collect()
}

/// Errors that other transactions at the same rows cause.
const PASSING: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
];

/// Errors of a server that is going down, perhaps after it has committed.
const LEAVING: [SqlState; 3] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
];
