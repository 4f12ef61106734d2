//! Parked messages: kept, listed, dropped.

use std::collections::{HashMap, HashSet};

use mysql_async::Row;
use semel_core::parked::{headers_from_bytes, headers_to_bytes};
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Note, Parked, ParkedId, Result};

use crate::answer::{fixed, key, only, owned, scope, some_number, some_text, time};
use crate::error::{corrupt, in_part};
use crate::listing::{bounded, cursor, sequence};
use crate::locked::{CHUNK, Writes};
use crate::parts::parts;
use crate::pool::PooledConnection;
use crate::row::push_key;
use crate::script::{Literal, Script, optional};
use crate::session::Session;
use crate::transaction::{Job, Stop, end, run_through};

/// Keeps messages as of now; returns for each whether it is new.
pub(crate) async fn park(session: &Session, batch: &[Parked]) -> Result<Vec<bool>> {
    let weight = |message: &Parked| {
        let headers = message
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let transport = message.transport.as_ref().map_or(0, bytes::Bytes::len);
        message.payload.len() + message.detail.len() + transport + headers.sum::<usize>()
    };
    let mut answers = Vec::with_capacity(batch.len());
    for part in parts(batch, weight) {
        let mut connection = session.connection().await?;
        let parked = park_part(session, &mut connection, part).await;
        end(session, connection).await;
        match parked {
            Ok(parked) => answers.extend(parked),
            Err(error) if answers.is_empty() => return Err(error),
            Err(error) => return Err(in_part(error)),
        }
    }
    Ok(answers)
}

async fn park_part(
    session: &Session,
    connection: &mut PooledConnection,
    part: &[Parked],
) -> Result<Vec<bool>> {
    let ids: Vec<_> = part.iter().map(Parked::id).collect();
    let mut order: Vec<_> = (0..part.len()).collect();
    order.sort_by_key(|place| ids[*place]);
    let mut script = Script::default();
    session.add_now(&mut script);
    script.add(&session.texts.begin, &[]);
    let now = Literal::code("@semel.now");
    let mut places = vec![0; part.len()];
    for place in order {
        places[place] = add(session, &mut script, ids[place], &part[place], &now);
    }
    script.add(&session.texts.commit, &[]);
    let sets = run_through(session, connection, &script).await?;
    Ok(places
        .into_iter()
        .map(|place| sets[place].affected == 1)
        .collect())
}

/// Adds the statement that keeps a message; it changes a row if the message is new.
pub(crate) fn add(
    session: &Session,
    script: &mut Script,
    id: ParkedId,
    message: &Parked,
    since: &Literal,
) -> usize {
    let headers = Some(headers_to_bytes(&message.headers)).filter(|bytes| !bytes.is_empty());
    let mut key = Literal::default();
    push_key(&mut key, message.key.as_ref());
    let blob = |bytes: Option<&[u8]>| optional(bytes, Literal::bytes);
    script.add(
        &session.texts.park,
        &[
            &Literal::bytes(&id.to_bytes()),
            since,
            &Literal::text(message.scope.tenant()),
            &Literal::text(message.scope.operation()),
            &key,
            &Literal::text(&message.reason),
            &Literal::text(&message.detail),
            &blob(message.transport.as_deref()),
            &Literal::text(&message.coordinates),
            &blob(headers.as_deref()),
            &Literal::bytes(&message.payload),
        ],
    )
}

/// Returns a page of parked messages in the order of their arrival.
///
/// # Cost   with a filter, two round trips, and a bounded number of rows; no index has tenants or operations
pub(crate) async fn list(session: &Session, query: &ListQuery) -> Result<Page<Parked>> {
    let after = sequence(query.after.as_ref())?;
    let mut conditions = Literal::code(format!("seq > {after}"));
    let text = &session.texts.parked_list_end;
    let end = bounded(session, text, &mut conditions, query).await?;
    if !query.reasons.is_empty() {
        conditions.push_code(" AND CAST(reason AS BINARY) IN (");
        conditions.push(&Literal::list(query.reasons.iter().map(|it| it.as_bytes())));
        conditions.push_code(")");
    }
    let (items, next) = page(session, &conditions, query.limit.max(1)).await?;
    Ok(Page {
        items,
        next: next.or(end).map(cursor),
    })
}

/// Returns the messages that meet `conditions`, and the number of the last one if there may be
/// more.
pub(crate) async fn page(
    session: &Session,
    conditions: &Literal,
    limit: usize,
) -> Result<(Vec<Parked>, Option<u64>)> {
    let mut script = Script::default();
    let most = Literal::number(limit as u64);
    script.add(&session.texts.parked_list, &[conditions, &most]);
    let sets = session.ask_patiently(&script).await?;
    let rows = &sets[0].rows;
    let next = rows.last().filter(|_| rows.len() >= limit);
    let next = next.map(|row| some_number(row, 0)).transpose()?;
    Ok((rows.iter().map(message).collect::<Result<_>>()?, next))
}

/// Drops messages, and adds an audit entry for each where there is a note; answers for each whether
/// it was there.
pub(crate) struct Drop<'b>(pub(crate) &'b [ParkedId], pub(crate) Option<&'b Note>);

impl Job for Drop<'_> {
    type Answer = Vec<bool>;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Self::Answer, Stop> {
        let texts = &session.texts;
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        let mut ids = self.0.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let lock = |ids: &[ParkedId]| {
            let ids = Literal::list(ids.iter().map(|id| id.to_bytes()));
            script.add(&texts.parked_lock, &[&ids])
        };
        let places: Vec<_> = ids.chunks(CHUNK).map(lock).collect();
        session.add_now(&mut script);
        let told = script.add(&texts.time, &[]);
        let sets = connection.run(&script).await?;
        let now = time(only(&sets[told])?, 0)?;
        let mut found = HashMap::new();
        for row in places.iter().flat_map(|place| &sets[*place].rows) {
            let id = fixed(row, 11)?.map(ParkedId::from_bytes);
            found.insert(id.ok_or_else(|| corrupt("parked message"))?, row);
        }
        let mut writes = Writes::new(session, connection.most_bytes());
        let (mut seen, mut entries) = (HashSet::new(), Vec::new());
        let mut answers = Vec::with_capacity(self.0.len());
        for id in self.0 {
            // A message that is named twice was there once.
            let row = found.get(id).copied().filter(|_| seen.insert(*id));
            answers.push(row.is_some());
            if let Some(row) = row {
                let seq = Literal::number(some_number(row, 0)?);
                writes.add(&texts.parked_drop, &[&seq]);
                if let Some(note) = self.1 {
                    entries.push(message(row)?.dropped(note, now));
                }
            }
        }
        writes.add_audited(&entries);
        writes.commit(connection).await?;
        Ok(answers)
    }
}

fn message(row: &Row) -> Result<Parked> {
    let headers = owned(row, 10)?.unwrap_or_default();
    Ok(Parked {
        scope: scope(row, 1)?.ok_or_else(|| corrupt("scope"))?,
        key: key(row, 3)?,
        reason: some_text(row, 4)?,
        detail: some_text(row, 5)?,
        transport: owned(row, 6)?,
        coordinates: some_text(row, 7)?.into(),
        since: time(row, 8)?,
        payload: owned(row, 9)?.unwrap_or_default(),
        headers: headers_from_bytes(&headers).ok_or_else(|| corrupt("parked message"))?,
    })
}
