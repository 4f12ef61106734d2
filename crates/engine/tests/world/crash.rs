//! `kill -9` of one worker: whoever drives it drops its future.

use std::sync::Arc;

use tokio::sync::watch;

/// The end of one worker. Clones are the same end.
#[derive(Clone, Debug)]
pub(crate) struct Crash(Arc<watch::Sender<bool>>);

impl Crash {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Strikes, while the caller goes on until its next await.
    pub(crate) fn strike(&self) {
        self.0.send_replace(true);
    }

    /// Strikes; nothing after this is ever run.
    pub(crate) async fn now<T>(&self) -> T {
        self.strike();
        std::future::pending().await
    }

    /// Waits for the end.
    pub(crate) async fn strikes(&self) {
        let struck = self.0.subscribe().wait_for(|struck| *struck).await.is_ok();
        assert!(struck, "the sender is alive as long as this handle");
    }
}
