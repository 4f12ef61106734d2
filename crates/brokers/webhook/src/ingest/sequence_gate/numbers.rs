//! The identity of a delivery by the selectors of its pipeline, and its way into the journal and back.

use bytes::Bytes;
use semel_core::ingest::{HIGHEST, UNNUMBERED};
use semel_core::port::source::Delivery;
use semel_core::producer::{ProducerMessage, ProducerName, headers as own};
use semel_core::select::{Message, Selected, Selector, View};
use semel_core::{ByteString, Timestamp, Unusable};

use super::GateOptions;

/// The place of a message in the order of its producer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Numbers {
    pub(super) producer: ProducerName,
    pub(super) epoch: u64,
    pub(super) sequence: u64,
}

impl Numbers {
    /// Reads the numbers of a delivery; nothing if it has none and need not have any.
    ///
    /// # Errors   the delivery has a part of an identity, a malformed one, or none where it is required
    pub(super) fn of(delivery: &Delivery, options: &GateOptions) -> Result<Option<Self>, Unusable> {
        let view = View::new(Message {
            payload: &delivery.payload,
            headers: &delivery.headers,
            coordinates: &delivery.coordinates,
        });
        let GateOptions {
            producer,
            epoch,
            sequence,
            ..
        } = options;
        let missing = |at: &Selector| Unusable::ProducerMissing {
            at: at.to_string().into(),
        };
        let found = |at| text(&view, at);
        match (found(producer)?, found(epoch)?, found(sequence)?) {
            (None, None, None) if options.is_required => Err(missing(producer)),
            (None, None, None) => Ok(None),
            (None, _, _) => Err(missing(producer)),
            (Some(_), None, _) => Err(missing(epoch)),
            (Some(_), Some(_), None) => Err(missing(sequence)),
            (Some(name), Some(of_opening), Some(of_message)) => {
                let name = ProducerName::of_sender(&name).ok();
                let name = name.filter(|it| it.as_str() != UNNUMBERED);
                Ok(Some(Self {
                    producer: name.ok_or_else(|| missing(producer))?,
                    epoch: number(&of_opening).ok_or_else(|| missing(epoch))?,
                    sequence: number(&of_message).ok_or_else(|| missing(sequence))?,
                }))
            }
        }
    }

    /// Tells people which message it is.
    pub(super) fn told(&self) -> String {
        let Self {
            producer,
            epoch,
            sequence,
        } = self;
        format!("{producer} sent {sequence} in epoch {epoch}")
    }
}

/// Returns the text that a selector finds; an empty one where it finds something else than a text or a number.
fn text(view: &View<'_>, at: &Selector) -> Result<Option<String>, Unusable> {
    Ok(match view.select(at)? {
        Some(Selected::Text(text) | Selected::Number(text)) => Some(text.into_owned()),
        None | Some(Selected::Null) => None,
        Some(
            Selected::Bool(_) | Selected::Bytes(_) | Selected::Event(..) | Selected::Nested(_),
        ) => Some(String::new()),
    })
}

/// Reads a number from 1 on, in digits alone.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0');
    let number = text.parse().ok().filter(|_| is_plain);
    number.filter(|it| (1..=HIGHEST).contains(it))
}

/// Makes a message for the journal of a delivery, with what else the broker told at the end of its headers.
pub(super) fn kept(delivery: &Delivery) -> ProducerMessage {
    let mut message = ProducerMessage::new(delivery.payload.clone());
    message.headers.clone_from(&delivery.headers);
    let mut add = |name, value| {
        message.headers.push((ByteString::from_static(name), value));
    };
    add(PLACE, delivery.coordinates.as_bytes().clone());
    if let Some(at) = delivery.appended_at {
        add(TIME, Bytes::from(at.as_millis().to_string()));
    }
    if let Some(bytes) = delivery.oversize_bytes {
        add(SIZE, Bytes::from(bytes.to_string()));
    }
    message
}

/// Makes the delivery of the journal that of the broker again, with an id of its own if it had none. One that came without
/// this gate stays as it is.
pub(super) fn restore(delivery: &mut Delivery) {
    let place = delivery.headers.iter().rposition(|(name, _)| name == PLACE);
    let Some(place) = place else {
        return;
    };
    let added = delivery.headers.split_off(place);
    let find = |name: &str| added.iter().find(|it| it.0 == name).map(|it| &it.1);
    let number = |name| std::str::from_utf8(find(name)?).ok()?.parse().ok();
    if let Some(coordinates) = find(PLACE).and_then(|it| ByteString::try_from(it.clone()).ok()) {
        delivery.coordinates = coordinates;
    }
    delivery.appended_at = number(TIME).map(Timestamp::from_millis);
    delivery.oversize_bytes = number(SIZE);
    let has_id = delivery
        .headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(own::ID));
    if let (false, Some(id)) = (has_id, find(own::ID)) {
        let name = ByteString::from_static(own::ID);
        delivery.headers.push((name, id.clone()));
    }
}

/// Headers in the journal alone: the coordinates, the time of the broker, and the length of a message that is too long. The
/// last one of the first name begins them, whatever a sender calls its own.
const PLACE: &str = "semel-gate-place";
const TIME: &str = "semel-gate-time";
const SIZE: &str = "semel-gate-size";
