//! A whole doubt: the model of `semel in-doubt show`.

use std::borrow::Cow;

use semel_core::json::Mask;
use semel_core::{Operation, Parked, Record, Timestamp};
use serde::{Deserialize, Serialize};

use crate::keys::{Arrival, Detail};
use crate::parked::{Withheld, masked};
use crate::value::{Base64, Time, text_or_base64};

/// A doubt with the message that is kept for it; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WholeDoubt<'a> {
    /// Its record.
    #[serde(flatten)]
    pub record: Detail<'a>,
    /// The message that is kept for it.
    pub message: Option<DoubtMessage<'a>>,
    /// The way in which the key comes.
    pub arrival: Arrival,
}

/// The message that is kept for a doubt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DoubtMessage<'a> {
    /// The time since which it is kept.
    pub since: Time,
    /// The place in the source where it was read.
    pub coordinates: Cow<'a, str>,
    /// One line about the doubt.
    pub detail: Cow<'a, str>,
    /// The payload, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Cow<'a, str>>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64<'a>>,
    /// The reason why the payload is not here, or not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

impl<'a> WholeDoubt<'a> {
    /// Lays out a doubt as it was at the time `now`.
    pub fn of(
        operation: &'a Operation,
        record: &'a Record,
        message: Option<&'a Parked>,
        arrival: Arrival,
        now: Timestamp,
    ) -> Self {
        Self {
            record: Detail::of(operation, record, now),
            message: message.map(DoubtMessage::of),
            arrival,
        }
    }

    /// Leaves out the payload and the bytes of the outcome, which not everybody may see.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        self.record = self.record.without_payload();
        if let Some(message) = &mut self.message {
            (message.payload, message.payload_base64) = (None, None);
            message.withheld = Some(Withheld::Role);
        }
        self
    }

    /// Hides members of the payload and of the outcome. Where members cannot be told, all of it is left out.
    #[must_use]
    pub fn masked(mut self, mask: &Mask) -> Self {
        self.record = self.record.masked(mask);
        if let Some(message) = self.message.as_mut().filter(|_| !mask.is_empty()) {
            let len_bytes = message.payload().map_or(0, <[u8]>::len) as u64;
            let (shown, withheld) = masked(message.payload.take(), len_bytes, mask);
            (message.payload, message.payload_base64) = (shown, None);
            message.withheld = message.withheld.or(withheld);
        }
        self
    }
}

impl<'a> DoubtMessage<'a> {
    fn of(parked: &'a Parked) -> Self {
        let (payload, payload_base64) = text_or_base64(&parked.payload);
        Self {
            since: Time(parked.since),
            coordinates: (&*parked.coordinates).into(),
            detail: (&*parked.detail).into(),
            payload: payload.map(Into::into),
            payload_base64,
            withheld: None,
        }
    }

    /// Returns the payload; nothing where it is withheld.
    pub fn payload(&self) -> Option<&[u8]> {
        let text = self.payload.as_deref().map(str::as_bytes);
        text.or(self.payload_base64.as_ref().map(|it| &*it.0))
    }
}
