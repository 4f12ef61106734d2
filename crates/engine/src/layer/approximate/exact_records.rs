//! The records of operations that are not completed, exact and in memory.
//!
//! Each step is: load, [`decide`], write the change, answer, as in any store.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use semel_core::decide::{self, Change, Decision, Directed, Directive};
use semel_core::port::store::{ListQuery, Listed, Page, Swept};
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, FencingToken, OpId, Operation, Record, Renewal,
    Renewed, Result, Settled, Settlement, StateKind, Timestamp,
};

/// Records by operation.
#[derive(Debug, Default)]
pub(super) struct ExactRecords {
    records: BTreeMap<OpId, Listed>,
    token: u64,
    /// The record at which the last sweep stopped.
    swept_to: Option<OpId>,
}

impl ExactRecords {
    pub(super) fn get(&self, id: &OpId) -> Option<&Record> {
        self.records.get(id).map(|listed| &listed.record)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn count(&self, kind: StateKind, now: Timestamp) -> u64 {
        let records = self.records.values().map(|listed| &listed.record);
        let counted = records.filter(|it| it.state.kind() == kind && !it.is_forgotten(now));
        counted.count() as u64
    }

    pub(super) fn claim(&mut self, id: OpId, request: &ClaimRequest, now: Timestamp) -> Admission {
        // Tokens of this process are above those of the processes before it, as far as clocks rise.
        let token = (self.token + 1).max(now.as_millis() << TOKEN_BITS);
        let drawn = FencingToken::new(token);
        let decision = decide::claim(self.get(&id), None, request, now, drawn);
        if let Admission::Granted(claim) = &decision.answer
            && !claim.resumed
        {
            self.token = token;
        }
        self.apply(id, &request.operation, decision)
    }

    /// Settles. A completed record is kept until the caller takes it out.
    pub(super) fn settle(&mut self, id: OpId, settlement: &Settlement, now: Timestamp) -> Settled {
        let decision = decide::settle(self.get(&id), None, settlement, now);
        self.apply(id, &settlement.operation, decision)
    }

    pub(super) fn renew(&mut self, id: OpId, renewal: &Renewal, now: Timestamp) -> Renewed {
        let decision = decide::renew(self.get(&id), None, renewal, now);
        self.apply(id, &renewal.operation, decision)
    }

    pub(super) fn operate(&mut self, id: OpId, directive: &Directive, now: Timestamp) -> Directed {
        let decision = decide::operate(self.get(&id), None, &directive.order, now);
        self.apply(id, &directive.operation, decision)
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, id: &OpId) {
        self.records.remove(id);
    }

    /// Visits at most `limit` records, from the place where the last sweep stopped.
    pub(super) fn sweep(&mut self, limit: usize, now: Timestamp) -> Swept {
        let from = self.swept_to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.records.range((from, Bound::Unbounded));
        let visited: Vec<OpId> = rest.by_ref().take(limit).map(|(id, _)| *id).collect();
        let more = rest.next().is_some();
        self.swept_to = visited.last().copied().filter(|_| more);
        let mut swept = Swept {
            more,
            ..Swept::default()
        };
        for id in visited {
            let Some(listed) = self.records.get_mut(&id) else {
                continue;
            };
            match decide::sweep(&listed.record, now) {
                Change::Keep => {
                    swept.abandoned += u64::from(decide::is_abandoned(&listed.record, now));
                }
                Change::Put(record) => {
                    listed.record = record;
                    swept.doubted += 1;
                }
                Change::Remove => {
                    self.records.remove(&id);
                    swept.removed += 1;
                }
            }
        }
        swept
    }

    /// Returns a page of records. A cursor is the id of the last one.
    pub(super) fn list(&self, query: &ListQuery, now: Timestamp) -> Result<Page<Listed>> {
        let after = query.after.as_deref().map(<[u8; 32]>::try_from).transpose();
        let Ok(after) = after else {
            let message = "the cursor is not one of this list";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        };
        let from = after.map_or(Bound::Unbounded, |id| Bound::Excluded(OpId::from_bytes(id)));
        let wanted = |listed: &Listed| {
            let Listed { operation, record } = listed;
            query.fits_record(operation, record) && !record.is_forgotten(now)
        };
        let range = self.records.range((from, Bound::Unbounded));
        let mut rest = range.filter(|(_, listed)| wanted(listed));
        let taken: Vec<_> = rest.by_ref().take(query.limit.max(1)).collect();
        let more = rest.next().is_some();
        let last = taken.last().filter(|_| more);
        Ok(Page {
            next: last.map(|(id, _)| Bytes::copy_from_slice(id.as_bytes())),
            items: taken.into_iter().map(|(_, it)| it.clone()).collect(),
        })
    }

    fn apply<A>(&mut self, id: OpId, operation: &Operation, decision: Decision<A>) -> A {
        match decision.change {
            Change::Keep => {}
            Change::Put(record) => {
                let (operation, record) = (operation.detached(), record.detached());
                self.records.insert(id, Listed { operation, record });
            }
            Change::Remove => {
                self.records.remove(&id);
            }
        }
        decision.answer
    }
}

/// Enough for a million claims a millisecond.
const TOKEN_BITS: u32 = 20;
