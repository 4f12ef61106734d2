//! Probes the store and a target now and then, so that their absence is noticed without traffic.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::{Code, Error, ErrorKind, Key, Mark, Operation, Result, Scope, StoreExt};
use semel_engine::event::{Event, Observer};
use semel_engine::layer::outage::{self, Breaker, Entry};
use semel_worker::effect::exec;
use semel_worker::effect::http::Probe;
use semel_worker::run::Stores;
use semel_worker::settings::EffectSettings;
use tokio::time::{Instant, sleep, timeout};

use super::health::{Health, KnownOfTarget};

/// Asks the store every `every` for as long as the future is polled, and more often while it fails. While the
/// breaker is open, the pipelines that wait for the store try it. Only if none waits, the probe tries it, by a
/// write, since a full store can still be read.
pub(crate) async fn probe_store(
    stores: Stores,
    breaker: Arc<Breaker>,
    health: Arc<Health>,
    observer: Arc<dyn Observer>,
    every: Duration,
) {
    let mut is_overdue = false;
    loop {
        let is_failing = breaker.is_open() || health.store_fails();
        sleep(if is_failing { every.min(SOON) } else { every }).await;
        if !breaker.is_open() {
            is_overdue = false;
            // A start that waits for the store asks it as often, and has told of it.
            if !health.is_store_awaited() {
                ask(&stores, &breaker, &health, &*observer, every).await;
            }
            continue;
        }
        if breaker.next_try().is_some() || !std::mem::replace(&mut is_overdue, true) {
            is_overdue &= breaker.next_try().is_none();
            continue;
        }
        try_again(&stores, &breaker, &*observer).await;
    }
}

/// Reads, which costs little. Its success means nothing to the breaker: a pipeline may be trying to write.
async fn ask(
    stores: &Stores,
    breaker: &Breaker,
    health: &Health,
    observer: &dyn Observer,
    every: Duration,
) {
    let Entry::Call(permit) = breaker.enter() else {
        return;
    };
    let patience = every.clamp(SHORTEST, LONGEST);
    match within(patience, read(stores)).await {
        Ok(()) => {
            drop(permit);
            health.store_answers();
        }
        Err(error) if is_outage(&error) => {
            let wait = every.min(SOON);
            let error = Err::<(), _>(error);
            let turn = permit.tell(&error);
            if let Err(error) = &error {
                observer.observe("", &Event::StoreFailed { error, wait });
            }
            if let Some(turn) = turn {
                observer.observe("", &turn.event());
            }
        }
        // An answer, if a strange one; a pipeline that works with the store meets it, too.
        Err(_) => drop(permit),
    }
}

/// Tries a store that nothing else uses.
async fn try_again(stores: &Stores, breaker: &Breaker, observer: &dyn Observer) {
    let outage::Status::Open { code, .. } = breaker.status() else {
        return;
    };
    // Without a way to write, a full store is left to the next pipeline that writes.
    if stores.checkpoints.is_none() && !matches!(code, Code::StoreUnavailable | Code::Timeout) {
        return;
    }
    let Entry::Call(permit) = breaker.enter() else {
        return;
    };
    let tried = async {
        match &stores.checkpoints {
            Some(checkpoints) => write(checkpoints).await,
            None => read(stores).await,
        }
    };
    if let Some(turn) = permit.tell(&within(LONGEST, tried).await) {
        observer.observe("", &turn.event());
    }
}

async fn read(stores: &Stores) -> Result<()> {
    let scope = Scope::new("", NAME).expect("a constant without a control character");
    let operation = Operation::new(scope, Key::from(0));
    stores.store.get_one(operation).await.map(|_| ())
}

async fn write(checkpoints: &impl CheckpointStore) -> Result<()> {
    let mark = Mark {
        name: NAME.into(),
        value: 0,
    };
    let (Together::Applied(_) | Together::Refused(_)) =
        checkpoints.settle_with(Arc::new([]), &mark).await?;
    Ok(())
}

async fn within(patience: Duration, asked: impl Future<Output = Result<()>>) -> Result<()> {
    timeout(patience, asked).await.unwrap_or_else(|_| {
        let message = format!("the store has not answered within {patience:?}");
        Err(Error::new(ErrorKind::Timeout, message))
    })
}

fn is_outage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// A target that can be looked for without an effect.
pub(crate) enum Target {
    /// A server: connected to, and sent nothing.
    Server(Box<Probe>),
    /// A program: looked for, and not started.
    Program(Box<str>),
}

impl Target {
    /// Returns the target of an effect, if it can be looked for.
    pub(crate) fn of(effect: &EffectSettings) -> Option<Self> {
        if let EffectSettings::Http(settings, _) = effect {
            // The effect itself meets a fault of the settings.
            return Some(Self::Server(Box::new(Probe::new(settings).ok()?)));
        }
        effect.program().map(|it| Self::Program(it.into()))
    }

    /// Tells whether looking for it costs nothing.
    pub(crate) const fn is_here(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    async fn look(&self, patience: Duration) -> Result<()> {
        match self {
            Self::Server(probe) => probe.connect(patience).await,
            Self::Program(program) => {
                exec::inspect(program).map_err(|error| error.with_code(Code::TargetAway))
            }
        }
    }
}

/// Looks for a target every `every` while no effect is done, for as long as the future is polled. A program is
/// also looked for at once, since its name may be misspelt.
pub(crate) async fn probe_target(
    target: Target,
    pipeline: Box<str>,
    health: Arc<Health>,
    observer: Arc<dyn Observer>,
    every: Duration,
) {
    let mut away_since: Option<Instant> = None;
    let mut is_first = target.is_here();
    loop {
        let wait = if std::mem::take(&mut is_first) {
            Duration::ZERO
        } else if away_since.is_some() {
            every.min(SOON)
        } else {
            every
        };
        sleep(wait).await;
        let connected = match health.known_of_target(&pipeline, every) {
            KnownOfTarget::Paused => {
                // The pipeline that pauses reports the end.
                away_since = None;
                continue;
            }
            KnownOfTarget::Works => Ok(()),
            KnownOfTarget::Nothing => target.look(every.clamp(SHORTEST, LONGEST)).await,
        };
        match connected {
            Ok(()) => match away_since.take() {
                Some(since) => {
                    let lasted = since.elapsed();
                    observer.observe(&pipeline, &Event::TargetBack { lasted });
                }
                None => health.target_answers(&pipeline),
            },
            Err(error) => {
                away_since.get_or_insert_with(Instant::now);
                let (error, wait) = (&error, every.min(SOON));
                observer.observe(&pipeline, &Event::TargetAway { error, wait });
            }
        }
    }
}

/// The name of everything that the probes read and write.
const NAME: &str = "semel-probe";
/// The time between two probes of a dependency that failed.
const SOON: Duration = Duration::from_millis(500);
/// The shortest time for which an answer is awaited.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);
