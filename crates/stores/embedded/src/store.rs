//! The store: opens the folder, starts the committer, and turns calls into jobs.

use std::path::Path;
use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{
    Capabilities, Durability, ListQuery, Listed, Page, Stats, Store, Swept,
};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Clock, Error, ErrorKind, Mark, Note, Operation, Parked,
    ParkedId, Record, Renewal, Renewed, Result, Settled, Settlement, Start,
};
use tokio::sync::{mpsc, oneshot};

use crate::audit_index::Orders;
use crate::committer::{Committer, Job, Reply};
use crate::digest::KeyedHash;
use crate::error;
use crate::files::{Files, Lock, LockError, RealFiles};
use crate::import::Import;
use crate::ledger::Ledger;
use crate::limits::{check_note, check_parked};
use crate::log::LogKind;
use crate::options::Options;
use crate::parked_log::ParkedLog;
use crate::producers;
use crate::superblock::{self, Position, Superblock};
use crate::sync::thread::{self, JoinHandle};

/// The default store: one folder on one machine, used by one process.
///
/// # Guarantee   DUR-1: an answered call survives a power cut
/// # Cost        one write and one sync for all calls of the same time
///
/// Unmarked claims and renewals need not be durable and live in memory (decision 0010). Calls work
/// from any async runtime. A call whose future is dropped is still carried out. Dropping the store
/// waits until all accepted calls are written.
pub struct EmbeddedStore {
    jobs: Option<mpsc::Sender<Job>>,
    committer: Option<JoinHandle<()>>,
    keyed_hash: KeyedHash,
    options: Options,
    is_volatile: bool,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating folder and store if they are not there.
    ///
    /// # Errors
    /// `store-in-use`, `store-foreign`, `store-newer`, `store-read-only`, `store-full`,
    /// `record-corrupt` where stored bytes do not check out, else `store-unavailable`.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        if dir.exists() && !dir.is_dir() {
            return Err(error::foreign("the store's path is a file, not a folder"));
        }
        let files = RealFiles::open(dir)
            .map_err(|why| error::unopened("opening the store's folder", why))?;
        Self::open_in(Arc::new(files), clock, options)
    }

    /// Opens the store in a directory of any kind: the seam for tests on a disk that fails.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_in(files: Arc<dyn Files>, clock: Arc<dyn Clock>, options: Options) -> Result<Self> {
        let names = files
            .list()
            .map_err(|why| error::unopened("listing the folder", why))?;
        refuse_foreign(&names)?;
        let lock = lock(&*files)?;
        let now = clock.now();
        // Listed again: the previous holder of the lock may have created the store meanwhile.
        let names = files
            .list()
            .map_err(|why| error::unopened("listing the folder", why))?;
        let mut superblock = read_or_create(&*files, &names)?;
        let orders = Orders::default();
        let mut ledger = Ledger::open(Arc::clone(&files), &superblock, &options, &orders, now)?;
        let parked_log = ParkedLog::open(Arc::clone(&files), &superblock, &options, &orders, now)?;
        superblock.epoch += 1;
        superblock.records = ledger.position();
        superblock.parked = parked_log.position();
        superblock
            .write(&*files)
            .map_err(|why| error::unopened("writing the superblock", why))?;
        ledger.begin_epoch(superblock.epoch);

        let (sender, receiver) = mpsc::channel(options.queue_len.max(1));
        let keyed_hash = KeyedHash::new(&superblock.hash_key);
        let is_volatile = files.is_volatile();
        let committer = Committer {
            files,
            clock,
            superblock,
            ledger,
            parked_log,
            audit_set: None,
            ledger_answers: Vec::new(),
            shelf_answers: Vec::new(),
            is_poisoned: false,
            lock,
        };
        let committer = thread::Builder::new()
            .name("semel-committer".into())
            .spawn(move || committer.run(receiver))
            .map_err(|why| error::unopened("starting the committer thread", why))?;
        Ok(Self {
            jobs: Some(sender),
            committer: Some(committer),
            keyed_hash,
            options,
            is_volatile,
        })
    }

    /// Claims for this process, or for another one.
    pub(crate) async fn claim_for(
        &self,
        batch: Arc<[ClaimRequest]>,
        is_lent: bool,
    ) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|request| &request.operation));
        self.ask(|reply| Job::Claim(batch, addresses, is_lent, reply))
            .await
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let Some(jobs) = &self.jobs else {
            return Err(gone());
        };
        if jobs.send(job(reply)).await.is_err() {
            return Err(gone().not_applied());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(committer) = self.committer.take() {
            // A committer that panicked has released its lock all the same.
            let _ = committer.join();
        }
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Store for EmbeddedStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.claim_for(batch, false).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|item| &item.operation));
        self.ask(|reply| Job::Settle(batch, addresses, reply)).await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|item| &item.operation));
        self.ask(|reply| Job::Renew(batch, addresses, reply)).await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        for message in &*batch {
            check_parked(message, &self.options)?;
        }
        let ids = batch.iter().map(Parked::id).collect();
        self.ask(|reply| Job::Park(batch, ids, reply)).await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        if let Some(note) = note {
            check_note(note)?;
        }
        self.ask(|reply| Job::DropParked(batch, note.cloned(), reply))
            .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let addresses = self.keyed_hash.address(batch.iter());
        self.ask(|reply| Job::Get(batch, addresses, reply)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.ask(|reply| Job::List(query.clone(), reply)).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.ask(|reply| Job::ListParked(query.clone(), reply))
            .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|item| &item.operation));
        self.ask(|reply| Job::Operate(batch, addresses, reply))
            .await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.ask(|reply| Job::ListAudit(query.clone(), reply)).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.ask(|reply| Job::Sweep(limit, reply)).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.ask(Job::Stats).await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        Ok(capabilities(self.is_volatile))
    }
}

