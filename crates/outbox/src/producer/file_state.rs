//! The state of a file, and the change of one while it is read.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity of a file, and what a change of it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// Device and inode.
    identity: (u64, u64),
    /// Seconds and nanoseconds of its last change.
    changed_at: (i64, i64),
    bytes: u64,
}

/// The way in which a file is another one than when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// Something else is in it, or may be.
    Changed,
    /// Another file has its name.
    Replaced,
}

impl FileState {
    pub(super) fn of(about: &Metadata) -> Self {
        Self {
            identity: (about.dev(), about.ino()),
            changed_at: (about.mtime(), about.mtime_nsec()),
            bytes: about.len(),
        }
    }

    /// Tells how the open file, which had this path, if it was named, is another one than in this state; none if it is not.
    /// Who removes it changes nothing.
    pub(super) fn change(&self, file: &File, path: Option<&Path>) -> Option<FileChange> {
        let now = file.metadata().map(|it| Self::of(&it));
        if now.ok() != Some(*self) {
            return Some(FileChange::Changed);
        }
        let named = std::fs::metadata(path?).ok()?;
        let is_other = Self::of(&named).identity != self.identity;
        is_other.then_some(FileChange::Replaced)
    }
}
