//! Checks the windows of a run: before the run begins if the broker is there, else before the first message is
//! taken in hand.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel_backends::source;
use semel_config::PipelineSettings;
use semel_core::port::horizon::HorizonReport;
use semel_core::port::source::{Fetched, Source};
use semel_core::{Clock, Error, ErrorKind, Result, forward_source};
use semel_operate::check::window::{Gate, Judgement, Terms, Verdict};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::notice::{Notice, Reporter};
use crate::status::{Health, Status};

/// The knowledge about the broker of one pipeline when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The pipeline has no broker.
    NoBroker,
    Judged(Judgement),
    /// The broker is away; it is looked at when it is there.
    Away,
}

impl Outlook {
    /// The time by which messages of a pipeline are too old.
    pub(crate) fn gate(self, settings: &PipelineSettings) -> Gate {
        match self {
            Self::Judged(judgement) => judgement.gate,
            Self::NoBroker | Self::Away => Gate::unasked(settings),
        }
    }
}

/// The knowledge about the broker of one pipeline, and why it is away if nobody was told yet.
pub(crate) type Known = (Outlook, Option<Error>);

/// Looks at the brokers of all pipelines at once; reports what matters, and refuses a window that a
/// broker can outlive. A request to stop ends the wait.
///
/// # Errors   `InvalidConfig`; those of a source that cannot be used
pub(crate) async fn outlooks(
    pipelines: &[PipelineSettings],
    status: &Status,
    (clock, reporter): (&dyn Clock, &dyn Reporter),
    mut stop: watch::Receiver<bool>,
) -> Result<Vec<Known>> {
    let mut looks = JoinSet::new();
    for (place, settings) in pipelines.iter().enumerate() {
        let look = look(settings);
        looks.spawn(async move { (place, look.await) });
    }
    let mut outlooks: Vec<Known> = Vec::new();
    outlooks.resize_with(pipelines.len(), || (Outlook::Away, None));
    let mut is_open = vec![true; pipelines.len()];
    let mut is_silent = false;
    let silence = sleep(PROMPT);
    tokio::pin!(silence);
    loop {
        let looked = tokio::select! {
            biased;
            _ = stop.wait_for(|is_asked| *is_asked) => break,
            looked = looks.join_next() => looked,
            () = &mut silence, if !is_silent => {
                is_silent = true;
                for (settings, _) in pipelines.iter().zip(&is_open).filter(|(_, open)| **open) {
                    reporter.report(&Notice::BrokerSilent {
                        pipeline: &settings.pipeline.name,
                        within: PROMPT,
                    });
                }
                continue;
            }
        };
        let Some(looked) = looked else {
            break;
        };
        let (place, horizons) = looked.map_err(|error| {
            Error::new(ErrorKind::Internal, "the look at a broker panicked").with_source(error)
        })?;
        is_open[place] = false;
        outlooks[place] = match horizons {
            Ok(None) => (Outlook::NoBroker, None),
            Ok(Some(horizons)) => {
                let settings = &pipelines[place];
                let judgement = judge(settings, &horizons, clock, reporter)?;
                status.windows().rest_on(&settings.pipeline.name, &horizons);
                (Outlook::Judged(judgement), None)
            }
            Err(error) if source::is_away(&error) => {
                (Outlook::Away, Some(error).filter(|_| !is_silent))
            }
            Err(error) => return Err(error),
        };
    }
    Ok(outlooks)
}

/// A source whose broker was away: the broker is looked at before the source hands anything over.
pub(crate) struct Guarded<S> {
    source: S,
    guard: Option<Guard>,
}

/// A look at a broker that is still to be done.
pub(crate) struct Guard {
    settings: PipelineSettings,
    clock: Arc<dyn Clock>,
    reporter: Arc<dyn Reporter>,
    health: Arc<Health>,
    /// Continues where it was if the call that waited for it was dropped.
    looking: Option<Look>,
    /// The error that is reported first.
    first: Option<Error>,
    try_at: Instant,
    tell_at: Instant,
    /// Set once the broker was looked at, for the runs that follow.
    has_passed: Arc<AtomicBool>,
}

pub(crate) type Look = Pin<Box<dyn Future<Output = Result<Option<HorizonReport>>> + Send>>;

impl<S> Guarded<S> {
    pub(crate) const fn new(source: S, guard: Option<Guard>) -> Self {
        Self { source, guard }
    }
}

impl Guard {
    /// Guards a broker that was away a moment ago; `first` is the reason if nobody was told yet.
    pub(crate) fn new(
        settings: PipelineSettings,
        clock: Arc<dyn Clock>,
        reporter: Arc<dyn Reporter>,
        health: Arc<Health>,
        first: Option<Error>,
    ) -> Self {
        let now = Instant::now();
        Self {
            settings,
            clock,
            reporter,
            health,
            looking: None,
            first,
            try_at: now,
            tell_at: now + MENTION,
            has_passed: Arc::default(),
        }
    }

    /// Returns a guard for one run of the pipeline; nothing once the broker was looked at in a run before.
    pub(crate) fn of_run(&mut self) -> Option<Self> {
        if self.has_passed.load(Ordering::Relaxed) {
            return None;
        }
        let (clock, reporter) = (Arc::clone(&self.clock), Arc::clone(&self.reporter));
        let (settings, health) = (self.settings.clone(), Arc::clone(&self.health));
        let guard = Self::new(settings, clock, reporter, health, self.first.take());
        Some(Self {
            has_passed: Arc::clone(&self.has_passed),
            ..guard
        })
    }

