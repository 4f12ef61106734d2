//! `semel dead-letters`: messages whose operations Semel gave up.

use std::sync::Arc;

use semel_core::{Key, Result};
use semel_operate::parked::{DeadLetter, Filter, Names, Search};
use semel_worker::replay::Kind;

use crate::Exit;
use crate::args::Rerun;
use crate::args::dead_letters::{DeadLetters, Drop, List, Show, Which};
use crate::command::operate::{self, Ground, keys_from, note_of, usage};
use crate::command::parked::{self, Running, drop_all};
use crate::output::{self, Column, Entry, Go, Row};

/// Carries out one of the verbs.
pub(crate) fn run(verb: &DeadLetters) -> Result<Exit> {
    match verb {
        DeadLetters::List(arguments) => list(arguments),
        DeadLetters::Show(arguments) => show(arguments),
        DeadLetters::Replay(arguments) => replay(arguments),
        DeadLetters::Drop(arguments) => drop(arguments),
    }
}

fn list(arguments: &List) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let search = Search {
            kind: Kind::DeadLetters,
            within: ground.selection(),
            names: Arc::default(),
            filter: Filter::default(),
        };
        let mut list = output::List::new(&arguments.listing);
        search
            .pages(&ground.store, async |found| {
                for it in found {
                    if list.push(&DeadLetter::from(it))?.is_break() {
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
    if arguments.payload && arguments.keys.len() != 1 {
        return Err(usage("--payload prints the payload of one key; name one"));
    }
    operate::look(&arguments.common, async |ground| {
        let search = of_keys(ground, arguments.keys.clone())?;
        parked::show(ground, &search, arguments.format, arguments.payload).await
    })
}

fn replay(arguments: &Rerun<Which>) -> Result<Exit> {
    let running = Running::of(arguments);
    let keys = keys(&arguments.which)?;
    parked::replay(&arguments.common, &running, &async |ground: &_| {
        search(ground, &arguments.which, keys.clone()).map(Into::into)
    })
}

fn drop(arguments: &Drop) -> Result<Exit> {
    let note = note_of(&arguments.audit);
    let keys = keys(&arguments.which)?;
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let search = search(ground, &arguments.which, keys)?;
        drop_all(ground, &search, &note, arguments.confirm, arguments.format).await
    })
}

/// Every named key once, those of a file included.
///
/// # Errors   `InvalidInput`: no key is named, and not all are meant
pub(crate) fn keys(which: &Which) -> Result<Vec<Key>> {
    let mut keys = which.keys.clone();
    if let Some(file) = &which.keys_from {
        keys.extend(keys_from(file)?);
        if keys.is_empty() {
            return Err(usage("no keys: the file that --keys-from names is empty"));
        }
    }
    if keys.is_empty() && !which.matching.all {
        return Err(usage("which ones? name keys, or --all"));
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

fn search(ground: &Ground, which: &Which, keys: Vec<Key>) -> Result<Search> {
    if which.matching.all {
        return Ok(Search {
            kind: Kind::DeadLetters,
            within: ground.selection(),
            names: Arc::default(),
            filter: parked::filter(&which.matching, ground.now()),
        });
    }
    of_keys(ground, keys)
}

fn of_keys(ground: &Ground, keys: Vec<Key>) -> Result<Search> {
    Ok(Search {
        kind: Kind::DeadLetters,
        within: ground.one_pipeline()?,
        names: Arc::new(Names::keys(keys)),
        filter: Filter::default(),
    })
}

impl Entry for DeadLetter {
    const COLUMNS: &'static [Column] = &[
        Column::text("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::word("state").at_least("completed".len()),
        Column::time("since"),
        Column::number("size_bytes").or("bytes"),
        Column::text("coordinates"),
        Column::text("error"),
    ];
    const NONE: &'static str = "no dead letters";

    fn fill(&self, row: &mut Row) {
        row.show_some(self.key.as_ref())
            .text(&self.pipeline)
            .show_some(self.tenant.as_ref())
            .text(&self.state.replace('_', " "))
            .time(self.since.0)
            .show(self.size_bytes)
            .text(&self.coordinates)
            .text(&self.error);
    }
}
