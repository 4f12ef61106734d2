//! Settings of a source.

use std::net::SocketAddr;
use std::time::Duration;

use super::scheme::Scheme;
use super::verification::Verification;

/// Settings of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The path of its requests, byte for byte.
    pub path: Box<str>,
    /// The rules by which a request is genuine.
    pub verification: Verification,
    /// The names by which requests that nobody signs call the listener, beside those of a loopback address; none means
    /// any name at another address.
    pub hosts: Vec<Box<str>>,
    /// The largest body of a request. A larger one is refused before it is read.
    pub max_body_bytes: usize,
    /// The longest message. The delivery of a longer one carries its length and its first
    /// [`HEAD_BYTES`](super::HEAD_BYTES).
    pub max_message_bytes: usize,
    /// The time within which a request is answered, its body included.
    pub answer_within: Duration,
    /// The greatest number of requests in hand: those that wait to be fetched, and those that were fetched and not
    /// acknowledged. Further ones are refused until there is room.
    pub max_in_hand: usize,
}

impl Options {
    /// Returns the settings with what the provider needs: no names, messages of at most 8 MiB in bodies of at most 25 MiB, and
    /// 1,000 requests in hand.
    pub fn new(listen: SocketAddr, path: impl Into<Box<str>>, verification: Verification) -> Self {
        Self {
            listen,
            path: path.into(),
            hosts: Vec::new(),
            max_body_bytes: Self::MAX_BODY_BYTES,
            max_message_bytes: 8 << 20,
            answer_within: Self::answer_within(verification.scheme()),
            max_in_hand: Self::MAX_IN_HAND,
            verification,
        }
    }

    /// The largest body unless another is set: the largest payload of GitHub.
    pub const MAX_BODY_BYTES: usize = 25 << 20;

    /// The requests in hand unless another number is set.
    pub const MAX_IN_HAND: usize = 1_000;

    /// Returns the time for an answer, which is shorter than what the provider waits: GitHub 10 s, Shopify 5 s, Slack 3 s.
    pub const fn answer_within(scheme: &Scheme) -> Duration {
        Duration::from_millis(match scheme {
            Scheme::Slack => 2_500,
            Scheme::Shopify => 4_500,
            Scheme::GitHub
            | Scheme::Stripe
            | Scheme::Standard
            | Scheme::Hmac { .. }
            | Scheme::None => 9_000,
        })
    }
}
