//! One pipeline of a configuration, from its source to the summary.

use std::fmt;
use std::sync::Arc;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::sink::AnySink;
use semel_core::port::source::Source;
use semel_core::port::store::{Capabilities, Store};
use semel_core::port::streamed::StreamedStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements, TransactionalStore};
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{Advice, AnyStore, Error, ErrorKind, Result};
use semel_engine::consumer::Consumer;
use semel_engine::effect::{BatchEffect, Call, Class, Verdict};
use semel_engine::layer::outage::Policy;
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::Summary;
use semel_engine::surroundings::{OnProgress, Shutdown, Surroundings};
use tokio::sync::watch;

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
/// Those of [`prepare`] and of [`ready`] before any work; those of [`Consumer::run_each`].
pub async fn run(
    pipeline: Pipeline,
    effect: EffectSettings,
    source: impl Source,
    stores: Stores,
    run: Run,
) -> Result<Summary> {
    prepare(&effect, &stores).await?;
    let outage = Policy::closed(&run.surroundings);
    let Some(ready) = ready(pipeline, effect, stores, run, outage).await? else {
        return Ok(Summary::default());
    };
    ready.run(source).await
}

/// Asks the store for what an effect needs of it before the first message: to take the statements of an effect of kind
/// `sql`. No other effect asks anything.
///
/// # Errors
///
/// `InvalidConfig`: the statements, with the database's own words; `Unsupported`: a store without transactions; those of a
/// store that is away
///
/// # Cancel safety
///
/// Safe
pub async fn prepare(effect: &EffectSettings, stores: &Stores) -> Result<()> {
    let EffectSettings::Sql(binding) = effect else {
        return Ok(());
    };
    let transactions = transactions(stores.transactions.as_ref())?;
    transactions.prepare(binding.statements()).await
}

/// Makes the effect of a pipeline, and looks at the place of its dead letters; waits for a place of a broker that it
/// publishes to. The store has been [prepared](prepare). Pipelines of one store share the breaker of their `outage`, so that
/// only one of them tries a store that comes back. Returns nothing if a stop is requested or the run is recalled before.
///
/// # Errors
///
/// `InvalidConfig` or `Unsupported`; `Unavailable` where the target of the effect cannot be opened
///
/// # Cancel safety
///
/// Safe: nothing has begun
pub async fn ready(
    mut pipeline: Pipeline,
    effect: EffectSettings,
    stores: Stores,
    run: Run,
    outage: Policy,
) -> Result<Option<Ready>> {
    let mut class = effect.class();
    if let EffectSettings::Publish(settings) = &effect {
        let around = Around {
            pipeline: pipeline.name.clone(),
            observer: Arc::clone(&run.surroundings.observer),
            stop: run.stop.subscribe(),
            recalled: run.recalled.clone(),
        };
        let Some(facts) = found(&*settings.target, around).await? else {
            return Ok(None);
        };
        class = settings.class_at(facts)?;
    }
    if let EffectSettings::Sql(binding) = &effect {
        pipeline.bind = Some(Arc::new(binding.clone()));
    }
    let dead_letters = match &run.dead_letters {
        Some(target) => Some(letter_box(&**target).await?),
        None => None,
    };
    let made = match effect {
        EffectSettings::Sql(binding) => Made::Sql(
            transactions(stores.transactions.as_ref())?.clone(),
            binding.statements().clone(),
        ),
        EffectSettings::File { path } => {
            let checkpoints = stores.checkpoints.ok_or_else(|| cannot("file", "marks"))?;
            Made::File(FileOutput::open(path)?, checkpoints)
        }
        EffectSettings::Http(settings, _) => Made::Http(Arc::new(HttpEffect::new(settings)?)),
        EffectSettings::Exec(settings, _) => Made::Exec(Arc::new(ExecEffect::new(settings)?)),
        EffectSettings::Jsonl(settings, _) => Made::Jsonl(Arc::new(JsonlEffect::new(settings)?)),
        EffectSettings::Stdout(_) => Made::Stdout,
        EffectSettings::Streamed(settings) => {
            let transform = settings.transform.map(JsonlEffect::new).transpose()?;
            Made::Streamed(transform.map(Arc::new))
        }
        EffectSettings::Publish(settings) => {
            Made::Publish(Arc::new(PublishEffect::new(settings.target.sink()?)))
        }
    };
    Ok(Some(Ready {
        pipeline,
        store: stores.store,
        run,
        outage,
        dead_letters,
        class,
        made,
    }))
}

