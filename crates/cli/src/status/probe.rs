//! Asks the store and a target now and then, so that their absence is known without traffic.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::port::store::Store;
use semel_core::{Code, Error, ErrorKind, Key, Mark, Operation, Result, Scope};
use semel_engine::event::{Event, Observer};
use semel_engine::layer::outage::{self, Breaker, Entry};
use semel_worker::effect::http::{Probe, Settings};
use semel_worker::run::Stores;
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
    stores.store.get(&[operation]).await.map(|_| ())
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

/// Connects to the target of an `http` effect every `every` while nothing is sent, for as long as the future is
/// polled, and sends nothing.
pub(crate) async fn probe_target(
    settings: Settings,
    pipeline: Box<str>,
    health: Arc<Health>,
    observer: Arc<dyn Observer>,
    every: Duration,
) {
    // What is wrong with the settings is met by the effect.
    let Ok(probe) = Probe::new(&settings) else {
        return;
    };
    let mut away_since: Option<Instant> = None;
    loop {
        let wait = if away_since.is_some() {
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
            KnownOfTarget::Nothing => probe.connect(every.clamp(SHORTEST, LONGEST)).await,
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
