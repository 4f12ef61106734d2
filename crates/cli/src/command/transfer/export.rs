//! `semel store export`.

use std::env::args_os;
use std::fs::File;
use std::io::ErrorKind as IoKind;
use std::ops::ControlFlow;
use std::path::Path;

use semel_config::same_file::are_one;
use semel_core::port::store::Store;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_render::reports::transfer::counts_text as in_words;
use semel_supervisor::same_file;
use semel_worker::transfer::{self, Counts, WholeFile};

use super::moves;
use crate::Exit;
use crate::args::transfer::Export;
use crate::command::operate::{self, Ground};
use crate::output::{self, Plan, cannot_print};
use crate::progress::{Bars, Unit};

/// Writes everything that the store holds.
pub(crate) fn export(arguments: &Export) -> Result<Exit> {
    if let Some(path) = &arguments.to
        && path.is_file()
    {
        let mut plan = Plan::new("replace", "file", "files");
        plan.add(path.display());
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os()) {
            return Ok(exit);
        }
    }
    operate::export(&arguments.common, async |ground| match &arguments.to {
        Some(path) => to_file(ground, path).await,
        None => to_stdout(ground).await,
    })
}

async fn to_file(ground: &Ground, path: &Path) -> Result<Exit> {
    if let Some(store) = ground.url.path()
        && are_one(store, path)
    {
        return Err(same_file::error(&path.display().to_string(), "the store"));
    }
    let (target, file) = WholeFile::create(path)?;
    let (file, counts) = write(ground, file, &Bars::new()).await?;
    target.finish(&file)?;
    output::note(format_args!("{}: {}", path.display(), in_words(counts)));
    Ok(Exit::Done)
}

async fn to_stdout(ground: &Ground) -> Result<Exit> {
    use std::os::fd::AsFd;
    // A handle of its own, since that of the library searches for the ends of lines.
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    let stdout = File::from(stdout.map_err(cannot_print)?);
    match write(ground, stdout, &Bars::beside_data()).await {
        Ok(_) => Ok(Exit::Done),
        // The reader has had enough.
        Err(error) if is_closed(&error) => Ok(Exit::Done),
        Err(error) => Err(error),
    }
}

async fn write(ground: &Ground, to: File, bars: &Bars) -> Result<(File, Counts)> {
    if let Some(process) = ground.worker {
        let message = format!(
            "the store is in use by process {process}, and is exported while nobody uses it: stop it first"
        );
        return Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::StoreInUse)
            .not_applied());
    }
    let store = ground.transfer.as_ref().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store was not opened to be exported",
        )
    })?;
    let kind = ground.store.preflight().await?.kind;
    let stats = ground.store.stats().await?;
    let total = stats.records.iter().sum::<u64>() + stats.parked;
    let bar = bars.of_work("export", Unit::Records, Some(total));
    let watch = moves(bar, |items, _| items);
    let written = transfer::export(store, kind, ground.now(), to, watch).await;
    bars.clear();
    written
}

fn is_closed(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == IoKind::BrokenPipe)
}
