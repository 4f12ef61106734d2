//! Records in the order of the log, without an index.
//!
//! A finished record stays where it was written until its window has passed, except for the rare
//! ones that an order changed. Each segment says how many of its entries did so (`revised_before`
//! of the next), so those are found without reading the rest, and everything else can be listed at
//! once. An unresolved record may be followed by a later version at any time: it comes last.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Listed};
use semel_core::{Key, Operation, Record, Result, Scope, StateKind, Timestamp};

use super::entities::Entities;
use super::snapshot::{Segment, Snapshot};
use crate::digest::{Digest, KeyedHash};
use crate::entry::{self, EntityBody, Header, Kind, RecordBody, put_identity};
use crate::log::{Frame, Location};

/// A list of records in progress.
pub(super) struct Walk {
    snapshot: Snapshot,
    met: Met,
    /// Index of the current segment, and the offset in it.
    at: (usize, u32),
    is_drained: bool,
}

/// State of a walk.
struct Met {
    query: ListQuery,
    /// Locations at which finished records were changed or removed after they were written.
    revised: HashMap<Digest, Location>,
    /// Records that are unresolved or held, as far as the log has been read.
    pending: BTreeMap<Digest, Listed>,
    /// Records that were read and not handed out yet.
    ready: VecDeque<Listed>,
    /// The last scope read: most records have the same.
    scope: Option<Scope>,
    /// Entities, where they are counted.
    entities: Option<Entities>,
}

impl Walk {
    pub(super) fn begin(snapshot: Snapshot, query: &ListQuery) -> Result<Self> {
        let met = Met {
            query: query.clone(),
            revised: revisions(&snapshot)?,
            pending: BTreeMap::new(),
            ready: VecDeque::new(),
            scope: None,
            entities: None,
        };
        Ok(Self {
            snapshot,
            met,
            at: (0, 0),
            is_drained: false,
        })
    }

    /// Counts entities on the way, too.
    pub(super) fn with_entities(mut self) -> Self {
        self.met.entities = Some(Entities::default());
        self
    }

    /// Returns the number of entities seen so far.
    pub(super) fn entities(&self) -> u64 {
        let entities = self.met.entities.as_ref();
        entities.map_or(0, Entities::count)
    }

    /// Returns the next record.
    pub(super) fn next(&mut self, now: Timestamp) -> Result<Option<Listed>> {
        loop {
            if let Some(listed) = self.met.ready.pop_front() {
                return Ok(Some(listed));
            }
            if self.is_drained {
                return Ok(None);
            }
            if !self.read_on(now)? {
                self.is_drained = true;
                let pending = std::mem::take(&mut self.met.pending).into_values();
                let wanted = pending.filter(|listed| is_wanted(&self.met.query, listed, now));
                self.met.ready.extend(wanted);
            }
        }
    }

    /// Takes in the next frames; returns `false` at the end of the log.
    fn read_on(&mut self, now: Timestamp) -> Result<bool> {
        let (index, offset) = self.at;
        let Some(segment) = self.snapshot.records.get(index) else {
            return Ok(false);
        };
        let mut scan = segment.scan(offset);
        while scan.offset() - offset < AT_ONCE_BYTES {
            let Some(frame) = scan.next()? else {
                segment.check_end(&scan)?;
                self.at = (index + 1, 0);
                return Ok(true);
            };
            let entries = Entries::of(&frame, segment);
            self.met.take_in(entries, &self.snapshot.keyed_hash, now)?;
        }
        self.at = (index, scan.offset());
        Ok(true)
    }
}

impl Met {
    fn take_in(
        &mut self,
        mut entries: Entries<'_, '_>,
        keyed_hash: &KeyedHash,
        now: Timestamp,
    ) -> Result<()> {
        while let Some((location, header, bytes)) = entries.next()? {
            let damaged = || entries.segment.damaged(location.offset, "a record");
            let meta = || header.meta(bytes).ok_or_else(damaged);
            match header.kind {
                Kind::Removed => {
                    self.pending
                        .remove(&keyed_hash.digest(entry::Identity(meta()?)));
                }
                Kind::Record => {
                    let body = RecordBody::new(meta()?).ok_or_else(damaged)?;
                    let record = body.record(None).ok_or_else(damaged)?;
                    let operation = self.operation_of(&body).ok_or_else(damaged)?;
                    let listed = Listed { operation, record };
                    self.meet(listed, keyed_hash.digest(body.identity), location, now);
                }
                Kind::Entity => {
                    if let Some(entities) = &mut self.entities {
                        let body = EntityBody::decode(meta()?).ok_or_else(damaged)?;
                        entities.add(&body, keyed_hash);
                    }
                }
                Kind::Padding
                | Kind::Segment
                | Kind::Mark
                | Kind::Parked
                | Kind::Dropped
                | Kind::Audited => {}
            }
        }
        Ok(())
    }

    fn meet(&mut self, listed: Listed, digest: Digest, location: Location, now: Timestamp) {
        if !is_at_rest(&listed.record) {
            self.pending.insert(digest, listed);
            return;
        }
        self.pending.remove(&digest);
        let is_revised = self.revised.get(&digest).is_some_and(|at| *at > location);
        if !is_revised && is_wanted(&self.query, &listed, now) {
            self.ready.push_back(listed);
        }
    }

