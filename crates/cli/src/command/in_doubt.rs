//! `semel in-doubt`: effects that may or may not have happened, and their resolutions.

mod resolve;
mod retry;
mod select;
mod show;

pub(crate) use resolve::word_of;

use semel_core::port::store::{ListQuery, Listed};
use semel_core::{Result, StateKind};
use semel_operate::keys::KeyEntry;

use crate::Exit;
use crate::args::in_doubt::{InDoubt, List};
use crate::command::operate::{self, print_list};

/// Carries out one of the verbs.
pub(crate) fn run(verb: &InDoubt) -> Result<Exit> {
    match verb {
        InDoubt::List(arguments) => list(arguments),
        InDoubt::Show(arguments) => show::show(arguments),
        InDoubt::Resolve(arguments) => resolve::resolve(arguments),
        InDoubt::Retry(arguments) => retry::retry(arguments),
    }
}

fn list(arguments: &List) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let query = ListQuery {
            state: (!arguments.repeated).then_some(StateKind::InDoubt),
            repeated: arguments.repeated,
            ..ground.selection()
        };
        print_list(
            &ground.store,
            &arguments.listing,
            query,
            |listed: Listed| Some(KeyEntry::of(listed)),
        )
        .await
    })
}
