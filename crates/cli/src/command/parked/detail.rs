//! A whole parked message.

use std::ops::ControlFlow;

use semel_core::{Parked, Result};
use semel_operate::parked::{Search, WholeMessage};
use semel_operate::relative_time::when;
use serde::Serialize;

use super::name::{Messages, look_up};
use crate::Exit;
use crate::args::Format;
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
                    print_payload(&it.message)?
                } else {
                    answers.print(&Told {
                        whole: WholeMessage::of(it, search.kind),
                        since_text: when(it.message.since, ground.now()).to_string(),
                    })?
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

fn print_payload(message: &Parked) -> Result<Go> {
    let mut stdout = Stream::stdout();
    let _ = stdout.write(&message.payload)?;
    stdout.flush()
}

/// A message as it is printed.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    whole: WholeMessage<'a>,
    #[serde(skip)]
    since_text: String,
}

impl Answer for Told<'_> {
    fn describe(&self, block: &mut Block) {
        block
            .field("id", &self.whole.id)
            .some("key", self.whole.key)
            .some("operation id", self.whole.operation_id.as_deref())
            .field("pipeline", self.whole.pipeline)
            .some("tenant", self.whole.tenant)
            .field("state", self.whole.state.replace('_', " "))
            .field("reason", self.whole.reason)
            .field("since", &self.since_text)
            .some("error", self.whole.error)
            .some("detail", self.whole.detail)
            .field("coordinates", self.whole.coordinates);
        if let Some(transport) = &self.whole.message.transport {
            block.bytes("transport", transport);
        }
        block
            .field("size", format_args!("{} bytes", self.whole.size_bytes))
            .bytes("payload", &self.whole.message.payload);
        if !self.whole.message.headers.is_empty() {
            block.heading("Headers");
            for (name, value) in &self.whole.message.headers {
                block.bytes(name, value);
            }
        }
    }
}
