//! A whole parked message.

use std::ops::ControlFlow;

use semel_core::Result;
use semel_operate::parked::{Search, WholeMessage};
use semel_render::reports::parked::ShownMessage;

use super::name::{Messages, look_up};
use crate::Exit;
use crate::args::Format;
use crate::command::operate::{Ground, usage};
use crate::output::{Answers, Go, Stream};

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
                    answers.print(&ShownMessage::of(
                        WholeMessage::of(it, search.kind),
                        ground.now(),
                    ))?
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
