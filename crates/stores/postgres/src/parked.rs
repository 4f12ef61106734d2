//! Parked messages: kept, listed, dropped.

use std::collections::HashSet;

use bytes::Bytes;
use deadpool_postgres::Transaction;
use deadpool_postgres::tokio_postgres::Row;
use semel_core::parked::{headers_from_bytes, headers_to_bytes};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Key, Note, Parked, ParkedId, Result, Timestamp};

use crate::connection::Runs;
use crate::error::{corrupt, is_passing, undone};
use crate::listing::{bounds, cursor, has_scope, key, last_of_page, scope_at, sequence};
use crate::locked::{Stop, add_audited};
use crate::row::{millis, text, timestamp};
use crate::session::{Session, Tries, store_scope};
use crate::transaction::Job;

/// Keeps messages as of `since`, or of now; returns for each whether it is new.
pub(crate) async fn park(
    session: &Session,
    client: &impl Runs<Row = Row>,
    batch: &[&Parked],
    since: Option<Timestamp>,
) -> Result<Vec<bool>> {
    let mut scopes = Vec::with_capacity(batch.len());
    for message in batch {
        scopes.push(session.scope(client, &message.scope).await?);
    }
    let mut tries = Tries::begin();
    loop {
        match park_in(session, client, batch, &scopes, |_| since).await {
            Err(Stop::Server(error)) if is_passing(&error) && tries.are_left() => {
                tries.pause().await;
            }
            Err(Stop::Server(error)) => return Err(undone(error)),
            Err(stop) => return Err(stop.into_error()),
            Ok(new) => return Ok(new),
        }
    }
}

/// Keeps messages whose scopes have these numbers; returns for each whether it is new.
pub(crate) async fn park_in(
    session: &Session,
    client: &impl Runs<Row = Row>,
    batch: &[&Parked],
    scopes: &[i32],
    since: impl Fn(&Parked) -> Option<Timestamp>,
) -> Result<Vec<bool>, Stop> {
    let ids: Vec<_> = batch.iter().map(|message| message.id()).collect();
    let mut seen = HashSet::new();
    let firsts: Vec<usize> = (0..batch.len())
        .filter(|at| seen.insert(ids[*at]))
        .collect();
    let firsts_of = || firsts.iter().map(|at| batch[*at]);
    let scopes: Vec<_> = firsts.iter().map(|at| scopes[*at]).collect();
    let since: Vec<_> = firsts_of().map(|it| since(it).map(millis)).collect();
    let asked: Vec<_> = firsts
        .iter()
        .map(|at| ids[*at].to_bytes().to_vec())
        .collect();
    let keys: Vec<_> = firsts_of()
        .map(|it| it.key.as_ref().map(Key::as_bytes))
        .collect();
    let texts = |part: fn(&Parked) -> &str| -> Vec<String> {
        firsts_of().map(|it| text(part(it))).collect()
    };
    let transports: Vec<_> = firsts_of().map(|it| it.transport.as_deref()).collect();
    let headers: Vec<_> = firsts_of()
        .map(|it| Some(headers_to_bytes(&it.headers)).filter(|bytes| !bytes.is_empty()))
        .collect();
    let payloads: Vec<_> = firsts_of().map(|it| &it.payload[..]).collect();
    let rows = client
        .rows(
            &session.texts.park,
            &[
                &since,
                &asked,
                &scopes,
                &keys,
                &texts(|it| &it.reason),
                &texts(|it| &it.detail),
                &transports,
                &texts(|it| &it.coordinates),
                &headers,
                &payloads,
            ],
        )
        .await?;
    let mut new = HashSet::with_capacity(rows.len());
    for row in &rows {
        new.insert(id_at(row, 0)?);
    }
    // The first of several alike is the new one.
    Ok(ids.iter().map(|id| new.remove(id)).collect())
}

