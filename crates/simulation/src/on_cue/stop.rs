//! A request to one worker, which it meets as it would meet SIGTERM.

use std::sync::Arc;
use std::time::Duration;

use semel_engine::surroundings::Shutdown;
use tokio::sync::watch;

/// SIGTERM for one worker.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    /// Requests a stop once this much time has passed.
    pub async fn after(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
        self.request();
    }

    /// A shutdown that follows this request.
    pub fn shutdown(&self, patience: Duration) -> Shutdown {
        Shutdown::new(self.0.subscribe(), patience)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}
