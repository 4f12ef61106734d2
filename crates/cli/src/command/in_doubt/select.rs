//! Selects the doubts that a verb is about.

use std::collections::BTreeSet;

use semel_core::port::store::Store;
use semel_core::{Key, Result, Scope};
use semel_operate::in_doubt::{Doubt, Obstacle, doubts, mark_messages};
use semel_operate::order::BATCH;
use semel_operate::relative_time::when;

use crate::args::dead_letters::Which;
use crate::command::keys::tell_all_unknown;
use crate::command::operate::Ground;
use crate::output::{self, key_text, state_text};

/// The doubts that were found, of all that the arguments ask for.
pub(super) struct Selection {
    pub(super) named: Vec<Doubt>,
    /// True if every named key is on record; a missing key is reported before.
    pub(super) is_whole: bool,
}

/// Finds the records of the named keys, in whatever state they are, or all doubts that `which` wants.
///
/// # Cost   reads the messages that are kept for doubts; with `--all`, the list of doubts
pub(super) async fn select(ground: &Ground, which: &Which, keys: Vec<Key>) -> Result<Selection> {
    let (mut named, mut is_whole) = (Vec::new(), true);
    if which.matching.all {
        let matching = &which.matching;
        let before = matching.older_than.map(|age| ground.now().minus(age));
        let like = matching.reason_like.as_deref();
        named = doubts(&ground.store, ground.selection(), before, like).await?;
    } else {
        let mut unknown = Vec::new();
        let operations = ground.operations(keys).await?;
        for batch in operations.chunks(BATCH) {
            let records = ground.store.get(batch.into()).await?;
            for (operation, record) in batch.iter().zip(records) {
                match record {
                    Some(record) => named.push(Doubt {
                        operation: operation.clone(),
                        record,
                        has_message: false,
                    }),
                    None => unknown.push(operation.clone()),
                }
            }
        }
        is_whole = unknown.is_empty();
        if !is_whole {
            tell_all_unknown(ground, &unknown).await?;
        }
    }
    mark_messages(&ground.store, &mut named).await?;
    Ok(Selection { named, is_whole })
}

/// The pipelines and tenants of doubts that were named by their keys; of all doubts, none is meant.
pub(super) fn scopes_of(which: &Which, named: &[Doubt]) -> BTreeSet<Scope> {
    let named = if which.matching.all { &[] } else { named };
    named.iter().map(|it| it.operation.scope.clone()).collect()
}

/// Explains on one line why a doubt is left as it is.
pub(super) fn obstacle_text(ground: &Ground, doubt: &Doubt, obstacle: &Obstacle) -> String {
    let key = key_text(doubt.operation.key.as_str());
    match obstacle {
        Obstacle::NotQuiet { until } => format!(
            "{key}: refused: its call can still land until {}; ask again then",
            when(*until, ground.now())
        ),
        Obstacle::NotInDoubt { state, next } => format!(
            "{key} is not in doubt but {}: {}",
            state_text(*state),
            ground.command_for(next)
        ),
        Obstacle::Unretried { why, next } => {
            format!("{key}: refused: {why}: {}", ground.command_for(next))
        }
    }
}

/// Doubts that are left as they are: the first few are reported one by one, the rest is counted.
#[derive(Default)]
pub(super) struct Left(usize);

impl Left {
    pub(super) fn tell(&mut self, why: impl std::fmt::Display) {
        self.0 += 1;
        if self.0 <= TOLD {
            output::note(why);
        }
    }

    /// Reports the count of the rest; returns whether no doubt was left.
    pub(super) fn end(self) -> bool {
        if self.0 > TOLD {
            output::note(format_args!(
                "… and {} more are left as they are",
                self.0 - TOLD
            ));
        }
        self.0 == 0
    }
}

/// The number of doubts left as they are that are reported one by one.
const TOLD: usize = 5;
