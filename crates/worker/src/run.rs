//! One pipeline of a configuration, from its source to the summary.

use std::sync::Arc;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::sink::AnySink;
use semel_core::port::source::Source;
use semel_core::port::store::{Capabilities, Store};
use semel_core::port::streamed::StreamedStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{Advice, AnyStore, Error, ErrorKind, Result};
use semel_engine::consumer::Consumer;
use semel_engine::effect::{BatchEffect, Call, Verdict};
use semel_engine::layer::outage::Policy;
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;
use semel_engine::surroundings::{OnProgress, Shutdown, Surroundings};
use tokio::sync::watch;

use crate::effect::jsonl::Settings as JsonlSettings;
use crate::effect::publish::{Around, found};
use crate::effect::{
    Closed, ExecEffect, FileOutput, HttpEffect, JsonlEffect, PublishEffect, StdoutEffect, Target,
};
use crate::settings::EffectSettings;

/// A store, and its further abilities.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The store.
    pub store: AnyStore,
    /// The same store, if it can settle a batch together with a mark.
    pub checkpoints: Option<AnyCheckpointStore>,
    /// The same store, if effects can join its transactions.
    pub transactions: Option<AnyTransactionalStore>,
    /// The same store, to move its contents; none of a layer over it.
    pub transfer: Option<AnyTransferStore>,
    /// The same store for claimants in other processes, where only this one can open it.
    pub lent: Option<AnyStore>,
}

impl Stores {
    /// Reports what the store can promise as it is set up.
    ///
    /// # Errors
    ///
    /// Those of [`Store::preflight`].
    pub async fn preflight(&self) -> Result<Capabilities> {
        self.store.preflight().await
    }

    /// Returns the store as claimants in other processes use it, such as those of the claim API: their leases outlive
    /// this process, as they do on any store that is shared.
    pub fn for_other_processes(&self) -> AnyStore {
        self.lent.as_ref().unwrap_or(&self.store).clone()
    }
}

/// The surroundings of a run.
#[derive(Clone)]
pub struct Run {
    /// The clock, the entropy and the observer.
    pub surroundings: Surroundings,
    /// Turned `true` to stop; the run turns it itself when the reader of its output is gone.
    pub stop: watch::Sender<bool>,
    /// The time that running effects may take from then on.
    pub patience: std::time::Duration,
    /// Turned `true` to end this run alone, if there is a channel: what runs is finished however long it takes, and the
    /// rest is given back.
    pub recalled: Option<watch::Receiver<bool>>,
    /// The receiver of reports on the progress of the run.
    pub on_progress: Option<OnProgress>,
    /// The place for a copy of each dead letter, confirmed before its message is acknowledged.
    pub dead_letters: Option<Arc<dyn Target>>,
}

/// Runs `pipeline` until `source` ends or a stop is requested. While the store is unreachable, or the program
/// of the effect is missing, its messages wait.
///
/// # Errors
///
/// `InvalidConfig` or `Unsupported` before any work; `Unavailable` where the source, the store or
/// the effect's target cannot be opened; those of [`Consumer::run_each`].
pub async fn run(
    pipeline: Pipeline,
    effect: EffectSettings,
    source: impl Source,
    stores: Stores,
    run: Run,
) -> Result<Summary> {
    let outage = Policy::closed(&run.surroundings);
    run_with(pipeline, effect, source, stores, run, outage).await
}

