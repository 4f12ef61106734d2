//! The verbs of operators over dead messages, and the counts of what waits.

use std::time::Duration;

use bytes::Bytes;
use deadpool_postgres::Transaction;
use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::ToSql;
use semel_core::outbox::{OutboxId, Outgoing, headers_of_json};
use semel_core::port::outbox::operations::{
    Backlog, Changed, DeadMessage, DeadOrder, DeadPosition, MOST_COUNTED, OutboxOperations,
    WholeDeadMessage,
};
use semel_core::{ByteString, Note, Result};

use super::{PostgresOutboxStore, partition};
use crate::connection::{Cells, Runs};
use crate::error::{corrupt, undone};
use crate::failure::Failure;
use crate::locked::{Stop, add_audited};
use crate::row::timestamp;
use crate::session::Session;
use crate::transaction::{Job, transact};

impl OutboxOperations for PostgresOutboxStore {
    async fn dead(
        &self,
        stream: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> Result<Vec<DeadMessage>> {
        self.found().await?;
        let texts = &self.session.texts;
        let client = self.session.client().await?;
        let after_key = after.and_then(|it| it.order_key.as_deref());
        if after_key.is_none() {
            let place = after.map_or(i64::MIN, |it| it.place);
            let parameters: [&(dyn ToSql + Sync); 3] = [&stream, &place, &i64::from(most)];
            let rows = self.session.run(&client, &texts.outbox_dead, &parameters);
            let found = rows.await?.iter().map(facts).collect::<Result<Vec<_>>>()?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        // No order key comes before the empty one, and none of its places before this.
        let (key, place) = match (after_key, after) {
            (Some(key), Some(after)) => (key, after.place),
            _ => ("", i64::MIN),
        };
        let parameters: [&(dyn ToSql + Sync); 4] = [&stream, &key, &place, &i64::from(most)];
        let text = &texts.outbox_dead_keyed;
        let rows = self.session.run(&client, text, &parameters).await?;
        rows.iter().map(facts).collect()
    }

    async fn dead_whole(&self, stream: &str, id: OutboxId) -> Result<Option<WholeDeadMessage>> {
        self.found().await?;
        let client = self.session.client().await?;
        let text = &self.session.texts.outbox_dead_whole;
        let rows = self
            .session
            .run(&client, text, &[&stream, &id.to_string()])
            .await?;
        rows.first().map(whole).transpose()
    }

    async fn order_dead(
        &self,
        stream: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> Result<Changed> {
        self.found().await?;
        let directive = Directive {
            stream,
            ids: ids.iter().map(ToString::to_string).collect(),
            order,
            note,
        };
        transact(&self.session, directive).await
    }

    async fn backlog(&self, stream: &str) -> Result<Backlog> {
        self.found().await?;
        let client = self.session.client().await?;
        let text = &self.session.texts.outbox_backlog;
        let parameters: [&(dyn ToSql + Sync); 2] = [&stream, &i64::from(MOST_COUNTED)];
        let rows = self.session.run(&client, text, &parameters).await?;
        let row = rows
            .first()
            .ok_or_else(|| corrupt("backlog of an outbox"))?;
        let read = || -> Result<(i64, i64, Option<i64>), Failure> {
            Ok((
                Cells::try_get(row, 0)?,
                Cells::try_get(row, 1)?,
                Cells::try_get(row, 2)?,
            ))
        };
        let (unpublished, dead, oldest) = read().map_err(undone)?;
        let waiting = (unpublished - dead).clamp(0, i64::from(MOST_COUNTED));
        Ok(Backlog {
            waiting: count(waiting),
            dead: count(dead),
            oldest: oldest.map(|millis| Duration::from_millis(count(millis))),
        })
    }
}

/// An order about some dead messages, carried out in one transaction.
struct Directive<'a> {
    stream: &'a str,
    ids: Vec<String>,
    order: DeadOrder,
    note: Option<&'a Note>,
}

impl Job for Directive<'_> {
    type Answer = Changed;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Changed, Stop> {
        let texts = &session.texts;
        let text = match self.order {
            DeadOrder::TryAgain => &texts.outbox_try_again,
            DeadOrder::Drop => &texts.outbox_drop,
        };
        let rows = transaction.rows(text, &[&self.stream, &self.ids]).await?;
        let mut changed = Changed {
            count: rows.len() as u64,
            is_audited: false,
        };
        let Some(note) = self.note else {
            return Ok(changed);
        };
        let found = transaction
            .rows(&texts.outbox_audit, &[&&*session.schema])
            .await?;
        changed.is_audited = found.first().map_or(Ok(false), |row| row.try_get(0))?;
        if changed.is_audited && !rows.is_empty() {
            let mut entries = Vec::with_capacity(rows.len());
            for row in &rows {
                let id: &str = row.try_get(0)?;
                let id: OutboxId = id.parse().map_err(|_| corrupt("id of an outbox"))?;
                let at = timestamp(row.try_get(1)?);
                entries.push(self.order.audited(self.stream, id, note, at));
            }
            let scopes = vec![None; entries.len()];
            add_audited(transaction, texts, &entries, &scopes).await?;
        }
        Ok(changed)
    }
}

fn facts(row: &Row) -> Result<DeadMessage> {
    let read = || -> Result<_, Failure> {
        let id: &str = Cells::try_get(row, 0)?;
        let order_key: Option<&str> = Cells::try_get(row, 1)?;
        let attempts: i32 = Cells::try_get(row, 3)?;
        let error: &str = Cells::try_get(row, 4)?;
        Ok(id.parse().map(|id| DeadMessage {
            id,
            order_key: order_key.map(ByteString::from),
            place: 0,
            attempts: u32::try_from(attempts).unwrap_or(0),
            error: error.into(),
            created_at: timestamp(0),
            dead_at: timestamp(0),
            size_bytes: 0,
        }))
    };
    let times = || -> Result<(i64, i64, i64, i64), Failure> {
        Ok((
            Cells::try_get(row, 2)?,
            Cells::try_get(row, 5)?,
            Cells::try_get(row, 6)?,
            Cells::try_get(row, 7)?,
        ))
    };
    let found = read().map_err(undone)?;
    let found = found.map_err(|_| corrupt("id of an outbox"))?;
    let (place, created_at, dead_at, bytes) = times().map_err(undone)?;
    Ok(DeadMessage {
        place,
        created_at: timestamp(created_at),
        dead_at: timestamp(dead_at),
        size_bytes: count(bytes),
        ..found
    })
}

fn whole(row: &Row) -> Result<WholeDeadMessage> {
    let facts = facts(row)?;
    let read = || -> Result<(u16, Option<&str>, &[u8]), Failure> {
        Ok((
            partition(row, 8)?,
            Cells::try_get(row, 9)?,
            Cells::try_get(row, 10)?,
        ))
    };
    let (partition, headers, payload) = read().map_err(undone)?;
    let message = Outgoing {
        id: facts.id,
        partition,
        place: facts.place,
        order_key: facts.order_key.clone(),
        headers: headers.map_or(Ok(Vec::new()), headers_of_json),
        payload: Bytes::copy_from_slice(payload),
        attempts: facts.attempts,
    };
    Ok(WholeDeadMessage { facts, message })
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
