//! The outbox: messages that leave if their transaction commits, and what their relays ask of the table.

mod listener;
mod operations;
mod partitions;
mod publish;
mod tables;

pub use publish::PostgresOutbox;
pub use tables::OUTBOX_FORMAT;
pub(crate) use tables::create;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::ToSql;
use semel_core::outbox::{OutboxId, Outgoing, PartitionLease, headers_of_json};
use semel_core::port::outbox::{MOST_BATCH_BYTES, OutboxContents, OutboxStore, RelayName, Unsent};
use semel_core::{ByteString, Result};

use crate::config::{Options, address};
use crate::connection::Cells;
use crate::error::{corrupt, is_passing, uncommitted, undone};
use crate::failure::Failure;
use crate::session::{Session, Tries};
use crate::store::session;

use listener::Listener;
use partitions::{Balance, balance};

/// The outbox of a PostgreSQL database, for the relays that publish it.
///
/// Its tables are reached by their bare names; `semel store migrate` makes them.
pub struct PostgresOutboxStore {
    session: Session,
    listener: Listener,
    is_found: AtomicBool,
    /// The last place that was read, by which nobody goes but the bug M27.
    last: AtomicI64,
}

impl PostgresOutboxStore {
    /// Returns the outbox at this url, without a connection yet. Needs a tokio runtime.
    ///
    /// # Errors
    /// `invalid-config`, without anything of the url that may be secret.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        Ok(Self {
            session: session(url, options)?,
            listener: Listener::begin(&address(url)?)?,
            is_found: AtomicBool::new(false),
            last: AtomicI64::new(i64::MIN),
        })
    }

    /// Returns the format of the tables; `None` where there are none.
    ///
    /// # Errors
    /// Those of a server that is away.
    pub async fn format(&self) -> Result<Option<i64>> {
        let client = self.session.client().await?;
        tables::format(&self.session, &client).await
    }

    /// Counts what waits in it, and names the other streams that are not published.
    ///
    /// # Cost   reads every message that is not published
    /// # Errors   `InvalidConfig`: no outbox, or a newer one; those of a server that is away
    pub async fn inspect(&self, stream: &str) -> Result<OutboxContents> {
        self.found().await?;
        let client = self.session.client().await?;
        let text = &self.session.texts.outbox_streams;
        let mut contents = OutboxContents::default();
        for row in self.session.run(&client, text, &[]).await? {
            let read = || -> Result<(String, i64, i64, Option<String>), Failure> {
                let (stream, relay) = (Cells::try_get(&row, 0)?, Cells::try_get(&row, 3)?);
                Ok((
                    stream,
                    Cells::try_get(&row, 1)?,
                    Cells::try_get(&row, 2)?,
                    relay,
                ))
            };
            let (name, waiting, dead, relay) = read().map_err(undone)?;
            if name == stream {
                contents.waiting = u64::try_from(waiting).unwrap_or(0);
                contents.dead = u64::try_from(dead).unwrap_or(0);
            } else {
                contents.others.push((name, relay));
            }
        }
        Ok(contents)
    }

    /// Refuses an outbox that is missing or newer, until it was found once.
    async fn found(&self) -> Result<()> {
        if !self.is_found.load(Ordering::Relaxed) {
            let client = self.session.client().await?;
            tables::check(&self.session, &client).await?;
            self.is_found.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl OutboxStore for PostgresOutboxStore {
    async fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        self.found().await?;
        let lease_millis = millis(lease);
        if !balanced {
            let client = self.session.client().await?;
            let text = &self.session.texts.outbox_renew;
            let rows = self
                .session
                .run(
                    &client,
                    text,
                    &[&relay.stream, &relay.process, &lease_millis],
                )
                .await?;
            let leases = rows.iter().map(partition_lease).collect::<Result<_, _>>();
            return leases.map_err(undone);
        }
        let mut tries = Tries::begin();
        loop {
            match balance(&self.session, relay, lease_millis).await {
                Ok(leases) => return Ok(leases),
                Err(Balance::Refused(failure)) if is_passing(&failure) && tries.are_left() => {
                    tries.pause().await;
                }
                Err(Balance::Refused(failure)) => return Err(uncommitted(failure)),
                Err(Balance::Failed(error)) => return Err(error),
            }
        }
    }

    async fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        let partitions: Vec<u16> = leases.iter().map(|it| it.partition).collect();
        let tokens: Vec<i64> = leases.iter().map(|it| it.token).collect();
        let after = if semel_core::planted("M27") {
            self.last.load(Ordering::Relaxed)
        } else {
            i64::MIN
        };
        let client = self.session.client().await?;
        let rows = self
            .session
            .run(
                &client,
                &self.session.texts.outbox_pending,
                &[
                    &relay.stream,
                    &relay.process,
                    &numbers(&partitions),
                    &tokens,
                    &i64::from(most),
                    &after,
                    &MOST_BATCH_BYTES,
                ],
            )
            .await?;
        let pending = rows.iter().map(outgoing).collect::<Result<Vec<_>>>()?;
        if let Some(last) = pending.last() {
            self.last.store(last.place, Ordering::Relaxed);
        }
        Ok(pending)
    }

    async fn sent(&self, ids: &[OutboxId], keep: bool) -> Result<u64> {
        let texts = &self.session.texts;
        let text = if keep {
            &texts.outbox_kept
        } else {
            &texts.outbox_sent
        };
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let client = self.session.client().await?;
        counted(&self.session.run(&client, text, &[&ids]).await?)
    }

    async fn put_off(&self, relay: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        let ids: Vec<String> = unsent.iter().map(|it| it.id.to_string()).collect();
        let partitions: Vec<u16> = unsent.iter().map(|it| it.lease.partition).collect();
        let tokens: Vec<i64> = unsent.iter().map(|it| it.lease.token).collect();
        let waits: Vec<i64> = unsent.iter().map(|it| it.wait.map_or(-1, millis)).collect();
        let errors: Vec<String> = unsent.iter().map(|it| without_nul(&it.error)).collect();
        let counted_ones: Vec<bool> = unsent.iter().map(|it| it.counted).collect();
        let client = self.session.client().await?;
        let rows = self
            .session
            .run(
                &client,
                &self.session.texts.outbox_put_off,
                &[
                    &relay.stream,
                    &relay.process,
                    &ids,
                    &numbers(&partitions),
                    &tokens,
                    &waits,
                    &errors,
                    &counted_ones,
                ],
            )
            .await?;
        rows.iter().map(id).collect()
    }

    async fn forget(&self, stream: &str, published_for: Duration, most: u32) -> Result<u64> {
        let client = self.session.client().await?;
        let text = &self.session.texts.outbox_forget;
        let parameters: [&(dyn ToSql + Sync); 3] =
            [&stream, &millis(published_for), &i64::from(most)];
        counted(&self.session.run(&client, text, &parameters).await?)
    }

    async fn leave(&self, relay: &RelayName) -> Result<()> {
        let client = self.session.client().await?;
        let text = &self.session.texts.outbox_leave;
        let left = self
            .session
            .run(&client, text, &[&relay.stream, &relay.process])
            .await;
        left.map(drop)
    }

    async fn committed(&self) -> Result<()> {
        if semel_core::planted("X14") {
            std::future::pending::<()>().await;
        }
        self.listener.heard().await;
        Ok(())
    }
}

