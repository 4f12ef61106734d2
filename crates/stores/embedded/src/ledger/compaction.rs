//! Compaction: rotating the active segment, carrying forward the live entries of the oldest, and
//! removing the oldest. In slices, so that no caller waits long.

use semel_core::decide;
use semel_core::port::store::Swept;
use semel_core::{Change, Result, Timestamp};

use std::time::Duration;

use super::{Before, Ledger, Stored, Versioned};
use crate::digest::{Address, Digest};
use crate::entry::{self, AuditedBody, EntityBody, Identity, Kind, MarkBody, RecordBody};
use crate::error::WriteFailure;
use crate::frame;
use crate::log::Location;

/// Progress of upkeep.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// The oldest segment and how far it has been carried forward.
    carried: Option<(u32, u32)>,
    /// Records removed since the last sweep reported them.
    removed: u64,
    /// The record at which the next sweep continues.
    sweep_from: Option<Digest>,
    /// The shard of the table that is purged next, while slots of dropped segments may be left.
    purge_next: Option<usize>,
}

impl Ledger {
    /// Does one step of upkeep; nothing may be pending. Returns whether there is more to do now.
    pub(crate) fn keep_up(&mut self, now: Timestamp) -> Result<bool, WriteFailure> {
        if self.is_rotation_due(now) {
            self.log.rotate(now)?;
        }
        for _ in 0..DROPS_AT_ONCE {
            let Some((oldest, usage, len)) = self.expired_oldest(now) else {
                return Ok(false);
            };
            if usage.kept == 0 {
                self.drop_oldest()?;
            } else if self
                .upkeep
                .carried
                .is_some_and(|carried| carried >= (oldest, len))
            {
                // Something in there could not be read, so the segment stays.
                return Ok(false);
            } else if self.is_worth_carrying(now, usage.kept_bytes) {
                self.compact_slice(oldest)?;
                return Ok(true);
            } else {
                return Ok(false);
            }
        }
        Ok(self.expired_oldest(now).is_some())
    }

    /// Does a bounded part of a sweep over the records in memory; its changes are pending
    /// afterwards.
    pub(crate) fn sweep(&mut self, limit: usize, now: Timestamp) -> Swept {
        let mut swept = Swept::default();
        let limit = limit.max(1);
        let from = self.upkeep.sweep_from.take().unwrap_or(Digest::FIRST);
        let visited = self.kept.range(from).take(limit + 1);
        let visited: Vec<Digest> = visited.map(|(digest, _)| digest).collect();
        self.upkeep.sweep_from = visited.get(limit).copied();
        swept.more = self.upkeep.sweep_from.is_some();
        for digest in visited.into_iter().take(limit) {
            let Some(kept) = self.kept.get(digest) else {
                continue;
            };
            match decide::sweep(&kept.record, now) {
                Change::Keep => {
                    swept.abandoned += u64::from(decide::is_abandoned(&kept.record, now));
                }
                change => {
                    swept.doubted += 1;
                    let operation = kept.operation.clone();
                    let mut identity = Vec::new();
                    entry::put_identity(&mut identity, &operation.scope, &operation.key);
                    let address = Address {
                        digest,
                        identity: Identity(&identity),
                        number: Address::ALONE,
                    };
                    self.apply(address, &operation, &Before::Kept, change, true);
                    self.split_frame();
                }
            }
        }
        self.purge(limit);
        swept.more |= self.upkeep.purge_next.is_some();
        swept
    }

    /// Ends the active segment if all finished records in it are past their windows, so that a
    /// sweep reaches them.
    pub(crate) fn retire_active(&mut self, now: Timestamp) -> Result<(), WriteFailure> {
        let is_over = self.log.active().is_some_and(|active| {
            active.usage.finished != [0, 0] && active.usage.expires_at <= now
        });
        if is_over {
            self.log.rotate(now)?;
        }
        Ok(())
    }

