//! `semel store export`.

use std::env::args_os;
use std::fs::File;
use std::io::ErrorKind as IoKind;
use std::ops::ControlFlow;
use std::path::Path;

use semel_backends::producers::open_all;
use semel_config::same_file::are_one;
use semel_core::port::store::Store;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_operate::store::note_export;
use semel_render::reports::producers::left_out_text;
use semel_render::reports::transfer::counts_text as in_words;
use semel_supervisor::same_file;
use semel_worker::transfer::{self, Counts, Use, WholeFile};

use super::moves;
use crate::Exit;
use crate::args::Audit;
use crate::args::transfer::Export;
use crate::command::operate::{self, Ground, note_of, usage};
use crate::output::{self, Plan, cannot_print};
use crate::progress::{Bars, Unit};

/// Writes everything that the store holds.
pub(crate) fn export(arguments: &Export) -> Result<Exit> {
    if let ControlFlow::Break(exit) = replaced(arguments) {
        return Ok(exit);
    }
    let reason = arguments.reason.as_deref();
    operate::export(&arguments.common, async |ground| {
        if reason.is_some() && ground.worker.is_none() {
            return Err(usage(
                "--reason goes with --admin URL, and with a worker that has the store open: an export of a store at rest \
                 leaves no entry with a reason",
            ));
        }
        match &arguments.to {
            Some(path) => to_file(ground, reason, path).await,
            None => to_stdout(ground, reason).await,
        }
    })
}

/// Asks for consent to replace the file that the export is written to, if it is there.
pub(crate) fn replaced(arguments: &Export) -> ControlFlow<Exit> {
    match &arguments.to {
        Some(path) if path.is_file() => {
            let mut plan = Plan::new("replace", "file", "files");
            plan.add(path.display());
            plan.confirmed(arguments.confirm, args_os())
        }
        Some(_) | None => ControlFlow::Continue(()),
    }
}

/// Says what was written to a file.
pub(crate) fn told(path: &Path, counts: Counts) {
    output::note(format_args!("{}: {}", path.display(), in_words(counts)));
}

/// Warns that the store is exported while a worker goes on.
pub(crate) fn warn_of_worker(worker: impl std::fmt::Display) {
    output::warning(format_args!(
        "{worker} works on the store: what changes meanwhile may be missing from the export, or be there as it was; to \
         move the store, stop it first"
    ));
}

/// Returns standard output, by a handle of its own, since that of the library searches for the ends of lines.
pub(crate) fn stdout() -> Result<File> {
    use std::os::fd::AsFd;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    Ok(File::from(stdout.map_err(cannot_print)?))
}

async fn to_file(ground: &Ground, reason: Option<&str>, path: &Path) -> Result<Exit> {
    if let Some(store) = ground.url.path()
        && are_one(store, path)
    {
        return Err(same_file::error(&path.display().to_string(), "the store"));
    }
    let (target, file) = WholeFile::create(path)?;
    let (file, counts) = write(ground, reason, file, &Bars::new()).await?;
    target.finish(&file)?;
    told(path, counts);
    warn_of_producers(ground).await;
    Ok(Exit::Done)
}

async fn to_stdout(ground: &Ground, reason: Option<&str>) -> Result<Exit> {
    match write(ground, reason, stdout()?, &Bars::beside_data()).await {
        Ok(_) => {
            warn_of_producers(ground).await;
            Ok(Exit::Done)
        }
        // The reader has had enough.
        Err(error) if is_closed(&error) => Ok(Exit::Done),
        Err(error) => Err(error),
    }
}

/// Warns of the producers of the store, which no export has.
async fn warn_of_producers(ground: &Ground) {
    let counted = match open_all(&ground.url) {
        Ok(producers) => producers.count().await,
        Err(error) => Err(error),
    };
    let list = ground.command_of_all("producers list");
    match counted {
        Ok(counted) if counted.is_none() => {}
        Ok(counted) => output::warning(format_args!(
            "not in the export, and still in {}: {}: {list}",
            ground.url,
            left_out_text(counted)
        )),
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) => output::warning(format_args!(
            "no export has what producers left in the store, and how much that is cannot be read: {error}: {list}"
        )),
    }
}

async fn write(
    ground: &Ground,
    reason: Option<&str>,
    to: File,
    bars: &Bars,
) -> Result<(File, Counts)> {
    let store = ground.transfer.as_ref().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store was not opened to be exported",
        )
    })?;
    let in_use = match ground.worker {
        Some(process) => {
            warn_of_worker(format_args!("process {process}"));
            let given = reason.filter(|it| !it.trim().is_empty());
            let beside = || format!("beside process {process}, which works on the store");
            let audit = Audit {
                reason: Some(given.map_or_else(beside, str::to_owned)),
                by: std::env::var("SEMEL_OPERATOR").ok(),
            };
            note_export(store, note_of(&audit), ground.now()).await?;
            Use::Work
        }
        None => Use::Rest,
    };
    let kind = ground.store.preflight().await?.kind;
    let stats = ground.store.stats().await?;
    let total = stats.records.iter().sum::<u64>() + stats.parked;
    let bar = bars.of_work("export", Unit::Records, Some(total));
    let watch = moves(bar, |items, _| items);
    let written = transfer::export(store, (kind, in_use), ground.now(), to, watch).await;
    bars.clear();
    if let (Use::Rest, Ok((_, counts))) = (in_use, &written)
        && counts.tokens > 1
    {
        warn_of_worker("somebody");
    }
    written
}

/// Tells whether an export failed because its reader has had enough, and not because the worker that has the store has
/// gone, whose socket says the same.
pub(crate) fn is_closed(error: &Error) -> bool {
    if error.code() != Code::TargetUnavailable {
        return false;
    }
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == IoKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_of_the_export_can_have_had_enough() {
        let broken = || std::io::Error::from(IoKind::BrokenPipe);
        let of = |code| {
            let error = Error::new(ErrorKind::Unavailable, "it broke").with_code(code);
            is_closed(&error.with_source(broken()))
        };
        assert!(of(Code::TargetUnavailable));
        assert!(!of(Code::StoreUnavailable), "the worker's socket");
        let full = Error::new(ErrorKind::Unavailable, "cannot write");
        assert!(!is_closed(&full.with_code(Code::TargetUnavailable)));
    }
}
