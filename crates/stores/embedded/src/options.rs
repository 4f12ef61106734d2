//! Settings of a store that is opened.

/// Settings of an embedded store. The defaults are right for almost everyone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Size at which a segment file is ended, about.
    pub segment_bytes: u64,
    /// The longest outcome that is kept whole.
    pub max_outcome_bytes: usize,
    /// The longest payload of a parked message.
    pub max_payload_bytes: usize,
    /// Calls that may wait for the committer; further callers wait for room in the queue.
    pub queue_len: usize,
}

impl Options {
    /// Returns the same options with segments of about `bytes`.
    #[must_use]
    pub fn with_segment_bytes(self, bytes: u64) -> Self {
        Self {
            segment_bytes: bytes,
            ..self
        }
    }

    /// Returns the same options with payloads of at most `bytes`.
    #[must_use]
    pub fn with_max_payload_bytes(self, bytes: usize) -> Self {
        Self {
            max_payload_bytes: bytes,
            ..self
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            max_outcome_bytes: 64 << 20,
            max_payload_bytes: 64 << 20,
            queue_len: 1_024,
        }
    }
}
