//! Power cuts, and disks that fail, fill up or turn read-only.
//!
//! Stores and servers run as they are, with their files on a file system in user space that forgets
//! unsynced writes. Each acknowledgement is noted outside; the power goes at some operation of the file
//! system, and the remaining contents are drawn: of each file and each sector any moment since the last
//! sync, of unsynced names any. Then the store is opened again and asked for everything that it ever
//! acknowledged. One store lives through ten cuts, some while it is opened.
//!
//! Modelled are: writes that are lost, torn at sectors or out of order; lengths that are there without
//! bytes; files without names and names without bytes; a failed sync whose pages count as clean from then
//! on. Not modelled are: a sector torn within itself, bits that rot, a disk that says `synced` and is not,
//! metadata that is torn (the file system itself has to prevent that), owners and modes (durable at once),
//! and writes through memory maps between the moments at which the kernel writes them back. Only one kind
//! of file system is modelled: changes of length stay in order. Redis has no checksums in its log; it is
//! cut short, and never has holes.
//!
//! The disk is a process of its own: while the kernel waits for the file system, it holds what a page
//! fault of a process needs that maps a file of it, and SQLite maps one.

mod cuts;
mod dice;
mod disk;
mod disk_faults;
mod host;
mod mount;
mod notes;
mod script;
mod servers;
mod stores;

use std::process::ExitCode;

use crate::effort::{Effort, Size};
use crate::report::Row;
use stores::Kind;

pub(crate) use host::DISK;

/// The process of a disk.
pub(crate) fn disk() -> ExitCode {
    match host::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Runs every kind of cut on the stores that need no server; the rest in campaigns.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let mut rows = vec![
        script::cut_row(),
        cuts::row(Kind::Embedded, effort, 50, u64::MAX),
        cuts::row(Kind::Sqlite, effort, 50, u64::MAX),
        cuts::row(Kind::SqliteNormal, effort, 50, CONTROL),
        disk_faults::row(Kind::Embedded, effort),
        disk_faults::row(Kind::Sqlite, effort),
    ];
    if effort.size == Size::Merge {
        return rows;
    }
    rows.insert(1, script::failure_row());
    for (kind, is_there, most) in [
        (Kind::Redis, servers::has_redis(), u64::MAX),
        (Kind::RedisEverysec, servers::has_redis(), CONTROL),
        (Kind::Postgres, servers::has_postgres(), u64::MAX),
    ] {
        rows.push(if is_there {
            cuts::row(kind, effort, 50, most)
        } else {
            absent(kind)
        });
    }
    rows
}

/// The row of a missing server: a campaign without one of its servers has failed.
fn absent(kind: Kind) -> Row {
    let mut row = Row::new(kind.name(), "cuts");
    let missing = "its server is not installed; `cargo xtask services up` installs it";
    row.violations.push(missing.to_owned());
    row
}

/// Cuts of a control.
const CONTROL: u64 = 50;
