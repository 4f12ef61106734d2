//! The names of a disk, as they are, as they were last synced, and the changes in between.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

type Table = BTreeMap<(u64, OsString), u64>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    now: Table,
    durable: Table,
    pending: Vec<Move>,
}

/// The changes to one name, or to two at once.
type Move = Vec<(u64, OsString, Option<u64>)>;

impl Names {
    pub(super) fn get(&self, folder: u64, name: &OsStr) -> Option<u64> {
        self.now.get(&(folder, name.to_owned())).copied()
    }

    pub(super) fn list(&self, folder: u64) -> Vec<(OsString, u64)> {
        let range = self.now.range((folder, OsString::new())..);
        range
            .take_while(|((of, _), _)| *of == folder)
            .map(|((_, name), inode)| (name.clone(), *inode))
            .collect()
    }

    pub(super) fn set(&mut self, folder: u64, name: &OsStr, inode: Option<u64>) {
        self.push(vec![(folder, name.to_owned(), inode)]);
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), inode: u64) {
        self.push(vec![
            (from.0, from.1.to_owned(), None),
            (to.0, to.1.to_owned(), Some(inode)),
        ]);
    }

    fn push(&mut self, change: Move) {
        apply(&change, &mut self.now);
        self.pending.push(change);
    }

    /// Makes the changes in `folder` durable; of a rename between two folders, both sides.
    pub(super) fn sync(&mut self, folder: u64) {
        for change in std::mem::take(&mut self.pending) {
            if change.iter().any(|(of, _, _)| *of == folder) {
                apply(&change, &mut self.durable);
            } else {
                self.pending.push(change);
            }
        }
    }

    pub(super) fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            apply(&change, &mut self.durable);
        }
    }

    /// The names after the power came back, and the number of lost changes: those that `keeps` does
    /// not choose by their place among all pending ones.
    pub(super) fn survive(&self, mut keeps: impl FnMut(usize, usize) -> bool) -> (Self, u64) {
        let mut table = self.durable.clone();
        let mut lost = 0;
        for (place, change) in self.pending.iter().enumerate() {
            if keeps(place, self.pending.len()) {
                apply(change, &mut table);
            } else {
                lost += 1;
            }
        }
        let survived = Self {
            now: table.clone(),
            durable: table,
            pending: Vec::new(),
        };
        (survived, lost)
    }

    /// Removes everything that is not below an existing folder.
    pub(super) fn keep_reachable(&mut self, root: u64) -> Vec<u64> {
        let mut reached = vec![root];
        let mut next = 0;
        while let Some(&folder) = reached.get(next) {
            next += 1;
            let inodes = self.list(folder).into_iter().map(|(_, inode)| inode);
            reached.extend(inodes);
        }
        reached.sort_unstable();
        reached.dedup();
        let is_reached = |(folder, _): &(u64, OsString)| reached.binary_search(folder).is_ok();
        self.now.retain(|place, _| is_reached(place));
        self.durable.clone_from(&self.now);
        reached
    }
}

fn apply(change: &Move, table: &mut Table) {
    for (folder, name, inode) in change {
        match inode {
            Some(inode) => table.insert((*folder, name.clone()), *inode),
            None => table.remove(&(*folder, name.clone())),
        };
    }
}
