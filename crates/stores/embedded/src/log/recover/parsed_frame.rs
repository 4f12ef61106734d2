//! A parsed frame: the positions and kinds of its entries, and the digests of its operations.

use crate::digest::{Digest, KeyedHash};
use crate::entry::{self, HEADER_LEN, Identity, Kind, RecordBody};
use crate::frame::Header;
use crate::log::Frame;

/// A frame whose checksums fit.
pub(super) struct ParsedFrame {
    pub(super) header: Header,
    /// Its offset in the segment.
    pub(super) offset: u32,
    pub(super) entries: Vec<ParsedEntry>,
    /// Set if all of it could be parsed.
    pub(super) is_whole: bool,
    /// Its payload, if that was copied.
    payload: Vec<u8>,
}

/// An entry in a payload.
#[derive(Clone, Copy)]
pub(super) struct ParsedEntry {
    pub(super) kind: Kind,
    /// Its offset in the payload, and its length.
    pub(super) at: u32,
    pub(super) len: u32,
    meta_len: u32,
    /// Digest of a record or a removal, where there is a hash.
    pub(super) digest: Digest,
}

impl Default for ParsedFrame {
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

impl ParsedFrame {
    /// Parses `frame`.
    pub(super) fn parse(&mut self, frame: &Frame<'_>, keyed_hash: Option<&KeyedHash>) {
        self.header = frame.header;
        self.offset = frame.offset;
        self.entries.clear();
        let mut rest = frame.payload;
        while let Some((header, bytes)) = entry::next(&mut rest) {
            let at = frame.payload.len() - rest.len() - bytes.len();
            let meta = &bytes[HEADER_LEN..header.lead_len()];
            let digest = keyed_hash.and_then(|keyed_hash| digest(header.kind, meta, keyed_hash));
            self.entries.push(ParsedEntry {
                kind: header.kind,
                at: short(at),
                len: short(bytes.len()),
                meta_len: short(header.meta_len),
                digest: digest.unwrap_or(Digest::FIRST),
            });
        }
        self.is_whole = rest.is_empty();
    }

    /// Parses `frame` and copies its payload.
    pub(super) fn parse_owned(&mut self, frame: &Frame<'_>, keyed_hash: Option<&KeyedHash>) {
        self.parse(frame, keyed_hash);
        self.payload.clear();
        self.payload.extend_from_slice(frame.payload);
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

impl ParsedEntry {
    /// Returns the meta part of this entry of `payload`. The checksum of the frame covers it, too.
    pub(super) fn meta<'b>(&self, payload: &'b [u8]) -> &'b [u8] {
        let start = self.at as usize + HEADER_LEN;
        &payload[start..start + self.meta_len as usize]
    }
}

fn digest(kind: Kind, meta: &[u8], keyed_hash: &KeyedHash) -> Option<Digest> {
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
    Some(keyed_hash.digest(identity))
}

/// Converts a length: payloads are shorter than 4 GiB.
fn short(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