/// A pipeline that lacks its source alone.
pub struct Ready {
    pipeline: Pipeline,
    store: AnyStore,
    run: Run,
    outage: Policy,
    dead_letters: Option<AnySink>,
    class: Class,
    made: Made,
}

/// An effect that is made.
enum Made {
    Sql(AnyTransactionalStore, Statements),
    File(FileOutput, AnyCheckpointStore),
    Http(Arc<HttpEffect>),
    Exec(Arc<ExecEffect>),
    Jsonl(Arc<JsonlEffect>),
    Stdout,
    Publish(Arc<PublishEffect>),
    /// The transform, if there is one.
    Streamed(Option<Arc<JsonlEffect>>),
}

impl Ready {
    /// Runs it until `source` ends or a stop is requested. While the store is unreachable, or the program of the effect is
    /// missing, its messages wait.
    ///
    /// # Errors
    ///
    /// `Unsupported`: a streamed effect, or a class of effect that cannot fail open; those of [`Consumer::run_each`]
    ///
    /// # Cancel safety
    ///
    /// Dropping it is as safe as a kill
    pub async fn run(self, source: impl Source) -> Result<Summary> {
        let (consumer, class, made, stop) = self.with(source);
        match made {
            Made::Sql(transactions, statements) => {
                consumer.run_transaction(transactions, statements).await
            }
            Made::File(output, checkpoints) => consumer.run_output(output, checkpoints).await,
            Made::Http(effect) => consumer.run_each(effect, class).await,
            Made::Exec(effect) => consumer.run_each(effect, class).await,
            Made::Jsonl(effect) => {
                let summary = consumer.run_each(Arc::clone(&effect), class).await;
                effect.close().await;
                summary
            }
            Made::Stdout => {
                let effect = StdoutEffect::stdout();
                let effect = UntilClosed {
                    closed: effect.closed(),
                    effect,
                    stop,
                };
                consumer.run_stream(effect, class).await
            }
            Made::Publish(effect) => consumer.run_bulk(effect, class).await,
            Made::Streamed(_) => {
                let message = "a streamed effect commits how far its own source was read, and this is another \
                               one; publish the message again to run it again";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// Runs it in the transactions of its source's broker until a stop is requested. The store keeps the messages that are
    /// set aside.
    ///
    /// # Errors
    ///
    /// `Unsupported`: another effect than a streamed one; those of [`Consumer::run_streamed`]
    ///
    /// # Cancel safety
    ///
    /// Dropping it is as safe as a kill
    pub async fn run_streamed(
        self,
        source: impl Source,
        streamed: impl StreamedStore,
    ) -> Result<Summary> {
        let (consumer, _, made, _) = self.with(source);
        let Made::Streamed(transform) = made else {
            let message = "only a streamed effect joins the transactions of its source";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let summary = consumer.run_streamed(streamed, transform.clone()).await;
        if let Some(transform) = transform {
            transform.close().await;
        }
        summary
    }

    /// Builds the consumer that reads and settles, for any effect.
    fn with<Src: Source>(
        self,
        source: Src,
    ) -> (Consumer<AnyStore, Src>, Class, Made, watch::Sender<bool>) {
        let Self {
            pipeline,
            store,
            run,
            outage,
            dead_letters,
            class,
            made,
        } = self;
        let consumer = Consumer {
            pipeline: Arc::new(pipeline),
            store,
            source,
            surroundings: run.surroundings,
            shutdown: Shutdown {
                requested: run.stop.subscribe(),
                patience: run.patience,
                recalled: run.recalled,
            },
            on_progress: run.on_progress,
            outage,
            dead_letters,
        };
        (consumer, class, made, run.stop)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("pipeline", &self.pipeline.name)
            .finish_non_exhaustive()
    }
}

/// The store of an effect of kind `sql`.
fn transactions(store: Option<&AnyTransactionalStore>) -> Result<&AnyTransactionalStore> {
    store.ok_or_else(|| cannot("sql", "transactions"))
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

#[cfg(test)]
mod tests;
