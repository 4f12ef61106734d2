//! A consumer from typed settings and a closure.
//!
//! [`Builder`] gathers everything that a [`Pipeline`] and a [`Consumer`] need, with the defaults of a
//! configuration file; [`Message`] is the closure's view of a message. Not for effects of another shape: an
//! output file or the store's own transaction are [`Consumer`]'s other ways to run.

mod closure;
mod defaults;
mod message;

pub use message::{IntoOutcome, Message};

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;
use semel_core::port::source::{Progress, Source};
use semel_core::select::Selector;
use semel_core::{Backoff, Error, ErrorKind, Result, Scope, Store, tenant};
use tokio::sync::watch;

use crate::consumer::Consumer;
use crate::effect::{BatchEffect, Class, Effect, OnDoubt};
use crate::layer::outage::Policy;
use crate::once::{Failure, Settings};
use crate::pipeline::Pipeline;
use crate::summary::Summary;
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use closure::Handler;
use defaults::pipeline;

/// A consumer in the making: a source, the place of its keys, and the way its effects are run.
///
/// The key is the whole message until [`Builder::key`] names another place; for JSON it always should. The
/// fingerprint covers the whole payload.
#[must_use = "a consumer runs when `run` is awaited"]
pub struct Builder<S, Src> {
    store: S,
    source: Src,
    surroundings: Surroundings,
    pipeline: Result<Pipeline>,
    class: Class,
    timeout: Option<Duration>,
    patience: Duration,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    on_progress: Option<OnProgress>,
    outage: Option<Policy>,
}

impl<S: Store + Clone, Src: Source> Builder<S, Src> {
    /// Returns a consumer called `name` over `source`, with `settings` unless another method changes them. The
    /// name is the operation's as well: keys of two consumers never meet.
    pub fn new(
        name: &str,
        source: Src,
        store: S,
        surroundings: Surroundings,
        settings: &Settings,
    ) -> Self {
        let pipeline = match Scope::new("", name) {
            Ok(scope) => Ok(pipeline(name, scope, settings)),
            Err(why) => Err(invalid(&why)),
        };
        Self {
            store,
            source,
            surroundings,
            pipeline,
            class: settings.class,
            timeout: settings.timeout,
            patience: PATIENCE,
            stop: Box::pin(std::future::pending()),
            on_progress: None,
            outage: None,
        }
    }

    /// Sets the place of the key: `json:/id`, `header:NAME`, `field:N`, `line`, `coordinates`, `cloudevents` or
    /// `hash`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: that is no selector; the same of every other selector below
    pub fn key(self, selector: &str) -> Result<Self> {
        let key: KeySelector = parsed(selector)?;
        Ok(self.change(|pipeline| pipeline.key = key))
    }

    /// Sets the places of the parts of a joined key.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`], and if there is no selector at all
    pub fn joined_key(self, selectors: &[&str]) -> Result<Self> {
        let key = KeySelector::try_from(all_parsed(selectors)?);
        let key = key.map_err(|why| invalid(&why))?;
        Ok(self.change(|pipeline| pipeline.key = key))
    }

    /// Sets the fields that are compared when a key comes again, instead of the whole payload.
    ///
    /// # Errors
    ///
    /// as [`Builder::joined_key`]
    pub fn fingerprint(self, selectors: &[&str]) -> Result<Self> {
        let fingerprint = FingerprintSelector::fields(all_parsed(selectors)?);
        let fingerprint = fingerprint.map_err(|why| invalid(&why))?;
        Ok(self.change(|pipeline| pipeline.fingerprint = fingerprint))
    }

    /// Compares nothing when a key comes again: a reused key goes unnoticed.
    pub fn no_fingerprint(self) -> Self {
        self.change(|pipeline| pipeline.fingerprint = FingerprintSelector::None)
    }

    /// Sets the place of the transport id, which tells a redelivery from a republish.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`]
    pub fn transport(self, selector: &str) -> Result<Self> {
        let transport = Some(parsed(selector)?);
        Ok(self.change(|pipeline| pipeline.transport = transport))
    }

    /// Sets the place of the birth, for sources without an append time of their own: it closes the window.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`]
    pub fn birth(self, selector: &str) -> Result<Self> {
        let birth = Some(parsed(selector)?);
        Ok(self.change(|pipeline| pipeline.birth = birth))
    }

