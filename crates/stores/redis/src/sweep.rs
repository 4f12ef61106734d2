//! The sweep: removes the traces of expired records, puts started effects in doubt whose worker vanished, and counts
//! abandoned claims.
//!
//! Finished records expire by themselves, unless a clock of a test decides; the sweep only has to remove their places
//! in the journal. A sweep goes round all buckets, a little further with each call, and says `more` until it is round.

pub(crate) mod position;

use std::collections::HashSet;
use std::sync::PoisonError;

use bytes::Bytes;
use semel_core::decide::{self, Change};
use semel_core::port::store::{ListQuery, Swept};
use semel_core::{OpId, Result, StateKind};

use crate::buckets::Name;
use crate::changes::Changes;
use crate::error::strange;
use crate::journal::{self, LAST, Visited, groups, segment_range, visit};
use crate::listing::{list_until, score};
use crate::server::Asked;
use crate::session::Session;

use position::{Position, Segment};

/// Visits about `limit` records.
pub(crate) async fn sweep(session: &Session, limit: usize) -> Result<Swept> {
    let position = {
        let mut place = session
            .swept_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        place.take()
    };
    let mut sweep = Sweep {
        session,
        position: position.unwrap_or_default(),
        room: limit.max(1),
        swept: Swept::default(),
    };
    while sweep.room > 0 && !sweep.position.is_round {
        sweep.step().await?;
    }
    let Sweep {
        position,
        mut swept,
        ..
    } = sweep;
    swept.more = !position.is_round;
    if swept.more {
        let mut place = session
            .swept_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Some(position);
    }
    Ok(swept)
}

struct Sweep<'s> {
    session: &'s Session,
    position: Position,
    room: usize,
    swept: Swept,
}

