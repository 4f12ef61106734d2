//! Plans to drop messages that were set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Key, ParkedId, Scope, Timestamp};
use semel_http::Problem;
use semel_operate::parked::{DeadLetter, Filter, Found, Names, Quarantined, Search};
use semel_worker::replay::Kind;

use super::plan::{Change, Digest, Discard, Left, Plan, Work};
use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES};
use crate::keys::which;
use crate::parked::message_id;
use crate::reading::Reading;

/// Messages in the order of their age.
type Messages = BTreeMap<(Timestamp, ParkedId), (Change, Discard)>;

/// Plans to drop messages of a kind.
pub(super) async fn drop(
    reading: &Reading,
    kind: Kind,
    selection: &Selection,
    bounds: Bounds,
) -> Result<Plan, Problem> {
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
    let mut found = Messages::new();
    let mut is_whole = true;
    let mut scopes: BTreeMap<Key, BTreeSet<Scope>> = BTreeMap::new();
    let is_by_key = matches!(selection.which, Which::Keys(_));
    let mut groups = search.small_groups();
    while let Some(group) = reading.within(groups.next(&reading.store)).await? {
        for it in group {
            if let Some(key) = it.message.key.as_ref().filter(|_| is_by_key) {
                let scopes = scopes.entry(key.clone()).or_default();
                if scopes.len() < SCOPES {
                    scopes.insert(it.message.scope.clone());
                }
            }
            let discard = Discard::of(&it, kind == Kind::DeadLetters);
            found.insert(
                (it.message.since, discard.id),
                (change_of(it, kind), discard),
            );
            // The oldest ones.
            if found.len() > MOST_CHANGES {
                found.pop_last();
                is_whole = false;
            }
        }
        // Whatever else waits for the store comes first.
        tokio::task::yield_now().await;
    }
    let left = unmet(selection, &found, &scopes)?;
    let mut digest = Digest::default();
    for ((since, id), (change, _)) in &found {
        let state = match change {
            Change::DeadLetter(it) => it.state,
            _ => "quarantined",
        };
        digest.text(&format!("{id} {} {state}", since.as_millis()));
    }
    let is_all = matches!(selection.which, Which::All { .. });
    let until = found.last_key_value().map(|((since, _), _)| *since);
    let (changes, messages): (Vec<_>, Vec<_>) = found.into_values().unzip();
    Ok(Plan {
        at: bounds.at,
        until: until.filter(|_| is_all),
        changes,
        left,
        is_whole,
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
    found: &Messages,
    scopes: &BTreeMap<Key, BTreeSet<Scope>>,
) -> Result<Vec<Left>, Problem> {
    let mut left = Vec::new();
    match &selection.which {
        Which::All { .. } => {}
        Which::Ids(ids) => {
            let met: BTreeSet<_> = found.keys().map(|(_, id)| *id).collect();
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
