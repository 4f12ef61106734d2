//! The tables of the outbox and their trigger: creating them, and reading their format.

use semel_core::outbox::PARTITIONS;
use semel_core::{Code, Error, ErrorKind, Result};

use crate::answer::{only, parsed, some_number};
use crate::error::{Failure, misconfigured};
use crate::pool::PooledConnection;
use crate::schema::{lock, unlock};
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::{OUTBOX, Text};

/// The format of the outbox that this version creates and knows.
pub const OUTBOX_FORMAT: i64 = 1;

/// The tables that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// None.
    Nothing,
    /// Tables whose making has not come to its end.
    HalfMade,
    /// Tables of this format.
    Format(i64),
}

/// Looks for the tables.
pub(crate) async fn found(connection: &mut PooledConnection) -> Result<Found, Failure> {
    let mut script = Script::default();
    script.add(&OUTBOX.format, &[]);
    let sets = match connection.run(&script).await {
        Ok(sets) => sets,
        Err(failure) if is_refused(&failure, &[NO_TABLE]) => {
            connection.ended();
            return Ok(Found::Nothing);
        }
        Err(failure) => return Err(failure),
    };
    connection.ended();
    let format = sets[0].rows.first().map(|row| parsed(row, 0));
    Ok(match format {
        None => Found::HalfMade,
        Some(format) => Found::Format(format.ok().flatten().unwrap_or(i64::MAX)),
    })
}

/// Refuses an outbox that is missing, half made or newer.
pub(crate) async fn check(connection: &mut PooledConnection) -> Result<()> {
    match found(connection).await.map_err(Failure::uncommitted)? {
        Found::Format(OUTBOX_FORMAT) => Ok(()),
        Found::Format(other) => {
            let message = format!(
                "the outbox has format {other}, this version knows {OUTBOX_FORMAT}; use a newer version"
            );
            Err(Error::new(ErrorKind::InvalidConfig, message)
                .with_code(Code::StoreNewer)
                .not_applied())
        }
        Found::HalfMade => Err(misconfigured(
            "the table semel_outbox has no trigger yet, and takes no messages without it: whoever makes it needs the \
             right TRIGGER on it, and where the server writes a binary log, SUPER as well, unless an administrator has \
             set log_bin_trust_function_creators = 1; see to that, and say `semel store migrate --yes` again",
        )),
        Found::Nothing => Err(misconfigured(
            "there is no table semel_outbox in the database of the store's url; `semel store migrate --yes` makes one, \
             if the user of that url may create tables and triggers there",
        )),
    }
}

/// Creates the tables and the trigger where they are not. Where the user of the url may not, leaves that to the check of
/// a relay.
pub(crate) async fn create(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    lock(session, connection, LOCK).await?;
    let made = make(connection).await;
    unlock(session, connection, LOCK, made.is_ok()).await;
    made
}

async fn make(connection: &mut PooledConnection) -> Result<()> {
    match steps(connection).await {
        Ok(()) => Ok(()),
        Err(failure) if is_refused(&failure, &LACKS_RIGHT) => {
            connection.ended();
            Ok(())
        }
        Err(failure) => Err(failure.uncommitted()),
    }
}

/// Does what is not done yet, also of a creation that broke off.
async fn steps(connection: &mut PooledConnection) -> Result<(), Failure> {
    let found = found(connection).await?;
    if matches!(found, Found::Format(format) if format != OUTBOX_FORMAT) {
        return Ok(());
    }
    let texts = &*OUTBOX;
    let mut script = Script::default();
    if matches!(found, Found::Nothing | Found::HalfMade) {
        // Creating tables commits each of them.
        script.add(&texts.create, &[]);
    }
    let seen = script.add(&texts.has_trigger, &[]);
    let sets = connection.run(&script).await?;
    let is_there = only(&sets[seen]).and_then(|row| some_number(row, 0));
    if is_there.unwrap_or(0) == 0 {
        let mut script = Script::default();
        if semel_core::planted("X16") {
            script.add(&unlocked(&texts.trigger), &[]);
        } else {
            script.add(&texts.trigger, &[]);
        }
        match connection.run(&script).await {
            Err(failure) if !is_refused(&failure, &[TRIGGER_IS_THERE]) => return Err(failure),
            Ok(_) | Err(_) => {}
        }
    }
    if matches!(found, Found::Nothing | Found::HalfMade) {
        let mut script = Script::default();
        script.add(&texts.made, &[&slots()]);
        connection.run(&script).await?;
    }
    connection.ended();
    Ok(())
}

/// Returns the trigger of the bug X16: a place is the time, and no transaction waits for another.
fn unlocked(trigger: &Text) -> Text {
    let without = |part: &str| {
        let part = part.replace("GREATEST(place + 1, micros) WHERE", "place WHERE 0 AND");
        let read = "(SELECT place FROM semel_outbox_places WHERE slot = hash & 1023)";
        part.replace(read, "micros").into()
    };
    Text {
        parts: trigger.parts.iter().map(|part| without(part)).collect(),
        statements: trigger.statements,
    }
}

/// Returns the rows of the slots that order keys fall into.
fn slots() -> Literal {
    let mut rows = Literal::default();
    for slot in 0..SLOTS {
        rows.comma();
        rows.push_code(&format!("({slot},0)"));
    }
    rows
}

/// Makes the rows of the partitions of a stream.
pub(super) async fn make_partitions(
    connection: &mut PooledConnection,
    stream: &str,
) -> Result<(), Failure> {
    let mut rows = Literal::default();
    for part in 0..PARTITIONS {
        rows.comma();
        rows.push_code("(");
        rows.push_typed_text(stream);
        rows.push_code(&format!(",{part})"));
    }
    let mut script = Script::default();
    script.add(&OUTBOX.parts, &[&rows]);
    connection.run(&script).await.map(drop)
}

pub(super) fn is_refused(failure: &Failure, with: &[u16]) -> bool {
    let refusal = failure.refusal();
    refusal.is_some_and(|error| with.contains(&error.code))
}

/// The name under which one process makes an outbox.
const LOCK: &str = "semel_outbox";
/// The number of the rows that order keys fall into, which is part of the format.
const SLOTS: u16 = 1_024;
const NO_TABLE: u16 = 1146;
const TRIGGER_IS_THERE: u16 = 1359;
/// Answers to a user who may not make tables or triggers.
const LACKS_RIGHT: [u16; 6] = [1044, 1142, 1143, 1227, 1370, 1419];
