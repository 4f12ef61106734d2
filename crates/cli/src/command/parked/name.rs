//! Finds messages by what a person types: a key, or the beginning of an id.

use std::ops::ControlFlow;

use semel_core::Result;
use semel_operate::parked::{LookUp, Meaning, Names, NotAName, Search};
use semel_worker::replay::Kind;

use crate::args::value::key;
use crate::command::operate::{Ground, usage};
use crate::output;

/// Reads keys or beginnings of ids.
///
/// # Errors   `InvalidInput`: a word is neither
pub(crate) fn names(typed: &[String]) -> Result<Names> {
    Names::parse(typed).map_err(|NotAName(name)| {
        let why = key(name).err().unwrap_or_default();
        usage(format!("{name}: {why}"))
    })
}

/// Finds out what each name means, and returns the number of messages that are meant. Returns `Break` after it
/// reported a name that means nothing.
///
/// # Errors   `InvalidInput`: a name means several things
/// # Cost     one pass, where there are names
pub(super) async fn look_up(ground: &Ground, search: &Search) -> Result<ControlFlow<(), u64>> {
    let LookUp { count, names } = search.look_up(&ground.store).await?;
    let mut answer = ControlFlow::Continue(count);
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
            Meaning::ManyPipelines => {
                "a key in several pipelines; name one with --pipeline".to_owned()
            }
        };
        return Err(usage(format!("{name}: {why}")));
    }
    Ok(answer)
}

fn nothing(search: &Search) -> String {
    let place = search.within.operation.as_deref();
    let place = place.map_or_else(String::new, |name| format!(" of {name}"));
    match search.kind {
        Kind::DeadLetters => format!("no dead letter{place} has this key"),
        Kind::InDoubt => format!("no message{place} that is kept for a doubt has this key"),
        Kind::Quarantined => {
            format!("no message{place} in quarantine has this key, or an id that begins so")
        }
    }
}
