//! Dead letters of relays.

use semel_core::Timestamp;
use semel_operate::relative_time::when;
use semel_operate::relays::WholeRelayDeadLetter;
use serde::Serialize;

use super::keys::describe_bytes;
use crate::{Answer, Block};

/// A dead letter as it is printed.
#[derive(Serialize)]
pub struct ShownDeadLetter<'a> {
    #[serde(flatten)]
    whole: WholeRelayDeadLetter<'a>,
    #[serde(skip)]
    since_text: String,
}

impl<'a> ShownDeadLetter<'a> {
    /// Lays out a dead letter as it is at the time `now`.
    pub fn of(whole: WholeRelayDeadLetter<'a>, now: Timestamp) -> Self {
        let since_text = when(whole.letter.since.0, now).to_string();
        Self { whole, since_text }
    }
}

impl Answer for ShownDeadLetter<'_> {
    fn describe(&self, block: &mut Block) {
        let WholeRelayDeadLetter {
            letter,
            headers,
            headers_error,
            ..
        } = &self.whole;
        block
            .field("id", &letter.id)
            .field("relay", &letter.relay)
            .field("stream", &letter.stream)
            .some("order key", letter.order_key.as_ref())
            .field("state", &letter.state)
            .field("since", &self.since_text)
            .field("written", letter.created_at.0)
            .field("attempts", letter.attempts)
            .field("error", &letter.error)
            .some("headers", headers_error.as_ref())
            .field("size", format_args!("{} bytes", letter.size_bytes));
        let (payload, withheld) = (self.whole.payload(), self.whole.withheld);
        describe_bytes("payload", payload, withheld, block);
        if !headers.is_empty() {
            block.heading("Headers");
            for header in headers {
                match (&header.value, &header.value_base64) {
                    (Some(value), _) => block.field(&header.name, value),
                    (None, Some(value)) => block.field(&header.name, value),
                    (None, None) => block,
                };
            }
        }
    }
}
