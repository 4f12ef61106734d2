//! The journal of messages that others send here: logs like those of producers, in the folder `ingest`.

mod submissions;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use semel_core::ingest::{GateAnswer, SilentStream, Submission};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};
use semel_core::{Error, ErrorKind, Result};

use self::submissions::Submissions;
use super::file::not_there;
use super::name::lock_name;
use super::record::Record;
use super::{EmbeddedProducers, Folder, INGEST_FOLDER, page_behind};
use crate::files::Files;

/// The journal of messages that others send, in the folder of an embedded store. Submissions of one producer that wait for
/// the disk at the same time share a write and a sync.
#[derive(Clone)]
pub struct EmbeddedIngest {
    logs: EmbeddedProducers,
    submissions: Arc<Submissions>,
}

impl EmbeddedIngest {
    /// Returns the journal of the store in this folder. Reads nothing yet. Needs a tokio runtime.
    pub fn new(store: &Path) -> Self {
        let folder = Folder::Real(store.join(INGEST_FOLDER).into());
        Self::of(EmbeddedProducers::of(folder))
    }

    /// Returns the journal in a directory of any kind: the seam for tests on a disk that fails.
    pub fn open_in(files: Arc<dyn Files>) -> Self {
        Self::of(EmbeddedProducers::open_in(files))
    }

    fn of(logs: EmbeddedProducers) -> Self {
        Self {
            logs,
            submissions: Arc::default(),
        }
    }
}

impl IngestJournal for EmbeddedIngest {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        let answered = self.submissions.add(&self.logs.shared, submission.clone());
        answered.await.unwrap_or_else(|_| {
            let message = "a call of the journal of messages did not end";
            Err(Error::new(ErrorKind::Internal, message))
        })
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
        self.logs.call(read).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        let (producer, stream) = (producer.clone(), Box::<str>::from(stream));
        let settle = move |shared: &super::Shared| {
            let settled = shared.with(&producer, false, |log, files| {
                let ledger = log.ledger()?;
                let Settled { begun, through, at } = settled;
                if ledger.begun(&stream) == begun && ledger.standing(&stream)?.confirmed < through {
                    // A log of an older version has no times, and has to stay one that it reads.
                    let record = if log.has_times() {
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
        self.logs.call(settle).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        let page = move |shared: &super::Shared| shared.page(after.as_ref(), most);
        self.logs.call(page).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        self.logs
            .call(move |shared| shared.order(&name, order))
            .await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        let silence = silence.clone();
        self.logs.call(move |shared| forget(shared, &silence)).await
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
