//! Hands over everything that the ledger holds, a part at a time.

use bytes::Bytes;
use semel_core::port::store::Listed;
use semel_core::port::transfer::Item;
use semel_core::{EntityRecord, Error, Mark, Outcome, Record, Result, Timestamp};

use super::walk::{DiskAt, OnDisk};
use super::{Kept, Ledger, foreign_cursor};
use crate::digest::Digest;
use crate::entry::{self, EntityBody, Scopes};
use crate::error;
use crate::export::ExportPage;

/// The next part of the ledger.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Records in memory, from this digest on.
    Kept(Digest),
    /// Entities behind this one.
    Entities(Option<(semel_core::Scope, semel_core::Key)>),
    /// Marks behind this one.
    Marks(Option<Box<str>>),
    /// Records on disk, from here on.
    Finished(DiskPart),
}

/// Position in the log at which to continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskPart(DiskAt);

impl Part {
    pub(crate) const FIRST: Self = Self::Kept(Digest::FIRST);

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        match self {
            Self::Kept(digest) => {
                bytes.push(b'm');
                bytes.extend_from_slice(&digest.to_bytes());
            }
            Self::Entities(after) => {
                bytes.push(b'e');
                if let Some((scope, entity)) = after {
                    entry::put_entity(&mut bytes, scope, entity, &EntityRecord::default(), false);
                }
            }
            Self::Marks(after) => {
                bytes.push(b'k');
                if let Some(name) = after {
                    bytes.push(b'=');
                    bytes.extend_from_slice(name.as_bytes());
                }
            }
            Self::Finished(DiskPart(at)) => {
                bytes.push(b'd');
                bytes.extend_from_slice(&at.to_bytes());
            }
        }
        bytes.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let part = match bytes.split_first() {
            Some((b'm', digest)) => digest
                .try_into()
                .ok()
                .map(|digest| Self::Kept(Digest::from_bytes(digest))),
            Some((b'e', [])) => Some(Self::Entities(None)),
            Some((b'e', entity)) => {
                EntityBody::decode(entity).map(|it| Self::Entities(Some((it.scope, it.entity))))
            }
            Some((b'k', [])) => Some(Self::Marks(None)),
            Some((b'k', [b'=', name @ ..])) => {
                let name = std::str::from_utf8(name).ok();
                name.map(|name| Self::Marks(Some(name.into())))
            }
            Some((b'd', at)) => DiskAt::from_bytes(at).map(|at| Self::Finished(DiskPart(at))),
            Some(_) | None => None,
        };
        part.ok_or_else(foreign_cursor)
    }
}

impl Ledger {
    /// Puts the items at `part` into `page`; returns where to continue.
    pub(crate) fn export(
        &mut self,
        part: Part,
        page: &mut ExportPage,
        now: Timestamp,
    ) -> Result<Option<Part>> {
        match part {
            Part::Kept(from) => self.export_kept(from, page, now),
            Part::Entities(after) => Ok(Some(self.export_entities(after, page))),
            Part::Marks(after) => Ok(Some(self.export_marks(after.as_deref(), page))),
            Part::Finished(DiskPart(at)) => {
                let next = self.export_finished(at, page, now)?;
                Ok(next.map(|at| Part::Finished(DiskPart(at))))
            }
        }
    }

    fn export_kept(
        &mut self,
        from: Digest,
        page: &mut ExportPage,
        now: Timestamp,
    ) -> Result<Option<Part>> {
        let next = self.kept.range(from).take(KEPT_AT_ONCE + 1);
        let mut next: Vec<_> = next.map(|(digest, _)| digest).collect();
        let further = next.get(KEPT_AT_ONCE).copied();
        next.truncate(KEPT_AT_ONCE);
        for digest in next {
            let Some(kept) = self.kept.get(digest) else {
                continue;
            };
            if page.is_full() {
                return Ok(Some(Part::Kept(digest)));
            }
            if !kept.record.is_forgotten(now) {
                let Kept {
                    operation, record, ..
                } = &**kept;
                let (operation, record) = (operation.clone(), record.clone());
                let outcome = if kept.has_outcome {
                    self.stored_outcome(digest)?
                } else {
                    None
                };
                let len = outcome_len(outcome.as_ref());
                let record = Record { outcome, ..record };
                let listed = Listed { operation, record };
                page.put(Item::Record(Box::new(listed)), len);
            }
        }
        Ok(Some(further.map_or(Part::Entities(None), Part::Kept)))
    }

    fn export_entities(&self, after: Option<super::EntityKey>, page: &mut ExportPage) -> Part {
        use std::ops::Bound;
        let mut last = after.clone();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, entity) in self.entities.range((from, Bound::Unbounded)) {
            if page.is_full() {
                return Part::Entities(last);
            }
            let (scope, entity_key) = key;
            let record = entity.value.record.clone();
            page.put(Item::Entity(scope.clone(), entity_key.clone(), record), 0);
            last = Some(key.clone());
        }
        Part::Marks(None)
    }

    fn export_marks(&self, after: Option<&str>, page: &mut ExportPage) -> Part {
        use std::ops::Bound;
        let mut last: Option<Box<str>> = after.map(Box::from);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (name, mark) in self.marks.range::<str, _>((from, Bound::Unbounded)) {
            if page.is_full() {
                return Part::Marks(last);
            }
            let mark = Mark {
                name: name.clone(),
                value: mark.value,
            };
            page.put(Item::Mark(mark), 0);
            last = Some((&**name).into());
        }
        Part::Finished(DiskPart(DiskAt::START))
    }

    fn export_finished(
        &self,
        from: DiskAt,
        page: &mut ExportPage,
        now: Timestamp,
    ) -> Result<Option<DiskAt>> {
        let mut scopes = Scopes::default();
        self.walk_finished(from, |on_disk| {
            if page.is_full() {
                return Ok(false);
            }
            let (listed, len) = listed(on_disk, &mut scopes).ok_or_else(|| self.bad(on_disk))?;
            if !listed.record.is_forgotten(now) {
                page.put(Item::Record(Box::new(listed)), len);
            }
            Ok(true)
        })
    }

    fn bad(&self, on_disk: &OnDisk<'_>) -> Error {
        let name = self.log.name_of(on_disk.location.segment);
        let offset = u64::from(on_disk.location.offset);
        error::corrupt(&name, offset, "a record's contents")
    }
}

/// Reads a finished record with its outcome, and the length of that.
fn listed(on_disk: &OnDisk<'_>, scopes: &mut Scopes) -> Option<(Listed, usize)> {
    let tail = on_disk.tail()?;
    let record = on_disk.body.record(Some(tail))?;
    let operation = on_disk.body.identity.operation(scopes)?;
    Some((Listed { operation, record }, tail.len()))
}

fn outcome_len(outcome: Option<&Outcome>) -> usize {
    match outcome {
        Some(Outcome::Kept { bytes, .. }) => bytes.len(),
        Some(Outcome::TooLarge { .. }) | None => 0,
    }
}

/// Records in memory that are visited at once.
const KEPT_AT_ONCE: usize = 1_024;
