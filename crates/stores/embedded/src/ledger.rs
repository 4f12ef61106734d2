//! The store's records: their log, and the part that memory keeps of it.
//!
//! Finished records are on disk and only placed by the table. Everything unresolved, entities and marks are in memory,
//! each with the place of its latest durable version. Every change is noted, so that a group that could not be written
//! can be taken back.

mod admission;
mod answer;
mod audit;
mod by_digest;
mod compaction;
mod end;
mod export;
mod import;
mod list;
mod lookup;
mod readahead;
mod recover;
mod undo;
mod walk;

pub(crate) use audit::read_audited;
pub(crate) use export::Part;
pub(crate) use list::foreign_cursor;

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_core::{
    Change, ClaimId, EntityRecord, Error, ErrorKind, FencingToken, Key, Mark, Operation, Record,
    Result, Scope, State,
};

use self::by_digest::{ByDigest, Warm};
use self::end::{End, Ends};
use self::readahead::Readahead;
use crate::audit_index::{AuditIndex, Orders};
use crate::digest::{Address, Digest, KeyedHash};
use crate::entry::{self, Identity, Kind, Scopes};
use crate::error::WriteFailure;
use crate::log::{Location, Log};
use crate::options::Options;
use crate::superblock::Position;
use crate::table::Table;

/// The records, entities and marks of a store.
pub(crate) struct Ledger {
    log: Log,
    keyed_hash: KeyedHash,
    options: Options,
    /// Finished records.
    table: Table,
    /// Unresolved records, and finished ones that are held.
    kept: ByDigest<Box<Kept>>,
    entities: BTreeMap<EntityKey, Versioned<EntityState>>,
    marks: BTreeMap<Arc<str>, Versioned<u64>>,
    /// Entries of the audit trail that are in this log.
    audit_index: AuditIndex,
    orders: Orders,
    /// Steps that take back the changes since the last commit.
    undo: Vec<Undo>,
    /// The last fencing token given out.
    token: u64,
    /// Memory for reading back, and the entries read ahead for a batch.
    scratch: Vec<u8>,
    readahead: Readahead,
    scopes: Scopes,
    /// Memory for the next record that is read.
    spare: Option<Box<Record>>,
    upkeep: compaction::Upkeep,
    ends: Ends,
}

/// A record in memory.
#[derive(Clone, Debug)]
struct Kept {
    operation: Operation,
    /// Without its outcome, which stays on disk.
    record: Record,
    has_outcome: bool,
    /// Set if another store, or this one for another process, gave out its lease: the holder may outlive this opening,
    /// so a reopening does not end the lease.
    has_foreign_lease: bool,
    /// The latest durable version.
    stored: Option<Stored>,
}

impl Warm for Box<Kept> {
    fn touch(&self) -> u64 {
        let stored = self.stored.map_or(0, |stored| stored.location.offset);
        let born = self.record.created_at.as_millis();
        born ^ u64::from(stored) ^ u64::from(self.has_outcome)
    }
}

/// The state of an entity.
#[derive(Clone, Debug)]
struct EntityState {
    record: EntityRecord,
    /// The same as [`Kept::has_foreign_lease`], for its holder.
    has_foreign_lease: bool,
}

/// A value in memory and its latest durable version.
#[derive(Clone, Debug)]
struct Versioned<T> {
    value: T,
    stored: Option<Stored>,
}

/// Location and length of something on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    location: Location,
    len: u32,
}

/// Identity of an entity.
type EntityKey = (Scope, Key);

/// One change in memory, as the data that reverses it.
enum Undo {
    Placed(Digest, Finished),
    Displaced(Digest, Finished),
    Kept(Digest, Option<Box<Kept>>),
    Entity(Box<(EntityKey, Option<Versioned<EntityState>>)>),
    Mark(Arc<str>, Option<Versioned<u64>>),
    Audited(Stored),
    /// An entry of the audit trail that moved, with its old and its new location.
    AuditMoved(u64, Stored, Stored),
}

