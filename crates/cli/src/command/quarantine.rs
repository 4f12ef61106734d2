//! `semel quarantine`: messages that were set aside unrun.

use std::sync::Arc;

use semel_core::Result;
use semel_operate::parked::{Filter, Names, Quarantined, Search};
use semel_worker::replay::Kind;

use crate::Exit;
use crate::args::Rerun;
use crate::args::quarantine::{Drop, List, Quarantine, Release, Show, Which};
use crate::command::operate::{self, Ground, note_of, usage};
use crate::command::parked::{self, Running, drop_all};
use crate::output::{self, Go};

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Quarantine) -> Result<Exit> {
    match verb {
        Quarantine::List(arguments) => list(arguments),
        Quarantine::Show(arguments) => show(arguments),
        Quarantine::Release(arguments) => release(arguments),
        Quarantine::Drop(arguments) => drop(arguments),
    }
}

fn list(arguments: &List) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let search = of_names(ground, Names::default(), Filter::default());
        let mut list = output::List::new(&arguments.listing);
        search
            .pages(&ground.store, async |found| {
                for it in found {
                    if list.push(&Quarantined::from(it))?.is_break() {
                        return Ok(Go::Break(()));
                    }
                }
                list.pause()
            })
            .await?;
        list.end()?;
        Ok(Exit::Done)
    })
}

fn show(arguments: &Show) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let names = parked::names(&arguments.names)?;
        let search = of_names(ground, names, Filter::default());
        parked::show(ground, &search, arguments.format, arguments.payload).await
    })
}

fn release(arguments: &Rerun<Release>) -> Result<Exit> {
    let Release { which, key } = &arguments.which;
    named(which)?;
    let running = Running {
        key: key.clone(),
        ..Running::of(arguments)
    };
    parked::replay(&arguments.common, &running, &async |ground: &_| {
        search(ground, which).map(Into::into)
    })
}

fn drop(arguments: &Drop) -> Result<Exit> {
    named(&arguments.which)?;
    let note = note_of(&arguments.audit);
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let search = search(ground, &arguments.which)?;
        drop_all(ground, &search, &note, arguments.confirm, arguments.format).await
    })
}

/// Refuses arguments that select no message.
///
/// # Errors   `InvalidInput`: nothing is named, and not all are meant
pub(crate) fn named(which: &Which) -> Result<()> {
    if which.names.is_empty() && !which.matching.all {
        return Err(usage("which ones? name ids or keys, or --all"));
    }
    Ok(())
}

fn search(ground: &Ground, which: &Which) -> Result<Search> {
    let filter = parked::filter(&which.matching, ground.now());
    Ok(of_names(ground, parked::names(&which.names)?, filter))
}

fn of_names(ground: &Ground, names: Names, filter: Filter) -> Search {
    Search {
        kind: Kind::Quarantined,
        within: ground.selection(),
        names: Arc::new(names),
        filter,
    }
}
