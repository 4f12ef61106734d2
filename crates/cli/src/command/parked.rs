//! What the verbs over parked messages share: which ones are meant, going through them page by page.
//! Not for saying what a message is kept for: that is each verb's.

mod detail;
mod dropping;
mod forecast;
mod name;
mod publishing;
mod running;

pub(crate) use detail::show;
pub(crate) use dropping::{SHORT, drop_all};
pub(crate) use name::Names;
pub(crate) use running::{Meant, Running, replay};

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{Operation, Parked, Result, Scope, StateKind, Timestamp};
use semel_worker::replay::Kind;

use crate::args::dead_letters::Matching;
use crate::command::operate::Ground;
use crate::output::Go;

/// Which messages a verb is about.
pub(crate) struct Search {
    /// Which kind.
    pub(crate) kind: Kind,
    /// Of this pipeline only.
    pub(crate) scope: Option<Scope>,
    /// What was typed to name them; nothing is all.
    pub(crate) names: Arc<Names>,
    /// Of all, only these.
    pub(crate) filter: Filter,
}

/// What must be true of a message of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    before: Option<Timestamp>,
    reason_like: Option<String>,
}

/// A parked message, and the state of its record; `None` is absent, or not asked for.
pub(crate) struct Found {
    pub(crate) message: Parked,
    pub(crate) state: Option<StateKind>,
}

impl Filter {
    pub(crate) fn of(matching: &Matching, now: Timestamp) -> Self {
        Self {
            before: matching.older_than.map(|age: Duration| now.minus(age)),
            reason_like: matching.reason_like.as_deref().map(str::to_lowercase),
        }
    }

    fn has(&self, message: &Parked) -> bool {
        let is_like = |text: &str| {
            let text = |word: &str| word.to_lowercase().contains(text);
            text(&message.reason) || text(&message.detail)
        };
        self.before.is_none_or(|before| message.since <= before)
            && self.reason_like.as_deref().is_none_or(is_like)
    }
}

impl Search {
    /// Whether a message of the kind is meant.
    pub(crate) fn wanted(&self) -> Arc<dyn Fn(&Parked) -> bool + Send + Sync> {
        let (names, filter) = (Arc::clone(&self.names), self.filter.clone());
        Arc::new(move |message| names.has(message) && filter.has(message))
    }

    /// Goes through what is meant, group by group, until `visit` says `Break`. The first group is
    /// small, so that it is there at once; later ones are large, since a view of a store that others
    /// use goes through all of it to look records up.
    ///
    /// # Cost   holds one group; dead letters want a look-up of their records for each
    pub(crate) async fn pages(
        &self,
        ground: &Ground,
        mut visit: impl AsyncFnMut(Vec<Found>) -> Result<Go>,
    ) -> Result<()> {
        let wanted = self.wanted();
        let mut query = ListQuery {
            scope: self.scope.clone(),
            reasons: self.kind.reasons(),
            limit: PAGE,
            ..ListQuery::default()
        };
        let mut most = PAGE;
        loop {
            let (mut group, mut bytes, mut is_end) = (Vec::new(), 0, false);
            while !is_end && group.len() < most && bytes < GROUP_BYTES {
                let mut page = ground.store.list_parked(&query).await?;
                page.items.retain(|message| wanted(message));
                bytes += page.items.iter().map(|it| it.payload.len()).sum::<usize>();
                group.append(&mut page.items);
                is_end = page.next.is_none();
                query.after = page.next;
            }
            most = (most * 4).min(GROUP);
            let mut found = match self.kind {
                Kind::DeadLetters | Kind::InDoubt => with_states(ground, group).await?,
                Kind::Quarantined => group.into_iter().map(Found::alone).collect(),
            };
            found.retain(|it| self.kind.has(&it.message, it.state));
            if visit(found).await?.is_break() || is_end {
                return Ok(());
            }
        }
    }
}

impl Found {
    const fn alone(message: Parked) -> Self {
        Self {
            message,
            state: None,
        }
    }

    /// The operation that it is about, if its key is known.
    pub(crate) fn operation(&self) -> Option<Operation> {
        operation(&self.message)
    }

    /// How things stand: the state of the record, or that the message is in quarantine.
    pub(crate) fn standing(&self, kind: Kind) -> &'static str {
        match (kind, self.state) {
            (Kind::Quarantined, _) => "quarantined",
            (Kind::DeadLetters | Kind::InDoubt, Some(state)) => state.as_str(),
            (Kind::DeadLetters | Kind::InDoubt, None) => "absent",
        }
    }
}

async fn with_states(ground: &Ground, messages: Vec<Parked>) -> Result<Vec<Found>> {
    let operations: Vec<_> = messages.iter().filter_map(operation).collect();
    let records = if operations.is_empty() {
        Vec::new()
    } else {
        ground.store.get(&operations).await?
    };
    let mut records = records.into_iter();
    let found = messages.into_iter().map(|message| {
        let record = message.key.as_ref().and_then(|_| records.next().flatten());
        Found {
            state: record.map(|record| record.state.kind()),
            message,
        }
    });
    Ok(found.collect())
}

fn operation(message: &Parked) -> Option<Operation> {
    let key = message.key.clone()?;
    Some(Operation::new(message.scope.clone(), key))
}

/// Messages may be long.
const PAGE: usize = 256;
/// Messages of a group, and bytes of their payloads.
const GROUP: usize = 16_384;
const GROUP_BYTES: usize = 32 << 20;
