//! Messages that were set aside, as orders select them, and plans to drop them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Key, ParkedId, Scope, Timestamp};
use semel_http::Problem;
use semel_operate::order::Left;
use semel_operate::parked::{DeadLetter, Filter, Found, Groups, Names, Quarantined, Search};
use semel_worker::replay::Kind;

use super::plan::{Change, Digest, Discard, Plan, Work};
use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES};
use crate::keys::which;
use crate::parked::message_id;
use crate::reading::Reading;

/// Messages, or what is known of them, in the order of their age.
type Oldest<T> = BTreeMap<(Timestamp, ParkedId), T>;

/// Goes through the messages that an order is about, and keeps the oldest.
pub(super) struct Selecting<'s, T> {
    selection: &'s Selection,
    groups: Groups,
    /// The pipelines and tenants of each key that was named, as far as messages have it.
    scopes: BTreeMap<Key, BTreeSet<Scope>>,
    /// The messages whose ids were named.
    met: BTreeSet<ParkedId>,
    /// Those that are kept.
    pub(super) found: Oldest<T>,
    is_whole: bool,
}

/// The messages that an order is about.
pub(super) struct Selected<T> {
    pub(super) found: Oldest<T>,
    /// The names that no message has.
    pub(super) left: Vec<Left>,
    /// False if there are more.
    pub(super) is_whole: bool,
    /// The latest time since which one of them is kept, where all are meant.
    pub(super) until: Option<Timestamp>,
}

impl<'s, T> Selecting<'s, T> {
    /// Begins with messages of a kind.
    pub(super) fn begin(kind: Kind, selection: &'s Selection, bounds: Bounds) -> Self {
        let (names, filter) = match &selection.which {
            Which::Keys(keys) => (Names::keys(keys.clone()), Filter::default()),
            Which::Ids(ids) => (
                Names::ids(ids.iter().filter_map(|id| message_id(id)).collect()),
                Filter::default(),
            ),
            Which::All {
                older_than,
                reason_like,
            } => {
                let before = bounds.until.or(older_than.map(|age| bounds.at.minus(age)));
                let age = before.map(|_| Duration::ZERO);
                let filter = Filter::new(age, reason_like.as_deref(), before.unwrap_or(bounds.at));
                (Names::default(), filter)
            }
        };
        let search = Search {
            kind,
            within: selection.within.clone(),
            names: Arc::new(names),
            filter,
        };
        Self {
            selection,
            groups: search.small_groups(),
            scopes: BTreeMap::new(),
            met: BTreeSet::new(),
            found: Oldest::new(),
            is_whole: true,
        }
    }

    /// Returns the next group; nothing after the last one.
    pub(super) async fn next(&mut self, reading: &Reading) -> Result<Option<Vec<Found>>, Problem> {
        // Whatever else waits for the store comes first.
        tokio::task::yield_now().await;
        let group = reading.within(self.groups.next(&reading.store)).await?;
        for it in group.iter().flatten() {
            match (&self.selection.which, &it.message.key) {
                (Which::Keys(_), Some(key)) => {
                    let scopes = self.scopes.entry(key.clone()).or_default();
                    if scopes.len() < SCOPES {
                        scopes.insert(it.message.scope.clone());
                    }
                }
                (Which::Ids(_), _) => {
                    self.met.insert(it.message.id());
                }
                (Which::Keys(_) | Which::All { .. }, _) => {}
            }
        }
        Ok(group)
    }

    /// Keeps what is known of a message, unless others are older.
    pub(super) fn keep(&mut self, since: Timestamp, id: ParkedId, known: T) {
        self.found.insert((since, id), known);
        if self.found.len() > MOST_CHANGES {
            self.found.pop_last();
            self.is_whole = false;
        }
    }

    /// Ends after the last group.
    pub(super) fn selected(self) -> Result<Selected<T>, Problem> {
        let left = unmet(self.selection, &self.met, &self.scopes)?;
        let is_all = matches!(self.selection.which, Which::All { .. });
        let until = self.found.last_key_value().map(|((since, _), _)| *since);
        Ok(Selected {
            left,
            is_whole: self.is_whole,
            until: until.filter(|_| is_all),
            found: self.found,
        })
    }
}

/// Plans to drop messages of a kind.
pub(super) async fn drop(
    reading: &Reading,
    kind: Kind,
    selection: &Selection,
    bounds: Bounds,
) -> Result<Plan, Problem> {
    let mut selecting = Selecting::begin(kind, selection, bounds);
    while let Some(group) = selecting.next(reading).await? {
        for it in group {
            let discard = Discard::of(&it, kind == Kind::DeadLetters);
            let (since, id) = (it.message.since, discard.id);
            selecting.keep(since, id, (change_of(it, kind), discard));
        }
    }
    let selected = selecting.selected()?;
    let mut digest = Digest::default();
    for ((since, id), (change, _)) in &selected.found {
        let state = match change {
            Change::DeadLetter(it) => &*it.state,
            _ => "quarantined",
        };
        digest.text(&format!("{id} {} {state}", since.as_millis()));
    }
    let (changes, messages): (Vec<_>, Vec<_>) = selected.found.into_values().unzip();
    Ok(Plan {
        at: bounds.at,
        until: selected.until,
        changes,
        left: selected.left,
        is_whole: selected.is_whole,
        digest: digest.finish(),
        work: Work::Messages(messages),
    })
}

fn change_of(found: Found, kind: Kind) -> Change {
    match kind {
        Kind::Quarantined => Change::Quarantined(Box::new(Quarantined::from(found))),
        Kind::DeadLetters | Kind::InDoubt => Change::DeadLetter(Box::new(DeadLetter::from(found))),
    }
}

/// Returns the names that no message has; refuses a key that several pipelines or tenants have.
fn unmet(
    selection: &Selection,
    met: &BTreeSet<ParkedId>,
    scopes: &BTreeMap<Key, BTreeSet<Scope>>,
) -> Result<Vec<Left>, Problem> {
    let mut left = Vec::new();
    match &selection.which {
        Which::All { .. } => {}
        Which::Ids(ids) => {
            let ids = ids.iter();
            let unmet = ids.filter(|id| message_id(id).is_none_or(|it| !met.contains(&it)));
            left.extend(unmet.map(|id| Left::id(id, UNKNOWN_MESSAGE)));
        }
        Which::Keys(keys) => {
            for key in keys {
                let Some(scopes) = scopes.get(key) else {
                    left.push(Left::key(key.as_str(), UNKNOWN_MESSAGE));
                    continue;
                };
                let pipelines: BTreeSet<_> = scopes.iter().map(Scope::operation).collect();
                if pipelines.len() > 1 {
                    let pipelines: Vec<_> = pipelines.into_iter().collect();
                    return Err(which("pipeline", &pipelines));
                }
                if scopes.len() > 1 {
                    let tenants: Vec<_> = scopes.iter().map(Scope::tenant).collect();
                    return Err(which("tenant", &tenants));
                }
            }
        }
    }
    Ok(left)
}

/// The number of pipelines and tenants of a key that are told.
const SCOPES: usize = 8;
const UNKNOWN_MESSAGE: &str = "no message of this kind has it";