impl Sweep<'_> {
    async fn step(&mut self) -> Result<()> {
        if let Some(segment) = self.position.segment.take() {
            return self.segment(segment).await;
        }
        if self.position.bucket < self.session.buckets.count() {
            return self.due().await;
        }
        let (state, after) = self
            .position
            .counting
            .take()
            .unwrap_or((StateKind::Released, None));
        self.count(state, after).await
    }

    /// Visits the due records of this bucket.
    async fn due(&mut self) -> Result<()> {
        let (session, bucket) = (self.session, self.position.bucket);
        let mut call = session.call(&session.scripts.due, bucket);
        call.arg(self.room.min(MOST).to_string());
        let mut reply = session.ask(bucket, &call).await?;
        reply.now()?;
        let mut ids = Vec::new();
        while !reply.is_empty() {
            let (member, due) = (reply.bytes()?, score(&reply.bytes()?)?);
            if let Ok(name) = <[u8; 5]>::try_from(&member[..]) {
                // One at a time; the others are due again next time.
                self.position.segment.get_or_insert(Segment {
                    name,
                    due,
                    from: segment_range(name).0,
                    next: None,
                });
            } else {
                let id = <[u8; 32]>::try_from(&member[..]).map_err(|_| strange())?;
                ids.push(OpId::from_bytes(id));
            }
        }
        if ids.is_empty() && self.position.segment.is_none() {
            self.position.bucket += 1;
            return Ok(());
        }
        self.room = self.room.saturating_sub(ids.len());
        let decided = self.decide(&ids).await?;
        let mut call = session.call(&session.scripts.gone, bucket);
        for id in ids.iter().filter(|id| !decided.contains(id)) {
            call.key(session.buckets.id_key(bucket, Name::Record, id));
        }
        session.ask(bucket, &call).await?;
        Ok(())
    }

    /// Decides on records and writes the changes; returns those for which there was something to write.
    async fn decide(&mut self, ids: &[OpId]) -> Result<HashSet<OpId>> {
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let (session, bucket) = (self.session, self.position.bucket);
        let (now, found) = journal::records(session, bucket, ids, false).await?;
        let mut changes = Changes::new(session, bucket, now);
        let (mut written, mut decided) = (HashSet::new(), Vec::new());
        for (id, stored) in ids.iter().zip(found) {
            // A record that does not check out is left to the caller that asks for it; the others go on.
            let Some(Ok(stored)) = stored else { continue };
            let group = u16::try_from(decided.len()).map_err(|_| strange())?;
            let (operation, revision) = (&stored.operation, Some(stored.revision));
            match decide::sweep(&stored.record, now) {
                Change::Keep => continue,
                Change::Put(record) => {
                    changes.record(group, id, operation, revision, Some(&record));
                    decided.push(true);
                }
                Change::Remove => {
                    changes.record(group, id, operation, revision, None);
                    decided.push(false);
                }
            }
            written.insert(*id);
        }
        let lost = changes.commit().await?;
        for (group, is_doubt) in (0..).zip(decided) {
            if !lost.contains(&group) {
                self.swept.doubted += u64::from(is_doubt);
                self.swept.removed += u64::from(!is_doubt);
            }
        }
        Ok(written)
    }

    /// Continues with a segment of the journal.
    async fn segment(&mut self, mut segment: Segment) -> Result<()> {
        let (session, bucket) = (self.session, self.position.bucket);
        let range = (segment.from, segment_range(segment.name).1);
        let entries = journal::entries(session, bucket, range, self.room.min(MOST_ENTRIES)).await?;
        if entries.is_empty() {
            return self.end_segment(&segment).await;
        }
        for entries in groups(entries) {
            if self.room == 0 {
                break;
            }
            let ids = entries.iter().map(|entry| entry.ids.len()).sum();
            self.room = self.room.saturating_sub(ids);
            segment.from = entries.last().map_or(segment.from, |entry| entry.stamp + 1);
            let (now, visited) = visit(session, bucket, &entries, true).await?;
            let is_expired = |it: &&Visited| it.forget > 0 && it.forget <= now.as_millis();
            let expired: Vec<OpId> = visited.iter().filter(is_expired).map(|it| it.id).collect();
            for ids in expired.chunks(MOST) {
                self.decide(ids).await?;
            }
            if !expired.is_empty() {
                // Their places in the journal are removed once a visit sees them gone.
                visit(session, bucket, &entries, true).await?;
            }
            let kept = visited
                .iter()
                .filter(|it| !is_expired(it))
                .map(|it| it.forget);
            let next = kept.filter(|forget| *forget > 0).max();
            segment.next = segment.next.max(next);
        }
        self.position.segment = Some(segment);
        Ok(())
    }

    async fn end_segment(&mut self, segment: &Segment) -> Result<()> {
        let (session, bucket) = (self.session, self.position.bucket);
        let mut call = session.call(&session.scripts.visited, bucket);
        call.arg(segment.name).arg(segment.due.to_string());
        call.arg(
            segment
                .next
                .map_or_else(String::new, |next| next.to_string()),
        );
        session
            .server
            .ask(session.buckets.slot(bucket), Asked::Script(&call))
            .await?;
        Ok(())
    }

    /// Counts the records in this state that were begun and then abandoned.
    async fn count(&mut self, state: StateKind, after: Option<Bytes>) -> Result<()> {
        let session = self.session;
        let (now, _) = session.instant(0).await?;
        // Younger records have not been quiet for so long. A clock of a test says nothing of stamps.
        let until = match session.clock {
            None => decide::quiet_before(now).as_millis().saturating_mul(1_000),
            Some(_) => LAST,
        };
        let query = ListQuery {
            state: Some(state),
            after,
            limit: self.room,
            ..ListQuery::default()
        };
        let page = list_until(session, &query, until).await?;
        self.room = self.room.saturating_sub(page.items.len().max(1));
        let abandoned = page
            .items
            .iter()
            .filter(|it| decide::is_abandoned(&it.record, now));
        self.swept.abandoned += abandoned.count() as u64;
        match (page.next, state) {
            (None, StateKind::Released) => {
                self.position.counting = Some((StateKind::Claimed, None));
            }
            (None, _) => self.position.is_round = true,
            (next, _) => self.position.counting = Some((state, next)),
        }
        Ok(())
    }
}

/// Records that are looked at together.
const MOST: usize = 1_024;
/// Entries of the journal that are read at once.
const MOST_ENTRIES: usize = 64;
