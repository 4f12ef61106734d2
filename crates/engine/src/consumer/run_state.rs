//! The parts that every way of running an effect shares, and what takes more than one of them.
//!
//! Each part owns its state: [`Outstanding`] the messages in hand, [`StoreCalls`] the store, [`Outcomes`] the fates,
//! [`Circuit`] the state of the target. Whatever needs one or two of them takes these, not the whole [`RunState`].

mod keyless;
mod outage;
mod store_answers;
mod target;
mod wake;

pub(super) use outage::past_provider;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::sink::AnySink;
use semel_core::port::source::DeliveryId;
use semel_core::{Result, Store};

use super::context::{Context, Ending};
use super::outcomes::Outcomes;
use super::outstanding::Outstanding;
use super::patience::{LAST_OF_SOURCE, source_out_of_time};
use super::pause::Circuit;
use super::reader::{Chunk, DispositionSender, ReaderHandle};
use super::store_calls::StoreCalls;
use crate::effect::Class;
use crate::event::Event;
use crate::layer::outage::Policy;
use crate::pipeline::Pipeline;
use crate::retry::is_final;
use crate::summary::{Fate, Summary};
use crate::surroundings::{OnProgress, Shutdown, Surroundings};
use keyless::Keyless;
use outage::OutageBacklog;

pub(super) struct RunState<S> {
    pub(super) context: Arc<Context>,
    pub(super) outstanding: Outstanding,
    pub(super) store: StoreCalls<S>,
    pub(super) outcomes: Outcomes,
    /// The state of the effects' target.
    circuit: Circuit,
    /// Messages and settlements that wait for a store that is away.
    pub(super) backlog: OutageBacklog,
    /// The first messages, as long as none of them has a usable key.
    keyless: Keyless,
}

/// Everything that a run needs besides its pipeline and its store.
pub(super) struct Around {
    pub(super) surroundings: Surroundings,
    pub(super) shutdown: Shutdown,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) outage: Policy,
    pub(super) dead_letters: Option<AnySink>,
    pub(super) source: DispositionSender,
    pub(super) class: Class,
}

/// The parts that keep work alive while it is waited for: its leases at the store, its messages at their source.
pub(super) type Parts<'a, S> = (&'a Context, &'a StoreCalls<S>, &'a Outstanding);

impl<S: Store + Clone> RunState<S> {
    pub(super) fn new(pipeline: Arc<Pipeline>, store: S, around: Around, every_lane: bool) -> Self {
        let Around {
            surroundings,
            shutdown,
            on_progress,
            outage,
            dead_letters,
            source,
            class,
        } = around;
        let is_lenient = pipeline.pause_after == 0;
        let width = pipeline.batch.max(pipeline.concurrency);
        let circuit = Circuit::new(pipeline.pause_after, width);
        let context = Arc::new(Context {
            pipeline,
            spans: surroundings.observer.wants_spans(),
            surroundings,
            shutdown,
            class,
            ending: Ending::default(),
        });
        Self {
            outstanding: Outstanding::new(Arc::clone(&context), source, every_lane),
            store: StoreCalls::new(Arc::clone(&context), store, outage),
            outcomes: Outcomes::new(Arc::clone(&context), dead_letters, on_progress),
            context,
            circuit,
            backlog: OutageBacklog::default(),
            keyless: Keyless::new(is_lenient),
        }
    }