    /// Sets the order key: messages with the same one run in the order of the source. The default is the key.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`]
    pub fn order(self, selector: &str) -> Result<Self> {
        let order = Some(parsed(selector)?);
        Ok(self.change(|pipeline| pipeline.order = order))
    }

    /// Makes older and equal versions of an entity stale, so that they are not run.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`]
    pub fn version(self, entity: &str, version: &str) -> Result<Self> {
        let gate = Some((parsed(entity)?, parsed(version)?));
        Ok(self.change(|pipeline| pipeline.gate = gate))
    }

    /// Sets the tenant of these messages: keys of different tenants never meet.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: over 255 bytes, or a control character
    pub fn tenant(self, tenant: &str) -> Result<Self> {
        let name = match &self.pipeline {
            Ok(pipeline) => pipeline.name.clone(),
            Err(error) => return Err(error.clone()),
        };
        let scope = Scope::new(tenant, &name).map_err(|why| invalid(&why))?;
        Ok(self.change(|pipeline| pipeline.scope = scope))
    }

    /// Sets the place of the tenant, where each message has its own: `json:/tenant`, `header:X-Tenant` or
    /// `field:N`. A message without one is set aside, as `tenant-missing`.
    ///
    /// # Errors
    ///
    /// as [`Builder::key`], and for a selector whose value tells messages apart, not tenants
    pub fn tenant_from(self, selector: &str) -> Result<Self> {
        let place: Selector = parsed(selector)?;
        if !tenant::can_select(&place) {
            let message = format!("`{place}` tells messages apart, not tenants");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(self.change(|pipeline| pipeline.tenant = Some(place)))
    }

    /// Declares that the effect passes [`Message::idempotency_key`] to a provider that recognises it for
    /// `provider_window`.
    pub fn keyed(mut self, provider_window: Duration) -> Self {
        self.class = Class::Keyed { provider_window };
        self
    }

    /// Declares that no provider recognises the effect: `on_doubt` is the reaction to a crash in the middle.
    pub fn unkeyed(mut self, on_doubt: OnDoubt) -> Self {
        self.class = Class::Unkeyed(on_doubt);
        self
    }

    /// Sets the time for which a finished key is remembered.
    pub fn window(self, window: Duration) -> Self {
        self.change(|pipeline| pipeline.window = pipeline.window.resized(window))
    }

    /// Sets the time for which a claim outlives a vanished process. The claim is renewed while the effect runs.
    pub fn lease(self, lease: Duration) -> Self {
        self.change(|pipeline| pipeline.lease = lease)
    }

    /// Sets how often an effect may fail before its message is dead, or in doubt if it may have happened. At
    /// least one.
    pub fn attempts(self, attempts: u32) -> Self {
        let failed = NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN);
        self.change(|pipeline| {
            pipeline.limits = AttemptLimits {
                failed,
                ..pipeline.limits
            }
        })
    }

    /// Sets the wait between attempts: `first`, then doubled up to `most`.
    pub fn backoff(self, first: Duration, most: Duration) -> Self {
        self.change(|pipeline| pipeline.backoff = Backoff { first, most })
    }

    /// Sets how often one and the same failure comes in a row, with no success between, until the consumer
    /// pauses and tries its target with one message at a time; 20, and 0 is never.
    pub fn pause_after(self, pause_after: usize) -> Self {
        self.change(|pipeline| pipeline.pause_after = pause_after)
    }

