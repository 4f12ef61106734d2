//! The kinds of brokers as data: an entry for each that is built in.

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "kafka")]
pub(crate) mod kafka;
#[cfg(feature = "nats")]
mod nats;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use semel_config::{SinkSettings, SourceSettings};
use semel_core::port::horizon::HorizonReport;
use semel_core::port::sink::AnySink;
use semel_core::port::source::AnySource;
use semel_core::{Result, Timestamp};
use semel_worker::effect::publish::Facts;

/// The brokers that are built in.
pub static BROKERS: &[&Broker] = &[
    #[cfg(feature = "nats")]
    &nats::BROKER,
    #[cfg(feature = "kafka")]
    &kafka::BROKER,
    #[cfg(feature = "amqp")]
    &amqp::BROKER,
];

/// A kind of broker that is built in, as source and as target. Each function refuses settings of another kind.
pub struct Broker {
    /// Its name in settings, which is also that of its feature.
    pub name: &'static str,
    /// Opens a source.
    pub open: fn(&SourceSettings, Limits) -> Result<AnySource>,
    /// Opens a source once more, which yields what it has since a time and ends; none if the broker keeps
    /// nothing.
    pub rescan: Option<Rescan>,
    /// Asks how long a message can come again; the duration is the lease of a delivery.
    pub horizons: for<'a> fn(&'a SourceSettings, Duration) -> Answer<'a, HorizonReport>,
    /// Prepares to count what waits in a source, without a connection yet.
    pub backlog: fn(&SourceSettings) -> Result<Box<dyn Backlog>>,
    /// Opens a target.
    pub sink: fn(&SinkSettings) -> Result<AnySink>,
    /// Inspects a target and publishes nothing.
    pub inspect: for<'a> fn(&'a SinkSettings) -> Answer<'a, Facts>,
}

/// Counts what a broker has for a consumer and has not handed over.
pub trait Backlog: Send {
    /// Returns the count; nothing where the broker does not tell. A call that is dropped leaves the next one to connect
    /// anew, or to wait for what it began.
    fn count(&mut self) -> Answer<'_, Option<u64>>;
}

/// A function that opens a source once more.
pub type Rescan = fn(&SourceSettings, Limits, Option<Timestamp>) -> Result<AnySource>;

/// The answer of a broker.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The limits of a source that are not its own settings.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The size above which a message is not read.
    pub max_message_bytes: usize,
    /// The time for which the source holds a delivery that is not extended.
    pub lease: Duration,
}

impl Broker {
    /// Finds the broker of this name, if it is built in.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        BROKERS.iter().copied().find(|it| it.name == name)
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Broker").field(&self.name).finish()
    }
}

/// The error that settings came to a broker of another kind.
#[cfg(any(feature = "kafka", feature = "nats", feature = "amqp"))]
fn other_kind() -> semel_core::Error {
    let message = "a place of another kind of broker";
    semel_core::Error::new(semel_core::ErrorKind::Internal, message)
}
