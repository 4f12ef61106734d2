//! The journal of producers beside the store: a log for each producer, in the folder `producers` of the store's folder.
//!
//! It is apart from the store's own log, whose lock one process holds for as long as it runs: producers publish beside
//! it, and an opening fences a process that is still there. Each call takes the lock of its producer, reads what others
//! have appended meanwhile, decides, and appends. The format is in `docs/spec/producers.md`.

mod file;
mod frame;
mod ingest;
mod name;
mod record;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::ledger::{Append, Ledger};
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, Page, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StoredBatch,
};
use semel_core::{Error, ErrorKind, Result};
use tokio::sync::{Mutex, MutexGuard};

use crate::error;
use crate::files::{Files, Lock, LockError, RealFiles};
use file::JournalFile;
use record::Record;

pub use ingest::EmbeddedIngest;

/// The journal of producers in the folder of an embedded store.
#[derive(Clone)]
pub struct EmbeddedProducers {
    shared: Arc<Shared>,
}

struct Shared {
    folder: Folder,
    /// The producers that were read before. A lock that is given in the order of asking: the thread that writes what
    /// others send takes it again at once, and everybody else would wait for as long as they send.
    known: Mutex<BTreeMap<ProducerName, JournalFile>>,
}

enum Folder {
    /// A folder of the system, which is made when it is needed.
    Real(Box<Path>),
    Open(Arc<dyn Files>),
}

impl EmbeddedProducers {
    /// Returns the journal of the store in this folder. Reads nothing yet. Needs a tokio runtime.
    pub fn new(store: &Path) -> Self {
        Self::of(Folder::Real(store.join(FOLDER).into()))
    }

    /// Returns the journal in a directory of any kind: the seam for tests on a disk that fails.
    pub fn open_in(files: Arc<dyn Files>) -> Self {
        Self::of(Folder::Open(files))
    }

    fn of(folder: Folder) -> Self {
        Self {
            shared: Arc::new(Shared {
                folder,
                known: Mutex::default(),
            }),
        }
    }

    /// Carries a call out on a thread that may wait for the disk.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        let called = tokio::task::spawn_blocking(move || call(&shared)).await;
        called.unwrap_or_else(|panicked| {
            let message = "a call of the journal of producers did not end";
            Err(Error::new(ErrorKind::Internal, message).with_source(panicked))
        })
    }
}

impl Shared {
    /// Returns the folder; without `make`, only if it is there.
    fn files(&self, make: bool) -> Result<Option<Arc<dyn Files>>> {
        match &self.folder {
            Folder::Open(files) => Ok(Some(Arc::clone(files))),
            Folder::Real(path) if make || path.exists() => {
                let files = RealFiles::open(path);
                let files = files.map_err(|why| error::unopened("opening the folder", why))?;
                Ok(Some(Arc::new(files)))
            }
            Folder::Real(_) => Ok(None),
        }
    }

    /// Tells whether a producer has a log.
    fn has_log(&self, name: &ProducerName) -> Result<bool> {
        let read_before = self.known().get(name).is_some_and(|it| it.ledger.is_some());
        if read_before {
            return Ok(true);
        }
        let Some(files) = self.files(false)? else {
            return Ok(false);
        };
        match files.open(&name::log_name(name)) {
            Ok(_) => Ok(true),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(error::unopened("opening the log of a producer", why)),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ProducerName, JournalFile>> {
        self.known.blocking_lock()
    }

    /// Calls with the log of a producer as it is now, while no other process touches it.
    fn with<T>(
        &self,
        name: &ProducerName,
        make: bool,
        call: impl FnOnce(&mut JournalFile, &dyn Files) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(files) = self.files(make)? else {
            return Ok(None);
        };
        let mut known = self.known();
        let _lock = lock(&*files, &name::lock_name(name))?;
        let log = known.entry(name.clone()).or_default();
        log.refresh(&*files, name)?;
        if !make && log.ledger.is_none() {
            known.remove(name);
            return Ok(None);
        }
        call(log, &*files).map(Some)
    }

    /// The same for an incarnation that is the latest.
    fn of<T>(
        &self,
        incarnation: &Incarnation,
        call: impl FnOnce(&mut JournalFile, &dyn Files) -> Result<T>,
    ) -> Result<T> {
        let checked = self.with(&incarnation.name, false, |log, files| {
            if !semel_core::planted("X18") {
                log.ledger()?.check(incarnation)?;
            }
            call(log, files)
        })?;
        // Somebody removed the log.
        checked.ok_or_else(|| incarnation.fenced_by(0))
    }

    /// Lists the producers that have a log, in order.
    fn names(&self) -> Result<Vec<ProducerName>> {
        let Some(files) = self.files(false)? else {
            return Ok(Vec::new());
        };
        let listed = files.list();
        let listed = listed.map_err(|why| error::unopened("listing the producers", why))?;
        let mut names: Vec<_> = listed.iter().filter_map(|it| name::name_of(it)).collect();
        names.sort();
        Ok(names)
    }

    /// Takes a producer out of memory that has no log any more.
    fn forget(&self, name: &ProducerName) {
        let mut known = self.known();
        if known.get(name).is_some_and(|it| it.ledger.is_none()) {
            known.remove(name);
        }
    }

    /// Reads the producers behind one, as many as a page has; of the others, their names.
    fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let most = usize::try_from(most.max(1)).unwrap_or(usize::MAX);
        let Some(files) = self.files(false)? else {
            return Ok(Vec::new());
        };
        let names = self.names()?.into_iter();
        let mut entries = Vec::new();
        for name in names.filter(|it| after.is_none_or(|after| it > after)) {
            if entries.len() == most {
                break;
            }
            entries.extend(self.entry(&*files, &name)?);
        }
        Ok(entries)
    }

    /// Reads one producer for a list, and keeps it in memory only if it was there before. One that is damaged hides no
    /// other.
    fn entry(&self, files: &dyn Files, name: &ProducerName) -> Result<Option<ProducerEntry>> {
        match self.sound_entry(files, name) {
            Err(why) if why.kind() == ErrorKind::Corrupt => {
                Ok(Some(ProducerEntry::damaged(name.clone(), &why)))
            }
            entry => entry,
        }
    }

    fn sound_entry(&self, files: &dyn Files, name: &ProducerName) -> Result<Option<ProducerEntry>> {
        let mut known = self.known();
        let _lock = lock(files, &name::lock_name(name))?;
        let Some(log) = known.get_mut(name) else {
            let mut log = JournalFile::default();
            if let Err(why) = log.refresh(files, name) {
                // What it knows of a disk that fails is not forgotten; damage is found again.
                if why.kind() != ErrorKind::Corrupt {
                    known.insert(name.clone(), log);
                }
                return Err(why);
            }
            return Ok(log.ledger.as_ref().map(Ledger::entry));
        };
        log.refresh(files, name)?;
        let entry = log.ledger.as_ref().map(Ledger::entry);
        if entry.is_none() {
            known.remove(name);
        }
        Ok(entry)
    }

    fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let ordered = self.with(name, false, |log, files| {
            let mut ledger = log.renewed().ok_or_else(file::not_there)?;
            ledger.order(order);
            log.rewrite(files, &ledger)
        });
        Ok(ordered?.is_some())
    }
}

