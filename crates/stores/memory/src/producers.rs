//! The journal of producers in memory: the plainest one, for tests and for comparison.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::ledger::{Append, Ledger};
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, Page, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StoredBatch,
};
use semel_core::{Error, ErrorKind, Result};

type State = BTreeMap<ProducerName, Ledger<Bytes>>;

/// Returns a page of the batches behind a sequence.
pub(crate) fn page_behind(
    ledger: &Ledger<Bytes>,
    stream: &str,
    after: u64,
    most: u32,
) -> Result<Vec<StoredBatch>> {
    let mut page = Page::of(most);
    let kept = ledger.kept_behind(stream, after)?;
    let kept = kept.take_while(|it| page.takes(it.count, it.body.len() as u64));
    let batches = kept.map(|it| StoredBatch {
        first: it.first,
        count: it.count,
        body: it.body.clone(),
        at: it.at,
    });
    Ok(batches.collect())
}

/// Returns a page of the producers behind one, by name.
pub(crate) fn page_of(
    state: &BTreeMap<ProducerName, Ledger<Bytes>>,
    after: Option<&ProducerName>,
    most: u32,
) -> Vec<ProducerEntry> {
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    let behind = state.range::<ProducerName, _>((begin, Bound::Unbounded));
    let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
    behind.take(most).map(|(_, it)| it.entry()).collect()
}

/// A journal that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryProducers(Mutex<State>);

impl MemoryProducers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of<T>(
        &self,
        incarnation: &Incarnation,
        call: impl FnOnce(&mut Ledger<Bytes>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state();
        let unknown = || Error::new(ErrorKind::InvalidInput, "no such producer").not_applied();
        let ledger = state.get_mut(&incarnation.name).ok_or_else(unknown)?;
        ledger.check(incarnation)?;
        call(ledger)
    }
}

impl ProducerJournal for MemoryProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        let mut state = self.state();
        let ledger = state.entry(opening.name.clone());
        ledger.or_insert_with(|| Ledger::new(opening)).open(opening)
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        self.of(incarnation, |ledger| {
            if ledger.check_append(incarnation, stream, batch)? == Append::New {
                ledger.append(stream, batch, batch.body.clone());
            }
            ledger.standing(stream)
        })
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        self.of(incarnation, |ledger| {
            ledger.confirm(stream, through);
            ledger.standing(stream)
        })
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        self.of(incarnation, |ledger| {
            page_behind(ledger, stream, after, most)
        })
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        self.of(incarnation, |ledger| ledger.input(stream, digest))
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        Ok(page_of(&self.state(), after, most))
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let mut state = self.state();
        let ledger = state.get_mut(name);
        Ok(ledger.map(|ledger| ledger.order(order)).is_some())
    }
}
