//! Dead letters of relays.

use semel_core::Timestamp;
use semel_operate::relative_time::when;
use semel_operate::relays::WholeRelayDeadLetter;
use serde::Serialize;

use crate::{Answer, Block};

/// A dead letter as it is printed.
#[derive(Serialize)]
pub struct ShownDeadLetter<'a> {
    #[serde(flatten)]
    whole: WholeRelayDeadLetter<'a>,
    #[serde(skip)]
    since_text: String,
    #[serde(skip)]
    payload: &'a [u8],
}

impl<'a> ShownDeadLetter<'a> {
    /// Lays out a message that was given up at a time, as it is at the time `now`.
    pub fn of(
        whole: WholeRelayDeadLetter<'a>,
        payload: &'a [u8],
        (dead_at, now): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            whole,
            since_text: when(dead_at, now).to_string(),
            payload,
        }
    }
}

impl Answer for ShownDeadLetter<'_> {
    fn describe(&self, block: &mut Block) {
        let letter = &self.whole.letter;
        block
            .field("id", &letter.id)
            .field("relay", &letter.relay)
            .field("stream", &letter.stream)
            .some("order key", letter.order_key.as_ref())
            .field("state", letter.state)
            .field("since", &self.since_text)
            .field("written", letter.created_at.0)
            .field("attempts", letter.attempts)
            .field("error", &letter.error)
            .some("headers", self.whole.headers_error)
            .field("size", format_args!("{} bytes", letter.size_bytes))
            .bytes("payload", self.payload);
        if !self.whole.headers.is_empty() {
            block.heading("Headers");
            for header in &self.whole.headers {
                match (&header.value, &header.value_base64) {
                    (Some(value), _) => block.field(&header.name, value),
                    (None, Some(value)) => block.field(&header.name, value),
                    (None, None) => block,
                };
            }
        }
    }
}
