//! A local cache of completed records in front of a store, the *authority*.
//!
//! A duplicate of a key whose completed record was lately read from the authority is answered here.
//! Everything else, and whatever is not certain, is asked of the authority. An entry is a record that
//! was *read*, by `get` or `list`; that a key was completed here, or answered with a replay, is a hint
//! that reading it may pay the next time, and decides nothing.
//!
//! An entry is believed for [`Settings::fresh`], counted from when it was asked for, and never past the
//! window of its record. So what this process orders (`forget` above all) counts at once, and what
//! **another process orders counts here at the latest that much later**: until then a key that was
//! forgotten elsewhere is still skipped. Use one `Tiered` per process and store.
//!
//! Not for stores on this machine, which answer as fast, and not for effects in the store's own
//! transaction or with a mark: their claims go to the authority by ports that this layer only hands on.

mod entry;
mod memory;
mod pass;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ClaimRequest, Clock, OpId, Operation, Result, Scope, StateKind, Store,
};

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
}

/// How much is kept, and how long it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory that entries take, in bytes; 64 MiB.
    pub bytes: usize,
    /// How long a record is believed after it was read; 60 seconds. The longest that an operator's
    /// order in another process can go unnoticed here.
    pub fresh: Duration,
    /// The longest outcome that is kept, in bytes; 64 KiB. A duplicate that wants a longer one is
    /// answered by the authority.
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

/// What a cache has been good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Claims that were answered here, without the authority.
    pub answered: u64,
    /// Claims that were answered by reading the record.
    pub read: u64,
    /// Claims that were asked of the authority.
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

/// Where the answer to a claim comes from. Of several claims of one key in a batch, the last of these
/// that any needs goes for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Here,
    Read,
    Ask,
}

impl<S: Store> Tiered<S> {
    /// An empty cache in front of `authority`. `clock` is to be within the margin of the window of the
    /// authority's; where it is not, an entry is believed at most [`Settings::fresh`] too long.
    pub fn new(authority: S, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self {
            authority,
            clock,
            settings,
            memory: Mutex::new(Memory::new(settings.bytes)),
            counts: Counts::default(),
        }
    }

    /// The store behind the cache.
    pub const fn authority(&self) -> &S {
        &self.authority
    }

    /// Reads completed records into the cache, of `scope` or of all, until `most` were looked at or half
    /// of the cache is full. Answers with how many are kept.
    ///
    /// They come in the order of the store's list, which is none of time, and without their outcomes.
    /// Once they are not fresh any more, they are hints.
    ///
    /// # Errors
    ///
    /// those of [`Store::list`]; what was read by then is kept
    ///
    /// # Cancel safety   safe
    pub async fn warm(&self, scope: Option<&Scope>, most: u64) -> Result<u64> {
        let mut query = ListQuery {
            scope: scope.cloned(),
            state: Some(StateKind::Completed),
            limit: PAGE,
            ..ListQuery::default()
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

    /// What the cache has been good for so far.
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

    async fn admit(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        let ids: Vec<OpId> = batch.iter().map(|it| it.operation.id()).collect();
        let (mut answers, ways) = self.answers(batch, &ids);
        let of = |wanted: Way| {
            let places = ways.iter().enumerate();
            let chosen = places.filter(move |(_, way)| **way == wanted);
            chosen.map(|(place, _)| place).collect::<Vec<_>>()
        };
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
        // What turned out not to be completed is claimed after all, in its order.
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

    /// What can be answered here, and where the other answers come from.
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

    /// Has all claims of one key in a batch answered in the same way, so that they are in their order.
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

    /// Answers from the records, where they are completed.
    async fn read(
        &self,
        batch: &[ClaimRequest],
        ids: &[OpId],
        places: &[usize],
    ) -> Vec<Option<Admission>> {
        if places.is_empty() {
            return Vec::new();
        }
        let operations: Vec<Operation> = places
            .iter()
            .map(|place| batch[*place].operation.clone())
            .collect();
        let (asked, epoch) = (self.moment(), self.memory().epoch());
        let Ok(records) = self.authority.get(&operations).await else {
            // Whoever cannot be read may still be claimed.
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

    /// Asks the authority, and learns from what it says.
    async fn ask(
        &self,
        batch: &[ClaimRequest],
        ids: &[OpId],
        places: &[usize],
    ) -> Result<Vec<Admission>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let admissions = if places.len() == batch.len() {
            self.authority.claim(batch).await?
        } else {
            let requests: Vec<_> = places.iter().map(|place| batch[*place].clone()).collect();
            self.authority.claim(&requests).await?
        };
        self.counts
            .asked
            .fetch_add(places.len() as u64, Ordering::Relaxed);
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

    /// Keeps what was read; whether there was something to keep. It is not remembered where this process
    /// has given an order since `epoch`, since it may be older than the order.
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

    /// The answer that the authority would give, if the entry says for certain.
    fn answer(&self, entry: &Entry, request: &ClaimRequest, now: Moment) -> Option<Admission> {
        entry.answer(request, now, self.settings.fresh)
    }

    fn moment(&self) -> Moment {
        Moment {
            wall: self.clock.now(),
            monotonic: self.clock.monotonic(),
        }
    }

    /// Nothing is left half done by a panic.
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
