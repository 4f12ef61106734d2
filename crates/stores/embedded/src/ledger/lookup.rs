//! Looks up an operation: in memory, in the entries read ahead, on disk.

use semel_core::{Operation, Outcome, Record, Result, State};

use super::readahead::Readahead;
use super::{Before, Finished, Ledger, Stored, shared_digest};
use crate::digest::{Address, Addresses, Digest};
use crate::entry::{Header, Kind, RecordBody};
use crate::error;

impl Ledger {
    /// Loads the entries that the next items of a batch will look up; to be called for each item.
    #[inline]
    pub(crate) fn read_ahead(&mut self, addresses: &Addresses, number: usize) {
        if number.is_multiple_of(Readahead::ITEMS)
            && self
                .readahead
                .read(&self.log, &self.table, addresses, number)
        {
            self.log.want_recent();
        }
    }

    /// Loads the records in memory that the next items of a batch of reports will take out, and the slots of the table
    /// that they will get; to be called for each item.
    #[inline]
    pub(crate) fn warm_next(&self, addresses: &Addresses, number: usize) {
        if number.is_multiple_of(Readahead::ITEMS) {
            self.table.warm(addresses.tags(number, Readahead::ITEMS));
            self.kept.warm(addresses.digests(number, Readahead::ITEMS));
        }
    }

    /// Frees the entries that were read ahead.
    pub(crate) fn forget_readahead(&mut self) {
        self.readahead.forget();
    }

    /// Returns the state of an operation; its outcome only where it is wanted.
    pub(super) fn before(
        &mut self,
        address: Address<'_>,
        operation: &Operation,
        wants_outcome: bool,
    ) -> Result<Before> {
        if let Some(kept) = self.kept.get(address.digest) {
            if kept.operation != *operation {
                return Err(shared_digest());
            }
            if !(kept.has_outcome && wants_outcome) {
                return Ok(Before::Kept);
            }
            let outcome = self.stored_outcome(address.digest)?;
            let Some(kept) = self.kept.get(address.digest) else {
                return Ok(Before::Absent);
            };
            return Ok(Before::Held(Box::new(Record {
                outcome,
                ..kept.record.clone()
            })));
        }
        Ok(match self.finished(address, wants_outcome)? {
            Some((record, finished)) => Before::Finished(record, finished),
            None => Before::Absent,
        })
    }

    /// Returns the record that a decision starts from.
    pub(super) fn record<'a>(&'a self, digest: Digest, before: &'a Before) -> Option<&'a Record> {
        match before {
            Before::Absent => None,
            Before::Kept => self.kept.get(digest).map(|kept| &kept.record),
            Before::Held(record) | Before::Finished(record, _) => Some(record),
        }
    }

    /// Looks for a finished record on disk.
    pub(super) fn finished(
        &mut self,
        address: Address<'_>,
        wants_outcome: bool,
    ) -> Result<Option<(Box<Record>, Finished)>> {
        let Self {
            log,
            table,
            scratch,
            readahead,
            spare,
            ..
        } = self;
        let oldest = log.oldest();
        for location in table.locations(address.digest.tag) {
            if location.segment < oldest {
                continue;
            }
            let bad = |what| {
                let name = log.name_of(location.segment);
                error::corrupt(&name, u64::from(location.offset), what)
            };
            // Bytes in memory were put there by this process, and need no checksum.
            let in_memory = log.in_memory(location);
            let in_memory = in_memory.and_then(|bytes| whole(bytes, wants_outcome));
            let (header, bytes, meta) = if let Some((header, bytes)) = in_memory {
                (header, bytes, header.trusted_meta(bytes))
            } else {
                let read = readahead.get(address.number, location);
                let (header, bytes) = match read.and_then(|bytes| whole(bytes, wants_outcome)) {
                    Some(entry) => entry,
                    None => log.read(location, wants_outcome, scratch)?,
                };
                (header, bytes, header.meta(bytes))
            };
            let meta = meta.filter(|_| header.kind == Kind::Record);
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
            let record = match spare.take() {
                Some(mut boxed) => {
                    *boxed = record;
                    boxed
                }
                None => Box::new(record),
            };
            return Ok(Some((record, Finished { location, is_dead })));
        }
        Ok(None)
    }

    /// Reads the outcome of a held record.
    pub(super) fn stored_outcome(&mut self, digest: Digest) -> Result<Option<Outcome>> {
        let stored = self.kept.get(digest).and_then(|kept| kept.stored);
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

    /// Takes back the memory that a look-up used.
    pub(super) fn give_back(&mut self, before: Before) {
        match before {
            Before::Held(mut record) | Before::Finished(mut record, _) => {
                // It may be large.
                record.outcome = None;
                self.spare = Some(record);
            }
            Before::Absent | Before::Kept => {}
        }
    }
}

/// Returns the entry that begins `bytes`, if as much of it is there as is wanted.
#[inline]
fn whole(bytes: &[u8], wants_tail: bool) -> Option<(Header, &[u8])> {
    let header = Header::decode(bytes)?;
    let len = if wants_tail {
        header.entry_len()
    } else {
        header.lead_len()
    };
    Some((header, bytes.get(..len)?))
}
