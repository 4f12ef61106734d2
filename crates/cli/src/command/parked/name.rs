//! Finds messages by what a person types: a key, or the beginning of an id.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use semel_core::{Result, Scope};
use semel_operate::parked::{LookUp, Meaning, Names, NotAName, Search};
use semel_render::names::which_scope;
use semel_worker::replay::Kind;

use crate::args::value::key;
use crate::command::operate::{Ground, usage};
use crate::output;
use crate::shell::quoted;

/// Reads keys or beginnings of ids.
///
/// # Errors   `InvalidInput`: a word is neither
pub(crate) fn names(typed: &[String]) -> Result<Names> {
    Names::parse(typed).map_err(|NotAName(name)| {
        let why = key(name).err().unwrap_or_default();
        usage(format!("{name}: {why}"))
    })
}

/// The messages that names mean.
pub(super) struct Messages {
    /// The number of messages.
    pub(super) count: u64,
    /// The search for these messages alone, so that what is done is what was planned; of all if nothing was named.
    pub(super) search: Search,
    /// The pipelines and tenants of those that keys mean.
    pub(super) scopes: BTreeSet<Scope>,
}

/// Finds out what each name means, and returns the messages that are meant. Returns `Break` after it reported a name
/// that means nothing.
///
/// # Errors   `InvalidInput`: a name means several things
/// # Cost     one pass, where there are names
pub(super) async fn look_up(ground: &Ground, search: &Search) -> Result<ControlFlow<(), Messages>> {
    let LookUp {
        count,
        names,
        ids,
        scopes,
    } = search.look_up(&ground.store).await?;
    let mut answer = ControlFlow::Continue(Messages {
        count,
        search: match ids {
            Some(ids) => search.only(ids),
            None => search.clone(),
        },
        scopes,
    });
    for (name, meaning) in names {
        let why = match meaning {
            Meaning::One => continue,
            Meaning::Nothing => {
                output::note(format_args!("{name}: {}", nothing(search)));
                answer = ControlFlow::Break(());
                continue;
            }
            Meaning::ManyIds(count) => format!("{count} ids begin so; type more of it"),
            Meaning::KeyAndId => {
                "a key, and the beginning of another message's id; type the whole id".to_owned()
            }
            Meaning::ManyScopes(scopes) => {
                let scopes: Vec<_> = scopes.iter().map(|scope| (scope, "")).collect();
                return Err(usage(which_scope(&name, &scopes)));
            }
        };
        return Err(usage(format!("{name}: {why}")));
    }
    Ok(answer)
}

fn nothing(search: &Search) -> String {
    let name = search.within.operation.as_deref();
    let tenant = search.within.tenant.as_deref().filter(|it| !it.is_empty());
    let place = match (name, tenant) {
        (Some(name), Some(tenant)) => format!(" of {name} of {}", quoted(tenant)),
        (None, Some(tenant)) => format!(" of {}", quoted(tenant)),
        (Some(name), None) => format!(" of {name}"),
        (None, None) => String::new(),
    };
    match search.kind {
        Kind::DeadLetters => format!("no dead letter{place} has this key"),
        Kind::InDoubt => format!("no message{place} that is kept for a doubt has this key"),
        Kind::Quarantined => {
            format!("no message{place} in quarantine has this key, or an id that begins so")
        }
    }
}
