//! A whole pipeline: deliveries in, effects once, acknowledgements out.
//!
//! One task owns all state of a consumer and makes every store call, batch by batch; a second task owns the
//! source and reads ahead; an [`Effect`] runs each call on a task of its own. All of them end with the run.
//!
//! The acknowledgement rule: a message is acknowledged only if this consumer completed it, or if it is
//! replayed, stale or parked. A message that is fenced, busy or failed stays in hand and is tried again.

mod bulk;
mod context;
mod each;
mod in_hand;
mod lanes;
mod outcomes;
mod output;
mod outstanding;
mod patience;
mod pause;
mod pending_settlements;
mod reader;
mod report;
mod run_state;
mod spans;
mod steps;
mod store_calls;
mod stream;
mod streamed;
mod timing;
mod transaction;

use std::sync::Arc;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::sink::AnySink;
use semel_core::port::source::Source;
use semel_core::port::streamed::StreamedStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements};
use semel_core::{Error, ErrorKind, Result, Store};

use crate::effect::{BatchEffect, BulkEffect, Class, Effect, Output};
use crate::layer::outage::Policy;
use crate::pipeline::Pipeline;
use crate::summary::Summary;
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use in_hand::Laning;
pub use patience::{LAST_OF_SOURCE, LAST_REPORTS};
use reader::ReaderHandle;
use run_state::RunState;

/// Runs one pipeline over one source and one store.
pub struct Consumer<S, Src> {
    /// The rules by which messages become operations.
    pub pipeline: Arc<Pipeline>,
    /// The store that remembers the operations.
    pub store: S,
    /// The source of the messages.
    pub source: Src,
    /// The clock, the entropy and the observer.
    pub surroundings: Surroundings,
    /// The signal to stop.
    pub shutdown: Shutdown,
    /// The function that is called with the progress of the run.
    pub on_progress: Option<OnProgress>,
    /// The policy for the time in which the store does not answer.
    pub outage: Policy,
    /// The sink for a copy of each message whose operation is dead; the copy is confirmed before the message
    /// is acknowledged. The store keeps the message in any case.
    pub dead_letters: Option<AnySink>,
}

impl<S: Store + Clone, Src: Source> Consumer<S, Src> {
    /// Runs `effect` for each message, up to [`Pipeline::concurrency`] calls at once, until the
    /// source ends or shutdown is requested. Effects that run then have the patience of the shutdown, and reports of how
    /// they ended have [`LAST_REPORTS`] more; a call of the store that has no answer by then is cut off. The source is
    /// left [`LAST_OF_SOURCE`] later, if it has not ended by then.
    ///
    /// # Guarantee   that of `class`; see [`Class`]
    /// # Errors
    ///
    /// the store is poisoned, corrupt or refuses the pipeline; the error of the store, or `Timeout`, where a shutdown cut
    /// off a call or left the source. Nothing unsettled has been acknowledged, except what [`Fail::Open`](crate::pipeline::Fail::Open)
    /// ran
    ///
    /// # Cancel safety   dropping the future is as safe as `kill -9`
    pub async fn run_each(self, effect: Arc<impl Effect>, class: Class) -> Result<Summary> {
        let (mut run, mut reader) = self.open(class, true)?;
        let ended = Box::pin(each::run(&mut run, &mut reader, effect)).await;
        run.end(reader, ended).await
    }

    /// Runs `effect` batch by batch; see [`Consumer::run_each`].
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`]
    pub async fn run_stream(self, effect: impl BatchEffect, class: Class) -> Result<Summary> {
        let (mut run, mut reader) = self.open(class, true)?;
        let ended = Box::pin(stream::run(&mut run, &mut reader, effect)).await;
        run.end(reader, ended).await
    }

    /// Runs `effect` batch by batch, several of them at once; see [`Consumer::run_each`].
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`]
    pub async fn run_bulk(self, effect: Arc<impl BulkEffect>, class: Class) -> Result<Summary> {
        let (mut run, mut reader) = self.open(class, true)?;
        let ended = Box::pin(bulk::run(&mut run, &mut reader, effect)).await;
        run.end(reader, ended).await
    }

    /// Appends each message to `output` and records its length with each batch: exactly once.
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`], and those of `output`
    pub async fn run_output(
        self,
        output: impl Output,
        checkpoints: AnyCheckpointStore,
    ) -> Result<Summary> {
        let (mut run, mut reader) = self.open(Class::Transactional, true)?;
        let ended = Box::pin(output::run(&mut run, &mut reader, output, checkpoints)).await;
        run.end(reader, ended).await
    }

    /// Runs `statements` for each message in the store's own transaction: exactly once. The caller has had them
    /// [prepared](semel_core::port::transactional::TransactionalStore::prepare), so that a mistake in them was found before.
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`], and `InvalidConfig` for statements that fit no more
    pub async fn run_transaction(
        self,
        transactions: AnyTransactionalStore,
        statements: Statements,
    ) -> Result<Summary> {
        // Within one transaction the source's order holds by itself, key by key.
        let (mut run, mut reader) = self.open(Class::Transactional, false)?;
        let ended = transaction::run(&mut run, &mut reader, transactions, statements);
        let ended = Box::pin(ended).await;
        run.end(reader, ended).await
    }

    /// Commits the output of `transform` for each message, or the message itself, together with the position
    /// up to which the source was read; the store keeps only the messages that are set aside.
    ///
    /// `streamed` belongs to the source. A message that is not committed leaves nothing behind, so failed
    /// attempts are counted in memory, and a key that was given up is tried again when it is published
    /// again.
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`]; `Unsupported` with a version gate
    pub async fn run_streamed(
        self,
        streamed: impl StreamedStore,
        transform: Option<Arc<impl Effect>>,
    ) -> Result<Summary> {
        if self.pipeline.gate.is_some() {
            let message = "a version gate needs a store that keeps versions; use another class";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Only one message of a key is in hand at a time, so a batch has each key once.
        let (mut run, mut reader) = self.open(Class::Streamed, true)?;
        let ended = Box::pin(streamed::run(&mut run, &mut reader, streamed, transform)).await;
        run.end(reader, ended).await
    }

    fn open(self, class: Class, every_lane: bool) -> Result<(RunState<S>, ReaderHandle)> {
        let has_gate = self.pipeline.gate.is_some();
        self.outage.fail.check(class, has_gate)?;
        let every_lane = every_lane || self.pipeline.order.is_some() || has_gate;
        let reader = reader::open(
            self.source,
            Arc::clone(&self.pipeline),
            class,
            Laning::new(&*self.surroundings.entropy),
            self.surroundings.clone(),
        );
        let around = run_state::Around {
            surroundings: self.surroundings,
            shutdown: self.shutdown,
            on_progress: self.on_progress,
            outage: self.outage,
            dead_letters: self.dead_letters,
            source: reader.disposition_sender(),
            class,
        };
        let run = RunState::new(self.pipeline, self.store, around, every_lane);
        Ok((run, reader))
    }
}