fn no_folder() -> Error {
    Error::new(ErrorKind::Internal, "no folder for producers")
}

/// Reads the batches behind a sequence, a page of them.
fn page_behind(
    log: &JournalFile,
    files: &dyn Files,
    stream: &str,
    after: u64,
    most: u32,
) -> Result<Vec<StoredBatch>> {
    let (mut batches, mut page) = (Vec::new(), Page::of(most));
    let bodies = log.bodies(files)?;
    for kept in log.ledger()?.kept_behind(stream, after)? {
        if !page.takes(kept.count, kept.body.len.into()) {
            break;
        }
        batches.push(StoredBatch {
            first: kept.first,
            count: kept.count,
            body: bodies.read(kept.body)?,
            at: kept.at,
        });
    }
    Ok(batches)
}

impl ProducerJournal for EmbeddedProducers {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        let opening = opening.clone();
        self.call(move |shared| {
            let opened = shared.with(&opening.name, true, |log, files| log.open(files, &opening));
            opened?.ok_or_else(no_folder)
        })
        .await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        let (incarnation, batch) = (incarnation.clone(), batch.clone());
        let stream: Box<str> = stream.into();
        self.call(move |shared| {
            shared.of(&incarnation, |log, files| {
                let is_new = log.ledger()?.check_append(&incarnation, &stream, &batch)?;
                if is_new == Append::New {
                    log.add(files, &Record::Append(&stream, &batch))?;
                }
                log.ledger()?.standing(&stream)
            })
        })
        .await
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        self.call(move |shared| {
            shared.of(&incarnation, |log, files| {
                let standing = log.ledger()?.standing(&stream)?;
                if standing.confirmed < through {
                    log.add(files, &Record::Confirm(&stream, through))?;
                }
                log.ledger()?.standing(&stream)
            })
        })
        .await
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        self.call(move |shared| {
            shared.of(&incarnation, |log, files| {
                page_behind(log, files, &stream, after, most)
            })
        })
        .await
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        let (incarnation, stream) = (incarnation.clone(), Box::<str>::from(stream));
        let digest = *digest;
        self.call(move |shared| {
            shared.of(&incarnation, |log, _| log.ledger()?.input(&stream, &digest))
        })
        .await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        self.call(move |shared| shared.page(after.as_ref(), most))
            .await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        self.call(move |shared| shared.order(&name, order)).await
    }
}

impl fmt::Debug for EmbeddedProducers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedProducers")
    }
}

/// Takes a lock that every process holds for one call.
fn lock(files: &dyn Files, name: &str) -> Result<Box<dyn Lock>> {
    let mut tries = 0;
    loop {
        match files.lock(name) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held { .. }) if tries < MOST_TRIES => {
                tries += 1;
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(LockError::Held { pid }) => return Err(error::in_use(pid)),
            Err(LockError::Failed(why)) => {
                return Err(error::unopened("locking the producer", why));
            }
        }
    }
}

/// The folder in that of the store.
pub(crate) const FOLDER: &str = "producers";
/// That of producers that send here.
pub(crate) const INGEST_FOLDER: &str = "ingest";
const BETWEEN_TRIES: Duration = Duration::from_millis(2);
/// Ten seconds: a process that is stopped in the middle of a call is told of then.
const MOST_TRIES: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(name: &str) -> Opening {
        Opening {
            name: name.parse().expect("a name"),
            stream: "orders".into(),
            target: "kafka".into(),
            chance: [7; 8],
        }
    }

    #[tokio::test]
    async fn a_list_keeps_no_producer_in_memory_that_was_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = EmbeddedProducers::new(folder.path());
        for name in ["a", "b", "c"] {
            writer.open(&opening(name)).await.expect("opened");
        }
        let reader = EmbeddedProducers::new(folder.path());
        assert_eq!(reader.list().await.expect("a list").len(), 3);
        assert_eq!(reader.shared.known.lock().await.len(), 0);
        reader.open(&opening("b")).await.expect("opened");
        assert_eq!(reader.page(None, 2).await.expect("a page").len(), 2);
        let known: Vec<_> = reader.shared.known.lock().await.keys().cloned().collect();
        assert_eq!(known, [opening("b").name]);
    }
}