    /// Returns the operation of a record. Creating a scope costs a hash, so the last one is reused.
    fn operation_of(&mut self, body: &RecordBody<'_>) -> Option<Operation> {
        let (tenant, name, key) = body.identity.parts()?;
        let is_last = |scope: &&Scope| scope.tenant() == tenant && scope.operation() == name;
        let scope = match self.scope.as_ref().filter(is_last) {
            Some(scope) => scope.clone(),
            None => self.scope.insert(Scope::new(tenant, name).ok()?).clone(),
        };
        let key = Key::from_canonical(Bytes::copy_from_slice(key))?;
        Some(Operation::new(scope, key))
    }
}

/// Finds the latest version of each operation, with its outcome.
pub(super) fn find(snapshot: &Snapshot, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
    let mut wanted: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (index, operation) in batch.iter().enumerate() {
        let mut identity = Vec::new();
        put_identity(&mut identity, &operation.scope, &operation.key);
        wanted.entry(identity).or_default().push(index);
    }
    // Mostly one operation is looked for, and comparing is quicker than hashing.
    let only = wanted.keys().next().filter(|_| wanted.len() == 1);
    let mut found = vec![None; batch.len()];
    for segment in &snapshot.records {
        let mut scan = segment.scan(0);
        while let Some(frame) = scan.next()? {
            let mut entries = Entries::of(&frame, segment);
            while let Some((location, header, bytes)) = entries.next()? {
                if !matches!(header.kind, Kind::Record | Kind::Removed) {
                    continue;
                }
                let lead = &bytes[entry::HEADER_LEN..];
                if only.is_some_and(|identity| !lead.starts_with(identity)) {
                    continue;
                }
                let damaged = || segment.damaged(location.offset, "a record");
                let meta = header.meta(bytes).ok_or_else(damaged)?;
                let body = RecordBody::new(meta).ok_or_else(damaged)?;
                let Some(indexes) = wanted.get(body.identity.0) else {
                    continue;
                };
                let record = if header.kind == Kind::Record {
                    let record = header.tail(bytes).and_then(|tail| body.record(Some(tail)));
                    Some(record.ok_or_else(damaged)?)
                } else {
                    None
                };
                for index in indexes {
                    found[*index].clone_from(&record);
                }
            }
        }
        segment.check_end(&scan)?;
    }
    Ok(found)
}

/// Collects the locations at which finished records were changed or removed: reads the last
/// segment, and those whose successor counts some or does not say.
fn revisions(snapshot: &Snapshot) -> Result<HashMap<Digest, Location>> {
    let mut revised = HashMap::new();
    for (index, segment) in snapshot.records.iter().enumerate() {
        let next = snapshot
            .records
            .get(index + 1)
            .map(Segment::start)
            .transpose()?;
        if next.flatten().and_then(|start| start.revised_before) == Some(0) {
            continue;
        }
        let mut scan = segment.scan(0);
        while let Some(frame) = scan.next()? {
            let mut entries = Entries::of(&frame, segment);
            while let Some((location, header, bytes)) = entries.next()? {
                let identity = match header.kind {
                    Kind::Removed => header.meta(bytes).map(entry::Identity),
                    Kind::Record => {
                        let body = header.meta(bytes).and_then(RecordBody::new);
                        body.filter(RecordBody::may_revise)
                            .map(|body| body.identity)
                    }
                    Kind::Padding
                    | Kind::Segment
                    | Kind::Entity
                    | Kind::Mark
                    | Kind::Parked
                    | Kind::Dropped
                    | Kind::Audited => None,
                };
                if let Some(identity) = identity {
                    revised.insert(snapshot.keyed_hash.digest(identity), location);
                }
            }
        }
        segment.check_end(&scan)?;
    }
    Ok(revised)
}

/// The entries of a frame, one by one.
pub(super) struct Entries<'f, 's> {
    frame: &'f Frame<'f>,
    rest: &'f [u8],
    segment: &'s Segment,
}

impl<'f, 's> Entries<'f, 's> {
    pub(super) fn of(frame: &'f Frame<'f>, segment: &'s Segment) -> Self {
        Self {
            frame,
            rest: frame.payload,
            segment,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<(Location, Header, &'f [u8])>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = u32::try_from(self.frame.payload.len() - self.rest.len()).unwrap_or(u32::MAX);
        let location = Location {
            segment: self.segment.id,
            offset: self.frame.payload_offset() + at,
        };
        let Some((header, bytes)) = entry::next(&mut self.rest) else {
            return Err(self.segment.damaged(location.offset, "an unknown entry"));
        };
        Ok(Some((location, header, bytes)))
    }
}

/// Returns whether the record stays where it is until its window has passed, unless an order
/// changes it.
fn is_at_rest(record: &Record) -> bool {
    let is_finished = matches!(record.state.kind(), StateKind::Completed | StateKind::Dead);
    is_finished && !record.held
}

fn is_wanted(query: &ListQuery, listed: &Listed, now: Timestamp) -> bool {
    let Listed { operation, record } = listed;
    query.fits_record(operation, record) && !record.is_forgotten(now)
}

/// Bytes of the log that are read before their records are handed out.
const AT_ONCE_BYTES: u32 = 1 << 20;
