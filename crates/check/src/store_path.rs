//! Checks the place of a store, existing or planned: whether it can be written, by which other users, and
//! whether the disk has room. Only looks; tries nothing.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, access, statvfs};
use semel_backends::store::{exposed, hide};
use semel_config::StoreUrl;
use semel_operate::check::{Disk, Finding, Room, fail, warn};
use semel_operate::shell::quoted_path;
use semel_operate::value::bytes_text as bytes;

/// Lists what stands, or may stand, in the way of a store at `url`. A database that is not yet a store
/// (`is_store`) is for its owner to protect.
pub(crate) fn findings(url: &StoreUrl, is_store: bool, needs: &Room) -> Vec<Finding> {
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
            format!("take the right away: chmod o-w {}", quoted_path(path)),
        ));
    } else if is_store && let (Some(exposed), Some(hide)) = (exposed(url), hide(url)) {
        let advice = format!("take the right away: {hide}");
        findings.push(warn("store-exposed", exposed, advice));
    }
    if let Some(disk) = needs.disk {
        findings.extend(short(needs.needed, disk));
    }
    findings
}

/// Measures the disk of a store; nothing if that cannot be read. What the store has of it already is for a comparison
/// with what it needs (`is_compared`), and nothing if it cannot be read: that room then has to be free.
pub(crate) fn disk(url: &StoreUrl, is_compared: bool) -> Option<Disk> {
    let path = url.path()?;
    let found = statvfs(nearest(path)).ok()?;
    let held = is_compared.then(|| held(url, path).ok()).flatten();
    Some(Disk {
        held: held.unwrap_or(0),
        free: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

/// The bytes that the files of a store take on their disk; none before it is there.
fn held(url: &StoreUrl, path: &Path) -> io::Result<u64> {
    // A store may be behind a link.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match url {
        StoreUrl::Sqlite(_) => {
            let log = |suffix: &str| {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                taken(Path::new(&name))
            };
            Ok(taken(path)? + log("-wal")? + log("-shm")?)
        }
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Server(_) => taken(path),
    }
}

/// The bytes that a file, or all that is in a folder, takes on its disk. A link is not followed.
fn taken(path: &Path) -> io::Result<u64> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut bytes = found.blocks() * BLOCK_BYTES;
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            bytes += taken(&entry?.path())?;
        }
    }
    Ok(bytes)
}

/// Compares the `needed` room, where it is known, with what the store has and what is free.
fn short(needed: Option<u64>, disk: Disk) -> Option<Finding> {
    let left = bytes(disk.free);
    let why = match needed {
        Some(needed) if !disk.fits(needed) => {
            let needed = bytes(needed);
            let has = match disk.held {
                0 => String::new(),
                held => format!(" and has {}", bytes(held)),
            };
            format!("at that rate the store will hold {needed}{has}, and its disk has {left} left")
        }
        Some(_) | None if disk.free < LEAST_BYTES => {
            format!("the disk of the store has {left} left")
        }
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
/// The unit in which the system counts what a file takes.
const BLOCK_BYTES: u64 = 512;
/// The least free room; less is as good as none.
const LEAST_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_rate_needs_and_a_little_in_any_case() {
        let short = |needed, held, free| short(needed, Disk { held, free });
        let message = |needed, free| short(needed, 0, free).map(|finding| finding.message);
        assert_eq!(message(None, 1 << 30), None);
        assert_eq!(message(Some(1 << 30), 1 << 30), None);
        assert_eq!(
            message(Some((1 << 30) + 1), 1 << 30).as_deref(),
            Some("at that rate the store will hold 1.00 GiB, and its disk has 1.00 GiB left")
        );
        let (held, free) = (3 << 28, 1 << 28);
        assert_eq!(
            short(Some(1 << 30), held, free),
            None,
            "most of it is there"
        );
        let finding = short(Some((1 << 30) + 1), held, free).expect("a finding");
        assert_eq!(
            finding.message,
            "at that rate the store will hold 1.00 GiB and has 768.00 MiB, and its disk has 256.00 MiB left"
        );
        for needed in [None, Some(1)] {
            let told = message(needed, 1_024);
            let expected = "the disk of the store has 1.00 KiB left";
            assert_eq!(told.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_store_has_what_its_files_take() {
        let folder = tempfile::tempdir().expect("a folder");
        let [store, file] = ["store", "s.db"].map(|name| folder.path().join(name));
        let embedded = StoreUrl::Embedded(store.clone());
        let sqlite = StoreUrl::Sqlite(file.clone());
        for url in [&embedded, &sqlite] {
            let disk = disk(url, true).expect("is measured");
            assert_eq!(disk.held, 0, "it is not there yet");
            assert!(disk.free > 0, "{disk:?}");
        }
        std::fs::create_dir(&store).expect("a folder");
        let content = vec![7; 1 << 20];
        for path in [store.join("ledger"), file, folder.path().join("s.db-wal")] {
            std::fs::write(path, &content).expect("written");
        }
        let held = |url: &StoreUrl| disk(url, true).expect("is measured").held;
        assert!(held(&embedded) >= 1 << 20);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&store, &link).expect("a link");
        assert_eq!(held(&StoreUrl::Embedded(link)), held(&embedded));
        assert!(held(&sqlite) >= 2 << 20);
        assert!(disk(&StoreUrl::Memory, true).is_none());
    }

    #[test]
    fn what_there_is_of_a_path_may_be_the_current_folder() {
        let here = Path::new(".");
        assert_eq!(nearest(Path::new("no-such-folder/data")), here);
        assert_eq!(nearest(Path::new("/no-such-folder/data")), Path::new("/"));
        assert_eq!(nearest(Path::new("src/nothing/here")), Path::new("src"));
    }
}
