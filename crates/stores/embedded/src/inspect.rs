//! A read-only look at a store without opening it: no lock, nothing written, nothing loaded.
//!
//! Reads the files as they are, also while a process works on them: later appends are not seen, later removals still
//! are. Meant for people; Semel decides nothing on these reads.

mod audit;
mod entities;
mod parked;
mod snapshot;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Store, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Clock, Error, ErrorKind, Note, Operation, Parked, ParkedId,
    Record, Renewal, Renewed, Result, Settled, Settlement, StateKind,
};

use crate::error;
use crate::files::{is_volatile, open_to_read};
use crate::ledger::foreign_cursor;
use crate::store::capabilities;
use crate::superblock::{self, Superblock};
use audit::AuditWalk;
use parked::ParkedWalk;
use snapshot::Snapshot;
use walk::Walk;

/// A read-only view of an embedded store, for lists and look-ups while another process works on it.
///
/// # Guarantee   none for decisions; a list is complete and without repeats as of its first page
/// # Cost        the first page of a list reads little more than the newest segment, whatever the
///   size of the store; a look-up or a filtered list reads the whole log. Memory holds what is
///   unresolved, no finished record; counts hold 25 bytes an entity as well
/// # Errors      everything that would change the store is `unsupported`
pub struct Inspector {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    records: Mutex<Paging<Walk>>,
    parked: Mutex<Paging<ParkedWalk>>,
    audit: Mutex<Paging<AuditWalk>>,
}

impl Inspector {
    /// Looks at the store in `dir`, which must be there.
    ///
    /// # Errors
    /// `store-unavailable` where there is no store, `store-foreign`, `store-newer`, `record-corrupt`.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let inspector = Self {
            dir: dir.to_owned(),
            clock,
            records: Mutex::default(),
            parked: Mutex::default(),
            audit: Mutex::default(),
        };
        inspector.snapshot().map(|_| inspector)
    }

    /// The format of the store; opening it brings an older one forward to [`FORMAT`](crate::FORMAT).
    ///
    /// # Errors
    /// As [`Inspector::open`].
    pub fn format(&self) -> Result<u32> {
        let file = open_to_read(&self.dir, superblock::NAME)
            .map_err(|why| error::unreadable(superblock::NAME, why))?;
        Superblock::version_in(&*file)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.dir)
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector").finish_non_exhaustive()
    }
}

impl Store for Inspector {
    async fn claim(&self, _: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        Err(read_only())
    }

    async fn settle(&self, _: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        Err(read_only())
    }

    async fn renew(&self, _: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        Err(read_only())
    }

    async fn park(&self, _: Arc<[Parked]>) -> Result<Vec<bool>> {
        Err(read_only())
    }

    async fn drop_parked(&self, _: Arc<[ParkedId]>, _: Option<&Note>) -> Result<Vec<bool>> {
        Err(read_only())
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let mut found = walk::find(&self.snapshot()?, &batch)?;
        let now = self.clock.now();
        for record in &mut found {
            record.take_if(|record| record.is_forgotten(now));
        }
        Ok(found)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let now = self.clock.now();
        let begin = || Walk::begin(self.snapshot()?, query);
        page(&self.records, query, begin, |walk| walk.next(now))
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let begin = || ParkedWalk::begin(self.snapshot()?, query);
        page(&self.parked, query, begin, ParkedWalk::next)
    }

    async fn operate(&self, _: Arc<[Directive]>) -> Result<Vec<Directed>> {
        Err(read_only())
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let begin = || AuditWalk::begin(&self.snapshot()?, query);
        page(&self.audit, query, begin, |audit| Ok(audit.next()))
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        Err(read_only())
    }

    async fn stats(&self) -> Result<Stats> {
        let now = self.clock.now();
        let all = ListQuery::default();
        let mut stats = Stats::default();
        let mut walk = Walk::begin(self.snapshot()?, &all)?.with_entities();
        while let Some(listed) = walk.next(now)? {
            let kind = listed.record.state.kind();
            if let Some(index) = StateKind::ALL.iter().position(|known| *known == kind) {
                stats.records[index] += 1;
            }
        }
        stats.entities = walk.entities();
        let snapshot = self.snapshot()?;
        stats.disk_bytes = Some(snapshot.len_bytes());
        let mut audit = AuditWalk::begin(&snapshot, &all)?;
        while audit.next().is_some() {
            stats.audited += 1;
        }
        let mut parked = ParkedWalk::begin(snapshot, &all)?;
        while parked.next()?.is_some() {
            stats.parked += 1;
        }
        Ok(stats)
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.snapshot()?;
        Ok(capabilities(is_volatile(&self.dir)))
    }
}

/// A list in progress, and the number of its next page.
struct Paging<W>(Option<(u64, W)>);

impl<W> Default for Paging<W> {
    fn default() -> Self {
        Self(None)
    }
}

/// Returns the next page of a list: pages are read one after the other, each once.
///
/// # Cost   reads on until the page is full, whatever its filters leave out: all pages together read the logs once
fn page<W, T>(
    paging: &Mutex<Paging<W>>,
    query: &ListQuery,
    begin: impl FnOnce() -> Result<W>,
    mut next: impl FnMut(&mut W) -> Result<Option<T>>,
) -> Result<Page<T>> {
    let mut paging = paging.lock().unwrap_or_else(PoisonError::into_inner);
    let (number, mut walk) = match &query.after {
        None => (0, begin()?),
        Some(bytes) => {
            let number = <[u8; 8]>::try_from(&**bytes).ok().map(u64::from_be_bytes);
            let under_way = paging.0.take_if(|(at, _)| Some(*at) == number);
            under_way.ok_or_else(foreign_cursor)?
        }
    };
    let limit = query.limit.max(1);
    let mut items = Vec::with_capacity(limit.min(PAGE_ITEMS));
    while items.len() < limit {
        let Some(item) = next(&mut walk)? else {
            return Ok(Page { items, next: None });
        };
        items.push(item);
    }
    let number = number + 1;
    paging.0 = Some((number, walk));
    Ok(Page {
        items,
        next: Some(Bytes::copy_from_slice(&number.to_be_bytes())),
    })
}

fn read_only() -> Error {
    let message = "this view of the store is for reading alone; open the store to change it";
    Error::new(ErrorKind::Unsupported, message)
}

/// Items for which memory is reserved at most.
const PAGE_ITEMS: usize = 1_024;