/// Returns a page of parked messages in the order of their arrival.
///
/// # Cost   with a filter, a page looks at a bounded number of rows: no index has scopes or reasons
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Parked>> {
    let after = sequence(query.after.as_ref())?;
    let client = session.client().await?;
    if !has_scope(session, &client, query).await? {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let (items, next) = page(session, &client, after, query, query.limit.max(1)).await?;
    Ok(Page {
        items,
        next: next.map(cursor),
    })
}

/// Returns the messages behind `after` that fit `filter`, and the number of the last one if there may be more.
pub(crate) async fn page(
    session: &Session,
    client: &impl Runs<Row = Row>,
    after: i64,
    filter: &ListQuery,
    limit: usize,
) -> Result<(Vec<Parked>, Option<i64>)> {
    let reasons: Vec<&str> = filter.reasons.iter().map(|reason| &**reason).collect();
    let reasons = Some(reasons).filter(|reasons| !reasons.is_empty());
    let [most, looked_at] = bounds(limit, filter.is_scoped() || reasons.is_some());
    let (tenant, operation) = (filter.tenant.as_deref(), filter.operation.as_deref());
    let text = &session.texts.parked_list;
    let rows = session
        .run(
            client,
            text,
            &[&after, &tenant, &operation, &reasons, &most, &looked_at],
        )
        .await?;
    let next = last_of_page(&rows, 12, limit, looked_at)?;
    let next = next.map(|row| row.try_get(0)).transpose().map_err(undone)?;
    let mut messages = rows.iter().map(message).collect::<Result<Vec<_>>>()?;
    messages.retain(|message| filter.fits_parked(message));
    Ok((messages, next))
}

/// Drops messages, and adds an audit entry for each where there is a note; answers for each whether
/// it was there.
pub(crate) struct Drop<'b>(pub(crate) &'b [ParkedId], pub(crate) Option<&'b Note>);

impl Job for Drop<'_> {
    type Answer = Vec<bool>;

    async fn run(
        &mut self,
        session: &Session,
        transaction: &Transaction<'_>,
    ) -> Result<Self::Answer, Stop> {
        let ids: Vec<_> = self.0.iter().map(|id| id.to_bytes().to_vec()).collect();
        let rows = transaction
            .rows(&session.texts.parked_drop, &[&ids])
            .await?;
        let mut dropped = HashSet::with_capacity(rows.len());
        for row in &rows {
            dropped.insert(id_at(row, 11)?);
        }
        if let (Some(note), false) = (self.1, rows.is_empty()) {
            let row = transaction.rows(&session.texts.now, &[&0_i64]).await?;
            let server = row.first().map_or(Ok(0), |row| row.try_get(0))?;
            let now = timestamp(session.given_now().unwrap_or(server));
            let (mut entries, mut scopes) = (Vec::new(), Vec::new());
            for row in &rows {
                let entry = message(row)?.dropped(note, now);
                scopes.push(match &entry.scope {
                    Some(scope) => {
                        Some(store_scope(transaction, &session.texts.scope, scope).await?)
                    }
                    None => None,
                });
                entries.push(entry);
            }
            add_audited(transaction, &session.texts, &entries, &scopes).await?;
        }
        // A message that is named twice was there once.
        Ok(self.0.iter().map(|id| dropped.remove(id)).collect())
    }
}

fn message(row: &Row) -> Result<Parked> {
    let bytes = |column: usize| -> Result<Option<Bytes>> {
        let bytes: Option<&[u8]> = row.try_get(column).map_err(undone)?;
        Ok(bytes.map(Bytes::copy_from_slice))
    };
    let text = |column: usize| -> Result<Box<str>> {
        let text: &str = row.try_get(column).map_err(undone)?;
        Ok(text.into())
    };
    Ok(Parked {
        scope: scope_at(row, 1)?,
        key: key(row, 3)?,
        reason: text(4)?,
        detail: text(5)?,
        transport: bytes(6)?,
        coordinates: text(7)?.into(),
        since: timestamp(row.try_get(8).map_err(undone)?),
        payload: bytes(9)?.unwrap_or_default(),
        headers: headers_from_bytes(&bytes(10)?.unwrap_or_default())
            .ok_or_else(|| corrupt("parked message"))?,
    })
}

fn id_at(row: &Row, column: usize) -> Result<ParkedId> {
    let bytes: &[u8] = row.try_get(column).map_err(undone)?;
    let id = bytes.try_into().map(ParkedId::from_bytes);
    id.map_err(|_| corrupt("parked message"))
}
