//! A store whose next read stands still when it has its answer, and which can be cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::port::store::Capabilities;
use semel_core::{Error, ErrorKind, Operation, Record, Result, Store, forward_store};
use semel_store_memory::MemoryStore;
use tokio::sync::Notify;

/// A store and the troubles of its calls.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) inner: Arc<MemoryStore>,
    /// The next read waits with its answer in hand.
    pub(crate) holds_read: AtomicBool,
    /// A read waits.
    pub(crate) is_held: Notify,
    /// The read may go on.
    pub(crate) go_on: Notify,
    /// No call is answered.
    pub(crate) is_cut: AtomicBool,
    /// The store says that other processes use it, too.
    pub(crate) is_shared: AtomicBool,
}

impl Slow {
    pub(crate) fn over(inner: &Arc<MemoryStore>) -> Self {
        Self {
            inner: Arc::clone(inner),
            holds_read: AtomicBool::default(),
            is_held: Notify::new(),
            go_on: Notify::new(),
            is_cut: AtomicBool::default(),
            is_shared: AtomicBool::default(),
        }
    }

    fn alive(&self) -> Result<&MemoryStore> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the connection broke"));
        }
        Ok(&self.inner)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Slow {
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let records = self.alive()?.get(batch).await;
        if self.holds_read.swap(false, Ordering::SeqCst) {
            self.is_held.notify_one();
            self.go_on.notified().await;
        }
        records
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let mut capabilities = self.alive()?.preflight().await?;
        capabilities.shared = self.is_shared.load(Ordering::SeqCst);
        Ok(capabilities)
    }

    forward_store!(self => self.alive()?; but get, preflight);
}
