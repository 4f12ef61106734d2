//! `semel in-doubt retry`: the effect is called again under the same key, although nobody knows what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use semel_core::decide::{self, Directed, Order};
use semel_core::{Result, StateKind};
use semel_worker::replay::{Kind, unretried};

use super::select::{Left, Named, Selection, id, select};
use crate::Exit;
use crate::args::Rerun;
use crate::args::dead_letters::Which;
use crate::command::dead_letters::keys;
use crate::command::operate::Ground;
use crate::command::parked::{self, Filter, Meant, Names, Running, Search};
use crate::output::{key_text, state_text};

/// Runs the kept messages of doubts again, where that is no second effect or a repeat is accepted. A doubt without a
/// message waits for the next one of its key.
pub(super) fn retry(arguments: &Rerun<Which>) -> Result<Exit> {
    let running = Running::of(arguments);
    let keys = keys(&arguments.which)?;
    parked::replay(&arguments.common, &running, &async |ground: &_| {
        let Selection { named, is_whole } = select(ground, &arguments.which, keys.clone()).await?;
        let mut left = Left::default();
        let (mut ids, mut alone) = (BTreeSet::new(), Vec::new());
        for named in named {
            match why_not(ground, &named) {
                Some(why) => left.tell(why),
                None if named.has_message => {
                    ids.insert(id(&named.operation));
                }
                None => alone.push(named.operation),
            }
        }
        Ok(Meant {
            search: Search {
                kind: Kind::InDoubt,
                scope: None,
                names: Arc::new(Names::ids(ids)),
                filter: Filter::default(),
            },
            alone,
            is_whole: left.end() && is_whole,
        })
    })
}

/// Why it is not to be tried again, if it is not.
fn why_not(ground: &Ground, named: &Named) -> Option<String> {
    let key = key_text(named.operation.key.as_str());
    let state = named.record.state.kind();
    if state != StateKind::InDoubt {
        return Some(format!(
            "{key} is not in doubt but {}: {}",
            state_text(state),
            ground.command("keys explain", &named.operation)
        ));
    }
    let decision = decide::operate(Some(&named.record), None, &Order::Retry, ground.now());
    match decision.answer {
        Directed::Now(_) => None,
        Directed::Refused(_) | Directed::Failed(_) => Some(format!(
            "{key}: refused: {}: {}",
            unretried(&named.record),
            ground.command("in-doubt resolve", &named.operation)
        )),
    }
}