    /// Waits until the broker was looked at; returns the reason why it is away when that is to be reported.
    /// Cancel safe.
    async fn pass(&mut self) -> Result<Option<Error>> {
        if let Some(error) = self.first.take() {
            return Ok(Some(error));
        }
        loop {
            sleep_until(self.try_at).await;
            let looking = self.looking.get_or_insert_with(|| look(&self.settings));
            let looked = looking.as_mut().await;
            self.looking = None;
            let now = Instant::now();
            self.try_at = now + RETRY;
            match looked {
                Ok(None) => return Ok(None),
                Ok(Some(horizons)) => {
                    judge(&self.settings, &horizons, &*self.clock, &*self.reporter)?;
                    return Ok(None);
                }
                Err(error) if source::is_away(&error) => {
                    if now >= self.tell_at {
                        self.tell_at = now + MENTION;
                        return Ok(Some(error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

// A method that is not forwarded would be the default one.
#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for Guarded<S> {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        if let Some(guard) = &mut self.guard {
            if let Some(error) = guard.pass().await? {
                return Ok(Fetched::Away(error));
            }
            // Nobody was told that the broker was away if the first look at it took long, and then succeeded.
            guard.health.source_reached(&guard.settings.pipeline.name);
            guard.has_passed.store(true, Ordering::Relaxed);
            self.guard = None;
            return Ok(Fetched::Back);
        }
        self.source.fetch(max).await
    }

    forward_source!(self => self.source);
}

/// Looks at the broker of a pipeline.
pub(crate) fn look(settings: &PipelineSettings) -> Look {
    let (source, lease) = (settings.source.clone(), settings.pipeline.lease);
    Box::pin(async move { source::horizons(&source, lease).await })
}

/// Reports what follows from the horizons, and refuses a pipeline that must not run.
fn judge(
    settings: &PipelineSettings,
    horizons: &HorizonReport,
    clock: &dyn Clock,
    reporter: &dyn Reporter,
) -> Result<Judgement> {
    let judgement = Terms::of(settings).judge(horizons, clock.now());
    judgement.check(settings)?;
    let pipeline = &*settings.pipeline.name;
    for warning in &horizons.warnings {
        reporter.report(&Notice::BrokerWarning { pipeline, warning });
    }
    if let Some(why) = judgement.why(settings) {
        reporter.report(&Notice::Window {
            pipeline,
            is_accepted: judgement.verdict == Verdict::Repeats,
            why: &why,
        });
    }
    Ok(judgement)
}

/// The time within which the operator hears that a broker is not there.
pub(crate) const PROMPT: Duration = Duration::from_secs(2);
/// The time between two looks.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two reports.
const MENTION: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use semel_backends::BACKENDS;
    use semel_config::{Overrides, Settings};
    use semel_core::port::horizon::Horizon;
    use semel_core::port::source::{Acknowledgement, DeliveryId, Progress};
    use semel_engine::surroundings::OnProgress;
    use semel_engine::system::SystemClock;

    use super::*;

    /// Hands nothing over, ever.
    struct Idle;

    impl Source for Idle {
        async fn fetch(&mut self, _: usize) -> Result<Fetched> {
            std::future::pending().await
        }

        async fn acknowledge(&mut self, _: &[Acknowledgement]) -> Result<()> {
            Ok(())
        }

        async fn requeue(&mut self, _: &[DeliveryId]) -> Result<()> {
            Ok(())
        }

        async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
            Ok(())
        }

        fn progress(&self) -> Option<Progress> {
            None
        }
    }

    struct Silent;

    impl Reporter for Silent {
        fn report(&self, _: &Notice<'_>) {}

        fn progress(&self, _: &PipelineSettings) -> OnProgress {
            Arc::new(|_, _| {})
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_was_silent_and_then_answers_is_connected_without_a_message() {
        let text = "[pipelines.pay]\nsource = { kind = \"stdin\" }\nkey = \"json:/id\"\nwindow = \"7d\"\n\
            effect = { kind = \"stdout\", on_doubt = \"park\" }\n";
        let overrides = Overrides::default();
        let settings = Settings::of("semel.toml", text, std::iter::empty(), &overrides, BACKENDS);
        let settings = settings.expect("sound settings").pipelines.remove(0);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let health = Arc::new(Health::new(PROMPT, Arc::clone(&clock)));
        health.knows("pay");
        let reporter = Arc::new(Silent);
        let mut guard = Guard::new(settings, clock, reporter, Arc::clone(&health), None);
        let kept = Horizon::Within(Duration::from_secs(86_400));
        guard.looking = Some(Box::pin(async move {
            sleep(PROMPT * 2).await;
            Ok(Some(HorizonReport {
                redelivery: kept,
                replay: kept,
                ..HorizonReport::unknown()
            }))
        }));
        let mut source = Guarded::new(Idle, Some(guard));
        assert_eq!(health.sources(), [("pay".into(), false)]);
        let fetched = source.fetch(1).await;
        assert!(matches!(fetched, Ok(Fetched::Back)), "{fetched:?}");
        assert_eq!(health.sources(), [("pay".into(), true)]);
    }
}
