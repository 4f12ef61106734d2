//! `semel dead-letters`: messages whose operations Semel gave up, and those that relays gave up.

pub(crate) mod relays;

use std::sync::Arc;

use semel_core::port::outbox::operations::DeadOrder;
use semel_core::{Key, Result};
use semel_operate::parked::{Filter, Names, Search};
use semel_render::reports::parked::Listed;
use semel_worker::replay::Kind;

use crate::Exit;
use crate::args::Rerun;
use crate::args::dead_letters::{DeadLetters, DeadWhich, Drop, List, Show, Which};
use crate::command::operate::{self, Ground, keys_from, note_of, usage};
use crate::command::parked::{self, Running, drop_all};
use crate::output::{self, Go};

use relays::{Meant, meant};

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
    let relays = match meant(&arguments.common, &arguments.of)? {
        Meant::Faulty => return Ok(Exit::Usage),
        Meant::Relays(relays) => return relays::list(&relays, &arguments.listing),
        Meant::Pipelines => Vec::new(),
        Meant::Both(relays) => relays,
    };
    operate::look(&arguments.common, async |ground| {
        let search = Search {
            kind: Kind::DeadLetters,
            within: ground.selection(),
            names: Arc::default(),
            filter: Filter::default(),
        };
        let mut list = output::List::new(&arguments.listing);
        let mut is_over = false;
        search
            .pages(&ground.store, async |found| {
                for it in found {
                    if list.push(&Listed::of_pipeline(it))?.is_break() {
                        is_over = true;
                        return Ok(Go::Break(()));
                    }
                }
                let go = list.pause()?;
                is_over = go.is_break();
                Ok(go)
            })
            .await?;
        let listed = if is_over {
            Ok(())
        } else {
            relays::push_all(&relays, &mut list).await
        };
        list.end()?;
        listed.map(|()| Exit::Done)
    })
}

fn show(arguments: &Show) -> Result<Exit> {
    if arguments.payload && arguments.keys.len() != 1 {
        return Err(usage("--payload prints the payload of one key; name one"));
    }
    let meant = meant(&arguments.common, &arguments.of)?;
    match meant.of_keys(&arguments.keys)? {
        Meant::Faulty => return Ok(Exit::Usage),
        Meant::Relays(relays) => {
            let ids = relays::ids(&arguments.keys)?;
            return relays::show(&relays, &ids, arguments.format, arguments.payload);
        }
        Meant::Pipelines | Meant::Both(_) => {}
    }
    operate::look(&arguments.common, async |ground| {
        let search = of_keys(ground, arguments.keys.clone())?;
        parked::show(ground, &search, arguments.format, arguments.payload).await
    })
}

fn replay(arguments: &Rerun<DeadWhich>) -> Result<Exit> {
    let DeadWhich { which, of } = &arguments.which;
    let running = Running::of(arguments);
    let keys = keys(which)?;
    match meant(&arguments.common, of)?.of_keys(&keys)? {
        Meant::Faulty => return Ok(Exit::Usage),
        Meant::Relays(relays) => {
            let order = relays::Order {
                what: DeadOrder::TryAgain,
                note: &running.note,
                confirm: arguments.confirm,
                format: arguments.format,
            };
            return order.carry_out(&relays, &relays::search(which, &keys)?);
        }
        Meant::Pipelines | Meant::Both(_) => {}
    }
    parked::replay(&arguments.common, &running, &async |ground: &_| {
        search(ground, which, keys.clone()).map(Into::into)
    })
}

fn drop(arguments: &Drop) -> Result<Exit> {
    let DeadWhich { which, of } = &arguments.which;
    let note = note_of(&arguments.audit);
    let keys = keys(which)?;
    match meant(&arguments.common, of)?.of_keys(&keys)? {
        Meant::Faulty => return Ok(Exit::Usage),
        Meant::Relays(relays) => {
            let order = relays::Order {
                what: DeadOrder::Drop,
                note: &note,
                confirm: arguments.confirm,
                format: arguments.format,
            };
            return order.carry_out(&relays, &relays::search(which, &keys)?);
        }
        Meant::Pipelines | Meant::Both(_) => {}
    }
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let search = search(ground, which, keys)?;
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
