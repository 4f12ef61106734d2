//! What the store remembers: the log of records and what memory keeps of it.
//!
//! Finished records are on disk and only placed by the table. Everything unresolved, entities and
//! marks are in memory, each with the place of its latest durable version. Every change is noted,
//! so that a group that could not be written can be taken back.

mod answer;
mod carry;
mod end;
mod list;
mod recover;
mod tally;

pub(crate) use answer::{MAX_TAIL, check_len};
pub(crate) use list::foreign_cursor;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use semel_core::{
    Change, EntityRecord, Error, ErrorKind, FencingToken, Key, Mark, Operation, Outcome, Record,
    Result, Scope, State,
};

use self::end::{End, Ends};
use crate::entry::{self, Identity, Kind, RecordBody};
use crate::error::{self, WriteFailure};
use crate::log::{Location, Log};
use crate::options::Options;
use crate::place::{Address, Place, Placing};
use crate::superblock::Position;
use crate::table::Table;

/// The records, entities and marks of a store.
pub(crate) struct Ledger {
    log: Log,
    placing: Placing,
    options: Options,
    /// Finished records.
    table: Table,
    /// Unresolved records, and finished ones that are held.
    kept: BTreeMap<Place, Box<Kept>>,
    entities: BTreeMap<EntityKey, Versioned<EntityRecord>>,
    marks: BTreeMap<Arc<str>, Versioned<u64>>,
    /// How to take back what was changed since the last commit.
    undo: Vec<Undo>,
    /// The last fencing token given out.
    token: u64,
    /// Memory for reading back.
    scratch: Vec<u8>,
    upkeep: carry::Upkeep,
    ends: Ends,
}

/// A record in memory.
#[derive(Clone, Debug)]
struct Kept {
    operation: Operation,
    /// Without its outcome, which stays on disk.
    record: Record,
    has_outcome: bool,
    /// The latest durable version.
    stored: Option<Stored>,
}

/// A value in memory and its latest durable version.
#[derive(Clone, Debug)]
struct Versioned<T> {
    value: T,
    stored: Option<Stored>,
}

/// Where something is on disk, and how long it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    location: Location,
    len: u32,
}

/// What an entity goes by.
type EntityKey = (Scope, Key);

/// One change in memory, as what it takes to reverse it.
enum Undo {
    Placed(Place, Finished),
    Displaced(Place, Finished),
    Kept(Place, Option<Box<Kept>>),
    Entity(Box<(EntityKey, Option<Versioned<EntityRecord>>)>),
    Mark(Arc<str>, Option<Versioned<u64>>),
}

/// A finished record that the table places.
#[derive(Clone, Copy, Debug)]
struct Finished {
    location: Location,
    is_dead: bool,
}

/// What is there of an operation before a decision.
enum Before {
    Absent,
    /// In memory, complete as it is.
    Kept,
    /// In memory, but this is it with its outcome.
    Held(Box<Record>),
    Finished(Box<Record>, Finished),
}

/// A point to go back to.
pub(crate) struct Savepoint {
    log: crate::log::Savepoint,
    undo: usize,
}

impl Ledger {
    /// Whether anything waits to be written.
    pub(crate) fn pending_len(&self) -> usize {
        self.log.pending_len()
    }

    pub(crate) fn position(&self) -> Position {
        self.log.position()
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }

    /// Brings what a batch will look up into the cache.
    pub(crate) fn warm(&self, tags: impl Iterator<Item = u64>) {
        self.table.warm(tags);
    }

