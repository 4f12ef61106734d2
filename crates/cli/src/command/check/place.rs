//! Where a store lies, or is to lie: whether it can be written there, by whom else, and whether the
//! disk has room. Looks only; nothing is tried.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::finding::{Finding, fail, warn};
use super::storage::{Storage, bytes};
use crate::config::StoreUrl;

/// What stands in the way of a store at `url`, or may.
pub(super) fn findings(url: &StoreUrl, storage: &Storage) -> Vec<Finding> {
    let Some(path) = url.path() else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let is_there = path.exists();
    let existing = nearest(path);
    let name = existing.display();
    let mut needed = Access::WRITE_OK;
    if existing.is_dir() {
        needed |= Access::EXEC_OK;
    }
    if !is_there && !existing.is_dir() {
        findings.push(fail(
            "store-unavailable",
            format!("{name} is no folder, so that nothing can be made in it"),
            "correct `store.url`; relative paths begin in the current folder",
        ));
    } else if let Err(why) = access(existing, needed) {
        findings.push(fail(
            "store-read-only",
            format!("{name} cannot be written by this user: {why}"),
            "allow it, run as the user that owns it, or choose another place",
        ));
    }
    let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & OTHERS_WRITE != 0 {
        findings.push(warn(
            "store-exposed",
            format!("every user of this machine can change {name}, and so what counts as done"),
            format!(
                "take the right away: chmod o-w {}",
                crate::output::quoted_path(path)
            ),
        ));
    }
    let free = statvfs(existing).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if let (Some(needed), Ok(free)) = (storage.disk_bytes(), free)
        && needed > free
    {
        findings.push(warn(
            "disk-short",
            format!(
                "at that rate the store will hold {}, and its disk has {} left",
                bytes(needed),
                bytes(free)
            ),
            "make room, or shorten the window as far as duplicates allow",
        ));
    }
    findings
}

/// The path, or what there is of it.
fn nearest(path: &Path) -> &Path {
    let here = Path::new(".");
    let named = path
        .ancestors()
        .find(|part| part.as_os_str().is_empty() || part.exists());
    named
        .filter(|part| !part.as_os_str().is_empty())
        .unwrap_or(here)
}

const OTHERS_WRITE: u32 = 0o002;
