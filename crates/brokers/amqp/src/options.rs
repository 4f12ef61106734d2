//! Typed settings of the source and of the sink.

use std::fmt;
use std::time::Duration;

use semel_tls::Tls;

use crate::address::Address;

/// Settings for consuming a queue.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// `amqp://USER:PASSWORD@HOST:PORT/VHOST`, or `amqps://` for an encrypted connection. Characters with a meaning in
    /// a URL are percent-encoded: the virtual host `/` is `%2f`, and is taken where none is named. `?heartbeat=SECONDS`
    /// and `?connection_timeout=MILLISECONDS` are understood.
    pub url: String,
    /// Encryption settings, where the url says `amqps`.
    pub tls: Tls,
    /// The queue. It has to exist.
    pub queue: String,
    /// Messages that the broker hands over ahead of their acknowledgement, at least 1. All of them may be in memory at
    /// once.
    pub prefetch: u16,
    /// The longest message. A delivery of a longer one carries its length and its first [`HEAD_BYTES`].
    ///
    /// [`HEAD_BYTES`]: crate::HEAD_BYTES
    pub max_message_bytes: usize,
    /// Name of this consumer in the broker's lists and logs; empty: the broker makes a name up.
    pub consumer_tag: String,
}

impl Options {
    /// Returns options for this queue: 256 messages ahead, messages of at most 8 MiB.
    pub fn new(url: impl Into<String>, queue: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: Tls::default(),
            queue: queue.into(),
            prefetch: 256,
            max_message_bytes: 8 << 20,
            consumer_tag: String::new(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &Address::show(&self.url))
            .field("tls", &self.tls)
            .field("queue", &self.queue)
            .field("prefetch", &self.prefetch)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("consumer_tag", &self.consumer_tag)
            .finish()
    }
}

/// Settings for publishing.
#[derive(Clone, PartialEq, Eq)]
pub struct SinkOptions {
    /// See [`Options::url`].
    pub url: String,
    /// See [`Options::tls`].
    pub tls: Tls,
    /// The exchange, which has to exist; empty: the default one, which brings a message to the queue that its
    /// routing key names.
    pub exchange: String,
    /// The routing key of every message.
    pub routing_key: String,
    /// The longest wait of a batch for its confirms. A broker short of memory or disk does not answer.
    pub confirm_timeout: Duration,
}

impl SinkOptions {
    /// Returns options for this exchange and routing key: 30 seconds for the confirms.
    pub fn new(
        url: impl Into<String>,
        exchange: impl Into<String>,
        routing_key: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            tls: Tls::default(),
            exchange: exchange.into(),
            routing_key: routing_key.into(),
            confirm_timeout: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOptions")
            .field("url", &Address::show(&self.url))
            .field("tls", &self.tls)
            .field("exchange", &self.exchange)
            .field("routing_key", &self.routing_key)
            .field("confirm_timeout", &self.confirm_timeout)
            .finish()
    }
}
