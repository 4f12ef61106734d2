//! A batch that is to be committed: what of it is still this member's, and what was committed before. Not for
//! committing it.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Committed, Finished};
use semel_core::{Error, Result, Timestamp};

use super::{Images, unavailable};
use crate::record::KEY;
use crate::shared::{AssignmentId, Place, Shared};

/// One thing to commit, and where its record was read.
pub(super) struct Item<'f> {
    pub(super) place: Place,
    pub(super) finished: &'f Finished,
}

/// The key of the record that it was made of.
pub(super) fn record_key(finished: &Finished) -> Option<&[u8]> {
    let headers = finished.output.as_ref().map(|it| &it.headers)?;
    let key = headers.iter().find(|(name, _)| &**name == KEY);
    key.map(|(_, value)| &value[..])
}

/// What is to be committed, by assignment.
pub(super) type Batch<'f> = BTreeMap<AssignmentId, Vec<Item<'f>>>;

/// Deliveries of the batch that is to be committed whose transaction's end nobody told. The batch may be tried
/// again after the window of what was committed: it must be known then, too.
#[derive(Default)]
pub(super) struct Doubts {
    /// When each was tried last.
    pub(super) tried: BTreeMap<DeliveryId, Timestamp>,
    /// Those that were found committed.
    found: BTreeSet<DeliveryId>,
}

/// Where each was read. `None`: not by this member, or not any more.
pub(super) fn places(shared: &Shared, finished: &[Finished]) -> Vec<Option<Place>> {
    let ids: Vec<_> = finished.iter().map(|it| it.delivery).collect();
    shared.lock().places(&ids)
}

/// Sorts by assignment what is to be committed, and answers for what was. What is in neither is gone.
pub(super) fn sort<'f>(
    images: &Images,
    finished: &'f [Finished],
    places: Vec<Option<Place>>,
    refused: &BTreeMap<DeliveryId, Error>,
    doubts: &mut Doubts,
    answers: &mut [Committed],
) -> Result<Batch<'f>> {
    let now = images.clock.now();
    let known = images.lock();
    let mut batch = Batch::new();
    for ((finished, place), answer) in finished.iter().zip(places).zip(answers) {
        let Some(place) = place else {
            continue;
        };
        let Some(known) = known.get(&place.assignment) else {
            continue;
        };
        if !known.is_restored {
            let message = "what was committed is being restored from the changelog";
            return Err(unavailable(message).not_applied());
        }
        if let Some(error) = refused.get(&finished.delivery) {
            *answer = Committed::Refused(error.clone());
            continue;
        }
        *answer = Committed::Done;
        let tried = doubts.tried.get(&finished.delivery).copied();
        // It was granted, so whatever is known of it was committed since: by us.
        if doubts.found.contains(&finished.delivery) {
            continue;
        }
        if known.image.is_committed(&finished.entry, tried, now) {
            if tried.is_some() {
                doubts.found.insert(finished.delivery);
            }
        } else {
            let items = batch.entry(place.assignment).or_default();
            items.push(Item { place, finished });
        }
    }
    Ok(batch)
}

/// One thing of a batch.
pub(super) fn first(batch: Batch<'_>) -> Batch<'_> {
    let first = batch.into_iter().next();
    let first = first.map(|(id, mut items)| {
        items.truncate(1);
        (id, items)
    });
    first.into_iter().collect()
}

/// Their offsets, in order.
pub(super) fn sorted(items: &[Item<'_>]) -> Vec<i64> {
    let mut offsets: Vec<_> = items.iter().map(|item| item.place.offset).collect();
    offsets.sort_unstable();
    offsets
}
