//! A whole parked message.

use std::ops::ControlFlow;

use semel_core::{Result, Timestamp};
use semel_operate::parked::{Search, WholeMessage};
use semel_operate::relative_time::when;
use serde::Serialize;

use super::name::{Messages, look_up};
use crate::Exit;
use crate::args::Format;
use crate::command::keys::describe_bytes;
use crate::command::operate::{Ground, usage};
use crate::output::{Answer, Answers, Block, Go, Stream};

/// Prints the selected messages; with `payload` only the bytes of the one message.
pub(crate) async fn show(
    ground: &Ground,
    search: &Search,
    format: Format,
    payload: bool,
) -> Result<Exit> {
    let Messages { count, search, .. } = match look_up(ground, search).await? {
        ControlFlow::Break(()) => return Ok(Exit::No),
        ControlFlow::Continue(messages) => messages,
    };
    if payload && count != 1 {
        return Err(usage(format!(
            "--payload prints the payload of one message, and this names {count}; type an id"
        )));
    }
    let mut answers = Answers::new(format);
    search
        .pages(&ground.store, async |found| {
            for it in &found {
                let go = if payload {
                    print_payload(&it.message.payload)?
                } else {
                    answers.print(&Told::of(WholeMessage::of(it, search.kind), ground.now()))?
                };
                if go.is_break() {
                    return Ok(go);
                }
            }
            Ok(Go::Continue(()))
        })
        .await?;
    Ok(Exit::Done)
}

/// Prints bytes and nothing else.
pub(crate) fn print_payload(payload: &[u8]) -> Result<Go> {
    let mut stdout = Stream::stdout();
    let _ = stdout.write(payload)?;
    stdout.flush()
}

/// A message as it is printed.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    #[serde(flatten)]
    whole: WholeMessage<'a>,
    #[serde(skip)]
    since_text: String,
}

impl<'a> Told<'a> {
    /// Lays out a message as it is at the time `now`.
    pub(crate) fn of(whole: WholeMessage<'a>, now: Timestamp) -> Self {
        let since_text = when(whole.since.0, now).to_string();
        Self { whole, since_text }
    }
}

impl Answer for Told<'_> {
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