impl fmt::Debug for PostgresOutboxStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresOutboxStore")
    }
}

fn partition_lease(row: &Row) -> Result<PartitionLease, Failure> {
    Ok(PartitionLease {
        partition: partition(row, 0)?,
        token: Cells::try_get(row, 1)?,
    })
}

fn partition(row: &Row, column: usize) -> Result<u16, Failure> {
    let number: i16 = Cells::try_get(row, column)?;
    Ok(u16::try_from(number).unwrap_or(u16::MAX))
}

/// Reads the id, which is the first column.
fn id(row: &Row) -> Result<OutboxId> {
    let id: &str = Cells::try_get(row, 0).map_err(undone)?;
    id.parse().map_err(|_| corrupt("id of an outbox"))
}

fn outgoing(row: &Row) -> Result<Outgoing> {
    let id = id(row)?;
    let read = || -> Result<_, Failure> {
        let order_key: Option<&str> = Cells::try_get(row, 3)?;
        let headers: Option<&str> = Cells::try_get(row, 4)?;
        let payload: &[u8] = Cells::try_get(row, 5)?;
        let attempts: i32 = Cells::try_get(row, 6)?;
        Ok(Outgoing {
            id,
            partition: partition(row, 1)?,
            place: Cells::try_get(row, 2)?,
            order_key: order_key.map(ByteString::from),
            headers: headers.map_or(Ok(Vec::new()), headers_of_json),
            payload: Bytes::copy_from_slice(payload),
            attempts: u32::try_from(attempts).unwrap_or(0),
        })
    };
    read().map_err(undone)
}

fn counted(rows: &[Row]) -> Result<u64> {
    let count = rows.first().map_or(Ok(0), |row| Cells::try_get(row, 0));
    let count: i64 = count.map_err(undone)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn numbers(partitions: &[u16]) -> Vec<i16> {
    let numbers = partitions.iter().map(|it| i16::try_from(*it));
    numbers.flatten().collect()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// A text of PostgreSQL has no U+0000.
fn without_nul(text: &str) -> String {
    text.replace('\0', "")
}
