//! Position at which a sweep continues.

use bytes::Bytes;
use semel_core::StateKind;

/// Position at which a sweep continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(super) bucket: usize,
    /// A segment of the journal that is being visited.
    pub(super) segment: Option<Segment>,
    /// Abandoned records are being counted, from here on.
    pub(super) counting: Option<(StateKind, Option<Bytes>)>,
    pub(super) is_round: bool,
}

/// A segment of the journal, and how far it was visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) name: [u8; 5],
    /// The score that it was due for.
    pub(super) due: u64,
    /// The stamp to continue from.
    pub(super) from: u64,
    /// Time at which the last of its records is forgotten.
    pub(super) next: Option<u64>,
}
