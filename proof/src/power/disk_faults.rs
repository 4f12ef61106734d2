//! A disk that fails once, fills up, or turns read-only, at each operation of a short life.

use semel_core::{AnyStore, Code, Error};

use super::dice::Dice;
use super::disk::{Plan, Way};
use super::host::Host;
use super::notes::{Notes, Stop};
use super::stores::Kind;
use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Makes each operation of a life fail in each way; for SQLite, at a merge, only every few.
pub(crate) fn row(kind: Kind, effort: Effort) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(format!("{}, a failing disk", kind.name()), "failures");
    row.seen = [REFUSED, SAID_FULL, SAID_READ_ONLY, IN_PLACE, REOPENED]
        .map(|case| (case.to_owned(), 0))
        .into();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let host = match kind.host() {
        Ok(host) => host,
        Err(why) => {
            row.violations.push(why);
            return row;
        }
    };
    let whole = runtime.block_on(live(kind, &host, Plan::Nothing, &mut Row::default()));
    let operations = match whole {
        Ok(operations) => operations,
        Err(why) => {
            row.violations.push(format!("without any failure: {why}"));
            0
        }
    };
    // There are many similar ones, if the file is SQLite's.
    let step = match (effort.size, kind) {
        (Size::Merge, Kind::Sqlite) => 4,
        _ => 1,
    };
    for at in (0..operations).step_by(step) {
        let plans = [Plan::FailOnce(at), Plan::Full(at), Plan::ReadOnly(at)];
        for (name, plan) in FAULTS.into_iter().zip(plans) {
            row.tried += 1;
            *row.faults.entry(name.to_owned()).or_default() += 1;
            if let Err(why) = runtime.block_on(live(kind, &host, plan, &mut row)) {
                row.violations.push(format!("{plan:?}: {why}"));
            }
        }
        if row.violations.len() > ENOUGH {
            break;
        }
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// Plays a life with one failure, then without, then a power cut; returns the number of its
/// operations.
async fn live(kind: Kind, host: &Host, plan: Plan, row: &mut Row) -> Result<u64, String> {
    let notes = Notes::default();
    host.again()?;
    host.mount()?;
    host.plan(plan)?;
    let opened = kind.open_files(host.folder());
    let (store, refused) = match opened {
        Ok(store) => {
            let refused = use_it(&store, &notes, "before", ROUNDS).await?;
            (Some(store), refused)
        }
        Err(error) => (None, Some(error)),
    };
    let operations = host.operations()?;
    host.plan(Plan::Nothing)?;
    if let Some(error) = &refused {
        see(row, REFUSED);
        is_clear(plan, error, row)?;
    }
    // It goes on as soon as the disk is well, or answers that it must be opened anew.
    if let Some(store) = store {
        match use_it(&store, &notes, "in place", 1).await? {
            None if refused.is_some() => see(row, IN_PLACE),
            None => {}
            Some(error) if error.code() == Code::StorePoisoned => {}
            Some(error) => return Err(format!("does not go on: {error:?}")),
        }
    }
    let store = kind.open_files(host.folder());
    let store = store.map_err(|error| format!("does not open again: {error:?}"))?;
    if refused.is_some() {
        see(row, REOPENED);
    }
    look(&notes, &store, row).await?;
    if let Some(error) = use_it(&store, &notes, "after", 1).await? {
        return Err(format!("does not go on when opened again: {error:?}"));
    }
    host.switch_off()?;
    drop(store);
    host.forget(Way::Nothing, Way::Nothing, 0)?;
    host.mount()?;
    let store = kind.open_files(host.folder());
    let store = store.map_err(|error| format!("does not open after a power cut: {error:?}"))?;
    look(&notes, &store, row).await?;
    drop(store);
    host.forget(Way::Nothing, Way::Nothing, 0)?;
    Ok(operations)
}

/// Uses the store for some rounds; returns the error with which it refused.
async fn use_it(
    store: &AnyStore,
    notes: &Notes,
    name: &str,
    rounds: u64,
) -> Result<Option<Error>, String> {
    let mut dice = Dice::new(3);
    for round in 0..rounds {
        match notes
            .round(store, &format!("{name}-{round}"), &mut dice)
            .await
        {
            Ok(()) => {}
            Err(Stop::Refused(error)) => return Ok(Some(error)),
            Err(Stop::Wrong(what)) => return Err(what),
        }
    }
    Ok(None)
}

async fn look(notes: &Notes, store: &AnyStore, row: &mut Row) -> Result<(), String> {
    let found = notes.look(store).await.map_err(|error| error.to_string())?;
    row.lost += found.lost.len() as u64;
    match found.lost.into_iter().chain(found.wrong).next() {
        Some(what) => Err(what),
        None => Ok(()),
    }
}

/// Checks that the error is one of a disk, and whether it names the cause.
fn is_clear(plan: Plan, error: &Error, row: &mut Row) -> Result<(), String> {
    match error.code() {
        Code::StoreFull if matches!(plan, Plan::Full(_)) => see(row, SAID_FULL),
        Code::StoreReadOnly if matches!(plan, Plan::ReadOnly(_)) => see(row, SAID_READ_ONLY),
        Code::StoreUnavailable | Code::StorePoisoned => {}
        _ => return Err(format!("refused with {error:?}")),
    }
    Ok(())
}

fn see(row: &mut Row, case: &str) {
    *row.seen.entry(case.to_owned()).or_default() += 1;
}

const FAULTS: [&str; 3] = ["failed operation", "full disk", "read-only disk"];
const REFUSED: &str = "refused";
const SAID_FULL: &str = "said that the disk is full";
const SAID_READ_ONLY: &str = "said that the disk is read-only";
const IN_PLACE: &str = "went on in place";
const REOPENED: &str = "went on when opened again";
/// Rounds of a life.
const ROUNDS: u64 = 8;
/// Violations that are reported.
const ENOUGH: usize = 5;
