//! Judges the windows of a run again while it goes on: the settings of a broker change, and its oldest message grows old.

use std::sync::Arc;
use std::time::Duration;

use semel_config::PipelineSettings;
use semel_core::Clock;
use semel_operate::check::window::{Terms, Verdict};
use tokio::time::{sleep, timeout};

use crate::notice::{Notice, Reporter};
use crate::status::Status;
use crate::window_guard::{Outlook, look};

/// Looks at the broker of a pipeline now and then, for as long as the future is polled, and reports a window that has
/// become too short. Ends at once if there is no broker. While the broker is away, the last judgement stands.
pub(crate) async fn watch(
    settings: PipelineSettings,
    outlook: Outlook,
    clock: Arc<dyn Clock>,
    status: Arc<Status>,
    reporter: Arc<dyn Reporter>,
) {
    let pipeline = &*settings.pipeline.name;
    let mut verdict = match outlook {
        Outlook::NoBroker => return,
        Outlook::Judged(judgement) => Some(judgement.verdict),
        Outlook::Away => None,
    };
    let mut wait = if verdict.is_some() { EVERY } else { SOON };
    loop {
        sleep(wait).await;
        wait = EVERY;
        let Ok(Ok(Some(horizons))) = timeout(EVERY, look(&settings)).await else {
            continue;
        };
        let judgement = Terms::of(&settings).judge(&horizons, clock.now());
        status.windows().needs(pipeline, judgement.needed);
        // Whoever was away when the run began is judged then, and reported, by the guard of its source.
        let before = verdict.replace(judgement.verdict);
        if before.is_some_and(|before| before != judgement.verdict)
            && let Some(why) = judgement.why(&settings)
        {
            reporter.report(&Notice::Window {
                pipeline,
                is_accepted: judgement.verdict == Verdict::Repeats && judgement.is_accepted,
                why: &why,
            });
        }
    }
}

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(60);
/// The time until the first look at a broker that was away.
const SOON: Duration = Duration::from_secs(5);
