//! Counts, and estimates of them.

use redis::Value;
use semel_core::port::store::Stats;
use semel_core::{Result, StateKind, Timestamp};

use crate::buckets::Name;
use crate::error::strange;
use crate::journal::{self, Entry, LAST, Visited, groups, visit};
use crate::parked;
use crate::record::state_kind;
use crate::session::Session;

/// Counts records by state by looking at each, entities, parked messages, and the audit trail.
pub(crate) async fn stats(session: &Session) -> Result<Stats> {
    let all = walk(session, MOST, usize::MAX).await?;
    with_lengths(session, all.unwrap_or_default()).await
}

/// Counts by looking at no more than about twice `most` records: all of them, if there are no more than that, or else a
/// sample, by which the rest is estimated.
pub(crate) async fn estimate(session: &Session, most: usize) -> Result<Stats> {
    let entries = length(session, "XLEN", Name::Journal).await?;
    // An entry of the journal has one record at least.
    let is_small = usize::try_from(entries).is_ok_and(|entries| entries <= most);
    if is_small && let Some(all) = walk(session, FEW, most).await? {
        return with_lengths(session, all).await;
    }
    with_lengths(session, sampled(session, most).await?).await
}

/// Records by state, in the order of [`StateKind::ALL`], and last those that have passed their window.
type Counts = [u64; StateKind::ALL.len() + 1];

/// Counts the records of the whole journal, of which it reads so many entries at once; returns nothing if it would look
/// at more than `most`.
async fn walk(session: &Session, at_once: usize, most: usize) -> Result<Option<Counts>> {
    let mut counts = Counts::default();
    let mut left = most;
    for bucket in session.buckets.all() {
        let mut from = 0;
        loop {
            let entries = journal::entries(session, bucket, (from, LAST), at_once).await?;
            let Some(last) = entries.last().map(|entry| entry.stamp) else {
                break;
            };
            let Some(rest) = left.checked_sub(ids_of(&entries)) else {
                return Ok(None);
            };
            left = rest;
            for entries in groups(entries) {
                let (now, visited) = visit(session, bucket, &entries, false).await?;
                count(&mut counts, now, &visited);
            }
            from = last + 1;
        }
    }
    Ok(Some(counts))
}

/// Estimates the counts by entries of the journal at times that are spread evenly over it.
///
/// A time meets an entry of a busy hour as seldom as one of a quiet hour, though the busy one has more of them. So what
/// is found at a time has the weight of the entries that there are around it.
async fn sampled(session: &Session, most: usize) -> Result<Counts> {
    let all = session.buckets.count();
    let looked_at = all.min(BUCKETS);
    let probes = (PROBES / looked_at).max(2);
    let mut sums = [0.0; StateKind::ALL.len() + 1];
    for turn in 0..looked_at {
        // Operations are spread evenly over the buckets.
        let bucket = turn * all / looked_at;
        let found = sampled_in(session, bucket, probes, most / (looked_at * probes)).await?;
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum += found;
        }
    }
    let scale = float(all) / float(looked_at);
    Ok(sums.map(|sum| whole(sum * scale)))
}

/// Estimates the counts of a bucket by so many times, and about so many records behind each.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
async fn sampled_in(
    session: &Session,
    bucket: usize,
    probes: usize,
    records: usize,
) -> Result<[f64; StateKind::ALL.len() + 1]> {
    let mut sums = [0.0; StateKind::ALL.len() + 1];
    let length = number(session, "XLEN", bucket, Name::Journal).await?;
    let first = journal::entries(session, bucket, (0, LAST), 1).await?;
    let last = journal::last(session, bucket).await?;
    let (Some(first), Some(last)) = (first.first(), last) else {
        return Ok(sums);
    };
    let (mut weights, mut at_once) = (0.0, ENTRIES);
    for probe in 0..probes {
        let from = first.stamp + middle(last.stamp.saturating_sub(first.stamp), probe, probes);
        let entries = journal::entries(session, bucket, (from, LAST), at_once).await?;
        let Some(end) = entries.last().map(|entry| entry.stamp) else {
            continue;
        };
        let (count, ids) = (entries.len(), ids_of(&entries));
        // Over the number of entries, which the mean of an entry is over once more.
        let weight = 1.0 / (end.saturating_sub(from).saturating_add(1) as f64);
        weights += weight * float(count);
        let some: Vec<_> = entries
            .into_iter()
            .map(|entry| some_of(entry, records.div_ceil(count)))
            .collect();
        let share = float(ids) / float(ids_of(&some).max(1));
        for entries in groups(some) {
            let (now, visited) = visit(session, bucket, &entries, false).await?;
            let mut counts = Counts::default();
            self::count(&mut counts, now, &visited);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += weight * share * (count as f64);
            }
        }
        // Where entries are short, more of them at once.
        at_once = (records * count / ids.max(1)).clamp(ENTRIES, MOST);
    }
    let scale = if weights > 0.0 {
        length as f64 / weights
    } else {
        0.0
    };
    Ok(sums.map(|sum| sum * scale))
}

fn ids_of(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.ids.len()).sum()
}

/// Counts the records that a visit found.
fn count(counts: &mut Counts, now: Timestamp, visited: &[Visited]) {
    for record in visited {
        let is_there = record.forget == 0 || record.forget > now.as_millis();
        let kind = state_kind(record.state);
        match StateKind::ALL.iter().position(|it| Some(*it) == kind) {
            Some(place) if is_there => counts[place] += 1,
            Some(_) => counts[StateKind::ALL.len()] += 1,
            None => {}
        }
    }
}

/// Adds what commands tell without looking at each.
async fn with_lengths(session: &Session, counts: Counts) -> Result<Stats> {
    let [records @ .., remembered] = counts;
    let mut stats = Stats::new(records);
    // On its own clock, a server removes by itself what has passed its window.
    stats.remembered = session.clock.is_some().then_some(remembered);
    stats.parked = parked::count(session).await?;
    stats.entities = length(session, "LLEN", Name::Entities).await?;
    stats.audited = length(session, "XLEN", Name::Audit).await?;
    Ok(stats)
}

/// Adds up the lengths that a command tells of all buckets.
async fn length(session: &Session, command: &'static str, name: Name) -> Result<u64> {
    let mut count = 0;
    for bucket in session.buckets.all() {
        count += number(session, command, bucket, name).await?;
    }
    Ok(count)
}

/// Asks a command for a length.
async fn number(
    session: &Session,
    command: &'static str,
    bucket: usize,
    name: Name,
) -> Result<u64> {
    let ask = session.on(command, bucket, name);
    match session.command(bucket, &ask).await? {
        Value::Int(some) => u64::try_from(some).map_err(|_| strange()),
        _ => Err(strange()),
    }
}

/// Returns the middle of a part of a length that is cut in so many.
fn middle(length: u64, part: usize, parts: usize) -> u64 {
    let place = u128::from(length) * (2 * part as u128 + 1) / (2 * parts as u128);
    u64::try_from(place).unwrap_or(length)
}

/// Returns an entry with so many of its ids at most.
fn some_of(mut entry: Entry, most: usize) -> Entry {
    entry.ids.truncate(most);
    entry
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
const fn float(number: usize) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of what is no less than zero, rounded"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// Entries of the journal that are read at once, and those that are read at once where few may be looked at.
const MOST: usize = 128;
const FEW: usize = 16;
/// Buckets that a sample looks at.
const BUCKETS: usize = 8;
/// Times that a sample looks at, over all buckets, and the entries behind each.
const PROBES: usize = 32;
const ENTRIES: usize = 4;
