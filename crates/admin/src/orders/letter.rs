//! Dead letters of relays as an order is about them: each as it was planned, and in batches.

use semel_core::outbox::OutboxId;
use semel_core::port::outbox::AnyOutbox;
use semel_core::port::outbox::operations::{DeadMessage, MOST_ORDERED, OutboxOperations};
use semel_core::{Error, ErrorKind, Result as StoreResult, Timestamp};

use crate::relay_letters::at;
use crate::settings::RelayPlace;

/// A dead letter as it was planned.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) relay: RelayPlace,
    pub(super) id: OutboxId,
    pub(super) dead_at: Timestamp,
    pub(super) attempts: u32,
}

impl Letter {
    pub(super) fn of(relay: &RelayPlace, message: &DeadMessage) -> Self {
        Self {
            relay: relay.clone(),
            id: message.id,
            dead_at: message.dead_at,
            attempts: message.attempts,
        }
    }

    /// Tells whether the message is dead as it was: neither tried again since, nor gone.
    fn is(&self, message: &DeadMessage) -> bool {
        self.dead_at == message.dead_at && self.attempts == message.attempts
    }

    /// The outbox that it is in.
    ///
    /// # Errors
    ///
    /// `Internal`: it is not known, which only a defect explains, since it was when the plan was made
    pub(super) fn outbox(&self) -> StoreResult<&AnyOutbox> {
        let message = "the outbox of the relay is not known any more";
        let unknown = || Error::new(ErrorKind::Internal, message).not_applied();
        self.relay.outbox.as_ref().ok_or_else(unknown)
    }
}

/// Returns the letters of a plan in batches, each of one relay.
pub(super) fn batches(letters: &[Letter]) -> impl Iterator<Item = &[Letter]> {
    let of_each = letters.chunk_by(|one, other| one.relay.name == other.relay.name);
    of_each.flat_map(|letters| letters.chunks(MOST_ORDERED))
}

/// Tells of each letter whether it is as it was planned.
pub(super) async fn as_planned(letters: &[Letter]) -> StoreResult<Vec<bool>> {
    let mut all = Vec::with_capacity(letters.len());
    for letter in letters {
        let relay = &letter.relay;
        let whole = letter.outbox()?.dead_whole(&relay.stream, letter.id).await;
        let whole = whole.map_err(|it| at(relay, it))?;
        all.push(whole.is_some_and(|it| letter.is(&it.facts)));
    }
    Ok(all)
}
