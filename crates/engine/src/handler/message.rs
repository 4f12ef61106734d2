//! A handler's view of a message, and its answer.

use bytes::Bytes;
use semel_core::{Claim, FencingToken, Key, OpId};
use serde::de::DeserializeOwned;

use crate::effect::{Call, TraceHeaders, Verdict};
use crate::once::Failure;

/// A message under the claim of its key.
#[derive(Clone, Debug)]
pub struct Message(Call);

impl Message {
    pub(super) const fn new(call: Call) -> Self {
        Self(call)
    }

    /// Returns the payload, byte for byte.
    pub const fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    /// Parses the payload as JSON of your type.
    ///
    /// # Errors
    ///
    /// [`Failure::dead`]: it is not such JSON, and never will be
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.0.payload).map_err(Failure::dead)
    }

    /// Returns the first header of that name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        let mut headers = self.0.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Returns the trace to pass to services that the handler calls, as the headers `traceparent` and `tracestate`: the
    /// span of this attempt's effect, or that with which the message came if nobody records spans.
    pub fn trace(&self) -> Option<TraceHeaders> {
        self.0.trace()
    }

    /// Returns the place where the message was read: topic, partition and offset, or file and line.
    pub fn coordinates(&self) -> &str {
        &self.0.coordinates
    }

    /// Returns the key.
    pub const fn key(&self) -> &Key {
        &self.0.claim.operation.key
    }

    /// Returns the key to pass to services that the handler calls: derived from the operation
    /// alone, so the same on every attempt. 64 hexadecimal digits.
    pub fn idempotency_key(&self) -> String {
        self.0.idempotency_key()
    }

    /// Returns the id of the operation.
    pub fn operation_id(&self) -> OpId {
        self.0.claim.operation.id()
    }

    /// Returns the number of this attempt, from 1.
    pub const fn attempt(&self) -> u32 {
        self.0.claim.attempt
    }

    /// Returns a number that rises with every claim of the store; for targets that can refuse a
    /// smaller one.
    pub const fn fencing_token(&self) -> FencingToken {
        self.0.claim.token
    }

    /// Tells whether an earlier attempt may have applied the effect and the class has it run again.
    pub const fn is_possible_repeat(&self) -> bool {
        self.0.claim.possible_repeat
    }

    /// Returns the whole claim.
    pub const fn claim(&self) -> &Claim {
        &self.0.claim
    }
}

/// A result that a handler may return: nothing, bytes or text. Kept raw as the outcome of the key.
pub trait IntoOutcome: Send {
    /// Returns the outcome as bytes.
    fn into_outcome(self) -> Bytes;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Bytes {
        Bytes::new()
    }
}

impl IntoOutcome for Bytes {
    fn into_outcome(self) -> Bytes {
        self
    }
}

impl IntoOutcome for Vec<u8> {
    fn into_outcome(self) -> Bytes {
        self.into()
    }
}

impl IntoOutcome for String {
    fn into_outcome(self) -> Bytes {
        self.into()
    }
}

impl IntoOutcome for &'static str {
    fn into_outcome(self) -> Bytes {
        Bytes::from_static(self.as_bytes())
    }
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        failure.into_verdict()
    }
}
