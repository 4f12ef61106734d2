//! `semel store import`.

use std::env::args_os;
use std::fmt::Display;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use semel_config::StoreUrl;
use semel_core::port::store::Store;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Audited, Code, Error, ErrorKind, Result};
use semel_render::reports::transfer::{ImportResult, counts_text as in_words, things};
use semel_worker::transfer::{self, Counts, Head, Imported, Reader};

use super::moves;
use crate::Exit;
use crate::args::transfer::Import;
use crate::command::operate::{self, Ground, note_of};
use crate::output::{self, Answers, Plan};
use crate::progress::{Bars, Unit};

/// Adds everything that an export holds and the store does not.
pub(crate) fn import(arguments: &Import) -> Result<Exit> {
    if arguments.file.as_os_str() == "-" {
        return from_stream(arguments, "standard input", || Ok(std::io::stdin()));
    }
    let path = &arguments.file;
    // A pipe can be read only once, like standard input.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return from_stream(arguments, path.display(), || open(path));
    }
    let file = open(path)?;
    let total = file.metadata().map(|metadata| metadata.len()).ok();
    let bars = Bars::new();
    let bar = bars.of_work("check", Unit::Bytes, total);
    let checked = transfer::check(&file, &moves(bar, |_, bytes| bytes));
    bars.clear();
    let (head, counts) = checked?;
    let source = Source::File { path, head, counts };
    if let ControlFlow::Break(exit) = confirmed(arguments, &source)? {
        return Ok(exit);
    }
    drop(file);
    operate::fill(&arguments.common, async |ground| {
        let reader = Reader::open(open(path)?)?;
        let before = standing(ground).await?;
        carry_out(ground, arguments, reader, total, before).await
    })
}

/// Imports items as they arrive, since they arrive only once.
fn from_stream<R: std::io::Read + Send + 'static>(
    arguments: &Import,
    name: impl Display,
    stream: impl FnOnce() -> Result<R>,
) -> Result<Exit> {
    let source = Source::Stream(name.to_string());
    if let ControlFlow::Break(exit) = confirmed(arguments, &source)? {
        return Ok(exit);
    }
    // A file that is no export creates no store.
    let reader = Reader::open(stream()?)?;
    operate::fill(&arguments.common, async |ground| {
        let before = standing(ground).await?;
        carry_out(ground, arguments, reader, None, before).await
    })
}

/// The origin of the items.
enum Source<'a> {
    File {
        path: &'a Path,
        head: Head,
        counts: Counts,
    },
    Stream(String),
}

fn confirmed(arguments: &Import, source: &Source<'_>) -> Result<ControlFlow<Exit>> {
    let mut plan = Plan::new("import", "export", "exports");
    match source {
        Source::File { path, head, counts } => {
            plan.add(format_args!(
                "{}, made {} of a store of kind {}: {}",
                path.display(),
                head.created,
                head.store,
                in_words(*counts)
            ));
            plan.remark("it was read to its end and is whole");
        }
        Source::Stream(name) => {
            plan.add(name);
            plan.remark(
                "items are imported as they come: should the end turn out damaged, what precedes it \
                 stays, and the exit code is 3",
            );
        }
    }
    let Some((url, is_there)) = operate::is_there(&arguments.common)? else {
        return Ok(ControlFlow::Break(Exit::Usage));
    };
    plan.remark(into(arguments, &url, is_there)?);
    plan.remark("what is there already stays as it is");
    Ok(plan.confirmed(arguments.confirm, args_os()))
}

/// Describes the store that the items go into. Creates nothing.
fn into(arguments: &Import, url: &StoreUrl, is_there: bool) -> Result<String> {
    if !is_there {
        return Ok(format!("into {url}, which is made for it"));
    }
    let mut said = String::new();
    operate::look(&arguments.common.clone().into(), async |ground| {
        said = format!("into {url}, which holds {}", standing(ground).await?);
        Ok(Exit::Done)
    })?;
    Ok(said)
}

/// Describes how much a store holds.
async fn standing(ground: &Ground) -> Result<String> {
    let stats = ground.store.stats().await?;
    let (records, parked) = (stats.records.iter().sum::<u64>(), stats.parked);
    Ok(match (records, parked) {
        (0, 0) => "nothing".to_owned(),
        _ => in_words(Counts {
            records,
            parked,
            ..Counts::default()
        }),
    })
}

async fn carry_out<R: std::io::Read + Send + 'static>(
    ground: &Ground,
    arguments: &Import,
    reader: Reader<R>,
    total: Option<u64>,
    before: String,
) -> Result<Exit> {
    let store = ground
        .transfer
        .as_ref()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the store was not opened to be filled"))?;
    let bars = Bars::new();
    let bar = bars.of_work("import", Unit::Bytes, total);
    let imported = transfer::import(store, reader, moves(bar, |_, bytes| bytes)).await;
    bars.clear();
    let Imported { read, new, result } = imported;
    if result.is_err() && read.items() > 0 {
        output::note(format_args!(
            "imported before it failed: {} of {} items were new; import again to go on",
            things(new),
            things(read)
        ));
    }
    result?;
    let entry = Audited {
        at: ground.now(),
        note: note_of(&arguments.audit),
        action: "import".into(),
        scope: None,
        key: None,
        before: before.into(),
        after: format!("{} of {} items were new", things(new), things(read)).into(),
    };
    let _ = store
        .import([Item::Audited(Box::new(entry))].into())
        .await?;
    let done = ImportResult::of(read, new);
    let _ = Answers::new(arguments.format).print(&done)?;
    Ok(Exit::Done)
}

fn open(path: &Path) -> Result<File> {
    let open = || {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        Ok(file)
    };
    open().map_err(|error: std::io::Error| {
        let message = format!("cannot read {}", path.display());
        Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::SourceUnavailable)
            .not_applied()
            .with_source(error)
    })
}
