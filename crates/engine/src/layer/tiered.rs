//! A local cache of completed records in front of a store, the *authority*.
//!
//! This layer answers a duplicate itself if it has lately read the key's completed record from the
//! authority. It asks the authority about everything else, and about whatever is not certain. An entry
//! is a record that was *read*, by `get` or `list`. If a key was completed here, or answered with a
//! replay, that is only a hint that reading its record may pay the next time, and decides nothing.
//!
//! An entry is believed for [`Settings::fresh`], counted from the time when it was asked for, and never
//! past the window of its record. So an order of this process (`forget` above all) counts at once, and
//! an order of **another process counts here at the latest that much later**: until then a key that was
//! forgotten elsewhere is still skipped. Use one `Tiered` per process and store.
//!
//! Not for stores on this machine, which answer as fast, and not for effects in the store's own
//! transaction or with a mark: their claims go to the authority through ports that this layer only
//! passes on.

mod entry;
mod hits;
mod memory;
mod pass;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::{Admission, ClaimRequest, Clock, OpId, Operation, Result, StateKind, Store};

pub use hits::CacheHits;

use entry::{Entry, Moment};
use memory::{Known, Memory};

use crate::sync::{Mutex, MutexGuard};

/// A layer that answers duplicates of completed keys from memory.
///
/// # Guarantee   the laws of the authority, for the orders of this process; those of other processes
/// show within [`Settings::fresh`]
/// # Cost        [`Settings::bytes`] of memory; a hash of each key asked for
pub struct Tiered<S> {
    authority: S,
    clock: Arc<dyn Clock>,
    settings: Settings,
    memory: Mutex<Memory>,
    counts: Counts,
    hits: Option<Arc<CacheHits>>,
}

/// Limits of the memory, and the time for which it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory that entries take, in bytes; 64 MiB.
    pub bytes: usize,
    /// The time for which a record is believed after it was read; 60 seconds. An operator's order in
    /// another process can go unnoticed here for at most this long.
    pub fresh: Duration,
    /// The longest outcome that is kept, in bytes; 64 KiB. The authority answers a duplicate that wants
    /// a longer one.
    pub outcome_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            fresh: Duration::from_secs(60),
            outcome_bytes: 64 << 10,
        }
    }
}

/// Counts of what a cache has been good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Claims that were answered here, without the authority.
    pub answered: u64,
    /// Claims that were answered by reading the record.
    pub read: u64,
    /// Claims that the authority was asked about, whether it answered or not.
    pub asked: u64,
    /// Entries and hints kept now.
    pub kept: u64,
    /// Bytes that they take.
    pub kept_bytes: u64,
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    read: AtomicU64,
    asked: AtomicU64,
}

/// The source of the answer to a claim. If a batch has several claims of one key, the last of these
/// sources that any of them needs serves all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Here,
    Read,
    Ask,
}

impl<S: Store> Tiered<S> {
    /// Returns an empty cache in front of `authority`. `clock` should differ from the authority's by
    /// less than the margin of the window; if it does not, an entry is believed at most
    /// [`Settings::fresh`] too long.
    pub fn new(authority: S, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self {
            authority,
            clock,
            settings,
            memory: Mutex::new(Memory::new(settings.bytes)),
            counts: Counts::default(),
            hits: None,
        }
    }

    /// Returns the same cache, which notes in `hits` every claim that it answers from memory.
    #[must_use]
    pub fn noting(self, hits: Arc<CacheHits>) -> Self {
        Self {
            hits: Some(hits),
            ..self
        }
    }

    /// Returns the store behind the cache.
    pub const fn authority(&self) -> &S {
        &self.authority
    }

