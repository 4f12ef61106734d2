//! Judges the windows of a run again while it goes on: the settings of a broker change, and its oldest message grows old.

use std::sync::Arc;
use std::time::Duration;

use semel_config::PipelineSettings;
use semel_core::Clock;
use semel_operate::check::window::{Judgement, Terms, Verdict};
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
        status.health().source_reached(pipeline);
        let judgement = Terms::of(&settings).judge(&horizons, clock.now());
        status.windows().needs(pipeline, judgement.needed);
        status.windows().rest_on(pipeline, &horizons);
        if let Some(why) = turn(&mut verdict, &judgement, &settings) {
            reporter.report(&Notice::Window {
                pipeline,
                is_accepted: judgement.is_accepted,
                why: &why,
            });
        }
    }
}

/// Takes note of a judgement; returns the reason if the verdict has changed and the window is not known to be long
/// enough. The first judgement of a broker that was away when the run began is reported by the guard of its source.
fn turn(
    verdict: &mut Option<Verdict>,
    judgement: &Judgement,
    settings: &PipelineSettings,
) -> Option<String> {
    let before = verdict.replace(judgement.verdict)?;
    let has_changed = before != judgement.verdict;
    judgement.why(settings).filter(|_| has_changed)
}

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(60);
/// The time until the first look at a broker that was away.
const SOON: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use semel_backends::BACKENDS;
    use semel_config::{Overrides, Settings};
    use semel_core::Timestamp;
    use semel_core::port::horizon::{Horizon, HorizonReport};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_window_that_becomes_too_short_is_reported_once() {
        let text = "[pipelines.pay]\nsource = { kind = \"stdin\" }\nkey = \"json:/id\"\nwindow = \"7d\"\n\
            effect = { kind = \"stdout\", on_doubt = \"park\" }\n";
        let overrides = Overrides::default();
        let settings = Settings::of("semel.toml", text, std::iter::empty(), &overrides, BACKENDS);
        let settings = &settings.expect("sound settings").pipelines[0];
        let mut verdict = None;
        let mut turned = |kept| {
            let horizons = HorizonReport {
                redelivery: kept,
                replay: kept,
                ..HorizonReport::unknown()
            };
            let judgement = Terms::of(settings).judge(&horizons, Timestamp::from_millis(0));
            turn(&mut verdict, &judgement, settings)
        };
        let (long, short) = (Horizon::Within(DAY * 30), Horizon::Within(DAY));
        assert_eq!(turned(long), None, "the guard reports the first");
        assert_eq!(turned(short), None, "it is long enough");
        assert_eq!(turned(short), None);
        let why = turned(long).expect("a reason");
        assert!(why.contains("the window is 7d"), "{why}");
        assert_eq!(turned(long), None, "it was told");
        assert!(turned(Horizon::Unknown).is_some());
    }
}