/// As [`run`], with an outage policy. Pipelines of one store share its breaker, so that only one of them
/// tries a store that comes back.
///
/// # Errors
///
/// Those of [`run`]; `Unsupported` where the class of the effect cannot fail open.
pub async fn run_with(
    mut pipeline: Pipeline,
    effect: EffectSettings,
    source: impl Source,
    stores: Stores,
    run: Run,
    outage: Policy,
) -> Result<Summary> {
    let mut class = effect.class();
    let around = Around {
        pipeline: pipeline.name.clone(),
        observer: Arc::clone(&run.surroundings.observer),
        stop: run.stop.subscribe(),
        recalled: run.recalled.clone(),
    };
    if let EffectSettings::Publish(settings) = &effect {
        let Some(facts) = found(&*settings.target, around.clone()).await? else {
            return Ok(Summary::default());
        };
        class = settings.class_at(facts)?;
    }
    if let EffectSettings::Sql(binding) = &effect {
        pipeline.bind = Some(Arc::new(binding.clone()));
    }
    let consumer = consumer(pipeline, source, stores.store, &run, outage).await?;
    match effect {
        EffectSettings::Sql(binding) => {
            let transactions = stores
                .transactions
                .ok_or_else(|| cannot("sql", "transactions"))?;
            consumer
                .run_transaction(transactions, binding.statements().clone())
                .await
        }
        EffectSettings::File { path } => {
            let checkpoints = stores.checkpoints.ok_or_else(|| cannot("file", "marks"))?;
            consumer
                .run_output(FileOutput::open(path)?, checkpoints)
                .await
        }
        EffectSettings::Http(settings, _) => {
            consumer
                .run_each(Arc::new(HttpEffect::new(settings)?), class)
                .await
        }
        EffectSettings::Exec(settings, _) => {
            consumer
                .run_each(Arc::new(ExecEffect::new(settings)?), class)
                .await
        }
        EffectSettings::Jsonl(settings, _) => {
            let effect = Arc::new(JsonlEffect::new(settings)?);
            let summary = consumer.run_each(Arc::clone(&effect), class).await;
            effect.close().await;
            summary
        }
        EffectSettings::Stdout(_) => {
            let effect = StdoutEffect::stdout();
            let effect = UntilClosed {
                closed: effect.closed(),
                effect,
                stop: run.stop,
            };
            consumer.run_stream(effect, class).await
        }
        EffectSettings::Streamed(_) => {
            let message = "a streamed effect commits how far its own source was read, and this is another \
                           one; publish the message again to run it again";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        EffectSettings::Publish(settings) => {
            let effect = PublishEffect::new(settings.target.sink()?);
            consumer.run_bulk(Arc::new(effect), class).await
        }
    }
}

/// Runs `pipeline` in the transactions of its source's broker until a stop is requested. The store keeps the
/// messages that are set aside.
///
/// # Errors
///
/// Those of [`run`], and of [`Consumer::run_streamed`].
pub async fn run_streamed(
    pipeline: Pipeline,
    transform: Option<JsonlSettings>,
    (source, streamed): (impl Source, impl StreamedStore),
    stores: Stores,
    run: Run,
    outage: Policy,
) -> Result<Summary> {
    let consumer = consumer(pipeline, source, stores.store, &run, outage).await?;
    let Some(settings) = transform else {
        return consumer
            .run_streamed(streamed, None::<Arc<JsonlEffect>>)
            .await;
    };
    let transform = Arc::new(JsonlEffect::new(settings)?);
    let summary = consumer.run_streamed(streamed, Some(Arc::clone(&transform)));
    let summary = summary.await;
    transform.close().await;
    summary
}

/// Builds the consumer that reads and settles, for any effect.
async fn consumer<Src: Source>(
    pipeline: Pipeline,
    source: Src,
    store: AnyStore,
    run: &Run,
    outage: Policy,
) -> Result<Consumer<AnyStore, Src>> {
    let dead_letters = match &run.dead_letters {
        Some(target) => Some(letter_box(&**target).await?),
        None => None,
    };
    Ok(Consumer {
        pipeline: Arc::new(pipeline),
        store,
        source,
        surroundings: run.surroundings.clone(),
        shutdown: Shutdown {
            requested: run.stop.subscribe(),
            patience: run.patience,
            recalled: run.recalled.clone(),
        },
        on_progress: run.on_progress.clone(),
        outage,
        dead_letters,
    })
}

/// A sink for dead letters, whose place is there or cannot be checked now.
async fn letter_box(target: &dyn Target) -> Result<AnySink> {
    let sink = target.sink()?;
    match target.inspect().await {
        Err(error) if error.advice() == Advice::Fix => Err(error),
        // The failure is reported when there is a dead letter to publish.
        Ok(_) | Err(_) => Ok(sink),
    }
}

fn cannot(effect: &str, what: &str) -> Error {
    let message = format!("an effect of kind {effect} needs a store with {what}");
    Error::new(ErrorKind::Unsupported, message)
}

/// Prints until the reader is gone, and then asks for the end of the run.
struct UntilClosed<E> {
    effect: E,
    closed: Closed,
    stop: watch::Sender<bool>,
}

impl<E: BatchEffect> BatchEffect for UntilClosed<E> {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        let verdicts = self.effect.call(batch).await;
        if self.closed.is_closed() {
            self.stop.send_replace(true);
        }
        verdicts
    }
}
