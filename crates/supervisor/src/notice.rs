//! The reports of a supervisor to an operator, beside the events of the engine.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use semel_config::{
    Accepted, GatewaySettings, IngestSettings, PipelineSettings, RelaySettings, StoreUrl,
    WebhookSettings,
};
use semel_core::{Claimant, Error};
use semel_engine::surroundings::OnProgress;
use semel_operate::check::window::Gate;
use semel_operate::pipelines::OrderedPause;
use semel_outbox::Event;

use crate::status::Restoration;

/// Receives what a supervisor reports.
pub trait Reporter: Send + Sync {
    /// Takes a notice. It is called between the steps of a worker: one that waits holds up its start, and the watch
    /// over its store.
    fn report(&self, notice: &Notice<'_>);

    /// Returns a function that takes the progress of a pipeline, which begins now.
    fn progress(&self, pipeline: &PipelineSettings) -> OnProgress;
}

/// A notice to the operator of a worker.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// The server of the store is away; the worker waits for it.
    StoreAway(&'a Error),
    /// The store answers.
    StoreBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// The orders that pause pipelines cannot be read; those that were known stand.
    PausesUnread(&'a Error),
    /// The orders that pause relays cannot be read; relays about which none was known run.
    RelayOrdersUnread(&'a Error),
    /// No store is seen beside the outbox of a relay, so that no order pauses it.
    NoRelayOrders(&'a StoreUrl),
    /// The messages that wait in the store for its producers cannot be counted, or not all of them; told once.
    ProducersUnread(&'a Error),
    /// Opening the store changed its format; there is no way back.
    StoreBroughtForward {
        /// The store.
        url: &'a StoreUrl,
        /// Its former format.
        from: i64,
        /// Its format now.
        to: i64,
    },
    /// The store is open, and holds this many keys.
    StoreHolds {
        /// The store.
        url: &'a StoreUrl,
        /// Its keys.
        keys: Keys,
    },
    /// The store itself warns of something.
    StoreWarning {
        /// The store.
        url: &'a StoreUrl,
        /// The warning.
        warning: &'a str,
    },
    /// Other users of this machine can read the store.
    StoreExposed {
        /// The store.
        url: &'a StoreUrl,
    },
    /// The store survives less than the promise of a pipeline is best built on.
    Durability {
        /// The pipeline.
        pipeline: &'a str,
        /// True if the promise is broken, and that is accepted by name.
        is_accepted: bool,
        /// The reason, a sentence.
        why: &'a str,
    },
    /// Verbs cannot hand their orders to this worker.
    NoOrders(&'a Error),
    /// The worker is about to begin under this name.
    Claimant(Claimant),
    /// The broker of a pipeline has not answered; the worker waits for it.
    BrokerSilent {
        /// The pipeline.
        pipeline: &'a str,
        /// The time without an answer.
        within: Duration,
    },
    /// The settings of a broker are worth a warning.
    BrokerWarning {
        /// The pipeline.
        pipeline: &'a str,
        /// The warning.
        warning: &'a str,
    },
    /// The window of a pipeline may be too short for its broker.
    Window {
        /// The pipeline.
        pipeline: &'a str,
        /// True if effects may repeat, and that is accepted by name.
        is_accepted: bool,
        /// The reason, a sentence.
        why: &'a str,
    },
    /// A pipeline begins.
    Begins {
        /// The pipeline.
        settings: &'a PipelineSettings,
        /// The weaknesses of the store that are accepted.
        accepted: Accepted,
        /// The time by which messages are too old.
        gate: Gate,
    },
    /// The cache of a pipeline was filled from the store.
    CacheFilled {
        /// The pipeline.
        pipeline: &'a str,
        /// The number of records that it keeps.
        records: u64,
    },
    /// The cache of a pipeline could not be filled.
    CacheEmpty {
        /// The pipeline.
        pipeline: &'a str,
        /// The reason.
        error: &'a Error,
    },
    /// A pipeline reads what was done before; reported several times a second.
    Restoring {
        /// The pipeline.
        pipeline: &'a str,
        /// Its progress.
        restoration: &'a Restoration,
        /// The time since it was noticed.
        elapsed: Duration,
    },
    /// A pipeline has read what was done before.
    Restored {
        /// The pipeline.
        pipeline: &'a str,
        /// The records and operations that it read.
        restoration: &'a Restoration,
        /// The time since it was noticed.
        elapsed: Duration,
    },
    /// The transactions of a pipeline are written one after the other.
    TransactionsAlternate {
        /// The pipeline.
        pipeline: &'a str,
        /// The reason.
        error: &'a Error,
    },
    /// The transactions of a pipeline overlap again.
    TransactionsOverlap {
        /// The pipeline.
        pipeline: &'a str,
    },
    /// The collector of traces takes no spans; those that are made meanwhile are lost.
    CollectorAway {
        /// The reason.
        why: &'a str,
    },
    /// The collector took a part of the spans only; told once.
    CollectorTookPart {
        /// The reason, in its words.
        why: &'a str,
    },
    /// More spans are made than the collector takes.
    SpansOverflow,
    /// A variable of OpenTelemetry is not used.
    TelemetryVariable {
        /// Its name and the reason.
        why: &'a str,
    },
    /// The collector takes spans again.
    CollectorBack {
        /// The spans that were lost so far.
        lost: u64,
    },
    /// Spans were lost in this run.
    SpansLost {
        /// Their count.
        lost: u64,
    },
    /// The claim API is served.
    ClaimsServed {
        /// Its address.
        address: SocketAddr,
        /// True if it encrypts.
        is_encrypted: bool,
        /// Its protection.
        protection: Protection<'a>,
    },
    /// A pipeline takes the requests of a provider.
    WebhooksTaken {
        /// The pipeline.
        pipeline: &'a str,
        /// The settings of its source, with the port that the system chose if none was asked for.
        webhook: &'a WebhookSettings,
    },
    /// A pipeline takes the messages of producers.
    MessagesTaken {
        /// The pipeline.
        pipeline: &'a str,
        /// The settings of its source, with the port that the system chose if none was asked for.
        ingest: &'a IngestSettings,
    },
    /// Others than its owner can read or change the file with the secrets of a source.
    SecretExposed {
        /// The pipeline.
        pipeline: &'a str,
        /// The file.
        file: &'a Path,
    },
    /// A relay begins to publish its stream.
    RelayBegins(&'a RelaySettings),
    /// Something happened to a relay.
    Relay {
        /// Its name.
        relay: &'a str,
        /// The event.
        event: &'a Event<'a>,
    },
    /// An API is served.
    ApiServed {
        /// The address of the gateway.
        address: SocketAddr,
        /// Its settings.
        gateway: &'a GatewaySettings,
    },
    /// The file of tokens was changed.
    TokensChanged {
        /// The number of tokens in it.
        count: usize,
    },
    /// The file of tokens cannot be read; the tokens that were known still are.
    TokensUnreadable(&'a Error),
    /// A pipeline is to be paused: it takes in no more messages, and finishes what the order says.
    Pausing {
        /// The pipeline, or the relay.
        pipeline: &'a str,
        /// The order.
        pause: &'a OrderedPause,
    },
    /// A pipeline is paused: nothing of it is in hand.
    Paused {
        /// The pipeline, or the relay.
        pipeline: &'a str,
        /// The order.
        pause: &'a OrderedPause,
    },
    /// A pipeline runs again.
    Resumed {
        /// The pipeline, or the relay.
        pipeline: &'a str,
    },
    /// The next run of a pipeline cannot be made now; it is tried again.
    CannotGoOn {
        /// The pipeline.
        pipeline: &'a str,
        /// The reason.
        error: &'a Error,
    },
    /// The next run of a pipeline is made, after it could not be.
    GoesOn {
        /// The pipeline.
        pipeline: &'a str,
        /// The time for which it could not.
        lasted: Duration,
    },
    /// A pipeline has ended.
    Ended {
        /// The pipeline.
        pipeline: &'a str,
        /// True if an error ended it.
        is_failed: bool,
    },
}

/// The protection of the claim API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection<'a> {
    /// The machine alone: its address is a loopback address.
    Loopback,
    /// Tokens.
    Tokens {
        /// The file that keeps them.
        file: &'a Path,
        /// The number of those that are good now.
        usable: usize,
    },
}

/// The number of keys in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The store has none.
    None {
        /// True if it was just created.
        is_new: bool,
    },
    /// All were counted.
    Exactly(u64),
    /// Counting took too long.
    MoreThan(u64),
}
