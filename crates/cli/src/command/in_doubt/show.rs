//! `semel in-doubt show`.

use semel_core::{Parked, Result, StateKind};
use semel_operate::in_doubt::message_of;
use semel_operate::keys::{Arrival, Detail};
use semel_operate::value::{Base64, Time, text_or_base64};
use serde::Serialize;

use crate::Exit;
use crate::args::in_doubt::Show;
use crate::command::keys::tell_missing;
use crate::command::operate::{self, Found};
use crate::output::{self, Answer, Answers, Block, key_text, state_text};

/// Prints the record of a key in doubt, and its message.
pub(super) fn show(arguments: &Show) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let key = &arguments.key;
        let (operation, record) = match ground.find_one(key).await? {
            Found::Known(operation, record) => (operation, record),
            Found::Unknown(unknown) => {
                tell_missing(ground, key, &unknown).await?;
                return Ok(Exit::No);
            }
        };
        if record.state.kind() != StateKind::InDoubt {
            output::note(format_args!(
                "{} is not in doubt but {}: {}",
                key_text(operation.key.as_str()),
                state_text(record.state.kind()),
                ground.command("keys explain", &operation)
            ));
            return Ok(Exit::No);
        }
        let parked = message_of(&ground.store, &operation).await?;
        let doubt = Doubt {
            arrival: ground.arrival_of(&operation.scope),
            record: Detail::of(&operation, &record, ground.now()),
            message: parked.as_ref().map(Message::of),
        };
        let _ = Answers::new(arguments.format).print(&doubt)?;
        Ok(Exit::Done)
    })
}

/// A doubt, whole.
#[derive(Debug, Serialize)]
struct Doubt<'a> {
    #[serde(flatten)]
    record: Detail<'a>,
    message: Option<Message<'a>>,
    #[serde(skip)]
    arrival: Arrival,
}

/// The message that is kept for it.
#[derive(Debug, Serialize)]
struct Message<'a> {
    since: Time,
    coordinates: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64<'a>>,
    #[serde(skip)]
    parked: &'a Parked,
}

impl<'a> Message<'a> {
    fn of(parked: &'a Parked) -> Self {
        let (payload, payload_base64) = text_or_base64(&parked.payload);
        Self {
            since: Time(parked.since),
            coordinates: &parked.coordinates,
            detail: &parked.detail,
            payload,
            payload_base64,
            parked,
        }
    }
}

impl Answer for Doubt<'_> {
    fn describe(&self, block: &mut Block) {
        self.record.describe(block);
        block.heading("Message");
        let Some(message) = &self.message else {
            block.prose(self.arrival.of(
                "none is kept yet: it is, when it is delivered again",
                "none: clients claim the key, and nothing is kept of what they ask for",
                "none: the key comes in requests, and nothing is kept of them",
            ));
            return;
        };
        block
            .field("coordinates", message.coordinates)
            .some(
                "detail",
                Some(message.detail).filter(|detail| !detail.is_empty()),
            )
            .bytes("payload", &message.parked.payload);
    }
}
