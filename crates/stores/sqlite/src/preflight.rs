//! Promises of the store as the file is set up now.

use std::path::Path;

use rusqlite::Connection;
use semel_core::Result;
use semel_core::port::store::{Capabilities, Durability};

use crate::error::undone;
use crate::open::SYNCHRONOUS_FULL;

/// Reads the real settings.
pub(crate) fn preflight(connection: &Connection, path: &Path) -> Result<Capabilities> {
    let journal: String = pragma(connection, "journal_mode")?;
    let synchronous: i64 = pragma(connection, "synchronous")?;
    let mut found = of_path(path);
    if synchronous < SYNCHRONOUS_FULL {
        weaken(
            &mut found,
            Durability::Kill,
            "synchronous is not FULL: a power cut can take the last commits",
        );
    }
    match &*journal {
        "wal" => {}
        "delete" | "truncate" | "persist" => found.warnings.push(
            "the file cannot have a write-ahead log: readers and writers wait for each other"
                .into(),
        ),
        _ => weaken(
            &mut found,
            Durability::Process,
            "the file has no journal on disk: a crash can damage it",
        ),
    }
    Ok(found)
}

/// Returns the promises that follow from the place of the file alone.
pub(crate) fn of_path(path: &Path) -> Capabilities {
    let mut found = Capabilities {
        kind: "sqlite",
        durability: Durability::PowerCut,
        shared: true,
        warnings: Vec::new(),
    };
    match file_system(path) {
        Some(FileSystem::Network) => {
            found.shared = false;
            weaken(
                &mut found,
                Durability::Process,
                "the file is on a network file system, where locks and flushes of SQLite cannot be \
                 relied on; move it to a local disk",
            );
        }
        Some(FileSystem::Memory) => weaken(
            &mut found,
            Durability::Kill,
            "the file is in memory (tmpfs): a power cut takes all of it",
        ),
        None => {}
    }
    found
}

fn weaken(found: &mut Capabilities, to: Durability, why: &str) {
    found.durability = found.durability.min(to);
    found.warnings.push(why.into());
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> Result<T> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(undone)
}

/// A file system that changes the meaning of a flush.
enum FileSystem {
    Network,
    Memory,
}

#[cfg(target_os = "linux")]
fn file_system(path: &Path) -> Option<FileSystem> {
    const NETWORK: &[u64] = &[
        0x6969,      // NFS
        0x517b,      // SMB
        0xfe53_4d42, // SMB 2
        0xff53_4d42, // CIFS
        0x0102_1997, // 9P
        0x5346_414f, // AFS
        0x00c3_6400, // Ceph
        0x0bd0_0bd0, // Lustre
        0x0116_1970, // GFS2
    ];
    const MEMORY: &[u64] = &[
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
    ];
    let found = rustix::fs::statfs(path).ok()?;
    // The width of the field differs between machines; the numbers have 32 bits.
    #[expect(clippy::cast_sign_loss, reason = "a number that names, not counts")]
    let kind = (found.f_type as u64) & 0xffff_ffff;
    if NETWORK.contains(&kind) {
        Some(FileSystem::Network)
    } else if MEMORY.contains(&kind) {
        Some(FileSystem::Memory)
    } else {
        None
    }
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> Option<FileSystem> {
    None
}
