//! Writes on the condition that the records read still stand.

use std::collections::{HashMap, HashSet};

use semel_core::ledger::Ledger;
use semel_core::{
    Audited, Entity, EntityRecord, Error, OpId, Operation, Record, Result, Scope, Timestamp,
};

use crate::buckets::Name;
use crate::error::strange;
use crate::kinds;
use crate::record;
use crate::session::Session;
use crate::wire::Out;

/// Writes of one bucket. Those of one group are made together or not at all.
pub(crate) struct Changes<'s> {
    session: &'s Session,
    bucket: usize,
    now: Timestamp,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    entries: Vec<Vec<u8>>,
    bytes: usize,
}

impl<'s> Changes<'s> {
    /// Creates an empty set of writes, decided at `now`.
    pub(crate) fn new(session: &'s Session, bucket: usize, now: Timestamp) -> Self {
        Self {
            session,
            bucket,
            now,
            keys: Vec::new(),
            arguments: Vec::new(),
            entries: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.entries.is_empty()
    }

    /// Returns whether this is as much as a server should write at once.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= MOST_KEYS || self.bytes >= MOST_BYTES
    }

    /// Writes a record over the one of `revision`, or where there was none; `None` removes it.
    pub(crate) fn record(
        &mut self,
        group: u16,
        id: &OpId,
        operation: &Operation,
        revision: Option<u64>,
        record: Option<&Record>,
    ) {
        let mut meta = meta(b'r', group, revision);
        meta.u64(record.map_or(0, record::watch));
        let value = record.map_or_else(Vec::new, |record| record::put(operation, record, self.now));
        self.push(Name::Record, id, meta, value);
    }

    /// Writes an entity over the one of `revision`, or where there was none.
    pub(crate) fn entity(
        &mut self,
        group: u16,
        scope: &Scope,
        entity: &Entity,
        revision: Option<u64>,
        record: &EntityRecord,
    ) {
        let value = kinds::entity(scope, entity, record);
        let meta = meta(b'e', group, revision);
        self.push(Name::Entity, &OpId::of(scope, entity), meta, value);
    }

    /// Writes nothing, on the condition that a record or an entity still stands.
    pub(crate) fn stands(&mut self, group: u16, name: Name, id: &OpId, revision: Option<u64>) {
        let meta = meta(b'c', group, revision);
        self.push(name, id, meta, Vec::new());
    }

    /// Adds an entry to the audit trail: the `number`-th of a batch, which has a stamp of its own where it
    /// is spread over several buckets.
    pub(crate) fn entry(&mut self, group: u16, number: usize, batch: u64, entry: &Audited) {
        let (digest, text) = kinds::audited(entry);
        let mut out = Out::with_capacity(text.len() + 28);
        out.u16(group);
        out.u16(u16::try_from(number).unwrap_or(u16::MAX));
        out.u64(batch);
        out.raw(&digest);
        out.raw(&text);
        self.entries.push(out.0);
    }

    /// Writes; returns the groups that were not written, because another process had been there.
    pub(crate) async fn commit(self) -> Result<HashSet<u16>> {
        if self.is_empty() {
            return Ok(HashSet::new());
        }
        let session = self.session;
        let mut call = session.call(&session.scripts.commit, self.bucket);
        call.reserve(
            self.keys.len() + 3,
            self.arguments.len() + self.entries.len() + 1,
        );
        for name in [Name::Audit, Name::AuditDigests, Name::Entities] {
            call.key(session.buckets.key(self.bucket, name));
        }
        for key in self.keys {
            call.key(key);
        }
        call.arg(self.entries.len().to_string());
        for argument in self.arguments.into_iter().chain(self.entries) {
            call.arg(argument);
        }
        let mut reply = session.ask(self.bucket, &call).await?;
        reply.now()?;
        let mut lost = HashSet::new();
        while !reply.is_empty() {
            lost.insert(u16::try_from(reply.int()?).unwrap_or(u16::MAX));
        }
        Ok(lost)
    }

    fn push(&mut self, name: Name, id: &OpId, meta: Out, value: Vec<u8>) {
        let key = self.session.buckets.id_key(self.bucket, name, id);
        self.bytes += value.len() + 128;
        self.keys.push(key);
        self.arguments.extend([meta.0, value]);
    }
}

/// Writes the changes of a ledger, each record for itself.
pub(crate) async fn write(session: &Session, bucket: usize, ledger: &Ledger) -> Result<Written> {
    let mut written = Written::default();
    let mut ahead = ledger.changes().peekable();
    while ahead.peek().is_some() {
        let mut changes = Changes::new(session, bucket, ledger.now());
        let mut ids = Vec::new();
        while !changes.is_full()
            && let Some(entry) = ahead.next()
        {
            let group = u16::try_from(ids.len()).map_err(|_| strange())?;
            changes.record(
                group,
                &entry.id,
                &entry.operation,
                entry.revision,
                entry.record.as_ref(),
            );
            ids.push(entry.id);
        }
        match changes.commit().await {
            Ok(lost) => {
                let lost = lost
                    .into_iter()
                    .filter_map(|group| ids.get(usize::from(group)));
                written.0.extend(lost.map(|id| (*id, None)));
            }
            Err(error) => written
                .0
                .extend(ids.into_iter().map(|id| (id, Some(error.clone())))),
        }
    }
    Ok(written)
}

/// Results of a ledger's writes: those that were not made, and why.
#[derive(Default)]
pub(crate) struct Written(HashMap<OpId, Option<Error>>);

impl Written {
    pub(crate) fn of(&self, id: OpId) -> Write {
        match self.0.get(&id) {
            None => Write::Done,
            Some(None) => Write::Lost,
            Some(Some(error)) => Write::Failed(error.clone()),
        }
    }

    /// Takes over the results of others.
    pub(crate) fn and(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Result of one write.
pub(crate) enum Write {
    /// It was made, or there was nothing to write.
    Done,
    /// Another process had written.
    Lost,
    /// It failed, alone or with others.
    Failed(Error),
}

fn meta(kind: u8, group: u16, revision: Option<u64>) -> Out {
    let mut out = Out::with_capacity(27);
    out.u8(kind);
    out.u16(group);
    out.u64(revision.unwrap_or(0));
    out
}

/// Keys that a script is asked about at most: as many as a stamp has tokens.
pub(crate) const MOST_KEYS: usize = 1 << record::NUMBER_BITS;
/// Bytes that a script is given at most, give or take one record.
pub(crate) const MOST_BYTES: usize = 8 << 20;