    /// Returns the number of records removed since the last call.
    pub(crate) fn take_removed(&mut self) -> u64 {
        std::mem::take(&mut self.upkeep.removed)
    }

    fn is_rotation_due(&self, now: Timestamp) -> bool {
        let Some(active) = self.log.active() else {
            return false;
        };
        if u64::from(active.len) >= self.options.segment_bytes {
            return true;
        }
        active
            .usage
            .shortest_window
            .is_some_and(|window| now.since(active.created_at) >= (window / 8).max(SHORTEST_TURN))
    }

    /// Returns the oldest segment, if it is not the active one and all finished records in it are
    /// past their windows.
    fn expired_oldest(&self, now: Timestamp) -> Option<(u32, crate::log::SegmentUsage, u32)> {
        let segments = self.log.segments();
        let oldest = segments.front().filter(|_| segments.len() > 1)?;
        (oldest.usage.expires_at <= now).then_some((oldest.id, oldest.usage, oldest.len))
    }

    /// Returns whether carrying frees at least as much as it writes, so that long-lived entries
    /// which fill whole segments are not copied round and round.
    fn is_worth_carrying(&self, now: Timestamp, cost: u64) -> bool {
        let mut segments = self.log.segments().iter();
        segments.next_back();
        let expired = segments.take_while(|segment| segment.usage.expires_at <= now);
        let garbage: u64 = expired
            .map(|segment| u64::from(segment.len).saturating_sub(segment.usage.kept_bytes))
            .sum();
        garbage >= cost
    }

    fn drop_oldest(&mut self) -> Result<(), WriteFailure> {
        if let Some(usage) = self.log.drop_oldest()? {
            let removed: u64 = usage.finished.iter().sum();
            self.upkeep.removed += removed;
            if removed > 0 {
                self.upkeep.purge_next = Some(0);
            }
        }
        Ok(())
    }

    /// Rewrites the live entries in the next slice of the oldest segment, as a group of their own.
    fn compact_slice(&mut self, oldest: u32) -> Result<(), WriteFailure> {
        let from = match self.upkeep.carried {
            Some((segment, offset)) if segment == oldest => offset,
            Some(_) | None => 0,
        };
        let (found, next) = match self.living(oldest, from) {
            Ok(found) => found,
            Err(why) => return Err(WriteFailure::Unknown(why)),
        };
        for living in found {
            // An entry that cannot be read is not counted as carried, so its segment stays.
            let _ = self.carry(living);
        }
        self.log.end_frame(frame::CARRIED);
        self.commit()?;
        self.upkeep.carried = Some((oldest, next));
        Ok(())
    }

    /// Reads the live entries in a slice of a segment; returns them with the start of the next
    /// slice.
    fn living(&self, segment: u32, from: u32) -> Result<(Vec<Living>, u32)> {
        let mut found = Vec::new();
        let Some(mut scan) = self.log.scan(segment, from..u32::MAX) else {
            return Ok((found, from));
        };
        while scan.offset() - from < SLICE_BYTES {
            let Some(frame) = scan.next()? else { break };
            let payload_offset = frame.payload_offset();
            let mut payload = frame.payload;
            loop {
                let at = u32::try_from(frame.payload.len() - payload.len()).unwrap_or(u32::MAX);
                let Some((header, bytes)) = entry::next(&mut payload) else {
                    break;
                };
                let location = Location {
                    segment,
                    offset: payload_offset + at,
                };
                found.extend(
                    header
                        .meta(bytes)
                        .and_then(|meta| self.as_living(header.kind, meta, location)),
                );
            }
        }
        Ok((found, scan.offset()))
    }

