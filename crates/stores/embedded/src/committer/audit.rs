//! The audit trail over both logs.

use std::collections::HashMap;

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Page};
use semel_core::{Audited, Result};

use super::Committer;
use crate::audit_index::Spot;
use crate::digest::KeyedHash;
use crate::entry::{self, Identity};
use crate::ledger::foreign_cursor;

/// The log that an entry is in.
#[derive(Clone, Copy, Debug)]
enum Side {
    Records,
    Parked,
}

impl Committer {
    /// Returns a page of the audit trail, oldest first.
    ///
    /// # Cost   with a filter, a page reads [`READ_AT_ONCE`] entries at most
    pub(super) fn list_audit(&mut self, query: &ListQuery) -> Result<Page<Audited>> {
        let from = match query.after.as_deref() {
            None => 0,
            Some([b'a', order @ ..]) => {
                let order = order.try_into().map_err(|_| foreign_cursor())?;
                u64::from_be_bytes(order)
            }
            Some(_) => return Err(foreign_cursor()),
        };
        let mut items = Vec::new();
        let limit = query.limit.max(1);
        let next = self.read_audit(from, |audited| {
            if items.len() == limit {
                return false;
            }
            if query.fits_entry(&audited) {
                items.push(audited);
            }
            true
        })?;
        let next = next.map(|order| {
            let mut cursor = vec![b'a'];
            cursor.extend_from_slice(&order.to_be_bytes());
            Bytes::from(cursor)
        });
        Ok(Page { items, next })
    }

    /// Shows the entries from `order` on to `take`, which returns `false` if it has no room for one. Returns where to
    /// continue, after a bounded number of entries at the latest.
    pub(super) fn read_audit(
        &mut self,
        order: u64,
        mut take: impl FnMut(Audited) -> bool,
    ) -> Result<Option<u64>> {
        let mut spots = self.spots(order, READ_AT_ONCE + 1);
        let beyond = (spots.len() > READ_AT_ONCE).then(|| spots.pop());
        for (spot, side) in spots {
            let audited = self.read_spot(spot, side)?;
            if !take(audited) {
                return Ok(Some(spot.order));
            }
        }
        Ok(beyond.flatten().map(|(spot, _)| spot.order))
    }

    /// Returns the first entries from `order` on, over both logs.
    fn spots(&self, order: u64, limit: usize) -> Vec<(Spot, Side)> {
        let mut records = self.ledger.audit_index(order).peekable();
        let mut parked = self.parked_log.audit_index(order).peekable();
        let mut spots = Vec::new();
        while spots.len() < limit {
            let is_record = match (records.peek(), parked.peek()) {
                (Some(record), Some(parked)) => record.order < parked.order,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = if is_record {
                records.next().map(|spot| (spot, Side::Records))
            } else {
                parked.next().map(|spot| (spot, Side::Parked))
            };
            spots.extend(next);
        }
        spots
    }

    fn read_spot(&mut self, spot: Spot, side: Side) -> Result<Audited> {
        match side {
            Side::Records => self.ledger.read_audited(spot.location),
            Side::Parked => self.parked_log.read_audited(spot.location),
        }
    }

    /// Adds an entry unless there is an identical one; returns whether it is new.
    pub(super) fn import_audited(&mut self, audited: &Audited) -> Result<bool> {
        let mut set = match self.audit_set.take() {
            Some(set) => set,
            None => self.audit_set()?,
        };
        let mut hash = set.hash(audited);
        let mut is_new = true;
        while let Some(&order) = set.orders.get(&hash) {
            let known = self.spots(order, 1).pop();
            let known = known.filter(|(spot, _)| spot.order == order);
            let known = known.map(|(spot, side)| self.read_spot(spot, side));
            if known.transpose()?.as_ref() == Some(audited) {
                is_new = false;
                break;
            }
            hash = hash.wrapping_add(1);
        }
        if is_new {
            set.orders.insert(hash, self.parked_log.audit(audited));
        }
        self.audit_set = Some(set);
        Ok(is_new)
    }

    /// Reads the present contents of the audit trail.
    fn audit_set(&mut self) -> Result<AuditSet> {
        let mut set = AuditSet {
            keyed_hash: KeyedHash::new(&self.superblock.hash_key),
            orders: HashMap::new(),
        };
        for (spot, side) in self.spots(0, usize::MAX) {
            let audited = self.read_spot(spot, side)?;
            let mut hash = set.hash(&audited);
            while set.orders.contains_key(&hash) {
                hash = hash.wrapping_add(1);
            }
            set.orders.insert(hash, spot.order);
        }
        Ok(set)
    }
}

/// The entries of the audit trail by their contents, to recognize an entry that is imported twice. Where two share a
/// hash, the second is under the next number.
pub(crate) struct AuditSet {
    keyed_hash: KeyedHash,
    orders: HashMap<u64, u64>,
}

impl AuditSet {
    fn hash(&self, audited: &Audited) -> u64 {
        let mut contents = Vec::with_capacity(256);
        entry::put_contents(&mut contents, audited);
        self.keyed_hash.digest(Identity(&contents)).tag
    }
}

/// Entries that one page looks at, at most.
const READ_AT_ONCE: usize = 16_384;
