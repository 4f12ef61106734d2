//! The contents of a disk after the power went.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Change, Disk, Inode, ROOT, put};
use crate::power::dice::Dice;

/// The bytes that a disk writes at once, or not at all.
const SECTOR_BYTES: usize = 512;

/// The way in which unsynced writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    Nothing,
    Everything,
    /// The first ones, up to some sector of some write.
    Short,
    /// The first ones, up to some moment; of the write of that moment any sectors.
    First,
    /// Anything: each sector, and each name, as it was at some moment of its own.
    Any,
}

/// The unsynced writes at a power cut, and the lost ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forgotten {
    /// Writes and lengths that were not synced.
    pub(crate) pending: u64,
    /// Writes of which no sector is left.
    pub(crate) lost: u64,
    /// Writes of which some sectors are left.
    pub(crate) torn: u64,
    /// Names that were created, renamed or removed in vain.
    pub(crate) names: u64,
}

impl Way {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 => Self::Short,
            3 => Self::First,
            4.. => Self::Any,
        }
    }

    /// The same for files that only grow, on a file system that extends a file once the new bytes are
    /// written, as journaling ones do: their end is missing, never their middle.
    pub(crate) fn draw_growing(dice: &mut Dice) -> Self {
        match dice.below(4) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2.. => Self::Short,
        }
    }
}

impl Disk {
    /// The disk when the power is back.
    pub(crate) fn survivor(&self, data: Way, names: Way, dice: &mut Dice) -> (Self, Forgotten) {
        let mut forgotten = Forgotten::default();
        let moment = dice.below(self.operations.max(1) + 1);
        let (mut names, lost) = self.names.survive(|place, of| match names {
            Way::Nothing => false,
            Way::Everything => true,
            Way::Short | Way::First => (place as u64) < moment % (of as u64 + 1),
            Way::Any => dice.below(2) == 0,
        });
        forgotten.names = lost;
        let reached = names.keep_reachable(ROOT);
        let mut inodes = BTreeMap::new();
        for (number, inode) in &self.inodes {
            forgotten.pending += inode.pending.len() as u64;
            if reached.binary_search(number).is_ok() {
                let bytes = inode.survivor(data, dice, &mut forgotten);
                let inode = Inode {
                    now: bytes.clone(),
                    durable: bytes,
                    pending: Vec::new(),
                    ..*inode
                };
                inodes.insert(*number, inode);
            }
        }
        let disk = Self {
            inodes,
            names,
            next: self.next,
            ..Self::new()
        };
        (disk, forgotten)
    }
}

impl Inode {
    fn survivor(&self, way: Way, dice: &mut Dice, forgotten: &mut Forgotten) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // Sectors that the disk did not write again; later writes to them are lost too, since a sector
        // is written with its whole content at that moment.
        let mut closed = BTreeSet::new();
        let first = usize::try_from(dice.below(self.pending.len() as u64 + 1)).unwrap_or(0);
        let mut is_over = false;
        for (place, change) in self.pending.iter().enumerate() {
            let odds = match way {
                Way::Everything => Odds::Always,
                Way::Short | Way::First if place < first => Odds::Always,
                Way::Short | Way::First if place == first => Odds::Even,
                Way::Any => Odds::Even,
                Way::Nothing | Way::Short | Way::First => Odds::Never,
            };
            match change {
                // Lengths are kept in order, and no write at a length outlives it.
                Change::Length(_) => {
                    is_over |= !odds.draw(dice);
                    if !is_over {
                        change.apply(&mut bytes);
                    }
                }
                Change::Write { at, bytes: written } => {
                    let (mut left, mut pieces) = (0, 0);
                    for (start, piece) in sectors(*at, written) {
                        let sector = start / SECTOR_BYTES;
                        let is_short = way == Way::Short && left < pieces;
                        pieces += 1;
                        let is_lost = is_over || is_short || closed.contains(&sector);
                        if !is_lost && odds.draw(dice) {
                            put(&mut bytes, start, piece);
                            left += 1;
                        } else {
                            closed.insert(sector);
                        }
                    }
                    forgotten.lost += u64::from(left == 0);
                    forgotten.torn += u64::from(left > 0 && left < pieces);
                }
            }
        }
        // The length may be there although the bytes are not.
        if way == Way::Any && bytes.len() < self.now.len() && !is_over && dice.below(4) == 0 {
            bytes.resize(self.now.len(), 0);
        }
        bytes
    }
}

#[derive(Clone, Copy)]
enum Odds {
    Never,
    Even,
    Always,
}

impl Odds {
    fn draw(self, dice: &mut Dice) -> bool {
        match self {
            Self::Never => false,
            Self::Even => dice.below(2) == 0,
            Self::Always => true,
        }
    }
}

/// A write, sector by sector, each with its offset.
fn sectors(at: usize, mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = at;
    std::iter::from_fn(move || {
        let room = SECTOR_BYTES - start % SECTOR_BYTES;
        let (piece, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        let here = start;
        start += piece.len();
        bytes = rest;
        (!piece.is_empty()).then_some((here, piece))
    })
}