    /// Returns the parts that keep work alive while it is waited for.
    pub(super) fn parts(&self) -> Parts<'_, S> {
        (&self.context, &self.store, &self.outstanding)
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.context.now()
    }

    /// Tells whether more messages may be taken in hand: back-pressure holds the rest in the source.
    fn has_room(&self) -> bool {
        let most = self.outstanding.most();
        // Finished messages that wait for a store that is away must not block those that need no store.
        let unsettled = self.backlog.unsettled().min(most);
        self.outcomes.parking() < most && self.outstanding.has_room(unsettled + self.room_to_try())
    }

    /// Takes in hand every message that is there, and makes ready those that are due.
    pub(super) fn take_in(&mut self, reader: &mut ReaderHandle) {
        while self.has_room() {
            let Some(chunk) = reader.try_next() else {
                break;
            };
            self.receive(chunk);
        }
        self.outstanding.wake();
    }

    /// Takes a chunk in hand.
    fn receive(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Messages {
                incoming,
                rejected,
                known,
                progress,
                hold,
            } => {
                self.outcomes.note_progress(progress);
                self.outstanding.arrive(&incoming, &rejected, &known, hold);
                self.outcomes.known(known);
                self.rejected(rejected, incoming.first().map(|first| first.delivery));
                self.outstanding.queue(incoming);
            }
            Chunk::Revoked(deliveries) => self.revoked(&deliveries),
            Chunk::Away(error) => self.outstanding.source_is_away(&error),
            Chunk::Back => self.outstanding.source_is_there(),
            Chunk::Elsewhere(deliveries, within) => {
                self.context
                    .observe(&Event::Elsewhere { deliveries, within });
            }
            Chunk::Ended => {
                self.quarantine_held();
                self.outstanding.end();
            }
            Chunk::Failed(error) => self.outstanding.fail(error),
        }
    }

    /// Lets go of the deliveries that have not begun. Those that run go on: their records decide.
    fn revoked(&mut self, deliveries: &[DeliveryId]) {
        let deliveries: BTreeSet<_> = deliveries.iter().copied().collect();
        let mut withdrawn = self.outstanding.withdraw(&deliveries);
        withdrawn.extend(self.keyless.withdraw(&deliveries));
        self.context.observe(&Event::Revoked {
            deliveries: deliveries.len(),
            given_back: withdrawn.len(),
        });
        for delivery in withdrawn {
            self.forget(delivery);
            self.outcomes.count(Fate::Released);
            self.outstanding.revoke(delivery);
        }
    }

    /// Forgets everything about a message that met its fate.
    fn forget(&mut self, delivery: DeliveryId) {
        self.backlog.forget(delivery);
        self.circuit.forget(delivery);
    }

    /// Makes parked messages durable, then counts and acknowledges everything that met its fate.
    pub(super) async fn flush(&mut self, reader: &ReaderHandle) -> Result<()> {
        self.outcomes
            .flush(&self.store, &mut self.outstanding, reader)
            .await
    }

    /// Ends a run whose strategy has `ended`: acknowledges what has met its fate, gives back everything else, and closes
    /// the source. After a failure it does nothing, except where a call was cut off at the end of a shutdown: what
    /// that left open is given back, too.
    pub(super) async fn end(mut self, reader: ReaderHandle, ended: Result<()>) -> Result<Summary> {
        match &ended {
            Err(error) if is_final(error) || self.context.is_complete().is_ok() => ended?,
            Ok(()) | Err(_) => {
                let closed = self.close(reader).await;
                ended.and(closed)?;
            }
        }
        Ok(self.outcomes.summary())
    }

    /// Gives back what is in hand and not running, and closes the source.
    async fn close(&mut self, reader: ReaderHandle) -> Result<()> {
        self.end_pause();
        // No more messages begin: from here on the consumer waits for the store.
        self.store.fail_closed();
        self.flush(&reader).await?;
        let unconfirmed = self.outcomes.last_letters().await;
        self.flush(&reader).await?;
        self.put_back_suspended();
        self.outstanding.give_back(&reader).await;
        let held = self.keyless.abandon();
        // What the store has not taken by the end of a shutdown is another worker's to find out.
        let open = self.backlog.unsettled() + self.outcomes.parking() + unconfirmed;
        let least = if self.outstanding.has_failed() {
            Duration::ZERO
        } else {
            LAST_OF_SOURCE
        };
        // Dropping it is as a crash to the source: it delivers again what nobody has confirmed.
        let closed = tokio::select! {
            biased;
            read_ahead = reader.close() => Ok(read_ahead),
            () = self.context.source_is_left(least) => Err(source_out_of_time()),
        };
        let read_ahead = closed.as_ref().copied().unwrap_or_default();
        for _ in 0..self.outstanding.abandon() + held + open + read_ahead {
            self.outcomes.count(Fate::Released);
        }
        self.outstanding.tell_in_hand();
        self.outcomes.report(true);
        self.outstanding.failure()?;
        self.context.is_complete()?;
        closed.map(drop)
    }
}
