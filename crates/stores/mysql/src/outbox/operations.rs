//! The verbs of operators over dead messages, and the counts of what waits.

use std::time::Duration;

use mysql_async::Row;
use semel_core::outbox::{OutboxId, Outgoing, headers_of_json};
use semel_core::port::outbox::operations::{
    Backlog, Changed, DeadMessage, DeadOrder, DeadPosition, MOST_COUNTED, OutboxOperations,
    WholeDeadMessage,
};
use semel_core::{Note, Result, Timestamp};

use super::tables::is_refused;
use super::{MysqlOutboxStore, id, lossy};
use crate::answer::{only, owned, parsed, some_number, time};
use crate::error::corrupt;
use crate::locked::Writes;
use crate::pool::PooledConnection;
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::{OUTBOX, Text};
use crate::transaction::{Job, Stop, transact};

impl OutboxOperations for MysqlOutboxStore {
    async fn dead(
        &self,
        stream: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> Result<Vec<DeadMessage>> {
        self.found_for(stream).await?;
        let (stream, most) = (Literal::typed(stream), Literal::number(most.into()));
        let after_key = after.and_then(|it| it.order_key.as_deref());
        if after_key.is_none() {
            let place = place(after.map_or(i64::MIN, |it| it.place));
            let id = after.map_or(0, |it| it.id.as_u128()).to_be_bytes();
            let values = [&stream, &place, &place, &Literal::bytes(&id), &most];
            let found = self.page(&OUTBOX.dead, &values).await?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        // No order key comes before the empty one, and none of its places before this.
        let (key, behind) = match (after_key, after) {
            (Some(key), Some(after)) => (key, after.place),
            _ => ("", i64::MIN),
        };
        let (key, behind) = (Literal::bytes(key.as_bytes()), place(behind));
        let values = [&stream, &key, &key, &behind, &most];
        self.page(&OUTBOX.dead_keyed, &values).await
    }

    async fn dead_whole(&self, stream: &str, id: OutboxId) -> Result<Option<WholeDeadMessage>> {
        self.found_for(stream).await?;
        let id = Literal::bytes(&id.as_u128().to_be_bytes());
        let mut script = Script::default();
        script.add(&OUTBOX.dead_whole, &[&Literal::typed(stream), &id]);
        let sets = self.session.ask(&script).await?;
        sets[0].rows.first().map(whole).transpose()
    }

    async fn order_dead(
        &self,
        stream: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> Result<Changed> {
        self.found_for(stream).await?;
        let directive = Directive {
            stream,
            ids,
            order,
            note,
        };
        transact(&self.session, directive).await
    }

    async fn backlog(&self, stream: &str) -> Result<Backlog> {
        self.found_for(stream).await?;
        let (stream, most) = (Literal::typed(stream), Literal::number(MOST_COUNTED.into()));
        let mut script = Script::default();
        self.session.add_now(&mut script);
        let told = script.add(&self.session.texts.time, &[]);
        let values = [&stream, &most, &stream, &most, &stream, &stream, &most];
        let counts = script.add(&OUTBOX.backlog, &values);
        let sets = self.session.ask(&script).await?;
        let now = some_number(only(&sets[told])?, 0)?;
        let row = only(&sets[counts])?;
        let written: Option<i64> = parsed(row, 2)?;
        Ok(Backlog {
            waiting: some_number(row, 0)?,
            dead: some_number(row, 1)?,
            oldest: written.map(|at| Duration::from_millis(now.saturating_sub(millis(at)))),
        })
    }
}

impl MysqlOutboxStore {
    async fn page(&self, text: &Text, values: &[&Literal]) -> Result<Vec<DeadMessage>> {
        let mut script = Script::default();
        script.add(text, values);
        let sets = self.session.ask(&script).await?;
        sets[0].rows.iter().map(facts).collect()
    }
}

/// An order about some dead messages, carried out in one transaction.
struct Directive<'a> {
    stream: &'a str,
    ids: &'a [OutboxId],
    order: DeadOrder,
    note: Option<&'a Note>,
}

impl Job for Directive<'_> {
    type Answer = Changed;

    async fn run(
        &mut self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<Changed, Stop> {
        let texts = &session.texts;
        let is_audited = self.note.is_some() && may_audit(session, connection).await?;
        let ids = self.ids.iter().map(|it| it.as_u128().to_be_bytes());
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        let values = [&Literal::typed(self.stream), &Literal::list(ids)];
        let locked = script.add(&OUTBOX.dead_lock, &values);
        session.add_now(&mut script);
        let told = script.add(&texts.time, &[]);
        let sets = connection.run(&script).await?;
        let now = time(only(&sets[told])?, 0)?;
        let found = sets[locked].rows.iter().map(id);
        let found = found.collect::<Result<Vec<_>>>()?;
        let mut writes = Writes::new(session, connection.most_bytes());
        if !found.is_empty() {
            let text = match self.order {
                DeadOrder::TryAgain => &OUTBOX.try_again,
                DeadOrder::Drop => &OUTBOX.drop,
            };
            let ids = found.iter().map(|it| it.as_u128().to_be_bytes());
            writes.add(text, &[&Literal::list(ids)]);
        }
        if let Some(note) = self.note.filter(|_| is_audited) {
            let entries = found.iter();
            let entries = entries.map(|id| self.order.audited(self.stream, *id, note, now));
            writes.add_audited(&entries.collect::<Vec<_>>());
        }
        writes.commit(connection).await?;
        Ok(Changed {
            count: found.len() as u64,
            is_audited,
        })
    }
}

/// Tells whether there is an audit trail that the user may write: by an insertion of nothing.
async fn may_audit(session: &Session, connection: &mut PooledConnection) -> Result<bool, Stop> {
    let mut script = Script::default();
    script.add(&session.texts.outbox_audit, &[]);
    match connection.run(&script).await {
        Ok(_) => Ok(true),
        Err(failure) if is_refused(&failure, &NO_TRAIL) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

fn facts(row: &Row) -> Result<DeadMessage> {
    let absent = || corrupt("message of an outbox");
    Ok(DeadMessage {
        id: id(row)?,
        order_key: lossy(row, 1)?,
        place: parsed(row, 2)?.ok_or_else(absent)?,
        attempts: parsed(row, 3)?.ok_or_else(absent)?,
        error: lossy(row, 4)?.map(|it| (*it).into()).unwrap_or_default(),
        created_at: Timestamp::from_millis(millis(parsed(row, 5)?.ok_or_else(absent)?)),
        dead_at: time(row, 6)?,
        size_bytes: some_number(row, 7)?,
    })
}

fn whole(row: &Row) -> Result<WholeDeadMessage> {
    let facts = facts(row)?;
    let absent = || corrupt("message of an outbox");
    let message = Outgoing {
        id: facts.id,
        partition: parsed(row, 8)?.ok_or_else(absent)?,
        place: facts.place,
        order_key: facts.order_key.clone(),
        headers: lossy(row, 9)?.map_or(Ok(Vec::new()), |headers| headers_of_json(&headers)),
        payload: owned(row, 10)?.ok_or_else(absent)?,
        attempts: facts.attempts,
    };
    Ok(WholeDeadMessage { facts, message })
}

fn place(place: i64) -> Literal {
    Literal::code(place.to_string())
}

/// A time that others wrote: what is before 1970 is its beginning.
fn millis(at: i64) -> u64 {
    u64::try_from(at).unwrap_or(0)
}

/// There is no such table; the user may not write it, or some of its columns.
const NO_TRAIL: [u16; 3] = [1146, 1142, 1143];
