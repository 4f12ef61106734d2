//! Position at which a list continues, as callers keep it.

use bytes::Bytes;
use semel_core::OpId;

use crate::wire::{In, Out};

/// Index by which a list finds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Journal,
    Live,
    Index,
}

/// Position at which a list continues: behind this bucket, this stamp, and the ids already seen
/// under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) by: By,
    pub(super) bucket: usize,
    pub(super) stamp: u64,
    /// Number of ids of the entry of this stamp that were seen.
    pub(super) seen: usize,
    /// The last id of this stamp that was seen, in the index.
    pub(super) id: Option<OpId>,
}

impl Cursor {
    pub(super) const fn first(by: By) -> Self {
        Self {
            by,
            bucket: 0,
            stamp: 0,
            seen: 0,
            id: None,
        }
    }

    pub(super) const fn next_bucket(&self) -> Self {
        Self {
            bucket: self.bucket + 1,
            ..Self::first(self.by)
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = Out::with_capacity(48);
        out.u8(CURSOR);
        out.u8(match self.by {
            By::Journal => b'j',
            By::Live => b'l',
            By::Index => b'o',
        });
        out.u16(u16::try_from(self.bucket).unwrap_or(u16::MAX));
        out.u64(self.stamp);
        out.u16(u16::try_from(self.seen).unwrap_or(u16::MAX));
        if let Some(id) = &self.id {
            out.raw(id.as_bytes());
        }
        out.0.into()
    }

    pub(super) fn decode(cursor: &[u8]) -> Option<Self> {
        let mut input = In(cursor);
        if input.u8()? != CURSOR {
            return None;
        }
        let by = match input.u8()? {
            b'j' => By::Journal,
            b'l' => By::Live,
            b'o' => By::Index,
            _ => return None,
        };
        let bucket = input.u16()?.into();
        let (stamp, seen) = (input.u64()?, input.u16()?.into());
        let id = match input.0.len() {
            0 => None,
            _ => Some(OpId::from_bytes(input.array()?)),
        };
        input.is_empty().then_some(Self {
            by,
            bucket,
            stamp,
            seen,
            id,
        })
    }
}

/// The first byte of every cursor.
const CURSOR: u8 = 0xe6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_and_nothing_else_is_one() {
        let cursors = [
            Cursor::first(By::Live),
            Cursor {
                by: By::Index,
                bucket: 63,
                stamp: u64::MAX,
                seen: 1_023,
                id: Some(OpId::from_bytes([7; 32])),
            },
        ];
        for cursor in cursors {
            let bytes = cursor.encode();
            assert_eq!(Cursor::decode(&bytes), Some(cursor));
            assert_eq!(Cursor::decode(&bytes[1..]), None);
            assert_eq!(Cursor::decode(&[&bytes[..], b"x"].concat()), None);
        }
    }
}
