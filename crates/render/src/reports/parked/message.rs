//! A whole parked message.

use semel_core::Timestamp;
use semel_operate::parked::WholeMessage;
use semel_operate::relative_time::when;
use serde::Serialize;

use crate::reports::keys::describe_bytes;
use crate::{Answer, Block};

/// A message as it is printed.
#[derive(Serialize)]
pub struct ShownMessage<'a> {
    #[serde(flatten)]
    whole: WholeMessage<'a>,
    #[serde(skip)]
    since_text: String,
}

impl<'a> ShownMessage<'a> {
    /// Lays out a message as it is at the time `now`.
    pub fn of(whole: WholeMessage<'a>, now: Timestamp) -> Self {
        let since_text = when(whole.since.0, now).to_string();
        Self { whole, since_text }
    }
}

impl Answer for ShownMessage<'_> {
    fn describe(&self, block: &mut Block) {
        block
            .field("id", &self.whole.id)
            .some("key", self.whole.key.as_ref())
            .some("operation id", self.whole.operation_id.as_deref())
            .field("pipeline", &self.whole.pipeline)
            .some("tenant", self.whole.tenant.as_ref())
            .field("state", self.whole.state.replace('_', " "))
            .field("reason", &self.whole.reason)
            .field("since", &self.since_text)
            .some("error", self.whole.error.as_ref())
            .some("detail", self.whole.detail.as_ref())
            .field("coordinates", &self.whole.coordinates);
        if let Some(transport) = self.whole.transport() {
            block.bytes("transport", transport);
        }
        block.field("size", format_args!("{} bytes", self.whole.size_bytes));
        describe_bytes("payload", self.whole.payload(), self.whole.withheld, block);
        if !self.whole.headers.is_empty() {
            block.heading("Headers");
            for header in &self.whole.headers {
                block.bytes(&header.name, header.value().unwrap_or_default());
            }
        }
    }
}
