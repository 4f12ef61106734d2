//! A batch that is to be committed: finds the part that is still this member's, and the part that was committed before.
//! Not for committing it.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Committed, Finished};
use semel_core::{Error, Result, Timestamp};

use super::AT_HAND;
use super::images::Images;
use crate::record::KEY;
use crate::shared::{AssignmentId, Position, Shared};

/// One finished delivery to commit, with the position of its record.
pub(super) struct Item<'f> {
    pub(super) place: Position,
    pub(super) finished: &'f Finished,
}

/// Returns the key of the record that it was made of.
pub(super) fn record_key(finished: &Finished) -> Option<&[u8]> {
    let headers = finished.output.as_ref().map(|it| &it.headers)?;
    let key = headers.iter().find(|(name, _)| &**name == KEY);
    key.map(|(_, value)| &value[..])
}

/// Items to commit, by assignment.
pub(super) type Batch<'f> = BTreeMap<AssignmentId, Vec<Item<'f>>>;

/// Deliveries of the batch that is to be committed for which it is unknown how their transaction ended. The batch may
/// be tried again after the window of those commits: they must be known then, too.
#[derive(Default)]
pub(super) struct Doubts {
    /// Time of the last try of each.
    pub(super) tried: BTreeMap<DeliveryId, Timestamp>,
    /// Deliveries that were found committed.
    found: BTreeSet<DeliveryId>,
}

impl Doubts {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.tried.is_empty()
    }
}

/// Returns the position at which each was read; `None` for one that was not read by this member, or is no longer its
/// own.
pub(super) fn places(shared: &Shared, finished: &[Finished]) -> Vec<Option<Position>> {
    let ids: Vec<_> = finished.iter().map(|it| it.delivery).collect();
    shared.lock().places(&ids)
}

/// Sorts the items to commit by assignment, and answers for them. An item without an assignment is gone.
pub(super) fn sort<'f>(
    images: &Images,
    finished: &'f [Finished],
    places: Vec<Option<Position>>,
    refused: &BTreeMap<DeliveryId, Error>,
    answers: &mut [Committed],
) -> Result<Batch<'f>> {
    let known = images.lock();
    let mut batch = Batch::new();
    for ((finished, place), answer) in finished.iter().zip(places).zip(answers) {
        let Some(place) = place else {
            continue;
        };
        let Some(known) = known.get(&place.assignment) else {
            continue;
        };
        known.is_known()?;
        if let Some(error) = refused.get(&finished.delivery) {
            *answer = Committed::Refused(error.clone());
            continue;
        }
        *answer = Committed::Done;
        let items = batch.entry(place.assignment).or_default();
        items.push(Item { place, finished });
    }
    Ok(batch)
}

/// Leaves out items that were committed before; returns whether there were any.
pub(super) fn leave_out_committed(
    images: &Images,
    batch: &mut Batch<'_>,
    doubts: &mut Doubts,
) -> Result<bool> {
    let now = images.clock.now();
    let known = images.lock();
    let mut were_some = false;
    for (id, items) in batch.iter_mut() {
        let Some(known) = known.get(id) else {
            continue;
        };
        known.is_known()?;
        // Each was granted, so if the image has it, it was committed since: by us.
        let mut is_committed = |finished: &Finished| {
            let tried = doubts.tried.get(&finished.delivery).copied();
            let is_committed = doubts.found.contains(&finished.delivery)
                || known.image.is_committed(&finished.entry, tried, now);
            if is_committed && tried.is_some() {
                doubts.found.insert(finished.delivery);
            }
            is_committed
        };
        let is_any = items.chunks(AT_HAND).any(|items| {
            for item in items {
                known.image.warm(item.finished.id);
            }
            items.iter().any(|item| is_committed(item.finished))
        });
        if is_any {
            items.retain(|item| !is_committed(item.finished));
            were_some = true;
        }
    }
    batch.retain(|_, items| !items.is_empty());
    Ok(were_some)
}

/// Returns one item of a batch.
pub(super) fn first(batch: Batch<'_>) -> Batch<'_> {
    let first = batch.into_iter().next();
    let first = first.map(|(id, mut items)| {
        items.truncate(1);
        (id, items)
    });
    first.into_iter().collect()
}

/// Returns all items, some of each assignment in turn, each in its order. So every partition of an output that keys
/// spread as they do the input has its first record early: librdkafka adds to the transaction the partitions that it
/// has been given by then.
pub(super) fn in_turns<'b>(batch: &'b Batch<'_>) -> impl Iterator<Item = &'b Finished> {
    let turns = batch.values().map(|items| items.len().div_ceil(TURN)).max();
    let turn = move |turn| {
        let in_this = batch
            .values()
            .map(move |items| items.chunks(TURN).nth(turn));
        in_this.flatten().flatten().map(|item| item.finished)
    };
    (0..turns.unwrap_or_default()).flat_map(turn)
}

/// Returns their offsets, in order.
pub(super) fn sorted(items: &[Item<'_>]) -> Vec<i64> {
    let mut offsets: Vec<_> = items.iter().map(|item| item.place.offset).collect();
    offsets.sort_unstable();
    offsets
}

/// Items of an assignment that go out in a turn.
const TURN: usize = 250;

#[cfg(test)]
mod tests {
    use semel_core::partition::Entry;
    use semel_core::{Key, OpId};

    use super::*;

    fn finished(delivery: u64) -> Finished {
        Finished {
            delivery: DeliveryId(delivery),
            key: Key::from(delivery),
            id: "0".repeat(64).parse::<OpId>().expect("an id"),
            entry: Entry {
                id: u128::from(delivery),
                fingerprint: None,
                transport: 0,
            },
            output: None,
        }
    }

    #[test]
    fn all_go_out_in_turns_and_each_assignment_s_in_order() {
        let shared = Shared::default();
        let mut state = shared.lock();
        let all: Vec<_> = (0..1_300).map(finished).collect();
        let mut batch = Batch::new();
        assert_eq!(in_turns(&batch).count(), 0);
        let mut rest = &all[..];
        for (partition, count) in [(0, 700), (1, 1), (2, 599)] {
            let assignment = state.assign("t", partition, true);
            let (some, others) = rest.split_at(count);
            rest = others;
            let item = |finished| Item {
                place: Position {
                    assignment,
                    partition,
                    offset: 0,
                },
                finished,
            };
            batch.insert(assignment, some.iter().map(item).collect());
        }
        let order: Vec<_> = in_turns(&batch).map(|it| it.delivery.0).collect();
        let turns = [0..250, 700..701, 701..951, 250..500, 951..1_201, 500..700];
        let expected: Vec<_> = turns.into_iter().flatten().chain(1_201..1_300).collect();
        assert_eq!(order, expected);
    }
}
