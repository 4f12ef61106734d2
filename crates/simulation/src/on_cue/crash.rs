//! `kill -9` of one worker: the driver of its future drops it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The end of one worker. Clones are the same end.
#[derive(Clone, Debug)]
pub struct Crash {
    end: Arc<watch::Sender<bool>>,
    dealt: Arc<AtomicU64>,
}

impl Crash {
    pub fn new() -> Self {
        Self {
            end: Arc::new(watch::Sender::new(false)),
            dealt: Arc::default(),
        }
    }

    /// Strikes, while the caller goes on until its next await.
    pub fn strike(&self) {
        self.end.send_replace(true);
    }

    /// Strikes; the caller runs nothing after this.
    pub async fn now<T>(&self) -> T {
        self.strike();
        std::future::pending().await
    }

    /// Waits for the end.
    pub async fn strikes(&self) {
        let struck = self
            .end
            .subscribe()
            .wait_for(|struck| *struck)
            .await
            .is_ok();
        assert!(struck, "the sender is alive as long as this handle");
    }

    /// Notes that the worker met a fault, this end or any other that the test prepared.
    pub fn befalls(&self) {
        self.dealt.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of faults that the worker met. A fault that never came proves nothing.
    pub fn dealt(&self) -> u64 {
        self.dealt.load(Ordering::Relaxed)
    }
}
