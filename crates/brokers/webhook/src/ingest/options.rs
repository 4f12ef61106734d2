//! Settings of a path that takes messages.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::entrance::Entrance;

/// Settings of a path that takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own, and written by its name"
)]
pub struct IngestOptions {
    /// The listener that its requests come to.
    pub entrance: Entrance,
    /// The path of its requests, byte for byte.
    pub path: Box<str>,
    /// The stream that the messages are for.
    pub stream: Box<str>,
    /// The tokens of which a request shows one; none means that whoever reaches the address may send, or that the listener
    /// of the admin API asks for its own.
    pub tokens: Vec<Token>,
    /// The names by which requests without a token call the listener, beside those of a loopback address.
    pub hosts: Vec<Box<str>>,
    /// True if messages without an identity are refused.
    pub is_required: bool,
    /// True if a producer that is not on record may begin with any sequence.
    pub is_any_first: bool,
    /// True if the key of a request is that of its operation: then a request with a key has one message.
    pub is_key_whole: bool,
    /// True if other workers may have the same journal: then what they took and did not run is looked for again and again.
    pub is_shared: bool,
    /// The largest body of a request.
    pub max_body_bytes: usize,
    /// The longest message.
    pub max_message_bytes: usize,
    /// The number of messages that wait for their effects from which on further requests are refused.
    pub max_waiting: u64,
    /// The number of producers from which on one that was not heard of is refused.
    pub max_producers: usize,
    /// The time for which a producer is remembered after its last message; for ever, without one.
    pub forget_producers: Option<Duration>,
    /// The time within which a body has to come.
    pub body_within: Duration,
}

impl IngestOptions {
    /// Returns the settings of an address that anybody may send to: identities are not required, bodies of at most
    /// 8 MiB, and 100,000 messages that wait.
    pub fn new(listen: SocketAddr, path: impl Into<Box<str>>, stream: impl Into<Box<str>>) -> Self {
        Self {
            entrance: Entrance::Own(listen),
            path: path.into(),
            stream: stream.into(),
            tokens: Vec::new(),
            hosts: Vec::new(),
            is_required: false,
            is_any_first: false,
            is_key_whole: false,
            is_shared: false,
            max_body_bytes: Self::MAX_BODY_BYTES,
            max_message_bytes: Self::MAX_BODY_BYTES,
            max_waiting: Self::MAX_WAITING,
            max_producers: Self::MAX_PRODUCERS,
            forget_producers: None,
            body_within: Duration::from_secs(30),
        }
    }

    /// Tells whether a producer may be gone from the journal: this worker forgets some, or another one may.
    pub(crate) const fn may_lose_producers(&self) -> bool {
        self.is_shared || self.forget_producers.is_some()
    }

    /// The largest body unless another is set.
    pub const MAX_BODY_BYTES: usize = 8 << 20;

    /// The messages that may wait unless another number is set.
    pub const MAX_WAITING: u64 = 100_000;

    /// The producers that there may be unless another number is set.
    pub const MAX_PRODUCERS: usize = 10_000;
}

/// A token, of which only a hash is kept, and the name of the client that has it, if there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    hash: blake3::Hash,
    client: Option<Box<str>>,
}

impl Token {
    /// Keeps a token.
    pub fn new(text: &str) -> Self {
        Self {
            hash: blake3::hash(text.as_bytes()),
            client: None,
        }
    }

    /// Returns the token of a client of this name, under which its refused requests are counted.
    #[must_use]
    pub fn of_client(self, name: &str) -> Self {
        Self {
            client: Some(name.into()),
            ..self
        }
    }

    /// Returns the name of the client.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Tells whether this is the token, in a time that does not depend on how much of it is right.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        self.hash == blake3::hash(shown)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
