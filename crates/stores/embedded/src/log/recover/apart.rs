//! A frame taken apart: the positions and kinds of its entries, and the places of its operations.

use crate::entry::{self, HEADER_LEN, Identity, Kind, RecordBody};
use crate::frame::Header;
use crate::log::Frame;
use crate::place::{Place, Placing};

/// A frame whose checksums fit.
pub(super) struct Apart {
    pub(super) header: Header,
    /// Its offset in the segment.
    pub(super) offset: u32,
    pub(super) entries: Vec<Spotted>,
    /// Set if all of it could be taken apart.
    pub(super) is_whole: bool,
    /// Its payload, if that was taken along.
    payload: Vec<u8>,
}

/// An entry in a payload.
#[derive(Clone, Copy)]
pub(super) struct Spotted {
    pub(super) kind: Kind,
    /// Its offset in the payload, and its length.
    pub(super) at: u32,
    pub(super) len: u32,
    meta_len: u32,
    /// Place of a record or a removal, where there is a hash.
    pub(super) place: Place,
}

impl Default for Apart {
    fn default() -> Self {
        Self {
            header: Header::NONE,
            offset: 0,
            entries: Vec::new(),
            is_whole: false,
            payload: Vec::new(),
        }
    }
}

impl Apart {
    /// Takes `frame` apart.
    pub(super) fn spot(&mut self, frame: &Frame<'_>, placing: Option<&Placing>) {
        self.header = frame.header;
        self.offset = frame.offset;
        self.entries.clear();
        let mut rest = frame.payload;
        while let Some((header, bytes)) = entry::next(&mut rest) {
            let at = frame.payload.len() - rest.len() - bytes.len();
            let meta = &bytes[HEADER_LEN..header.lead_len()];
            let place = placing.and_then(|placing| place(header.kind, meta, placing));
            self.entries.push(Spotted {
                kind: header.kind,
                at: short(at),
                len: short(bytes.len()),
                meta_len: short(header.meta_len),
                place: place.unwrap_or(Place::FIRST),
            });
        }
        self.is_whole = rest.is_empty();
    }

    /// Takes `frame` apart and its payload along.
    pub(super) fn take(&mut self, frame: &Frame<'_>, placing: Option<&Placing>) {
        self.spot(frame, placing);
        self.payload.clear();
        self.payload.extend_from_slice(frame.payload);
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl Spotted {
    /// Returns the meta part of this entry of `payload`. The checksum of the frame covers it, too.
    pub(super) fn meta<'b>(&self, payload: &'b [u8]) -> &'b [u8] {
        let start = self.at as usize + HEADER_LEN;
        &payload[start..start + self.meta_len as usize]
    }
}

fn place(kind: Kind, meta: &[u8], placing: &Placing) -> Option<Place> {
    let identity = match kind {
        Kind::Record => RecordBody::new(meta)?.identity,
        Kind::Removed => Identity(meta),
        Kind::Padding
        | Kind::Segment
        | Kind::Entity
        | Kind::Mark
        | Kind::Parked
        | Kind::Dropped
        | Kind::Audited => return None,
    };
    Some(placing.place(identity))
}

/// Converts a length: payloads are shorter than 4 GiB.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
