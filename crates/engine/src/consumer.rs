//! A whole pipeline: deliveries in, effects once, acknowledgements out.
//!
//! One task owns all state of a consumer and makes every store call, batch by batch; a second one
//! owns the source and reads ahead; with an [`Effect`] each call runs on a task of its own. All of
//! them end with the run.
//!
//! The acknowledgement rule: only what was completed by us, replayed, stale or parked is
//! acknowledged. What is fenced, busy or failed stays in hand and is tried again.

mod bulk;
mod desk;
mod each;
mod in_hand;
mod intake;
mod lanes;
mod output;
mod patience;
mod pause;
mod report;
mod steps;
mod stream;
mod streamed;
mod transaction;
mod unsettled;

use std::sync::Arc;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::sink::AnySink;
use semel_core::port::source::Source;
use semel_core::port::streamed::StreamedStore;
use semel_core::port::transactional::{AnyTransactionalStore, Statements, TransactionalStore};
use semel_core::{Error, ErrorKind, Result, Store};

use crate::effect::{BatchEffect, BulkEffect, Class, Effect, Output};
use crate::layer::outage::Policy;
use crate::pipeline::Pipeline;
use crate::summary::Summary;
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use desk::Desk;
use in_hand::Laning;
use intake::Intake;

/// Runs one pipeline over one source and one store.
pub struct Consumer<S, Src> {
    /// How messages become operations.
    pub pipeline: Arc<Pipeline>,
    /// Where operations are remembered.
    pub store: S,
    /// Where messages come from.
    pub source: Src,
    /// The clock, the entropy and whoever watches.
    pub surroundings: Surroundings,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Who is told how far the run has come.
    pub on_progress: Option<OnProgress>,
    /// What is done while the store does not answer.
    pub outage: Policy,
    /// Where a copy of each message goes whose operation is dead, confirmed before the message is
    /// acknowledged. The store keeps it in any case.
    pub dead_letters: Option<AnySink>,
}

impl<S: Store + Clone, Src: Source> Consumer<S, Src> {
    /// Runs `effect` for each message, up to [`Pipeline::concurrency`] calls at once, until the
    /// source ends or shutdown is requested.
    ///
    /// # Guarantee   that of `class`; see [`Class`]
    /// # Errors
    ///
    ///    the store is poisoned, corrupt or refuses the pipeline; nothing that was not
    /// settled has been acknowledged, but for what [`Fail::Open`](crate::pipeline::Fail::Open) ran
    ///
    /// # Cancel safety   dropping the future is as safe as `kill -9`
    pub async fn run_each(self, effect: Arc<impl Effect>, class: Class) -> Result<Summary> {
        let (mut desk, intake) = self.open(class, true)?;
        Box::pin(each::run(&mut desk, intake, effect))
            .await
            .map(|()| desk.summary())
    }

    /// Runs `effect` batch by batch; see [`Consumer::run_each`].
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`]
    pub async fn run_stream(self, effect: impl BatchEffect, class: Class) -> Result<Summary> {
        let (mut desk, intake) = self.open(class, true)?;
        Box::pin(stream::run(&mut desk, intake, effect))
            .await
            .map(|()| desk.summary())
    }

    /// Runs `effect` batch by batch, several of them at once; see [`Consumer::run_each`].
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`]
    pub async fn run_bulk(self, effect: Arc<impl BulkEffect>, class: Class) -> Result<Summary> {
        let (mut desk, intake) = self.open(class, true)?;
        Box::pin(bulk::run(&mut desk, intake, effect))
            .await
            .map(|()| desk.summary())
    }

    /// Appends each message to `output`, whose length is recorded with each batch: exactly once.
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`], and those of `output`
    pub async fn run_output(
        self,
        output: impl Output,
        checkpoints: AnyCheckpointStore,
    ) -> Result<Summary> {
        let (mut desk, intake) = self.open(Class::Transactional, true)?;
        Box::pin(output::run(&mut desk, intake, output, checkpoints))
            .await
            .map(|()| desk.summary())
    }

    /// Runs `statements` for each message in the store's own transaction: exactly once.
    ///
    /// # Errors
    ///
    /// as [`Consumer::run_each`], and `InvalidConfig` for the statements
    pub async fn run_transaction(
        self,
        transactions: AnyTransactionalStore,
        statements: Statements,
    ) -> Result<Summary> {
        transactions.prepare(&statements).await?;
        // Within one transaction the source's order holds by itself, key by key.
        let (mut desk, intake) = self.open(Class::Transactional, false)?;
        Box::pin(transaction::run(
            &mut desk,
            intake,
            transactions,
            statements,
        ))
        .await
        .map(|()| desk.summary())
    }

    /// Commits what `transform` makes of each message, or the message itself, together with how far the
    /// source was read; the store keeps what is set aside, and nothing else.
    ///
    /// `streamed` belongs to the source. What is not committed leaves nothing behind, so failed attempts are
    /// counted in memory, and a key that was given up is tried again when it is published again.
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
        // One message of a key is in hand at a time, so a batch has each key once.
        let (mut desk, intake) = self.open(Class::Streamed, true)?;
        Box::pin(streamed::run(&mut desk, intake, streamed, transform))
            .await
            .map(|()| desk.summary())
    }

    fn open(self, class: Class, every_lane: bool) -> Result<(Desk<S>, Intake)> {
        let has_gate = self.pipeline.gate.is_some();
        self.outage.fail.check(class, has_gate)?;
        let every_lane = every_lane || self.pipeline.order.is_some() || has_gate;
        let intake = intake::open(
            self.source,
            Arc::clone(&self.pipeline),
            class,
            Laning::new(&*self.surroundings.entropy),
            self.surroundings.clone(),
        );
        let around = desk::Around {
            surroundings: self.surroundings,
            shutdown: self.shutdown,
            on_progress: self.on_progress,
            outage: self.outage,
            dead_letters: self.dead_letters,
            source: intake.teller(),
            class,
        };
        let desk = Desk::new(self.pipeline, self.store, around, every_lane);
        Ok((desk, intake))
    }
}
