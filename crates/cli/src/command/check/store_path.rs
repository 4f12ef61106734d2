//! Checks the place of a store, existing or planned: whether it can be written, by which other users, and
//! whether the disk has room. Only looks; tries nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use semel_config::StoreUrl;
use semel_operate::check::{Finding, Storage, fail, warn};

use super::report::bytes;
use crate::command::notices::{exposed, hide};

/// Lists what stands, or may stand, in the way of a store at `url`. A database that is not yet a store
/// (`is_store`) is for its owner to protect.
pub(super) fn findings(url: &StoreUrl, is_store: bool, storage: &Storage) -> Vec<Finding> {
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
            "correct `store.url`; a relative path begins in the folder of the file that names it",
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
                crate::shell::quoted_path(path)
            ),
        ));
    } else if is_store && let (Some(exposed), Some(hide)) = (exposed(url), hide(url)) {
        let advice = format!("take the right away: {hide}");
        findings.push(warn("store-exposed", exposed, advice));
    }
    if let Ok(disk) = statvfs(existing) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        findings.extend(room(storage.disk_bytes(), free));
    }
    findings
}

/// Compares the `needed` room, where it is known, with the `free` room.
fn room(needed: Option<u64>, free: u64) -> Option<Finding> {
    let left = bytes(free);
    let why = match needed {
        Some(needed) if needed > free => {
            let needed = bytes(needed);
            format!("at that rate the store will hold {needed}, and its disk has {left} left")
        }
        Some(_) | None if free < LEAST_BYTES => format!("the disk of the store has {left} left"),
        Some(_) | None => return None,
    };
    let advice = "make room, or shorten the window as far as duplicates allow";
    Some(warn("disk-short", why, advice))
}

/// The path, or the part of it that exists.
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
/// The least free room; less is as good as none.
const LEAST_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_rate_needs_and_a_little_in_any_case() {
        let message = |needed, free| room(needed, free).map(|finding| finding.message);
        assert_eq!(message(None, 1 << 30), None);
        assert_eq!(message(Some(1 << 30), 1 << 30), None);
        assert_eq!(
            message(Some((1 << 30) + 1), 1 << 30).as_deref(),
            Some("at that rate the store will hold 1.00 GiB, and its disk has 1.00 GiB left")
        );
        for needed in [None, Some(1)] {
            let told = message(needed, 1_024);
            let expected = "the disk of the store has 1.00 KiB left";
            assert_eq!(told.as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_there_is_of_a_path_may_be_the_current_folder() {
        let here = Path::new(".");
        assert_eq!(nearest(Path::new("no-such-folder/data")), here);
        assert_eq!(nearest(Path::new("/no-such-folder/data")), Path::new("/"));
        assert_eq!(nearest(Path::new("src/nothing/here")), Path::new("src"));
    }
}
