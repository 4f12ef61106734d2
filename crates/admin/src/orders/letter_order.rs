//! Orders about dead letters of relays: their outboxes carry them out, each with its audit entries beside it.

use semel_core::port::outbox::operations::{DeadOrder, OutboxOperations};
use semel_core::{Error, Result as StoreResult};

use super::execution::{Batch, Execution, Fate};
use super::letter::{Letter, as_planned};
use crate::relay_letters::at;

impl Execution<'_> {
    /// Gives the order about those letters of a batch that are as they were planned.
    pub(super) async fn order_letters(
        &self,
        order: DeadOrder,
        batch: &[Letter],
    ) -> StoreResult<Batch> {
        let as_planned = as_planned(batch).await.map_err(Error::not_applied)?;
        let same = batch.iter().zip(&as_planned);
        let same: Vec<_> = same.filter(|(_, is_same)| **is_same).collect();
        let ids: Vec<_> = same.iter().map(|(it, _)| it.id).collect();
        let Some((first, _)) = same.first() else {
            let fates = batch.iter().map(|_| Fate::changed());
            return Ok(Batch::whole(fates.collect()));
        };
        let relay = &first.relay;
        let changed = first
            .outbox()?
            .order_dead(&relay.stream, &ids, order, Some(self.note));
        let changed = changed.await.map_err(|it| at(relay, it))?;
        let done = if changed.is_audited {
            Fate::Done { why: None }
        } else {
            Fate::Unaudited { audited: false }
        };
        // Somebody else gave an order about some of them in the same moment: which ones, nobody can tell.
        let is_each = usize::try_from(changed.count) == Ok(ids.len());
        let of_same = if is_each {
            done
        } else {
            let why = format!(
                "{} of {} were changed by this order, the others by another one meanwhile",
                changed.count,
                ids.len()
            );
            Fate::Unknown { why }
        };
        let fates = as_planned.iter().map(|is_same| {
            if *is_same {
                of_same.clone()
            } else {
                Fate::changed()
            }
        });
        Ok(Batch::whole(fates.collect()))
    }
}
