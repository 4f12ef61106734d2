//! The store ports over one lock: each method takes it once and hands the batch to [`State`].

use std::fmt;
use std::sync::{Arc, PoisonError};

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, Durability, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Clock, Error, ErrorKind, Mark, Note, Operation, Parked,
    ParkedId, Record, Renewal, Renewed, Result, Settled, Settlement, Start, Store, Timestamp,
};

use crate::state::State;
use crate::sync::{Mutex, MutexGuard};
use crate::{list, transfer};

/// The reference store. Everything in it is gone when it is dropped.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl MemoryStore {
    /// Creates an empty store that stamps records with `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::new(State::default()),
        }
    }

    /// Returns the state and the time, which is read under the lock so that it never runs backwards
    /// between two steps on one key.
    fn locked(&self) -> Result<(MutexGuard<'_, State>, Timestamp)> {
        let state = self.state.lock().map_err(poisoned)?;
        Ok((state, self.clock.now()))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl Store for MemoryStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if semel_core::planted("M02") {
            let seen: Vec<_> = {
                let (state, now) = self.locked()?;
                let seen = batch
                    .iter()
                    .map(|it| state.get(&it.operation, now).cloned());
                seen.collect()
            };
            others_first().await;
            let (mut state, now) = self.locked()?;
            let batch = batch.iter().zip(seen);
            return Ok(batch
                .map(|(request, seen)| state.claim_as_seen(request, seen, now))
                .collect());
        }
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|request| state.claim(request, now))
            .collect())
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|settlement| state.settle(settlement, now))
            .collect())
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|renewal| state.renew(renewal, now))
            .collect())
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|message| state.park(message, now))
            .collect())
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|id| state.drop_parked(*id, note, now))
            .collect())
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let (state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|operation| state.get(operation, now).cloned())
            .collect())
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let (state, now) = self.locked()?;
        list::records(&state, query, now)
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let (state, _) = self.locked()?;
        list::parked(&state, query)
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|directive| state.operate(directive, now))
            .collect())
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let (state, _) = self.locked()?;
        list::audit(&state, query)
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let (mut state, now) = self.locked()?;
        Ok(state.sweep(limit, now))
    }

    async fn stats(&self) -> Result<Stats> {
        let (state, now) = self.locked()?;
        Ok(state.stats(now))
    }

    async fn preflight(&self) -> Result<Capabilities> {
        Ok(Capabilities {
            kind: "memory",
            durability: Durability::Process,
            shared: false,
            warnings: vec![FORGETS.into()],
        })
    }
}

impl CheckpointStore for MemoryStore {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let (mut state, now) = self.locked()?;
        Ok(state.settle_with(&batch, mark, now))
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        if batch.iter().any(|request| request.start != Start::Unmarked) {
            return Err(marked());
        }
        let (mut state, now) = self.locked()?;
        state.admit_with(&batch, write, now)
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        let (state, _) = self.locked()?;
        Ok(state.mark(name))
    }
}

impl TransferStore for MemoryStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let (state, now) = self.locked()?;
        transfer::export(&state, after, limit, now)
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        let (mut state, now) = self.locked()?;
        Ok(batch
            .iter()
            .map(|item| transfer::import(&mut state, item, now))
            .collect())
    }
}

/// Lets every other task have a turn: the gap of a store that looks first and writes later.
async fn others_first() {
    let mut was_polled = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut was_polled, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

fn marked() -> Error {
    let message = "what is admitted together with a mark is never marked as started";
    Error::new(ErrorKind::InvalidInput, message)
}

/// Error for a panic under the lock, which may have left half a batch behind.
fn poisoned<T>(_: PoisonError<T>) -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "a call panicked inside the memory store",
    )
}

const FORGETS: &str = "THE MEMORY STORE FORGETS EVERYTHING WHEN THE PROCESS EXITS: after a restart \
                       every duplicate is taken for new. Use it for tests only.";
