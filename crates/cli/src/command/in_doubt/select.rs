//! Selects the doubts that a verb is about.

use std::collections::BTreeMap;

use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{Key, Reason, Result, StateKind};
use semel_operate::in_doubt::{Doubt, Obstacle, message_id};
use semel_operate::keys::{reason, since};
use semel_operate::relative_time::when;

use crate::args::dead_letters::Which;
use crate::command::keys::tell_all_unknown;
use crate::command::operate::{Ground, for_each_page, operations};
use crate::output::{self, Go, key_text, state_text};

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
        named = all(ground, which).await?;
    } else {
        let mut unknown = Vec::new();
        let operations = operations(&ground.scope()?, keys);
        for batch in operations.chunks(BATCH) {
            let records = ground.store.get(batch).await?;
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
    find_messages(ground, &mut named).await?;
    Ok(Selection { named, is_whole })
}

/// Finds all doubts that `which` wants.
async fn all(ground: &Ground, which: &Which) -> Result<Vec<Doubt>> {
    let matching = &which.matching;
    let before = matching.older_than.map(|age| ground.now().minus(age));
    let like = matching.reason_like.as_deref().map(str::to_lowercase);
    let mut named = Vec::new();
    let query = ListQuery {
        scope: ground.narrowed(),
        state: Some(StateKind::InDoubt),
        ..ListQuery::default()
    };
    let fetch = async |query: &ListQuery| ground.store.list(query).await;
    for_each_page(query, fetch, |page| {
        for Listed { operation, record } in page {
            let is_old = before.is_none_or(|before| since(&record) <= before);
            let reason = || reason(&record).unwrap_or_default().to_lowercase();
            if is_old && like.as_ref().is_none_or(|like| reason().contains(like)) {
                named.push(Doubt {
                    operation,
                    record,
                    has_message: false,
                });
            }
        }
        Ok(Go::Continue(()))
    })
    .await?;
    Ok(named)
}

/// Finds the doubts for which a message is kept.
async fn find_messages(ground: &Ground, named: &mut [Doubt]) -> Result<()> {
    let Some(first) = named.first() else {
        return Ok(());
    };
    let scope = &first.operation.scope;
    let is_one = named.iter().all(|it| it.operation.scope == *scope);
    let query = ListQuery {
        scope: is_one.then(|| scope.clone()),
        ..in_doubt()
    };
    let places = named.iter().enumerate();
    let places: BTreeMap<_, _> = places
        .map(|(at, it)| (message_id(&it.operation), at))
        .collect();
    let fetch = async |query: &ListQuery| ground.store.list_parked(query).await;
    for_each_page(query, fetch, |messages| {
        for message in messages {
            if let Some(at) = places.get(&message.id()) {
                named[*at].has_message = true;
            }
        }
        Ok(Go::Continue(()))
    })
    .await
}

/// The query for messages that are kept for doubts.
pub(super) fn in_doubt() -> ListQuery {
    ListQuery {
        reasons: vec![Reason::InDoubt.code().into()],
        ..ListQuery::default()
    }
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

/// The number of operations in a look-up, and in an order.
pub(super) const BATCH: usize = 500;
/// The number of doubts left as they are that are reported one by one.
const TOLD: usize = 5;