    /// Sets how long one call of the handler may take; `None` waits for ever.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the most calls of the handler at the same time; 32. A crash may leave that many in doubt.
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.change(|pipeline| pipeline.concurrency = concurrency.max(1))
    }

    /// Sets the most messages in one store call; 1,000.
    pub fn batch(self, batch: usize) -> Self {
        self.change(|pipeline| pipeline.batch = batch.max(1))
    }

    /// Sets the longest message that is read, in bytes; 8 MiB. A longer one is quarantined.
    pub fn max_message_bytes(self, bytes: u64) -> Self {
        self.change(|pipeline| pipeline.max_message_bytes = bytes)
    }

    /// Stops the run when `stop` is over: no more messages are fetched, running calls are finished, and those
    /// that are not finished within [`Builder::patience`] are given back.
    pub fn stop_when(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(stop);
        self
    }

    /// Sets how long running handlers may take once the run is to stop; 30 seconds.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets a function that is called with the progress of the run, some times a second.
    pub fn on_progress(
        mut self,
        on_progress: impl Fn(Option<Progress>, &Summary) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// Sets the policy for the time in which the store does not answer: by default its messages wait, behind a
    /// breaker of its own. Consumers of one store share its breaker by naming it here.
    pub fn outage(mut self, outage: Policy) -> Self {
        self.outage = Some(outage);
        self
    }

    /// Runs `handler` for each message until the source ends or the run is stopped, and returns a summary of the
    /// messages' fates.
    ///
    /// A message whose key is finished is acknowledged without a call. A panic counts as maybe applied, as does
    /// a call that runs out of time.
    ///
    /// # Guarantee   that of the class; nothing is acknowledged before it is recorded or set aside
    /// # Cost        natural batches: what finished settles together with what is claimed next
    ///
    /// # Errors
    ///
    /// the source or the store failed for good, or refuses the settings; nothing unsettled has been acknowledged
    ///
    /// # Cancel safety   dropping the future is as safe as `kill -9`; to stop, use
    /// [`Builder::stop_when`]
    pub async fn run<R, F, Fut>(self, handler: F) -> Result<Summary>
    where
        R: IntoOutcome,
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<R, Failure>> + Send,
    {
        let timeout = self.timeout;
        self.run_effect(Handler { handler, timeout }).await
    }

    /// Runs an effect of your own for each message: one that can also be asked what became of a call in doubt.
    /// It keeps its own time limits.
    ///
    /// # Errors
    ///
    /// as [`Builder::run`]
    pub async fn run_effect(self, effect: impl Effect) -> Result<Summary> {
        let class = self.class;
        let (consumer, stop, stopped) = self.open()?;
        until(consumer.run_each(Arc::new(effect), class), stop, stopped).await
    }

    /// Runs an effect that takes whole batches, in order.
    ///
    /// # Errors
    ///
    /// as [`Builder::run`]
    pub async fn run_stream(self, effect: impl BatchEffect) -> Result<Summary> {
        let class = self.class;
        let (consumer, stop, stopped) = self.open()?;
        until(consumer.run_stream(effect, class), stop, stopped).await
    }

    fn change(mut self, change: impl FnOnce(&mut Pipeline)) -> Self {
        if let Ok(pipeline) = &mut self.pipeline {
            change(pipeline);
        }
        self
    }

    #[expect(
        clippy::type_complexity,
        reason = "three parts of one thing, taken apart at once"
    )]
    fn open(
        self,
    ) -> Result<(
        Consumer<S, Src>,
        watch::Sender<bool>,
        Pin<Box<dyn Future<Output = ()> + Send>>,
    )> {
        let pipeline = self.pipeline?;
        let settings = Settings {
            lease: pipeline.lease,
            window: pipeline.window,
            ..Settings::default()
        };
        settings.check()?;
        let stop = watch::Sender::new(false);
        let shutdown = Shutdown::new(stop.subscribe(), self.patience);
        let outage = self
            .outage
            .unwrap_or_else(|| Policy::closed(&self.surroundings));
        let consumer = Consumer {
            pipeline: Arc::new(pipeline),
            store: self.store,
            source: self.source,
            surroundings: self.surroundings,
            shutdown,
            on_progress: self.on_progress,
            outage,
            dead_letters: None,
        };
        Ok((consumer, stop, self.stop))
    }
}

impl<S, Src> fmt::Debug for Builder<S, Src> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.pipeline.as_ref().map(|pipeline| &*pipeline.name);
        f.debug_struct("Builder")
            .field("name", &name)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

/// Runs to the end, and asks for a stop when `stopped` is over.
async fn until(
    run: impl Future<Output = Result<Summary>>,
    stop: watch::Sender<bool>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Result<Summary> {
    let mut run = std::pin::pin!(run);
    tokio::select! {
        biased;
        summary = &mut run => return summary,
        () = stopped => {}
    }
    stop.send_replace(true);
    run.await
}

fn parsed<T: std::str::FromStr<Err: fmt::Display>>(selector: &str) -> Result<T> {
    selector.parse().map_err(|why| invalid(&why))
}

fn all_parsed(selectors: &[&str]) -> Result<Vec<Selector>> {
    selectors.iter().map(|selector| parsed(selector)).collect()
}

fn invalid(why: &impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, why.to_string())
}

/// The longest time that running handlers may take once the run is to stop.
const PATIENCE: Duration = Duration::from_secs(30);