/// A finished record that the table places.
#[derive(Clone, Copy, Debug)]
struct Finished {
    location: Location,
    is_dead: bool,
}

/// The state of an operation before a decision.
enum Before {
    Absent,
    /// In memory, complete as it is.
    Kept,
    /// In memory, and this is the record with its outcome.
    Held(Box<Record>),
    Finished(Box<Record>, Finished),
}

/// A point to go back to.
pub(crate) struct Savepoint {
    log: crate::log::Savepoint,
    undo: usize,
}

impl Ledger {
    /// Returns the number of bytes that wait to be written.
    pub(crate) fn pending_len(&self) -> usize {
        self.log.pending_len()
    }

    pub(crate) fn position(&self) -> Position {
        self.log.position()
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }

    /// Makes all changes durable, or takes them back where they certainly are not.
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

    /// Returns the fencing token that the next grant would get.
    const fn next_token(&self) -> FencingToken {
        FencingToken::new(self.token + 1)
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
        self.apply_lent(address, operation, before, change, (is_durable, None));
    }

    /// Carries a decision out, where a claim of another process is granted.
    fn apply_lent(
        &mut self,
        address: Address<'_>,
        operation: &Operation,
        before: &Before,
        change: Change,
        (is_durable, lent): (bool, Option<ClaimId>),
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
            self.displace(address.digest, *finished);
        }
        if let Some(end) = self.ends.of(record.state, record.held) {
            if matches!(before, Before::Kept | Before::Held(_)) {
                self.put_kept(address.digest, None);
            }
            self.finish(address, &record, end);
            return;
        }
        let known = match before {
            Before::Kept | Before::Held(_) => self.kept.get(address.digest),
            Before::Absent | Before::Finished(..) => None,
        };
        let is_leased = matches!(record.state, State::Claimed { .. } | State::Started { .. });
        let is_known = known
            .is_some_and(|kept| kept.has_foreign_lease && kept.record.claim_id == record.claim_id);
        let has_foreign_lease = is_leased && (is_known || lent == Some(record.claim_id));
        let (stored, operation) = if is_durable {
            let stored = self.append_record(address.identity, &record, has_foreign_lease);
            (Some(stored), operation.detached())
        } else {
            let operation = known.map_or(operation, |kept| &kept.operation);
            (known.and_then(|kept| kept.stored), operation.clone())
        };
        let has_outcome = record.outcome.is_some();
        let record = Record {
            outcome: None,
            ..record
        };
        let record = if is_durable {
            // A record that stays long must not keep the message alive that it came in.
            record.detached()
        } else {
            record
        };
        let kept = Box::new(Kept {
            operation,
            record,
            has_outcome,
            has_foreign_lease,
            stored,
        });
        self.put_kept(address.digest, Some(kept));
    }

    /// Writes a finished record and places it.
    fn finish(&mut self, address: Address<'_>, record: &Record, end: End) {
        let Stored { location, .. } = self.append_record(address.identity, record, false);
        let finished = Finished {
            location,
            is_dead: matches!(record.state, State::Dead { .. }),
        };
        self.put_finished(address.digest, finished);
        self.note_window(location.segment, end);
    }

    fn remove(&mut self, address: Address<'_>, before: &Before) {
        let was_stored = match before {
            Before::Absent => false,
            Before::Kept | Before::Held(_) => {
                let stored = self.kept.get(address.digest).and_then(|kept| kept.stored);
                self.put_kept(address.digest, None);
                stored.is_some()
            }
            Before::Finished(_, finished) => {
                self.displace(address.digest, *finished);
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

    fn append_record(
        &mut self,
        identity: Identity<'_>,
        record: &Record,
        has_foreign_lease: bool,
    ) -> Stored {
        self.append(Kind::Record, |buffer| {
            entry::put_record(buffer, identity, record, has_foreign_lease)
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

/// Error for two operations with one keyed 128-bit hash: not to be expected while the universe lasts, but still not a
/// reason to mix them up.
fn shared_digest() -> Error {
    Error::new(ErrorKind::Internal, "two operations have the same hash").not_applied()
}
