//! What a handler sees of a message, and what it gives back.

use bytes::Bytes;
use semel_core::{Claim, FencingToken, Key, OpId};
use serde::de::DeserializeOwned;

use crate::effect::{Call, Verdict};
use crate::once::Failure;

/// A message under the claim of its key.
#[derive(Clone, Debug)]
pub struct Message(Call);

impl Message {
    pub(super) const fn new(call: Call) -> Self {
        Self(call)
    }

    /// The payload, byte for byte.
    pub const fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    /// The payload as JSON of your type.
    ///
    /// # Errors
    ///
    /// [`Failure::dead`]: it is not, and never will be
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.0.payload).map_err(Failure::dead)
    }

    /// The first header of that name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        let mut headers = self.0.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Where the message was read: topic, partition and offset, or file and line.
    pub fn coordinates(&self) -> &str {
        &self.0.coordinates
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        &self.0.claim.operation.key
    }

    /// The key to pass to whatever the handler calls: derived from the operation alone, so the same
    /// on every attempt. 64 hexadecimal digits.
    pub fn idempotency_key(&self) -> String {
        self.0.idempotency_key()
    }

    /// The id of the operation.
    pub fn operation_id(&self) -> OpId {
        self.0.claim.operation.id()
    }

    /// The number of this attempt, from 1.
    pub const fn attempt(&self) -> u32 {
        self.0.claim.attempt
    }

    /// Rises with every claim of the store; for targets that can refuse a smaller one.
    pub const fn fencing_token(&self) -> FencingToken {
        self.0.claim.token
    }

    /// Whether an earlier attempt may have applied the effect and the class is to run it again.
    pub const fn is_possible_repeat(&self) -> bool {
        self.0.claim.possible_repeat
    }

    /// The whole claim.
    pub const fn claim(&self) -> &Claim {
        &self.0.claim
    }
}

/// What a handler may give back: nothing, bytes or text. Kept raw as the outcome of the key.
pub trait IntoOutcome: Send {
    /// The outcome as bytes.
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