    /// Reads completed records that `within` selects into the cache, until `most` were looked at or half
    /// of the cache is full. Returns the count of those kept.
    ///
    /// The records come in the order of the store's list, which is not one of time, and without their
    /// outcomes. Once they are no longer fresh, they are hints.
    ///
    /// # Errors
    ///
    /// those of [`Store::list`]; the records read by then are kept
    ///
    /// # Cancel safety   safe
    pub async fn warm(&self, within: ListQuery, most: u64) -> Result<u64> {
        let mut query = ListQuery {
            state: Some(StateKind::Completed),
            limit: PAGE,
            ..within
        };
        let (mut looked_at, mut kept) = (0, 0);
        loop {
            let (asked, epoch) = (self.moment(), self.memory().epoch());
            let page = self.authority.list(&query).await?;
            looked_at += page.items.len() as u64;
            for listed in page.items {
                let id = listed.operation.id();
                let entry = Entry::of(&listed.record, asked);
                kept += u64::from(self.keep(id, entry, epoch, false));
            }
            query.after = page.next;
            if query.after.is_none() || looked_at >= most || self.memory().is_half_full() {
                return Ok(kept);
            }
        }
    }

    /// Returns what the cache has been good for so far.
    pub fn statistics(&self) -> Statistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let memory = self.memory();
        Statistics {
            answered: count(&self.counts.answered),
            read: count(&self.counts.read),
            asked: count(&self.counts.asked),
            kept: memory.len() as u64,
            kept_bytes: memory.bytes() as u64,
        }
    }

    async fn admit(&self, batch: &Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let ids: Vec<OpId> = batch.iter().map(|it| it.operation.id()).collect();
        let (mut answers, ways) = self.answers(batch, &ids);
        let of = |wanted: Way| {
            let places = ways.iter().enumerate();
            let chosen = places.filter(move |(_, way)| **way == wanted);
            chosen.map(|(place, _)| place).collect::<Vec<_>>()
        };
        if let Some(hits) = &self.hits {
            let here = ways.iter().zip(batch.iter());
            let here = here.filter(|(way, _)| **way == Way::Here);
            hits.note(here.map(|(_, request)| request.claim_id));
        }
        let (read, ask) = (of(Way::Read), of(Way::Ask));
        let (found, asked) =
            tokio::join!(self.read(batch, &ids, &read), self.ask(batch, &ids, &ask));
        for (place, admission) in ask.into_iter().zip(asked?) {
            answers[place] = Some(admission);
        }
        let mut left = Vec::new();
        for (place, admission) in read.into_iter().zip(found) {
            if admission.is_none() {
                left.push(place);
            }
            answers[place] = admission;
        }
        // Keys that turned out not to be completed are claimed after all, in their order.
        let claimed = match self.ask(batch, &ids, &left).await {
            Ok(admissions) => admissions,
            Err(error) => vec![Admission::Failed(error); left.len()],
        };
        for (place, admission) in left.into_iter().zip(claimed) {
            answers[place] = Some(admission);
        }
        if semel_core::planted("T09") {
            answers.reverse();
        }
        let answered = answers.len();
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        debug_assert_eq!(answers.len(), answered, "every request has its answer");
        Ok(answers)
    }

    /// Returns the answers that this layer can give itself, and the sources of the others.
    fn answers(&self, batch: &[ClaimRequest], ids: &[OpId]) -> (Vec<Option<Admission>>, Vec<Way>) {
        let now = self.moment();
        let mut memory = self.memory();
        let mut answers = Vec::with_capacity(batch.len());
        let mut ways = Vec::with_capacity(batch.len());
        for (request, id) in batch.iter().zip(ids) {
            let known = memory.look(id);
            let answer = match &known {
                Some(Known::Read(entry)) => self.answer(entry, request, now),
                Some(Known::Likely) if semel_core::planted("T12") => {
                    Some(entry::unread_replay(request))
                }
                Some(Known::Likely) | None => None,
            };
            ways.push(match (&answer, &known) {
                (Some(_), _) => Way::Here,
                // Items that share an entity are decided in the order of the batch.
                (None, Some(_)) if request.gate.is_none() => Way::Read,
                (None, _) => Way::Ask,
            });
            answers.push(answer);
        }
        drop(memory);
        self.agree(ids, &mut answers, &mut ways);
        (answers, ways)
    }

    /// Makes all claims of one key in a batch take the same way, so that they are answered in their
    /// order.
    fn agree(&self, ids: &[OpId], answers: &mut [Option<Admission>], ways: &mut [Way]) {
        let here = ways.iter().filter(|way| **way == Way::Here).count();
        let ask = ways.iter().filter(|way| **way == Way::Ask).count();
        if here < ways.len() && ask < ways.len() && ways.len() > 1 {
            let mut worst: BTreeMap<&OpId, Way> = BTreeMap::new();
            for (id, way) in ids.iter().zip(&*ways) {
                let worst = worst.entry(id).or_insert(*way);
                *worst = (*worst).max(*way);
            }
            for ((id, way), answer) in ids.iter().zip(&mut *ways).zip(answers) {
                *way = worst[id];
                answer.take_if(|_| *way != Way::Here);
            }
        }
        let here = ways.iter().filter(|way| **way == Way::Here).count();
        self.counts
            .answered
            .fetch_add(here as u64, Ordering::Relaxed);
    }

    /// Answers from the records, if they are completed.
    async fn read(
        &self,
        batch: &[ClaimRequest],
        ids: &[OpId],
        places: &[usize],
    ) -> Vec<Option<Admission>> {
        if places.is_empty() {
            return Vec::new();
        }
        let operations: Arc<[Operation]> = places
            .iter()
            .map(|place| batch[*place].operation.clone())
            .collect();
        let (asked, epoch) = (self.moment(), self.memory().epoch());
        let Ok(records) = self.authority.get(operations).await else {
            // A key whose record cannot be read may still be claimed.
            return places.iter().map(|_| None).collect();
        };
        let mut answers = Vec::with_capacity(places.len());
        for (place, record) in places.iter().zip(records) {
            let request = &batch[*place];
            let entry = record.and_then(|record| Entry::of(&record, asked));
            let answer = entry
                .as_ref()
                .map(|entry| self.answer(entry, request, asked));
            self.keep(ids[*place], entry, epoch, request.wants_outcome);
            answers.push(answer.flatten());
        }
        let read = answers.iter().flatten().count() as u64;
        self.counts.read.fetch_add(read, Ordering::Relaxed);
        answers
    }

    /// Asks the authority, and learns from its answers.
    async fn ask(
        &self,
        batch: &Arc<[ClaimRequest]>,
        ids: &[OpId],
        places: &[usize],
    ) -> Result<Vec<Admission>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        // Before the call: what it did not answer was asked all the same.
        self.counts
            .asked
            .fetch_add(places.len() as u64, Ordering::Relaxed);
        let admissions = if places.len() == batch.len() {
            self.authority.claim(Arc::clone(batch)).await?
        } else {
            let requests = places.iter().map(|place| batch[*place].clone());
            self.authority.claim(requests.collect()).await?
        };
        let mut memory = self.memory();
        for (place, admission) in places.iter().zip(&admissions) {
            let id = &ids[*place];
            match admission {
                Admission::Replay { .. } => memory.hint(*id),
                Admission::Granted(_)
                | Admission::Busy { .. }
                | Admission::Stale { .. }
                | Admission::Parked { .. }
                | Admission::TooOld => memory.evict(id),
                Admission::Conflict { .. } | Admission::Failed(_) => {}
            }
        }
        Ok(admissions)
    }

    /// Keeps a record that was read; returns whether there was something to keep. The record is not
    /// remembered if this process has given an order since `epoch`, since it may be older than the
    /// order.
    fn keep(&self, id: OpId, entry: Option<Entry>, epoch: u64, wants_outcome: bool) -> bool {
        let mut memory = self.memory();
        let now = self.moment();
        let Some(entry) = entry.filter(|entry| entry.is_inside(now)) else {
            memory.evict(&id);
            return false;
        };
        if memory.is_undisturbed(epoch) || semel_core::planted("T10") {
            let most = self.settings.outcome_bytes;
            memory.put(id, entry.detached(if wants_outcome { most } else { 0 }));
        }
        true
    }

    /// Returns the answer that the authority would give, if the entry is certain about it.
    fn answer(&self, entry: &Entry, request: &ClaimRequest, now: Moment) -> Option<Admission> {
        entry.answer(request, now, self.settings.fresh)
    }

    fn moment(&self) -> Moment {
        Moment {
            wall: self.clock.now(),
            monotonic: self.clock.monotonic(),
        }
    }

    /// Locks the memory; a panic leaves nothing half done.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: fmt::Debug> fmt::Debug for Tiered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiered")
            .field("authority", &self.authority)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Records in one page of a warm-up.
const PAGE: usize = 1_000;
