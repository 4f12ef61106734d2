//! Statements on a user's own connection, over a driver other than ours.

use std::error::Error as StdError;

use bytes::BytesMut;
use deadpool_postgres::tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio::sync::Mutex;

use crate::connection::{Cells, Nests, Runs};
use crate::driver::{Driver, Parameter, Row};
use crate::failure::Failure;
use crate::sql::Text;

/// A connection of a user's, within a transaction of theirs, for the time of a call.
pub(crate) struct UserConnection<'d, D>(Mutex<&'d mut D>);

impl<'d, D: Driver> UserConnection<'d, D> {
    pub(crate) fn new(driver: &'d mut D) -> Self {
        Self(Mutex::new(driver))
    }
}

impl<D: Driver> Runs for UserConnection<'_, D> {
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

impl<D: Driver> Nests for UserConnection<'_, D> {
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
