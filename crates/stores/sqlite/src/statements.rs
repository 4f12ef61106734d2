//! Statements of users: checked, prepared, bound to values.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, ToSql};
use semel_core::port::transactional::{Statements, Value};
use semel_core::sql::Dialect;
use semel_core::{Error, ErrorKind, Result};

use crate::error::undone;

/// A statement ready to run.
pub(crate) struct Prepared<'c> {
    statement: CachedStatement<'c>,
    /// Index of the value that each parameter takes.
    values: Vec<usize>,
}

/// Prepares every statement.
///
/// # Errors   `InvalidConfig`, in the database's own words where it has some
pub(crate) fn prepare<'c>(
    connection: &'c Connection,
    statements: &Statements,
) -> Result<Vec<Prepared<'c>>> {
    let mut is_used = vec![false; statements.params.len()];
    let prepared = statements
        .sql
        .iter()
        .enumerate()
        .map(|(index, text)| prepare_one(connection, index + 1, text, statements, &mut is_used))
        .collect::<Result<Vec<_>>>()?;
    if prepared.is_empty() {
        return Err(invalid("the sql effect has no statement"));
    }
    match statements
        .params
        .iter()
        .zip(is_used)
        .find(|(_, is_used)| !is_used)
    {
        Some((name, _)) => Err(invalid(&format!("no statement has a placeholder :{name}"))),
        None => Ok(prepared),
    }
}

impl Prepared<'_> {
    /// Runs the statement for one message; rows that it returns are dropped.
    pub(crate) fn run(&mut self, values: &[Bound]) -> rusqlite::Result<()> {
        for (index, value) in self.values.iter().enumerate() {
            self.statement
                .raw_bind_parameter(index + 1, &values[*value])?;
        }
        let mut rows = self.statement.raw_query();
        while rows.next()?.is_some() {}
        Ok(())
    }
}

/// A value as SQLite takes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    Null,
    Integer(i64),
    Real(f64),
    Text(Box<str>),
    Blob(Bytes),
}

impl From<&Value> for Bound {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(value) => Self::Integer(i64::from(*value)),
            Value::Number(text) => Self::of_number(text),
            Value::Text(text) | Value::Json(text) => Self::Text(text.clone()),
            Value::Bytes(bytes) => Self::Blob(bytes.clone()),
        }
    }
}

impl Bound {
    /// Returns an integer where it fits, a double where that is the same decimal, else the text: no
    /// digit is ever lost.
    fn of_number(text: &str) -> Self {
        if let Ok(integer) = text.parse() {
            return Self::Integer(integer);
        }
        match text.parse::<f64>() {
            Ok(real) if real.is_finite() && real.to_string() == text => Self::Real(real),
            Ok(_) | Err(_) => Self::Text(text.into()),
        }
    }
}

impl ToSql for Bound {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Meaning of a failed statement for its message.
pub(crate) enum ErrorClass {
    /// It will never succeed with these values.
    Hopeless(Box<str>),
    /// Another try may succeed.
    Passing(Box<str>),
    /// It says nothing about the message: the whole batch is undone.
    Batch(Error),
}

/// Judges the failure of a statement; `statements` are tried afresh where the words alone do not
/// tell a bad value from a table that has gone.
pub(crate) fn judge(
    error: rusqlite::Error,
    connection: &Connection,
    statements: &Statements,
) -> ErrorClass {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::ParameterOutOfRange,
        ) => ErrorClass::Hopeless(words(&error)),
        Some(ErrorCode::Unknown) => match prepare_afresh(connection, statements) {
            Ok(()) => ErrorClass::Hopeless(words(&error)),
            Err(gone) => ErrorClass::Batch(gone),
        },
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted
            | ErrorCode::AuthorizationForStatementDenied
            | ErrorCode::FileLockingProtocolFailed,
        ) => ErrorClass::Passing(words(&error)),
        _ => ErrorClass::Batch(undone(error)),
    }
}

/// Returns the database's own words as one line.
pub(crate) fn words(error: &rusqlite::Error) -> Box<str> {
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        error => error.to_string(),
    };
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_WORDS).collect::<String>().into()
}

fn prepare_one<'c>(
    connection: &'c Connection,
    number: usize,
    text: &str,
    statements: &Statements,
    is_used: &mut [bool],
) -> Result<Prepared<'c>> {
    let word = Dialect::Sqlite.first_word(text).to_ascii_uppercase();
    if word.is_empty() {
        return Err(invalid(&format!("statement {number} is empty")));
    }
    if FORBIDDEN.contains(&&*word) {
        return Err(invalid(&format!(
            "statement {number} begins with {word}, but it runs inside a transaction of the store; \
             leave it out"
        )));
    }
    let statement = connection
        .prepare_cached(text)
        .map_err(|error| match error {
            rusqlite::Error::MultipleStatement => invalid(&format!(
                "statement {number} holds several; give them one by one as `statements = [...]`"
            )),
            error => invalid(&format!("statement {number}: {}", words(&error))).with_source(error),
        })?;
    let value = |index| {
        let name = statement.parameter_name(index).unwrap_or("?");
        let name = name.strip_prefix(':').ok_or_else(|| {
            invalid(&format!(
                "statement {number} has a placeholder {name}; write :name"
            ))
        })?;
        let place = statements.params.iter().position(|param| **param == *name);
        place.ok_or_else(|| {
            invalid(&format!(
                "statement {number} has :{name}, but params has no {name}"
            ))
        })
    };
    let values = (1..=statement.parameter_count())
        .map(value)
        .collect::<Result<Vec<_>>>()?;
    for place in &values {
        is_used[*place] = true;
    }
    Ok(Prepared { statement, values })
}

/// Returns an error unless the statements still fit the tables.
fn prepare_afresh(connection: &Connection, statements: &Statements) -> Result<()> {
    for (index, text) in statements.sql.iter().enumerate() {
        connection.prepare(text).map_err(|error| {
            invalid(&format!("statement {}: {}", index + 1, words(&error))).with_source(error)
        })?;
    }
    Ok(())
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

/// First words of statements that would end the transaction, or cannot run inside one.
const FORBIDDEN: &[&str] = &[
    "BEGIN",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "ATTACH",
    "DETACH",
    "VACUUM",
    "PRAGMA",
    "EXPLAIN",
];
const MAX_WORDS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_of_a_number_is_lost() {
        let bound = |text: &str| Bound::of_number(text);
        assert_eq!(bound("9223372036854775807"), Bound::Integer(i64::MAX));
        assert_eq!(bound("-9223372036854775808"), Bound::Integer(i64::MIN));
        assert_eq!(
            bound("9223372036854775808"),
            Bound::Text("9223372036854775808".into())
        );
        assert_eq!(
            bound("18446744073709551615"),
            Bound::Text("18446744073709551615".into())
        );
        assert_eq!(bound("0.1"), Bound::Real(0.1));
        assert_eq!(bound("-12.5"), Bound::Real(-12.5));
        assert_eq!(
            bound("0.10000000000000000001"),
            Bound::Text("0.10000000000000000001".into())
        );
        let huge = "1".to_owned() + &"0".repeat(400);
        assert_eq!(bound(&huge), Bound::Text(huge.into()));
    }
}
