//! Parked messages in the order of their log.

use std::collections::{HashMap, VecDeque};

use semel_core::port::store::ListQuery;
use semel_core::{Parked, ParkedId, Result};

use super::snapshot::Snapshot;
use super::walk::Entries;
use crate::entry::{Kind, ParkedBody, take_dropped};
use crate::frame;
use crate::log::Location;

/// A list of parked messages in progress.
pub(super) struct ParkedWalk {
    snapshot: Snapshot,
    query: ListQuery,
    /// Locations at which messages were dropped, or written again so that an older segment may go.
    moved: HashMap<ParkedId, Location>,
    ready: VecDeque<Parked>,
    at: (usize, u32),
}

impl ParkedWalk {
    pub(super) fn begin(snapshot: Snapshot, query: &ListQuery) -> Result<Self> {
        Ok(Self {
            moved: moves(&snapshot)?,
            snapshot,
            query: query.clone(),
            ready: VecDeque::new(),
            at: (0, 0),
        })
    }

    /// Returns the next message.
    pub(super) fn next(&mut self) -> Result<Option<Parked>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if !self.read_on()? {
                return Ok(None);
            }
        }
    }

    /// Takes in the next frames; returns `false` at the end of the log.
    fn read_on(&mut self) -> Result<bool> {
        let (index, offset) = self.at;
        let Some(segment) = self.snapshot.parked.get(index) else {
            return Ok(false);
        };
        let mut scan = segment.scan(offset);
        while scan.offset() - offset < AT_ONCE_BYTES {
            let Some(frame) = scan.next()? else {
                segment.check_end(&scan)?;
                self.at = (index + 1, 0);
                return Ok(true);
            };
            let mut entries = Entries::of(&frame, segment);
            while let Some((location, header, bytes)) = entries.next()? {
                if header.kind != Kind::Parked {
                    continue;
                }
                let damaged = || segment.damaged(location.offset, "a parked message");
                let body = header.meta(bytes).and_then(ParkedBody::decode);
                let ParkedBody { id, message, .. } = body.ok_or_else(damaged)?;
                let is_gone = self.moved.get(&id).is_some_and(|at| *at > location);
                if is_gone || !self.query.fits_parked(&message) {
                    continue;
                }
                let payload = header.tail(bytes).ok_or_else(damaged)?;
                let payload = bytes::Bytes::copy_from_slice(payload);
                self.ready.push_back(Parked { payload, ..message });
            }
        }
        self.at = (index, scan.offset());
        Ok(true)
    }
}

/// Collects the locations at which messages were dropped or written again: in memory, sixteen bytes of id and a
/// location each.
fn moves(snapshot: &Snapshot) -> Result<HashMap<ParkedId, Location>> {
    let mut moved = HashMap::new();
    for segment in &snapshot.parked {
        let mut scan = segment.scan(0);
        while let Some(frame) = scan.next()? {
            let is_carried = frame.header.flags & frame::CARRIED != 0;
            let mut entries = Entries::of(&frame, segment);
            while let Some((location, header, bytes)) = entries.next()? {
                let id = match header.kind {
                    Kind::Dropped => header.meta(bytes).and_then(take_dropped),
                    Kind::Parked if is_carried => {
                        let body = header.meta(bytes).and_then(ParkedBody::decode);
                        body.map(|body| body.id)
                    }
                    Kind::Parked
                    | Kind::Padding
                    | Kind::Segment
                    | Kind::Record
                    | Kind::Removed
                    | Kind::Entity
                    | Kind::Mark
                    | Kind::Audited => continue,
                };
                let id = id.ok_or_else(|| segment.damaged(location.offset, "a parked message"))?;
                moved.insert(id, location);
            }
        }
        segment.check_end(&scan)?;
    }
    Ok(moved)
}

/// Bytes of the log that are read before their messages are handed out.
const AT_ONCE_BYTES: u32 = 1 << 20;
