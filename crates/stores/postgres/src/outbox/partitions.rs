//! The division of a stream's partitions among the processes that relay it.

use deadpool_postgres::tokio_postgres::{self, Row};
use semel_core::outbox::{Holder, PARTITIONS, PartitionLease, Share};
use semel_core::port::outbox::RelayName;
use semel_core::{Error, Result};

use super::{numbers, partition_lease};
use crate::connection::{Cells, Runs};
use crate::error::{corrupt, of_commit};
use crate::failure::Failure;
use crate::session::Session;

/// Divides the partitions in one transaction, in which no other process of the stream does.
pub(super) async fn balance(
    session: &Session,
    relay: &RelayName,
    lease_millis: i64,
) -> Result<Vec<PartitionLease>, Balance> {
    let texts = &session.texts;
    let mut client = session.client().await?;
    let transaction = client.transaction().await?;
    let RelayName {
        name,
        stream,
        sink,
        process,
    } = relay;
    let row = transaction
        .rows(
            &texts.outbox_relay,
            &[stream, name, sink, &lease_millis.to_string()],
        )
        .await?;
    let row = row.first().ok_or_else(|| corrupt("relay"))?;
    let (by, to): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let others = transaction
        .rows(&texts.outbox_processes, &[stream, process])
        .await?;
    let others: i64 = others.first().map_or(Ok(0), |row| row.try_get(0))?;
    if (&*by, &*to) != (&**name, &**sink) {
        if others > 0 {
            return Err(relay.refused_by(&by, &to).into());
        }
        transaction
            .rows(&texts.outbox_adopt, &[stream, name, sink])
            .await?;
    }
    transaction
        .rows(&texts.outbox_beat, &[stream, process, &lease_millis])
        .await?;
    let rows = transaction
        .rows(&texts.outbox_holders, &[stream, process])
        .await?;
    let holders = rows.iter().map(holder).collect::<Result<Vec<_>, _>>()?;
    if holders.len() != usize::from(PARTITIONS) {
        return Err(corrupt("partition of an outbox").into());
    }
    let processes = usize::try_from(others).unwrap_or(0) + 1;
    let share = Share::of(&holders, processes);
    let given = numbers(&share.give);
    transaction
        .rows(&texts.outbox_give, &[stream, process, &given])
        .await?;
    let held = numbers(&[share.keep, share.take].concat());
    let rows = transaction
        .rows(&texts.outbox_hold, &[stream, process, &held, &lease_millis])
        .await?;
    let leases = rows.iter().map(partition_lease).collect::<Result<_, _>>()?;
    transaction.commit().await.map_err(of_commit)?;
    Ok(leases)
}

/// Reason why the partitions were not divided.
pub(super) enum Balance {
    Refused(Failure),
    Failed(Error),
}

impl From<tokio_postgres::Error> for Balance {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Failure> for Balance {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<Error> for Balance {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn holder(row: &Row) -> Result<Holder, Failure> {
    let number: i32 = Cells::try_get(row, 1)?;
    Ok(match number {
        0 => Holder::Own,
        1 => Holder::Nobody,
        _ => Holder::Other,
    })
}
