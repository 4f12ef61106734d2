//! Watches how far a pipeline has read what was done before.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::streamed::Monitor;
use tokio::time::{Instant, sleep};

use crate::notice::{Notice, Reporter};
use crate::status::Restoration;

/// Watches a pipeline for as long as the future is polled. A restoration that takes no time is not reported.
pub(crate) async fn watch(
    pipeline: Box<str>,
    streamed: Arc<dyn Monitor>,
    reporter: Arc<dyn Reporter>,
) {
    let mut since: Option<Instant> = None;
    loop {
        sleep(LOOK).await;
        let restoration = Restoration::of(&streamed.restored());
        if restoration.is_done() {
            if let Some(since) = since.take() {
                reporter.report(&Notice::Restored {
                    pipeline: &pipeline,
                    restoration: &restoration,
                    elapsed: since.elapsed(),
                });
            }
            continue;
        }
        let since = since.get_or_insert_with(Instant::now);
        reporter.report(&Notice::Restoring {
            pipeline: &pipeline,
            restoration: &restoration,
            elapsed: since.elapsed(),
        });
    }
}

const LOOK: Duration = Duration::from_millis(200);
