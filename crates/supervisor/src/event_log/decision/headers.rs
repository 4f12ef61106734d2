//! The ids in the headers of a message.

use semel_engine::event::Origin;
use semel_engine::pipeline::REPLAY_ID;

/// Returns the id of the replay that the message belongs to, if it is sent again.
pub(super) fn replay_id(origin: Origin<'_>) -> Option<&str> {
    let mut headers = origin.headers.iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(REPLAY_ID))?;
    std::str::from_utf8(value).ok()
}

/// Returns the id that ties a message to others of the same request, from the first of the usual headers.
pub(super) fn correlation_id(origin: Origin<'_>) -> Option<&str> {
    CORRELATION.iter().find_map(|wanted| {
        let mut headers = origin.headers.iter();
        let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        std::str::from_utf8(value).ok()
    })
}

const CORRELATION: [&str; 4] = [
    "traceparent",
    "correlation-id",
    "x-correlation-id",
    "x-request-id",
];
