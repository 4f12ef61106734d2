//! The journal of messages that others send here, in memory: the plainest one, for tests and for comparison.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use semel_core::Result;
use semel_core::ingest::{GateAnswer, SilentStream, Submission};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::ledger::Ledger;
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};

use crate::producers::{page_behind, page_of};

type State = BTreeMap<ProducerName, Ledger<Bytes>>;

/// A journal that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryIngest(Mutex<State>);

impl MemoryIngest {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IngestJournal for MemoryIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        let name = submission.producer();
        let mut state = self.state();
        let answer = submission.decide_in(state.get(&name));
        if let GateAnswer::Taken {
            known, new, next, ..
        } = answer
        {
            let ledger = state.entry(name);
            let ledger = ledger.or_insert_with_key(Ledger::of_sender);
            ledger.adopt(submission);
            if new > 0 {
                let batch = submission.batch(known, new, next);
                ledger.append(&submission.stream, &batch, batch.body.clone());
            }
        }
        Ok(answer)
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        let state = self.state();
        let Some(ledger) = state.get(producer) else {
            return Ok(None);
        };
        let Some(next) = ledger.position(stream).next else {
            return Ok(None);
        };
        Ok(Some(Accepted {
            begun: ledger.begun(stream),
            standing: ledger.standing(stream)?,
            next,
            batches: page_behind(ledger, stream, after, most)?,
        }))
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        if let Some(ledger) = self.state().get_mut(producer)
            && ledger.begun(stream) == settled.begun
        {
            ledger.settle(stream, settled.through, settled.at);
        }
        Ok(())
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        Ok(page_of(&self.state(), after, most))
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let mut state = self.state();
        let ledger = state.get_mut(name);
        Ok(ledger.map(|ledger| ledger.order(order)).is_some())
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        let mut state = self.state();
        let page = silence.page(state.keys().cloned());
        let mut forgotten = Forgotten::up_to(silence, &page);
        for name in page {
            let ledger = state.get_mut(&name);
            let silent = ledger.and_then(|it| Some((it.silent(silence)?, it)));
            if let Some((SilentStream::Forgotten, ledger)) = silent {
                ledger.streams.remove(&silence.stream);
                if ledger.streams.is_empty() {
                    state.remove(&name);
                }
                forgotten.producers.push(name);
            }
        }
        Ok(forgotten)
    }
}
