//! Counts what the broker of a source has and has not handed over.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::broker::Backlog;
use semel_backends::source::backlog;
use semel_config::SourceSettings;
use tokio::time::{Instant, sleep, timeout};

use crate::status::{Pace, Status};

/// Counts over and over for as long as the future is polled: every few seconds, and so that it spends about a
/// twentieth of its time on it, see [`Pace`]. Ends at once if there is no broker. A count that fails leaves none.
pub(crate) async fn watch(source: SourceSettings, pipeline: Box<str>, status: Arc<Status>) {
    // Whatever is wrong with the settings, the source itself meets it.
    if let Ok(Some(backlog)) = backlog(&source) {
        count(backlog, &pipeline, &status).await;
    }
}

async fn count(mut backlog: Box<dyn Backlog>, pipeline: &str, status: &Status) {
    let mut pace = Pace::new(EVERY, 20);
    loop {
        let begun = Instant::now();
        let pause = if let Ok(Ok(counted)) = timeout(PATIENCE, backlog.count()).await {
            let rest = pace.after(begun.elapsed());
            let until = Instant::now() + rest.stands;
            status.lags(pipeline, counted.map(|lag| (lag, until)));
            rest.pause
        } else {
            status.lags(pipeline, None);
            pace.after_failure()
        };
        sleep(pause).await;
    }
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(10);
/// The longest wait for a count.
const PATIENCE: Duration = Duration::from_secs(30);
