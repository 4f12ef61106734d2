//! Counts what the broker of a source has and has not handed over.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::source::backlog;
use semel_config::SourceSettings;
use tokio::time::{Instant, sleep, timeout};

use crate::status::Status;

/// Counts over and over for as long as the future is polled: every few seconds, and so that it spends at most a
/// twentieth of its time on it. Ends at once if there is no broker. A count that fails leaves none.
pub(crate) async fn watch(source: SourceSettings, pipeline: Box<str>, status: Arc<Status>) {
    // Whatever is wrong with the settings, the source itself meets it.
    let Ok(Some(mut backlog)) = backlog(&source) else {
        return;
    };
    loop {
        let begun = Instant::now();
        let counted = timeout(PATIENCE, backlog.count()).await;
        status.lags(&pipeline, counted.ok().and_then(Result::ok).flatten());
        sleep(EVERY.max(begun.elapsed() * 20)).await;
    }
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(10);
/// The longest wait for a count.
const PATIENCE: Duration = Duration::from_secs(30);