    /// Makes all changes durable, or takes them back where it is certain that they are not.
    pub(crate) fn commit(&mut self) -> Result<(), WriteFailure> {
        let written = self.log.commit();
        if written.is_err() {
            self.take_back(0);
        }
        self.undo.clear();
        written
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            log: self.log.savepoint(),
            undo: self.undo.len(),
        }
    }

    pub(crate) fn go_back(&mut self, savepoint: &Savepoint) {
        self.take_back(savepoint.undo);
        self.log.go_back(savepoint.log);
    }

    pub(crate) fn split_frame(&mut self) {
        self.log.split_frame();
    }

    pub(crate) fn mark(&self, name: &str) -> Option<u64> {
        self.marks.get(name).map(|mark| mark.value)
    }

    pub(crate) fn set_mark(&mut self, mark: &Mark) {
        let stored = self.append(Kind::Mark, |buffer| {
            entry::put_mark(buffer, mark);
            &[]
        });
        let mark_now = Versioned {
            value: mark.value,
            stored: Some(stored),
        };
        self.put_mark(Arc::clone(&mark.name), Some(mark_now));
    }

    /// The fencing token that the next grant would get.
    const fn next_token(&self) -> FencingToken {
        FencingToken::new(self.token + 1)
    }

    /// What is there of an operation; its outcome only where it is wanted.
    fn before(
        &mut self,
        address: Address<'_>,
        operation: &Operation,
        wants_outcome: bool,
    ) -> Result<Before> {
        if let Some(kept) = self.kept.get(&address.place) {
            if kept.operation != *operation {
                return Err(shared_place());
            }
            if !(kept.has_outcome && wants_outcome) {
                return Ok(Before::Kept);
            }
            let outcome = self.stored_outcome(address.place)?;
            let Some(kept) = self.kept.get(&address.place) else {
                return Ok(Before::Absent);
            };
            return Ok(Before::Held(Box::new(Record {
                outcome,
                ..kept.record.clone()
            })));
        }
        Ok(match self.finished(address, wants_outcome)? {
            Some((record, finished)) => Before::Finished(Box::new(record), finished),
            None => Before::Absent,
        })
    }

    /// The record that a decision starts from.
    fn record<'a>(&'a self, place: Place, before: &'a Before) -> Option<&'a Record> {
        match before {
            Before::Absent => None,
            Before::Kept => self.kept.get(&place).map(|kept| &kept.record),
            Before::Held(record) | Before::Finished(record, _) => Some(record),
        }
    }

    /// Looks for a finished record on disk.
    fn finished(
        &mut self,
        address: Address<'_>,
        wants_outcome: bool,
    ) -> Result<Option<(Record, Finished)>> {
        let Self {
            log,
            table,
            scratch,
            ..
        } = self;
        let oldest = log.oldest();
        for location in table.locations(address.place.tag) {
            if location.segment < oldest {
                continue;
            }
            let (header, bytes) = log.read(location, wants_outcome, scratch)?;
            let bad = |what| {
                let name = log.name_of(location.segment);
                error::corrupt(&name, u64::from(location.offset), what)
            };
            let meta = header.meta(bytes).filter(|_| header.kind == Kind::Record);
            let meta = meta.ok_or_else(|| bad("a record's checksum"))?;
            let body = RecordBody::new(meta).ok_or_else(|| bad("a record's key"))?;
            if body.identity != address.identity {
                continue;
            }
            let tail = if wants_outcome {
                Some(
                    header
                        .tail(bytes)
                        .ok_or_else(|| bad("an outcome's checksum"))?,
                )
            } else {
                None
            };
            let record = body
                .record(tail)
                .ok_or_else(|| bad("a record's contents"))?;
            let is_dead = matches!(record.state, State::Dead { .. });
            return Ok(Some((record, Finished { location, is_dead })));
        }
        Ok(None)
    }

    /// The outcome of a held record.
    fn stored_outcome(&mut self, place: Place) -> Result<Option<Outcome>> {
        let stored = self.kept.get(&place).and_then(|kept| kept.stored);
        let Some(Stored { location, .. }) = stored else {
            return Ok(None);
        };
        let (header, bytes) = self.log.read(location, true, &mut self.scratch)?;
        let record = header
            .meta(bytes)
            .and_then(RecordBody::new)
            .and_then(|body| {
                let tail = header.tail(bytes)?;
                body.record(Some(tail))
            });
        record.map(|record| record.outcome).ok_or_else(|| {
            let name = self.log.name_of(location.segment);
            error::corrupt(&name, u64::from(location.offset), "a held record")
        })
    }

    /// Carries a decision out.
    fn apply(
        &mut self,
        address: Address<'_>,
        operation: &Operation,
        before: &Before,
        change: Change,
        is_durable: bool,
    ) {
        let record = match change {
            Change::Keep => return,
            Change::Remove => {
                self.remove(address, before);
                return;
            }
            Change::Put(record) => record,
        };
        if let Before::Finished(_, finished) = before {
            self.displace(address.place, *finished);
        }
        if let Some(end) = self.ends.of(&record) {
            if matches!(before, Before::Kept | Before::Held(_)) {
                self.put_kept(address.place, None);
            }
            self.finish(address, &record, end);
            return;
        }
        let known = match before {
            Before::Kept | Before::Held(_) => self.kept.get(&address.place),
            Before::Absent | Before::Finished(..) => None,
        };
        let (stored, operation) = if is_durable {
            // What stays long must not hold on to the message that it came in.
            let own = Operation::new(operation.scope.clone(), operation.key.detached());
            (Some(self.append_record(address.identity, &record)), own)
        } else {
            let operation = known.map_or(operation, |kept| &kept.operation);
            (known.and_then(|kept| kept.stored), operation.clone())
        };
        let has_outcome = record.outcome.is_some();
        let transport = record.transport.as_ref();
        let transport = if is_durable {
            transport.map(|id| Bytes::copy_from_slice(id))
        } else {
            transport.cloned()
        };
        let record = Record {
            outcome: None,
            transport,
            ..record
        };
        let kept = Box::new(Kept {
            operation,
            record,
            has_outcome,
            stored,
        });
        self.put_kept(address.place, Some(kept));
    }

    /// Writes a finished record and places it.
    fn finish(&mut self, address: Address<'_>, record: &Record, end: End) {
        let Stored { location, .. } = self.append_record(address.identity, record);
        let finished = Finished {
            location,
            is_dead: matches!(record.state, State::Dead { .. }),
        };
        self.put_finished(address.place, finished);
        self.tally_window(location.segment, end);
    }

    fn remove(&mut self, address: Address<'_>, before: &Before) {
        let was_stored = match before {
            Before::Absent => false,
            Before::Kept | Before::Held(_) => {
                let stored = self.kept.get(&address.place).and_then(|kept| kept.stored);
                self.put_kept(address.place, None);
                stored.is_some()
            }
            Before::Finished(_, finished) => {
                self.displace(address.place, *finished);
                true
            }
        };
        if was_stored {
            self.append(Kind::Removed, |buffer| {
                buffer.extend_from_slice(address.identity.0);
                &[]
            });
        }
    }

    fn append_record(&mut self, identity: Identity<'_>, record: &Record) -> Stored {
        self.append(Kind::Record, |buffer| {
            entry::put_record(buffer, identity, record)
        })
    }

    fn append<'t>(&mut self, kind: Kind, meta: impl FnOnce(&mut Vec<u8>) -> &'t [u8]) -> Stored {
        let location = self.log.append(kind, meta);
        let end = self.log.position().offset as usize + self.log.pending_len();
        Stored {
            location,
            len: u32::try_from(end).unwrap_or(u32::MAX) - location.offset,
        }
    }
}

/// Two operations with one keyed 128-bit hash: not to be expected while the universe lasts, but
/// still not a reason to mix them up.
fn shared_place() -> Error {
    Error::new(ErrorKind::Internal, "two operations have the same hash").not_applied()
}
