//! Looks at stores in files of this machine, whose path may be wrong and which a process may have open.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use semel_config::StoreUrl;
use semel_core::{Code, Error};
use semel_engine::system::SystemClock;
use semel_operate::shell::quoted_path;
use semel_store_embedded::Inspector;
use semel_worker::control::SOCKET;

/// Tells whether there is an embedded store, or something else that opening reports.
pub(super) fn is_embedded_there(path: &Path) -> bool {
    // A folder in which a store was about to be created holds a lock and no store yet.
    let clock = Arc::new(SystemClock::new());
    let is_absent = |error: &Error| {
        // An error with a cause means something unreadable, which may be a store.
        let has_cause = std::error::Error::source(error).is_some();
        error.code() == Code::StoreUnavailable && !has_cause
    };
    let looked = Inspector::open(path, clock);
    path.exists() && !looked.err().as_ref().is_some_and(is_absent)
}

/// Tells the same of an SQLite file.
pub(super) fn is_sqlite_there(path: &Path) -> bool {
    let is_store = |looked: Option<semel_store_sqlite::Inspection>| {
        looked.is_some_and(|looked| looked.is_store)
    };
    path.exists() && semel_store_sqlite::inspect(path, &[]).map_or(true, is_store)
}

/// The process that the lock file of an embedded store names, if it is alive. This is only a hint: the lock
/// itself is not taken, because a worker that is just starting must not miss it.
pub(super) fn holder(folder: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join("lock")).ok()?;
    let id: u32 = text.trim().parse().ok()?;
    let process = i32::try_from(id).ok().and_then(Pid::from_raw)?;
    match test_kill_process(process) {
        Ok(()) | Err(Errno::PERM) if !is_ended(id) => Some(id),
        Ok(()) | Err(_) => None,
    }
}

/// Tells whether the folder has the socket of a worker that takes orders, live or left over.
pub(super) fn takes_orders(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder.join(SOCKET)).is_ok_and(|found| found.file_type().is_socket())
}

/// Tells whether other users of this machine can read the store at `url`.
pub fn is_exposed(url: &StoreUrl) -> bool {
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |it| it.permissions().mode());
    match url {
        // A folder that nobody else may enter keeps its contents private.
        StoreUrl::Embedded(folder) if mode(folder) & OTHERS_ENTER != 0 => {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files
                .into_iter()
                .any(|file| mode(&file.path()) & OTHERS_READ != 0)
        }
        StoreUrl::Sqlite(file) => mode(file) & OTHERS_READ != 0,
        StoreUrl::Embedded(_) | StoreUrl::Memory | StoreUrl::Server(_) => false,
    }
}

/// The warning that other users of this machine can read the store at `url`; nothing if only its owner can.
pub fn exposed(url: &StoreUrl) -> Option<String> {
    let path = url.path().filter(|_| is_exposed(url))?;
    Some(format!(
        "other users of this machine can read {}, and the messages that are kept in it",
        path.display()
    ))
}

/// Returns the command that takes the right to read away from other users.
pub fn hide(url: &StoreUrl) -> Option<String> {
    let path = quoted_path(url.path()?);
    Some(match url {
        StoreUrl::Embedded(_) => format!("chmod -R go= {path}"),
        StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => {
            format!("chmod go= {path}*")
        }
    })
}

/// Tells whether a process has ended and its parent has not collected its status: it keeps its number, but no
/// files.
fn is_ended(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name stands in parentheses and may contain some.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

const OTHERS_ENTER: u32 = 0o011;
const OTHERS_READ: u32 = 0o044;
