//! The inbox on a connection of another driver: the statements it runs, and their answers.
//!
//! An adapter passes statements on and bytes back. Their text and meaning stay in this crate.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;

use bytes::{Bytes, BytesMut};
use deadpool_postgres::tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio::sync::Mutex;

use crate::session::{Cells, Failure, Nests, Runs};
use crate::sql::Text;

/// A connection within a transaction that its user has begun and will commit.
pub trait Driver: Send {
    /// Runs one statement; parameters and columns are in PostgreSQL's binary format.
    ///
    /// # Errors
    /// The server refused the statement, or the connection broke.
    ///
    /// # Cancel safety
    /// None is needed: a caller that drops the call rolls back.
    fn query(
        &mut self,
        sql: &str,
        parameters: Vec<Parameter>,
    ) -> impl Future<Output = Result<Vec<Row>, Refused>> + Send;

    /// Runs statements without parameters or rows: savepoints.
    ///
    /// # Errors
    /// As [`Driver::query`].
    fn execute(&mut self, sql: &str) -> impl Future<Output = Result<(), Refused>> + Send;
}

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The number of its type in the server's catalogue.
    pub oid: u32,
    /// Its bytes; `None` is null.
    pub value: Option<Bytes>,
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its columns, in their order.
    pub columns: Vec<Parameter>,
}

/// Reason why a statement did not run.
#[derive(Debug)]
pub enum Refused {
    /// The server refused it.
    Answered {
        /// Its `SQLSTATE`.
        state: Box<str>,
        /// The server's message.
        message: Box<str>,
        /// The driver's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The connection broke, or its bytes made no sense.
    Broken(Box<dyn StdError + Send + Sync>),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { state, message, .. } => write!(f, "{message} ({state})"),
            Self::Broken(_) => f.write_str("the connection broke"),
        }
    }
}

impl StdError for Refused {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Answered { source, .. } | Self::Broken(source) => Some(&**source),
        }
    }
}

/// Such a connection for the time of a call.
pub(crate) struct Borrowed<'d, D>(Mutex<&'d mut D>);

impl<'d, D: Driver> Borrowed<'d, D> {
    pub(crate) fn new(driver: &'d mut D) -> Self {
        Self(Mutex::new(driver))
    }
}

impl<D: Driver> Runs for Borrowed<'_, D> {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let encoded = parameters.iter().zip(&text.types).map(encode);
        let encoded = encoded.collect::<Result<_, _>>()?;
        let answer = self.0.lock().await.query(&text.sql, encoded).await;
        answer.map_err(Failure::Refused)
    }
}

impl<D: Driver> Nests for Borrowed<'_, D> {
    async fn order(&self, sql: &str) -> Result<(), Failure> {
        let done = self.0.lock().await.execute(sql).await;
        done.map_err(Failure::Refused)
    }
}

fn encode((value, r#type): (&&(dyn ToSql + Sync), &Type)) -> Result<Parameter, Failure> {
    let mut bytes = BytesMut::new();
    let is_null = value.to_sql_checked(r#type, &mut bytes);
    Ok(Parameter {
        oid: r#type.oid(),
        value: match is_null.map_err(|error| unreadable(&*error))? {
            IsNull::Yes => None,
            IsNull::No => Some(bytes.freeze()),
        },
    })
}

fn unreadable(error: &(dyn StdError + Send + Sync)) -> Failure {
    Failure::Unreadable(error.to_string().into())
}

impl Cells for Row {
    fn try_get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, Failure> {
        let odd = |why: &str| Failure::Unreadable(format!("column {column} {why}").into());
        let cell = self.columns.get(column);
        let cell = cell.ok_or_else(|| odd("is missing"))?;
        let r#type = Type::from_oid(cell.oid).filter(T::accepts);
        let r#type = r#type.ok_or_else(|| odd("is of another type"))?;
        T::from_sql_nullable(&r#type, cell.value.as_deref()).map_err(|error| unreadable(&*error))
    }
}
