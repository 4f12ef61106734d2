//! The audit trail, as far as it is in the log of records.

use semel_core::{Audited, Result};

use super::Ledger;
use crate::audit_index::Spot;
use crate::entry::{self, AuditedBody, Kind};
use crate::error;
use crate::log::{Location, Log};

impl Ledger {
    /// Writes an entry of the audit trail into the open frame.
    pub(super) fn append_audited(&mut self, audited: &Audited) {
        let order = self.orders.next();
        let stored = self.append(Kind::Audited, |buffer| {
            entry::put_audited(buffer, order, audited);
            &[]
        });
        self.put_audited(order, stored);
    }

    /// Returns the spots of the entries from `order` on.
    pub(crate) fn audit_index(&self, order: u64) -> impl Iterator<Item = Spot> {
        self.audit_index.from(order)
    }

    /// Returns the number of entries in this log.
    pub(crate) fn audited(&self) -> u64 {
        self.audit_index.len()
    }

    /// Reads an entry of the audit trail.
    pub(crate) fn read_audited(&mut self, location: Location) -> Result<Audited> {
        read_audited(&self.log, location, &mut self.scratch)
    }
}

/// Reads an entry of the audit trail back from a log.
pub(crate) fn read_audited(
    log: &Log,
    location: Location,
    scratch: &mut Vec<u8>,
) -> Result<Audited> {
    let (header, bytes) = log.read(location, false, scratch)?;
    let meta = header
        .meta(bytes)
        .filter(|_| header.kind == Kind::Audited)
        .and_then(AuditedBody::decode);
    meta.map(|body| body.audited).ok_or_else(|| {
        let name = log.name_of(location.segment);
        error::corrupt(
            &name,
            u64::from(location.offset),
            "an entry of the audit trail",
        )
    })
}
