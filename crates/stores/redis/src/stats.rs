//! Counts.

use redis::Value;
use semel_core::port::store::Stats;
use semel_core::{Result, StateKind};

use crate::buckets::Name;
use crate::error::strange;
use crate::journal::{self, LAST, groups, visit};
use crate::parked;
use crate::record::state_kind;
use crate::session::Session;

/// Counts records by state by looking at each, entities, and parked messages.
pub(crate) async fn stats(session: &Session) -> Result<Stats> {
    let mut stats = Stats::default();
    for bucket in session.buckets.all() {
        let mut from = 0;
        loop {
            let entries = journal::entries(session, bucket, (from, LAST), MOST).await?;
            let Some(last) = entries.last().map(|entry| entry.stamp) else {
                break;
            };
            for entries in groups(entries) {
                let (now, visited) = visit(session, bucket, &entries, false).await?;
                for record in visited {
                    let is_there = record.forget == 0 || record.forget > now.as_millis();
                    let kind = state_kind(record.state).filter(|_| is_there);
                    let kinds = StateKind::ALL.iter();
                    if let Some(place) = kinds.clone().position(|it| Some(*it) == kind) {
                        stats.records[place] += 1;
                    }
                }
            }
            from = last + 1;
        }
    }
    stats.parked = parked::count(session).await?;
    stats.entities = entities(session).await?;
    Ok(stats)
}

/// Counts the entities.
async fn entities(session: &Session) -> Result<u64> {
    let mut count = 0;
    for bucket in session.buckets.all() {
        let ask = session.on("LLEN", bucket, Name::Entities);
        match session.command(bucket, &ask).await? {
            Value::Int(some) => count += u64::try_from(some).map_err(|_| strange())?,
            _ => return Err(strange()),
        }
    }
    Ok(count)
}

/// Entries of the journal that are read at once.
const MOST: usize = 128;
