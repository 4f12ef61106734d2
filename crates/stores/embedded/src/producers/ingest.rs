//! The journal of messages that others send here: logs like those of producers, in the folder `ingest`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use semel_core::Result;
use semel_core::ingest::{GateAnswer, Submission};
use semel_core::port::ingest::{Accepted, IngestJournal};
use semel_core::producer::ledger::Ledger;
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};

use super::record::{Location, Record};
use super::{EmbeddedProducers, Folder, INGEST_FOLDER, page_behind};
use crate::files::Files;

/// The journal of messages that others send, in the folder of an embedded store.
#[derive(Clone)]
pub struct EmbeddedIngest(EmbeddedProducers);

impl EmbeddedIngest {
    /// Returns the journal of the store in this folder. Reads nothing yet. Needs a tokio runtime.
    pub fn new(store: &Path) -> Self {
        let folder = Folder::Real(store.join(INGEST_FOLDER).into());
        Self(EmbeddedProducers::of(folder))
    }

    /// Returns the journal in a directory of any kind: the seam for tests on a disk that fails.
    pub fn open_in(files: Arc<dyn Files>) -> Self {
        Self(EmbeddedProducers::open_in(files))
    }
}

impl IngestJournal for EmbeddedIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        let submission = submission.clone();
        let submit = move |shared: &super::Shared| {
            let name = submission.producer();
            if !shared.has_log(&name)? {
                // What is refused leaves nothing, neither a folder nor a lock.
                let answer = submission.decide_in::<Location>(None);
                if !matches!(answer, GateAnswer::Taken { .. }) {
                    return Ok(answer);
                }
            }
            let submitted = shared.with(&name, true, |log, files| {
                let answer = submission.decide_in(log.ledger.as_ref());
                let GateAnswer::Taken {
                    known, new, next, ..
                } = answer
                else {
                    return Ok(answer);
                };
                let ledger = log.ledger.clone();
                let mut ledger = ledger.unwrap_or_else(|| Ledger::of_sender(&name));
                if ledger.adopt(&submission) {
                    // With the power off in between, nothing was promised: the same messages come again, or none.
                    log.rewrite(files, &ledger)?;
                }
                if new > 0 {
                    let batch = submission.batch(known, new, next);
                    log.add(files, &Record::Append(&submission.stream, &batch))?;
                }
                Ok(answer)
            });
            submitted?.ok_or_else(super::no_folder)
        };
        self.0.call(submit).await
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        let (producer, stream) = (producer.clone(), Box::<str>::from(stream));
        let read = move |shared: &super::Shared| {
            let read = shared.with(&producer, false, |log, files| {
                let ledger = log.ledger()?;
                let Some(next) = ledger.position(&stream).next else {
                    return Ok(None);
                };
                Ok(Some(Accepted {
                    standing: ledger.standing(&stream)?,
                    next,
                    batches: page_behind(log, files, &stream, after, most)?,
                }))
            });
            read.map(Option::flatten)
        };
        self.0.call(read).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, through: u64) -> Result<()> {
        let (producer, stream) = (producer.clone(), Box::<str>::from(stream));
        let settle = move |shared: &super::Shared| {
            let settled = shared.with(&producer, false, |log, files| {
                if log.ledger()?.standing(&stream)?.confirmed < through {
                    log.add(files, &Record::Confirm(&stream, through))?;
                }
                Ok(())
            });
            settled.map(drop)
        };
        self.0.call(settle).await
    }

    async fn list(&self) -> Result<Vec<ProducerEntry>> {
        self.0.call(super::Shared::list).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        self.0.call(move |shared| shared.order(&name, order)).await
    }
}

impl fmt::Debug for EmbeddedIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedIngest")
    }
}
