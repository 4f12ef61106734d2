//! A message of an outbox as its sink gets it.

use semel_core::outbox::Outgoing;
use semel_core::port::sink::Publication;
use semel_core::{ByteString, TraceContext};

use crate::tries::in_span;

/// Returns what is published of a message: the same at every try, but for the span of the try.
pub(crate) fn publication(
    message: &Outgoing,
    span: Option<TraceContext>,
) -> Result<Publication, Box<str>> {
    let id = if semel_core::planted("X07") {
        format!("{} {}", message.id, message.attempts)
    } else {
        message.id.to_string()
    };
    let mut publication = Publication {
        id: id.into(),
        order: message.order_key.clone().map(ByteString::into_bytes),
        payload: message.payload.clone(),
        headers: message.headers.clone()?,
    };
    if let Some(span) = span {
        in_span(&mut publication, span);
    }
    Ok(publication)
}
