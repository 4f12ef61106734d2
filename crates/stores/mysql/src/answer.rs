//! Answers of the server to a script: one set per statement, and the columns of their rows.

use bytes::Bytes;
use mysql_async::{Row, Value};
use semel_core::{Error, ErrorKind, Key, OpId, Result, Scope, Timestamp};

use crate::error::corrupt;

/// The result of one statement.
#[derive(Debug, Default)]
pub(crate) struct Set {
    /// Rows that it changed.
    pub(crate) affected: u64,
    /// Rows that it returned.
    pub(crate) rows: Vec<Row>,
}

/// Columns of a row, in text: from our driver, or from a user's.
pub(crate) trait Cells {
    /// Returns the bytes of a column; `None` is null.
    fn cell(&self, column: usize) -> Result<Option<&[u8]>>;
}

impl Cells for Row {
    fn cell(&self, column: usize) -> Result<Option<&[u8]>> {
        match self.as_ref(column) {
            Some(Value::NULL) => Ok(None),
            Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
            // Answers in text have nothing else.
            Some(_) | None => Err(corrupt("column")),
        }
    }
}

/// Returns the only row of a set.
pub(crate) fn only(set: &Set) -> Result<&Row> {
    only_of(&set.rows)
}

/// Returns the only one of some rows.
pub(crate) fn only_of<R>(rows: &[R]) -> Result<&R> {
    rows.first().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "MySQL answered a question with nothing",
        )
    })
}

/// Reads the bytes of a column; `None` is null.
pub(crate) fn bytes(row: &impl Cells, column: usize) -> Result<Option<&[u8]>> {
    row.cell(column)
}

/// Reads the bytes of a column, in memory of their own.
pub(crate) fn owned(row: &impl Cells, column: usize) -> Result<Option<Bytes>> {
    Ok(bytes(row, column)?.map(Bytes::copy_from_slice))
}

/// Reads a text.
pub(crate) fn text(row: &impl Cells, column: usize) -> Result<Option<&str>> {
    let text = bytes(row, column)?.map(std::str::from_utf8).transpose();
    text.map_err(|error| corrupt("text").with_source(error))
}

/// Reads a text that is never null.
pub(crate) fn some_text(row: &impl Cells, column: usize) -> Result<Box<str>> {
    Ok(text(row, column)?.ok_or_else(|| corrupt("text"))?.into())
}

/// Reads an unsigned number.
pub(crate) fn number(row: &impl Cells, column: usize) -> Result<Option<u64>> {
    parsed(row, column)
}

/// Reads a number of any type.
pub(crate) fn parsed<T: std::str::FromStr>(row: &impl Cells, column: usize) -> Result<Option<T>> {
    let Some(text) = text(row, column)? else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| corrupt("number"))
}

/// Reads a number that is never null.
pub(crate) fn some_number(row: &impl Cells, column: usize) -> Result<u64> {
    number(row, column)?.ok_or_else(|| corrupt("number"))
}

/// Reads a time that is never null.
pub(crate) fn time(row: &impl Cells, column: usize) -> Result<Timestamp> {
    some_number(row, column).map(Timestamp::from_millis)
}

/// Reads bytes of a fixed length.
pub(crate) fn fixed<const N: usize>(row: &impl Cells, column: usize) -> Result<Option<[u8; N]>> {
    let fixed = bytes(row, column)?.map(<[u8; N]>::try_from);
    fixed.transpose().map_err(|_| corrupt("column"))
}

/// Reads an operation id.
pub(crate) fn id(row: &impl Cells, column: usize) -> Result<OpId> {
    let id = fixed(row, column)?.ok_or_else(|| corrupt("operation id"))?;
    Ok(OpId::from_bytes(id))
}

/// Reads a key.
pub(crate) fn key(row: &impl Cells, column: usize) -> Result<Option<Key>> {
    let Some(bytes) = owned(row, column)? else {
        return Ok(None);
    };
    let key = Key::from_canonical(bytes);
    key.map(Some).ok_or_else(|| corrupt("key"))
}

/// Reads a scope: its tenant, then its name.
pub(crate) fn scope(row: &impl Cells, first: usize) -> Result<Option<Scope>> {
    let (Some(tenant), Some(operation)) = (text(row, first)?, text(row, first + 1)?) else {
        return Ok(None);
    };
    let scope = Scope::new(tenant, operation);
    scope
        .map(Some)
        .map_err(|error| corrupt("scope").with_source(error))
}