    fn as_living(&self, kind: Kind, meta: &[u8], location: Location) -> Option<Living> {
        let is_here =
            |stored: Option<Stored>| stored.is_some_and(|stored| stored.location == location);
        match kind {
            Kind::Record => {
                let digest = self.keyed_hash.digest(RecordBody::new(meta)?.identity);
                let kept = self.kept.get(digest)?;
                is_here(kept.stored).then_some(Living::Record(digest))
            }
            Kind::Entity => {
                let body = EntityBody::decode(meta)?;
                let key = (body.scope, body.entity);
                let entity = self.entities.get(&key)?;
                is_here(entity.stored).then_some(Living::Entity(key))
            }
            Kind::Mark => {
                let name = MarkBody::decode(meta)?.name;
                let (name, mark) = self.marks.get_key_value(name)?;
                is_here(mark.stored).then(|| Living::Mark(name.clone()))
            }
            Kind::Audited => {
                let order = AuditedBody::order_of(meta)?;
                let is_here = self.audit_index.location(order) == Some(location);
                is_here.then(|| Living::Audited(order, location, meta.into()))
            }
            Kind::Padding | Kind::Segment | Kind::Removed | Kind::Parked | Kind::Dropped => None,
        }
    }

    fn carry(&mut self, living: Living) -> Result<()> {
        match living {
            Living::Record(digest) => {
                let outcome = match self.kept.get(digest) {
                    Some(kept) if kept.has_outcome => self.stored_outcome(digest)?,
                    Some(_) | None => None,
                };
                let Some(kept) = self.kept.get(digest) else {
                    return Ok(());
                };
                let mut kept = kept.clone();
                let mut identity = Vec::new();
                entry::put_identity(&mut identity, &kept.operation.scope, &kept.operation.key);
                kept.record.outcome = outcome;
                let stored =
                    self.append_record(Identity(&identity), &kept.record, kept.has_foreign_lease);
                kept.stored = Some(stored);
                kept.record.outcome = None;
                self.put_kept(digest, Some(kept));
            }
            Living::Entity(key) => {
                let Some(entity) = self.entities.get(&key) else {
                    return Ok(());
                };
                let value = entity.value.clone();
                let stored = self.append(Kind::Entity, |buffer| {
                    let is_foreign = value.has_foreign_lease;
                    entry::put_entity(buffer, &key.0, &key.1, &value.record, is_foreign);
                    &[]
                });
                self.put_entity(
                    key,
                    Some(Versioned {
                        value,
                        stored: Some(stored),
                    }),
                );
            }
            Living::Mark(name) => {
                if let Some(value) = self.mark(&name) {
                    self.set_mark(&semel_core::Mark { name, value });
                }
            }
            Living::Audited(order, location, meta) => {
                let to = self.append(Kind::Audited, |buffer| {
                    buffer.extend_from_slice(&meta);
                    &[]
                });
                let from = Stored { location, ..to };
                self.move_audited(order, from, to);
            }
        }
        Ok(())
    }

    /// Frees the slots of dropped segments, in about `limit` visits.
    fn purge(&mut self, limit: usize) {
        let mut visits = limit.max(PURGED_AT_LEAST);
        while let Some(shard) = self.upkeep.purge_next {
            if shard >= self.table.shards() {
                self.upkeep.purge_next = None;
            } else if visits == 0 {
                return;
            } else {
                visits = visits.saturating_sub(self.table.purge(shard, self.log.oldest()));
                self.upkeep.purge_next = Some(shard + 1);
            }
        }
    }
}

/// An entry that lives in the segment that is being carried forward.
enum Living {
    Record(Digest),
    Entity((semel_core::Scope, semel_core::Key)),
    Mark(std::sync::Arc<str>),
    /// Its order, location and contents.
    Audited(u64, Location, Box<[u8]>),
}

/// Shortest time for which a segment is active, however short the windows in it.
const SHORTEST_TURN: Duration = Duration::from_secs(1);
/// Bytes of the oldest segment that are processed at once.
const SLICE_BYTES: u32 = 1 << 18;
/// Slots of the table that a sweep visits, however small its limit.
const PURGED_AT_LEAST: usize = 4_096;
/// Segments that are dropped at once.
const DROPS_AT_ONCE: usize = 4;