/// Returns the capabilities of a store, given whether its folder is in memory.
pub(crate) fn capabilities(is_volatile: bool) -> Capabilities {
    let (durability, warnings) = if is_volatile {
        let warning = "the store's folder is on a file system in memory: it is lost with the power";
        (Durability::Kill, vec![warning.into()])
    } else {
        (Durability::PowerCut, Vec::new())
    };
    Capabilities {
        kind: "embedded",
        durability,
        shared: false,
        warnings,
    }
}

impl TransferStore for EmbeddedStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let after = after.map(<[u8]>::to_vec);
        self.ask(|reply| Job::Export(after, limit, reply)).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let import = Import::prepare(&batch, &self.keyed_hash, &self.options)?;
        self.ask(|reply| Job::Import(import, reply)).await
    }
}

impl CheckpointStore for EmbeddedStore {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|item| &item.operation));
        self.ask(|reply| Job::SettleWith(batch, addresses, mark.clone(), reply))
            .await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        if batch.iter().any(|request| request.start != Start::Unmarked) {
            return Err(marked());
        }
        let addresses = self
            .keyed_hash
            .address(batch.iter().map(|request| &request.operation));
        let admitted = self.ask(|reply| Job::AdmitWith(batch, addresses, write, reply));
        let (admissions, _batch, _addresses) = admitted.await?;
        Ok(admissions)
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.ask(|reply| Job::Mark(name.into(), reply)).await
    }
}

fn marked() -> Error {
    let message = "what is admitted together with a mark is never marked as started";
    Error::new(ErrorKind::InvalidInput, message)
}

fn lock(files: &dyn Files) -> Result<Box<dyn Lock>> {
    files.lock(LOCK_NAME).map_err(|why| match why {
        LockError::Held { pid } => error::in_use(pid),
        LockError::Failed(why) => error::unopened("locking the store", why),
    })
}

/// Refuses a folder that holds files but no store, before anything is created in it.
pub(crate) fn refuse_foreign(names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == superblock::NAME) {
        return Ok(());
    }
    if let Some(name) = names.iter().find(|name| is_segment(name)) {
        return Err(error::corrupt(
            superblock::NAME,
            0,
            &format!("missing beside {name}"),
        ));
    }
    // Producers may have been there before the store, of either side.
    let ours = [
        LOCK_NAME,
        superblock::NEXT_NAME,
        producers::FOLDER,
        producers::INGEST_FOLDER,
    ];
    let is_ours = |name: &String| ours.contains(&name.as_str());
    if names.iter().all(is_ours) {
        return Ok(());
    }
    Err(error::foreign(
        "the folder holds other files and no semel store",
    ))
}

fn is_segment(name: &str) -> bool {
    [LogKind::RECORDS, LogKind::PARKED]
        .iter()
        .any(|kind| kind.id_of(name).is_some())
}

fn read_or_create(files: &dyn Files, names: &[String]) -> Result<Superblock> {
    refuse_foreign(names)?;
    if names.iter().any(|name| name == superblock::NAME) {
        return Superblock::read(files);
    }
    let mut store_id = [0; 16];
    let mut hash_key = [0; 16];
    for bytes in [&mut store_id, &mut hash_key] {
        getrandom::fill(bytes).map_err(|why| {
            Error::new(ErrorKind::Unavailable, "the system gives no random bytes")
                .not_applied()
                .with_source(why)
        })?;
    }
    let superblock = Superblock {
        store_id,
        hash_key,
        epoch: 0,
        records: Position::default(),
        parked: Position::default(),
    };
    superblock
        .write(files)
        .map_err(|why| error::unopened("creating the superblock", why))?;
    Ok(superblock)
}

/// Error for a committer that is gone, which only a defect can bring about.
fn gone() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the store's committer ended; open the store anew",
    )
}

const LOCK_NAME: &str = "lock";
