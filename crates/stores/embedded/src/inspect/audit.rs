//! The audit trail, which lies in both logs.

use std::collections::BTreeMap;

use semel_core::port::store::ListQuery;
use semel_core::{Audited, Result};

use super::snapshot::Snapshot;
use super::walk::Entries;
use crate::entry::{AuditedBody, Kind};

/// A list of the audit trail in progress.
pub(super) struct AuditWalk(std::collections::btree_map::IntoValues<u64, Audited>);

impl AuditWalk {
    /// Reads all of it; it stays small, since people give the orders.
    pub(super) fn begin(snapshot: &Snapshot, query: &ListQuery) -> Result<Self> {
        let mut audit = BTreeMap::new();
        for segment in snapshot.records.iter().chain(&snapshot.parked) {
            let mut scan = segment.scan(0);
            while let Some(frame) = scan.next()? {
                let mut entries = Entries::of(&frame, segment);
                while let Some((location, header, bytes)) = entries.next()? {
                    if header.kind != Kind::Audited {
                        continue;
                    }
                    let body = header.meta(bytes).and_then(AuditedBody::decode);
                    let damaged = || segment.damaged(location.offset, "an audit entry");
                    let AuditedBody { order, audited } = body.ok_or_else(damaged)?;
                    if query.fits_entry(&audited) {
                        // An entry that was carried forward so that its segment could go has the
                        // same order.
                        audit.insert(order, audited);
                    }
                }
            }
            segment.check_end(&scan)?;
        }
        Ok(Self(audit.into_values()))
    }

    pub(super) fn next(&mut self) -> Option<Audited> {
        self.0.next()
    }
}
