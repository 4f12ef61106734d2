//! The journal of messages that others send here: logs like those of producers, in the folder `ingest`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use semel_core::Result;
use semel_core::ingest::{GateAnswer, SilentStream, Submission};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::ledger::Ledger;
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};

use super::file::not_there;
use super::name::lock_name;
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
                let ledger = log.renewed();
                let mut ledger = ledger.unwrap_or_else(|| Ledger::of_sender(&name));
                log.begin_at(submission.at.as_millis());
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
                    begun: ledger.begun(&stream),
                    standing: ledger.standing(&stream)?,
                    next,
                    batches: page_behind(log, files, &stream, after, most)?,
                }))
            });
            read.map(Option::flatten)
        };
        self.0.call(read).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        let (producer, stream) = (producer.clone(), Box::<str>::from(stream));
        let settle = move |shared: &super::Shared| {
            let settled = shared.with(&producer, false, |log, files| {
                let ledger = log.ledger()?;
                let Settled { begun, through, at } = settled;
                if ledger.begun(&stream) == begun && ledger.standing(&stream)?.confirmed < through {
                    // A log of an older version has no times, and has to stay one that it reads.
                    let record = if log.has_times {
                        Record::Settled(&stream, through, at)
                    } else {
                        Record::Confirm(&stream, through)
                    };
                    log.add(files, &record)?;
                }
                Ok(())
            });
            settled.map(drop)
        };
        self.0.call(settle).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        let page = move |shared: &super::Shared| shared.page(after.as_ref(), most);
        self.0.call(page).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        self.0.call(move |shared| shared.order(&name, order)).await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        let silence = silence.clone();
        self.0.call(move |shared| forget(shared, &silence)).await
    }
}

fn forget(shared: &super::Shared, silence: &Silence) -> Result<Forgotten> {
    let page = silence.page(shared.names()?.into_iter());
    let mut forgotten = Forgotten::up_to(silence, &page);
    for name in page {
        let silent = shared.with(&name, false, |log, files| {
            let mut ledger = log.renewed().ok_or_else(not_there)?;
            let silent = ledger.silent(silence);
            if silent == Some(SilentStream::Forgotten) {
                ledger.streams.remove(&silence.stream);
            }
            match silent {
                Some(_) if ledger.streams.is_empty() => {
                    log.remove(files)?;
                    // Whoever waits for the lock looks whether it is still the one of this name.
                    let _ = files.remove(&lock_name(&name));
                }
                Some(_) => log.rewrite(files, &ledger)?,
                None => {}
            }
            Ok(silent)
        })?;
        if silent.flatten() == Some(SilentStream::Forgotten) {
            shared.forget(&name);
            forgotten.producers.push(name);
        }
    }
    Ok(forgotten)
}

impl fmt::Debug for EmbeddedIngest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedIngest")
    }
}
