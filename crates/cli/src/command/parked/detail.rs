//! A whole parked message.

use std::ops::ControlFlow;

use semel_core::{Parked, Result};
use semel_operate::parked::{Found, Search};
use semel_operate::relative_time::when;
use semel_operate::value::{Base64, Time, text_or_base64};
use semel_worker::replay::Kind;
use serde::Serialize;

use super::name::look_up;
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
    let count = match look_up(ground, search).await? {
        ControlFlow::Break(()) => return Ok(Exit::No),
        ControlFlow::Continue(count) => count,
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
                    answers.print(&Whole::of(it, search.kind, ground))?
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

#[derive(Serialize)]
struct Whole<'a> {
    id: String,
    key: Option<&'a str>,
    operation_id: Option<String>,
    pipeline: &'a str,
    state: &'static str,
    reason: &'a str,
    since: Time,
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    coordinates: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport_base64: Option<Base64<'a>>,
    headers: Vec<Header<'a>>,
    size_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
    #[serde(skip)]
    message: &'a Parked,
    #[serde(skip)]
    since_text: String,
}

#[derive(Serialize)]
struct Header<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<Base64<'a>>,
}

impl<'a> Whole<'a> {
    fn of(found: &'a Found, kind: Kind, ground: &Ground) -> Self {
        let message = &found.message;
        let (payload, payload_base64) = text_or_base64(&message.payload);
        let transport = message.transport.as_deref().map(text_or_base64);
        let (transport, transport_base64) = transport.unwrap_or_default();
        let headers = message.headers.iter().map(|(name, value)| {
            let (value, value_base64) = text_or_base64(value);
            Header {
                name,
                value,
                value_base64,
            }
        });
        let is_dead = kind == Kind::DeadLetters;
        let detail = Some(&*message.detail);
        Self {
            id: message.id().to_string(),
            key: message.key.as_ref().map(semel_core::Key::as_str),
            operation_id: found.operation().map(|it| it.id().to_string()),
            pipeline: message.scope.operation(),
            state: found.standing(kind),
            reason: &message.reason,
            since: Time(message.since),
            error: detail.filter(|_| is_dead),
            detail: detail.filter(|_| !is_dead),
            coordinates: &message.coordinates,
            transport,
            transport_base64,
            headers: headers.collect(),
            size_bytes: message.payload.len(),
            payload,
            payload_base64,
            message,
            since_text: when(message.since, ground.now()).to_string(),
        }
    }
}

impl Answer for Whole<'_> {
    fn describe(&self, block: &mut Block) {
        block
            .field("id", &self.id)
            .some("key", self.key)
            .some("operation id", self.operation_id.as_deref())
            .field("pipeline", self.pipeline)
            .field("state", self.state.replace('_', " "))
            .field("reason", self.reason)
            .field("since", &self.since_text)
            .some("error", self.error)
            .some("detail", self.detail)
            .field("coordinates", self.coordinates);
        if let Some(transport) = &self.message.transport {
            block.bytes("transport", transport);
        }
        block
            .field("size", format_args!("{} bytes", self.size_bytes))
            .bytes("payload", &self.message.payload);
        if !self.message.headers.is_empty() {
            block.heading("Headers");
            for (name, value) in &self.message.headers {
                block.bytes(name, value);
            }
        }
    }
}
