//! The span of a try to publish a message, as an observer gets it. Not for how it is gathered.

use std::time::Duration;

use semel_core::TraceContext;
use semel_core::outbox::OutboxId;

/// A try to publish a message, once it is over. Borrowed: an observer copies what it keeps.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublicationSpan<'a> {
    /// The span, which the message names as that of its producer.
    pub context: TraceContext,
    /// The span that the message came with.
    pub parent: Option<TraceContext>,
    /// The `tracestate` that came with it.
    pub state: Option<&'a str>,
    /// The time of its begin, since 1970.
    pub began: Duration,
    /// The time that the sink had the message in hand. Of a batch, every message has the time of the whole.
    pub took: Duration,
    /// The message.
    pub id: OutboxId,
    /// Its order key, if there is one.
    pub order_key: Option<&'a str>,
    /// Its length in bytes.
    pub message_bytes: usize,
    /// The number of the try, of those that count.
    pub attempt: u32,
    /// The end of the try.
    pub end: PublicationEnd,
    /// The reason of a failure, one line without secrets. A sink may repeat the order key in it.
    pub error: Option<&'a str>,
}

impl PublicationSpan<'_> {
    /// Returns the span of a first try of which nothing else is known.
    pub const fn new(context: TraceContext, id: OutboxId, end: PublicationEnd) -> Self {
        Self {
            context,
            parent: None,
            state: None,
            began: Duration::ZERO,
            took: Duration::ZERO,
            id,
            order_key: None,
            message_bytes: 0,
            attempt: 1,
            end,
            error: None,
        }
    }
}

/// The end of a try to publish a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicationEnd {
    /// The sink has it.
    Published,
    /// The sink did not take it, perhaps for the moment; it is tried again.
    PutOff,
    /// No further try is made.
    Dead,
    /// The relay ended before the sink had answered.
    GivenBack,
}

impl PublicationEnd {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::PutOff => "put_off",
            Self::Dead => "dead",
            Self::GivenBack => "given_back",
        }
    }

    /// Tells whether it is a failure.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Published | Self::GivenBack => false,
            Self::PutOff | Self::Dead => true,
        }
    }
}
