//! `semel in-doubt retry`: calls the effect again under the same key, although nobody knows what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use semel_core::Result;
use semel_core::port::store::ListQuery;
use semel_operate::in_doubt::message_id;
use semel_operate::parked::{Filter, Names, Search};
use semel_worker::replay::Kind;

use super::select::{Left, Selection, obstacle_text, scopes_of, select};
use crate::Exit;
use crate::args::Rerun;
use crate::args::dead_letters::Which;
use crate::command::dead_letters::keys;
use crate::command::parked::{self, Meant, Running};

/// Runs the kept messages of doubts again, if that causes no second effect or the operator accepts a repeat. A
/// doubt without a message waits for the next message of its key.
pub(super) fn retry(arguments: &Rerun<Which>) -> Result<Exit> {
    let running = Running::of(arguments);
    let keys = keys(&arguments.which)?;
    parked::replay(&arguments.common, &running, &async |ground: &_| {
        let Selection { named, is_whole } = select(ground, &arguments.which, keys.clone()).await?;
        let named_scopes = scopes_of(&arguments.which, &named);
        let mut left = Left::default();
        let (mut ids, mut alone) = (BTreeSet::new(), Vec::new());
        for named in named {
            match named.unretried(ground.now()) {
                Some(obstacle) => left.tell(obstacle_text(ground, &named, &obstacle)),
                None if named.has_message => {
                    ids.insert(message_id(&named.operation));
                }
                None => alone.push(named.operation),
            }
        }
        Ok(Meant {
            search: Search {
                kind: Kind::InDoubt,
                within: ListQuery::default(),
                names: Arc::new(Names::ids(ids)),
                filter: Filter::default(),
            },
            alone,
            named: named_scopes,
            is_whole: left.end() && is_whole,
        })
    })
}
