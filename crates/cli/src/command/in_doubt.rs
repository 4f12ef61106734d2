//! `semel in-doubt`: effects that may or may not have happened, and their resolutions.

mod resolve;
mod retry;
mod select;
mod show;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{Operation, Parked, Reason, Result, StateKind};
use semel_operate::keys::KeyEntry;

use crate::Exit;
use crate::args::in_doubt::{InDoubt, List};
use crate::command::operate::{self, Ground, for_each_page, print_list};
use crate::output::Go;

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
            scope: ground.narrowed(),
            state: (!arguments.repeated).then_some(StateKind::InDoubt),
            repeated: arguments.repeated,
            ..ListQuery::default()
        };
        let fetch = async |query: &ListQuery| ground.store.list(query).await;
        print_list(&arguments.listing, query, fetch, |listed| {
            Some(KeyEntry::of(listed))
        })
        .await
    })
}

/// Finds the message that is kept for an operation in doubt.
///
/// # Cost   reads the messages in doubt of its pipeline
async fn message_of(ground: &Ground, operation: &Operation) -> Result<Option<Parked>> {
    let query = ListQuery {
        scope: Some(operation.scope.clone()),
        reasons: vec![Reason::InDoubt.code().into()],
        ..ListQuery::default()
    };
    let mut found = None;
    let fetch = async |query: &ListQuery| ground.store.list_parked(query).await;
    for_each_page(query, fetch, |messages| {
        let mut messages = messages.into_iter();
        found = messages.find(|message| message.key.as_ref() == Some(&operation.key));
        Ok(match found {
            Some(_) => Go::Break(()),
            None => Go::Continue(()),
        })
    })
    .await?;
    Ok(found)
}
