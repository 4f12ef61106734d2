//! Paged lists. A cursor is the id of the last item of the page before.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Listed, Page};
use semel_core::{Audited, Error, ErrorKind, OpId, Parked, ParkedId, Record, Result, Timestamp};

use crate::state::State;

/// Returns a page of records, without their outcomes.
///
/// # Cost   goes on until the page is full: nothing is bounded here, and nothing is indexed by tenant or operation
pub(crate) fn records(state: &State, query: &ListQuery, now: Timestamp) -> Result<Page<Listed>> {
    let wanted = |listed: &Listed| {
        query.fits_record(&listed.operation, &listed.record) && !listed.record.is_forgotten(now)
    };
    let after = cursor(query)?.map(OpId::from_bytes);
    let mut page = page(&state.records, after, query.limit, wanted, |id| {
        Bytes::copy_from_slice(id.as_bytes())
    });
    for listed in &mut page.items {
        listed.record = Record {
            outcome: None,
            ..listed.record.clone()
        };
    }
    Ok(page)
}

/// Returns a page of parked messages.
pub(crate) fn parked(state: &State, query: &ListQuery) -> Result<Page<Parked>> {
    let wanted = |parked: &Parked| query.fits_parked(parked);
    let after = cursor(query)?.map(ParkedId::from_bytes);
    Ok(page(&state.parked, after, query.limit, wanted, |id| {
        Bytes::copy_from_slice(&id.to_bytes())
    }))
}

/// Returns a page of the audit trail; its cursor is a count of entries.
pub(crate) fn audit(state: &State, query: &ListQuery) -> Result<Page<Audited>> {
    let from = cursor(query)?.map_or(0, u64::from_be_bytes);
    let mut rest = (0..).zip(&state.audit);
    let mut rest = rest
        .by_ref()
        .filter(|(at, entry)| *at >= from && query.fits_entry(entry));
    let page: Vec<_> = rest.by_ref().take(query.limit.max(1)).collect();
    let next = rest
        .next()
        .map(|(at, _): (u64, _)| Bytes::copy_from_slice(&at.to_be_bytes()));
    let items = page.into_iter().map(|(_, entry)| entry.clone()).collect();
    Ok(Page { items, next })
}

fn page<K: Ord + Copy, T: Clone>(
    all: &BTreeMap<K, T>,
    after: Option<K>,
    limit: usize,
    wanted: impl Fn(&T) -> bool,
    cursor: impl Fn(&K) -> Bytes,
) -> Page<T> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = all
        .range((from, Bound::Unbounded))
        .filter(|(_, item)| wanted(item));
    let taken: Vec<_> = rest.by_ref().take(limit.max(1)).collect();
    let more = rest.next().is_some();
    let next = taken.last().filter(|_| more).map(|(id, _)| cursor(id));
    Page {
        items: taken.into_iter().map(|(_, item)| item.clone()).collect(),
        next,
    }
}

/// Returns the cursor as an id of `N` bytes.
fn cursor<const N: usize>(query: &ListQuery) -> Result<Option<[u8; N]>> {
    let Some(bytes) = &query.after else {
        return Ok(None);
    };
    match <[u8; N]>::try_from(&**bytes) {
        Ok(id) => Ok(Some(id)),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidInput,
            "the cursor is not one of this list",
        )),
    }
}
