//! Checks the windows of a run: before the run begins if the broker is there, else before the first message is
//! taken in hand.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::source;
use semel_config::PipelineSettings;
use semel_core::port::reach::Reach;
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_operate::check::window::{Judgement, Terms, Verdict};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::progress::Bars;

/// The knowledge about the broker of one pipeline when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// The pipeline has no broker.
    NoBroker,
    Judged(Judgement),
    /// The broker is away; it is looked at when it is there.
    Away,
}

/// The knowledge about the broker of one pipeline, and why it is away if nobody was told yet.
pub(super) type Known = (Outlook, Option<Error>);

/// Looks at the brokers of all pipelines at once; tells the operator what matters, and refuses a window that a
/// broker can outlive. A request to stop ends the wait.
///
/// # Errors   `InvalidConfig`; those of a source that cannot be used
pub(super) async fn outlooks(
    pipelines: &[PipelineSettings],
    clock: &dyn Clock,
    bars: &Bars,
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
                    bars.warning(&format!(
                        "{}: no answer from the broker within {} s [{}]; waiting for it",
                        settings.pipeline.name,
                        PROMPT.as_secs(),
                        Code::SourceUnavailable
                    ));
                }
                continue;
            }
        };
        let Some(looked) = looked else {
            break;
        };
        let (place, reach) = looked.map_err(|error| {
            Error::new(ErrorKind::Internal, "the look at a broker panicked").with_source(error)
        })?;
        is_open[place] = false;
        outlooks[place] = match reach {
            Ok(None) => (Outlook::NoBroker, None),
            Ok(Some(reach)) => {
                let judgement = judge(&pipelines[place], &reach, clock, bars)?;
                (Outlook::Judged(judgement), None)
            }
            Err(error) if is_away(&error) => (Outlook::Away, Some(error).filter(|_| !is_silent)),
            Err(error) => return Err(error),
        };
    }
    Ok(outlooks)
}

/// A source whose broker was away: the broker is looked at before the source hands anything over.
pub(super) struct Guarded<S> {
    source: S,
    guard: Option<Guard>,
}

/// A look at a broker that is still to be done.
pub(super) struct Guard {
    settings: PipelineSettings,
    clock: Arc<dyn Clock>,
    bars: Bars,
    /// Continues where it was if the call that waited for it was dropped.
    looking: Option<Look>,
    /// The error that is reported first.
    first: Option<Error>,
    try_at: Instant,
    tell_at: Instant,
}

type Look = Pin<Box<dyn Future<Output = Result<Option<Reach>>> + Send>>;

impl<S> Guarded<S> {
    pub(super) const fn new(source: S, guard: Option<Guard>) -> Self {
        Self { source, guard }
    }
}

impl Guard {
    /// Guards a broker that was away a moment ago; `first` is the reason if nobody was told yet.
    pub(super) fn new(
        settings: PipelineSettings,
        clock: Arc<dyn Clock>,
        bars: Bars,
        first: Option<Error>,
    ) -> Self {
        let now = Instant::now();
        Self {
            settings,
            clock,
            bars,
            looking: None,
            first,
            try_at: now,
            tell_at: now + MENTION,
        }
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
                Ok(Some(reach)) => {
                    judge(&self.settings, &reach, &*self.clock, &self.bars)?;
                    return Ok(None);
                }
                Err(error) if is_away(&error) => {
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
            self.guard = None;
            return Ok(Fetched::Back);
        }
        self.source.fetch(max).await
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.source.acknowledge(batch).await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source.requeue(batch).await
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source.extend(batch).await
    }

    async fn close(&mut self) -> Result<()> {
        self.source.close().await
    }

    fn progress(&self) -> Option<Progress> {
        self.source.progress()
    }

    fn hold(&self) -> Option<Duration> {
        self.source.hold()
    }
}

fn look(settings: &PipelineSettings) -> Look {
    let (source, lease) = (settings.source.clone(), settings.pipeline.lease);
    Box::pin(async move { source::reach(&source, lease).await })
}

/// Reports what follows from the reach, and refuses a pipeline that must not run.
fn judge(
    settings: &PipelineSettings,
    reach: &Reach,
    clock: &dyn Clock,
    bars: &Bars,
) -> Result<Judgement> {
    let judgement = Terms::of(settings).judge(reach, clock.now());
    judgement.check(settings)?;
    let name = &settings.pipeline.name;
    for warning in &reach.warnings {
        bars.warning(&format!("{name}: {warning}"));
    }
    if let Some(why) = judgement.why(settings) {
        let accepted = match judgement.verdict {
            Verdict::Repeats => "accepted by `accept`: ",
            Verdict::Enough | Verdict::Unknown | Verdict::SetsAside | Verdict::RepeatsBorne => "",
        };
        bars.warning(&format!("{name}: {accepted}{why}"));
    }
    Ok(judgement)
}

/// Tells whether the broker may be there later. Every other error is wrong now and stays so.
pub(in crate::command) fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// The time within which the operator hears that a broker is not there.
pub(super) const PROMPT: Duration = Duration::from_secs(2);
/// The time between two looks.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two reports.
const MENTION: Duration = Duration::from_secs(5);
