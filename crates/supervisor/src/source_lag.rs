//! Counts what the broker of a source has and has not handed over.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::broker::Backlog;
use semel_backends::source::backlog;
use semel_config::SourceSettings;
use tokio::time::{Instant, sleep, timeout};

use crate::status::{Pace, Reading, Status};

/// Counts over and over for as long as the future is polled: every few seconds, and more seldom where that takes long,
/// see [`Pace`]. Ends at once if there is no broker. A count that fails leaves none.
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
            status.lags(pipeline, counted.map(|lag| Reading::new(lag, begun)));
            pace.after(begun.elapsed())
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use semel_backends::broker::Answer;
    use semel_core::{Error, ErrorKind};
    use semel_engine::system::SystemClock;
    use semel_telemetry::Format;

    use super::*;
    use crate::status::Health;

    /// A broker that answers, fails slowly, or says nothing.
    struct Broker(Arc<AtomicU64>);

    const ANSWERS: u64 = 0;
    const FAILS: u64 = 1;
    const SILENT: u64 = 2;

    impl Backlog for Broker {
        fn count(&mut self) -> Answer<'_, Option<u64>> {
            Box::pin(async {
                match self.0.load(Ordering::Relaxed) {
                    ANSWERS => return Ok(Some(7)),
                    FAILS => sleep(Duration::from_secs(29)).await,
                    _ => std::future::pending().await,
                }
                Err(Error::new(ErrorKind::Unavailable, "gone"))
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lag_is_gone_soon_in_an_outage_and_there_soon_after_it() {
        let health = Health::new(PATIENCE, Arc::new(SystemClock::new()));
        let stopped = tokio::sync::watch::channel(false).1;
        let status = Status::new(stopped, Arc::new(health), "memory:");
        let state = Arc::new(AtomicU64::new(ANSWERS));
        let is_told = || {
            let text = status.metrics().text(Format::Prometheus);
            text.contains("semel_source_lag{pipeline=\"pay\"} 7")
        };
        let told = async {
            let within = async |seconds| sleep(Duration::from_secs(seconds)).await;
            within(25).await;
            assert!(is_told());
            for outage in [FAILS, SILENT] {
                state.store(outage, Ordering::Relaxed);
                within(20).await;
                assert!(!is_told(), "too old");
                within(900).await;
                state.store(ANSWERS, Ordering::Relaxed);
                // What was asked for last may have its whole time yet.
                within((PATIENCE + EVERY).as_secs() + 1).await;
                assert!(is_told(), "soon again");
            }
        };
        tokio::select! {
            () = count(Box::new(Broker(Arc::clone(&state))), "pay", &status) => {}
            () = told => {}
        }
    }
}
