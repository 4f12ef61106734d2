//! The files that this process has open. POSIX drops all locks of a process on a file as soon as it closes any handle
//! of it: SQLite knows that of its own handles, but not of those beside it, nor of those that take no locks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that are open, while nobody here opens another one.
pub(crate) struct OpenedFiles(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl OpenedFiles {
    /// Waits until nobody here opens a file.
    pub(crate) fn lock() -> Self {
        Self(OPENING.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells whether this process may have locks on a file, so that SQLite alone may open it.
    #[expect(clippy::unused_self, reason = "the answer is good while it is held")]
    pub(crate) fn has(&self, path: &Path) -> bool {
        let Ok(wanted) = fs::metadata(path) else {
            return false;
        };
        let Ok(handles) = fs::read_dir(HANDLES) else {
            // Nobody tells.
            return true;
        };
        let mut handles = handles.flatten();
        handles.any(|handle| {
            let found = fs::metadata(handle.path());
            found.is_ok_and(|it| (it.dev(), it.ino()) == (wanted.dev(), wanted.ino()))
        })
    }
}

static OPENING: Mutex<()> = Mutex::new(());
/// The folder of the handles of this process.
const HANDLES: &str = "/dev/fd";
