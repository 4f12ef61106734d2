//! Asks the store and a target now and then, so that their absence is known without traffic.

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

/// Asks the store every `every` for as long as the future is polled, and oftener while it fails. While the breaker is
/// open, whoever waits for the store tries it; only where nobody does, it is tried here, by a write, since a store
/// that is full can still be read.
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
            ask(&stores, &breaker, &health, &*observer, every).await;
            continue;
        }
        if breaker.next_try().is_some() || !std::mem::replace(&mut is_overdue, true) {
            is_overdue &= breaker.next_try().is_none();
            continue;
        }
        try_again(&stores, &breaker, &*observer).await;
    }
}

/// Reads, which costs little. That it succeeds says nothing to the breaker: somebody may be trying to write.
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
        // An answer, if a strange one; whoever works with the store meets it too.
        Err(_) => drop(permit),
    }
}

/// Tries a store of which nobody else wants anything.
async fn try_again(stores: &Stores, breaker: &Breaker, observer: &dyn Observer) {
    let outage::Status::Open { code, .. } = breaker.status() else {
        return;
    };
    // Without a way to write, one that is full is left to whoever writes next.
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
    stores.store.get_one(&operation).await.map(|_| ())
}

async fn write(checkpoints: &impl CheckpointStore) -> Result<()> {
    let mark = Mark {
        name: NAME.into(),
        value: 0,
    };
    let (Together::Applied(_) | Together::Refused(_)) = checkpoints.settle_with(&[], &mark).await?;
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
    /// The target of an effect, if it can be looked for.
    pub(crate) fn of(effect: &EffectSettings) -> Option<Self> {
        if let EffectSettings::Http(settings, _) = effect {
            // What is wrong with the settings is met by the effect.
            return Some(Self::Server(Box::new(Probe::new(settings).ok()?)));
        }
        effect.program().map(|it| Self::Program(it.into()))
    }

    /// Whether looking for it costs nothing.
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

/// Looks for a target every `every` while no effect is done, for as long as the future is polled; for a program at
/// once, too, since it may be misspelt.
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
                // Whoever pauses tells of the end.
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

/// Of what the probes read and write.
const NAME: &str = "semel-probe";
/// Between two probes of what failed.
const SOON: Duration = Duration::from_millis(500);
/// How long an answer is waited for.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);
