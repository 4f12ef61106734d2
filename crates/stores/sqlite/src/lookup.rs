//! Finds the stored row of one operation, scope or entity.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use semel_core::{ClaimId, EntityRecord, OpId, Record, Result, Scope};

use crate::error::{corrupt, undone};
use crate::id_columns::{halves, tag};
use crate::row;
use crate::sql;

/// Returns the number of a scope, if it is stored.
pub(crate) fn find_scope(connection: &Connection, scope: &Scope) -> Result<Option<i64>> {
    let mut get = connection.prepare_cached(sql::SCOPE_GET).map_err(undone)?;
    get.query_row([scope.tenant(), scope.operation()], |row| row.get(0))
        .optional()
        .map_err(undone)
}

/// Loads a stored record with its row number; one that does not check out fails alone.
pub(crate) fn load(
    statement: &mut CachedStatement<'_>,
    id: OpId,
    with_outcome: bool,
) -> Result<Option<(i64, Result<Record>)>> {
    statement.raw_bind_parameter(1, tag(id)).map_err(undone)?;
    statement
        .raw_bind_parameter(2, with_outcome)
        .map_err(undone)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(undone)? {
        let rest = row.get_ref(row::COLUMNS + 1).map_err(undone)?;
        if rest.as_blob().is_ok_and(|rest| rest == halves(&id).1) {
            let seq = row.get(row::COLUMNS).map_err(undone)?;
            return Ok(Some((seq, row::read(row))));
        }
    }
    Ok(None)
}

/// Loads a stored entity.
pub(crate) fn load_entity(connection: &Connection, id: OpId) -> Result<Option<EntityRecord>> {
    let mut get = connection.prepare_cached(sql::ENTITY_GET).map_err(undone)?;
    let entity = get.query_row([&id.as_bytes()[..]], |row| entity_record(row, 0));
    match entity {
        Err(
            error @ (rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)),
        ) => Err(corrupt("entity").with_source(error)),
        entity => entity.optional().map_err(undone),
    }
}

/// Reads an entity from three columns of a row, from `first` on.
pub(crate) fn entity_record(row: &Row<'_>, first: usize) -> rusqlite::Result<EntityRecord> {
    let applied: Option<i64> = row.get(first)?;
    let holder: Option<[u8; 16]> = row.get(first + 1)?;
    let until: Option<i64> = row.get(first + 2)?;
    Ok(EntityRecord {
        applied: applied.map(i64::cast_unsigned),
        holder: holder
            .map(ClaimId::from_bytes)
            .zip(until.map(row::timestamp)),
    })
}
