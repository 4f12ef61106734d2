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

/// Counts records by state by looking at each, entities, parked messages, and the audit trail.
pub(crate) async fn stats(session: &Session) -> Result<Stats> {
    let (mut stats, mut remembered) = (Stats::default(), 0);
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
                    let kind = state_kind(record.state);
                    let place = StateKind::ALL.iter().position(|it| Some(*it) == kind);
                    match place {
                        Some(place) if is_there => stats.records[place] += 1,
                        Some(_) => remembered += 1,
                        None => {}
                    }
                }
            }
            from = last + 1;
        }
    }
    stats.remembered = Some(remembered);
    stats.parked = parked::count(session).await?;
    stats.entities = length(session, "LLEN", Name::Entities).await?;
    stats.audited = length(session, "XLEN", Name::Audit).await?;
    Ok(stats)
}

/// Adds up the lengths that a command tells of all buckets.
async fn length(session: &Session, command: &'static str, name: Name) -> Result<u64> {
    let mut count = 0;
    for bucket in session.buckets.all() {
        let ask = session.on(command, bucket, name);
        match session.command(bucket, &ask).await? {
            Value::Int(some) => count += u64::try_from(some).map_err(|_| strange())?,
            _ => return Err(strange()),
        }
    }
    Ok(count)
}

/// Entries of the journal that are read at once.
const MOST: usize = 128;
