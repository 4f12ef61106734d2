//! The dead letters of relays: the model of `semel dead-letters` where a message never left its outbox. Selects them page
//! by page, and lays them out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use semel_core::Result;
use semel_core::json::Mask;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::operations::{
    DeadMessage, DeadPosition, MOST_ORDERED, OutboxOperations, WholeDeadMessage,
};
use serde::{Deserialize, Serialize};

use crate::parked::{Filter, Header, Withheld, either, mask_values, masked, withhold_values};
use crate::value::{Base64, Time, text_or_base64};

/// A selection of the dead letters of a relay.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The ids that were named; none means all.
    pub ids: BTreeSet<OutboxId>,
    /// The condition on messages if all are meant.
    pub filter: Filter,
}

impl Search {
    /// Passes the selected messages of `stream` to `visit`, at most [`MOST_ORDERED`] at once, until `visit` returns
    /// `Break`.
    ///
    /// # Cost
    ///
    /// Holds one page; a look-up for each named id.
    ///
    /// # Errors
    ///
    /// Those of the outbox, and of `visit`.
    pub async fn pages(
        &self,
        outbox: &impl OutboxOperations,
        stream: &str,
        mut visit: impl AsyncFnMut(Vec<DeadMessage>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut ids = self.ids.iter().copied().peekable();
        while ids.peek().is_some() {
            let mut found = Vec::new();
            for id in ids.by_ref().take(MOST_ORDERED) {
                let whole = outbox.dead_whole(stream, id).await?;
                found.extend(whole.map(|it| it.facts));
            }
            if visit(found).await?.is_break() {
                return Ok(());
            }
        }
        if !self.ids.is_empty() {
            return Ok(());
        }
        let most = u32::try_from(MOST_ORDERED).unwrap_or(u32::MAX);
        let mut after: Option<DeadPosition> = None;
        loop {
            let mut page = outbox.dead(stream, after.as_ref(), most).await?;
            let next = page.last().map(DeadMessage::position);
            // An order key that is no text has a position that is not its own.
            if next.is_none() || next == after {
                return Ok(());
            }
            after = next;
            page.retain(|it| self.filter.fits(it.dead_at, &[&it.error]));
            if visit(page).await?.is_break() {
                return Ok(());
            }
        }
    }
}

/// A dead letter of a relay in a list: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayDeadLetter {
    /// The id of the message in the outbox, by which it goes.
    pub id: String,
    /// The relay.
    pub relay: String,
    /// The stream.
    pub stream: String,
    /// The order key; what comes behind it there waits.
    pub order_key: Option<String>,
    /// The state: dead.
    pub state: Cow<'static, str>,
    /// The time at which the relay gave it up.
    pub since: Time,
    /// The time at which it was written.
    pub created_at: Time,
    /// The tries that failed and were counted.
    pub attempts: u32,
    /// The last error.
    pub error: Box<str>,
    /// The length of its payload.
    pub size_bytes: u64,
}

impl RelayDeadLetter {
    /// Lays out a dead letter of this relay.
    pub fn of(relay: &str, stream: &str, message: DeadMessage) -> Self {
        Self {
            id: message.id.to_string(),
            relay: relay.to_owned(),
            stream: stream.to_owned(),
            order_key: message.order_key.map(|key| (*key).to_owned()),
            state: "dead".into(),
            since: Time(message.dead_at),
            created_at: Time(message.created_at),
            attempts: message.attempts,
            error: message.error,
            size_bytes: message.size_bytes,
        }
    }
}

/// All of a dead letter of a relay; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WholeRelayDeadLetter<'a> {
    /// The facts that a list has.
    #[serde(flatten)]
    pub letter: RelayDeadLetter,
    /// The headers; empty if they cannot be sent.
    pub headers: Vec<Header<'a>>,
    /// The reason why the headers cannot be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_error: Option<Cow<'a, str>>,
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

impl<'a> WholeRelayDeadLetter<'a> {
    /// Lays out a dead letter of this relay.
    pub fn of(relay: &str, stream: &str, whole: &'a WholeDeadMessage) -> Self {
        let (payload, payload_base64) = text_or_base64(&whole.message.payload);
        let headers = whole.message.headers.as_ref();
        let (headers, headers_error) = match headers {
            Ok(headers) => (&headers[..], None),
            Err(why) => (&[][..], Some(Cow::Borrowed(&**why))),
        };
        let headers = headers.iter().map(|(name, value)| {
            let (value, value_base64) = text_or_base64(value);
            Header {
                name: (&**name).into(),
                value: value.map(Into::into),
                value_base64,
            }
        });
        Self {
            letter: RelayDeadLetter::of(relay, stream, whole.facts.clone()),
            headers: headers.collect(),
            headers_error,
            payload: payload.map(Into::into),
            payload_base64,
            withheld: None,
        }
    }

    /// Returns the payload; nothing where it is withheld.
    pub fn payload(&self) -> Option<&[u8]> {
        either(self.payload.as_deref(), self.payload_base64.as_ref())
    }

    /// Leaves out the payload, the values of the headers and what is wrong with them, which not everybody may see.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        (self.payload, self.payload_base64) = (None, None);
        withhold_values(&mut self.headers);
        self.headers_error = None;
        self.withheld = Some(Withheld::Role);
        self
    }

    /// Hides members of the payload, and the values of headers of such a name. Where members cannot be told, the whole
    /// payload is left out.
    #[must_use]
    pub fn masked(mut self, mask: &Mask) -> Self {
        if mask.is_empty() {
            return self;
        }
        mask_values(&mut self.headers, mask);
        let (shown, withheld) = masked(self.payload.take(), self.letter.size_bytes, mask);
        (self.payload, self.payload_base64) = (shown, None);
        self.withheld = self.withheld.or(withheld);
        self
    }
}
