//! Quarantined messages that a person releases as operations of their own, under a key that they give them: the
//! message had been taken for another request under a known key, and was none.
//!
//! The key travels in a header, so that the message has it still when it is set aside again. A mark in the
//! collection of parked messages tells whoever counts false duplicates; the one who removes it counts it.

use bytes::Bytes;
use semel_core::parked::Headers;
use semel_core::{Key, Parked, Reason};
use semel_engine::publication::GIVEN_KEY;

/// The reason of the marks.
pub const RELEASED_AS_DISTINCT: &str = "released-as-distinct";

/// Writes the key into the headers of a message, in place of another one.
pub(super) fn give(headers: &mut Headers, key: &Key) {
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(GIVEN_KEY));
    headers.push((GIVEN_KEY.into(), Bytes::copy_from_slice(key.as_bytes())));
}

/// Returns the key that a person gave a message before it was set aside under it.
pub(super) fn given_key(message: &Parked) -> Option<Key> {
    let mut headers = message.headers.iter();
    let (_, given) = headers.find(|(name, _)| name.eq_ignore_ascii_case(GIVEN_KEY))?;
    let key = message.key.as_ref();
    key.filter(|key| key.as_bytes() == &**given).cloned()
}

/// Returns the mark of a message that was released as an operation of its own, if it was in conflict before.
pub(super) fn mark(message: &Parked) -> Option<Parked> {
    (*message.reason == *Reason::Conflict.code()).then(|| Parked {
        reason: RELEASED_AS_DISTINCT.into(),
        detail: "the conflict was none: to be counted by a worker".into(),
        transport: Some(Bytes::copy_from_slice(&message.id().to_bytes())),
        headers: Headers::new(),
        payload: Bytes::new(),
        ..message.clone()
    })
}
