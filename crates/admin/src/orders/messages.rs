//! Plans to drop messages that were set aside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use semel_core::{ParkedId, Scope, Timestamp};
use semel_http::Problem;
use semel_operate::parked::{DeadLetter, Filter, Found, Meaning, Names, Quarantined, Search};
use semel_worker::replay::Kind;

use super::plan::{Change, Digest, Left, Plan, Work};
use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES};
use crate::keys::which;
use crate::query::invalid;
use crate::reading::Reading;

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
    let mut found: BTreeMap<(Timestamp, ParkedId), Change> = BTreeMap::new();
    let mut is_whole = true;
    let mut groups = search.groups();
    while let Some(group) = reading.within(groups.next(&reading.store)).await? {
        for it in group {
            found.insert((it.message.since, it.message.id()), change_of(it, kind));
            // The oldest ones.
            if found.len() > MOST_CHANGES {
                found.pop_last();
                is_whole = false;
            }
        }
        // Whatever else waits for the store comes first.
        tokio::task::yield_now().await;
    }
    let left = unmet(reading, &search, selection, &found).await?;
    let mut digest = Digest::default();
    for ((since, id), change) in &found {
        let state = match change {
            Change::DeadLetter(it) => it.state,
            _ => "quarantined",
        };
        digest.text(&format!("{id} {} {state}", since.as_millis()));
    }
    let is_all = matches!(selection.which, Which::All { .. });
    let until = found.last_key_value().map(|((since, _), _)| *since);
    let (ids, changes): (Vec<_>, Vec<_>) = found.into_iter().map(|((_, id), it)| (id, it)).unzip();
    let search = search.only(ids.iter().copied().collect());
    Ok(Plan {
        at: bounds.at,
        until: until.filter(|_| is_all),
        changes,
        left,
        is_whole,
        digest: digest.finish(),
        work: Work::Messages(search, ids),
    })
}

fn change_of(found: Found, kind: Kind) -> Change {
    match kind {
        Kind::Quarantined => Change::Quarantined(Box::new(Quarantined::from(found))),
        Kind::DeadLetters | Kind::InDoubt => Change::DeadLetter(Box::new(DeadLetter::from(found))),
    }
}

/// Returns the names that no message has; refuses a key that several pipelines or tenants have.
async fn unmet(
    reading: &Reading,
    search: &Search,
    selection: &Selection,
    found: &BTreeMap<(Timestamp, ParkedId), Change>,
) -> Result<Vec<Left>, Problem> {
    match &selection.which {
        Which::All { .. } => Ok(Vec::new()),
        Which::Ids(ids) => {
            let met: BTreeSet<_> = found.keys().map(|(_, id)| *id).collect();
            let ids = ids.iter();
            let unmet = ids.filter(|id| message_id(id).is_none_or(|it| !met.contains(&it)));
            Ok(unmet.map(|id| Left::id(id, UNKNOWN_MESSAGE)).collect())
        }
        Which::Keys(_) => {
            let looked_up = reading.within(search.look_up(&reading.store)).await?;
            let mut left = Vec::new();
            for (name, meaning) in looked_up.names {
                match meaning {
                    Meaning::Nothing => left.push(Left::key(&name, UNKNOWN_MESSAGE)),
                    Meaning::One => {}
                    Meaning::ManyScopes(scopes) => {
                        let mut pipelines: Vec<_> = scopes.iter().map(Scope::operation).collect();
                        pipelines.dedup();
                        let tenants: Vec<_> = scopes.iter().map(Scope::tenant).collect();
                        return Err(if pipelines.len() > 1 {
                            which("pipeline", &pipelines)
                        } else {
                            which("tenant", &tenants)
                        });
                    }
                    // Only of names that may be ids.
                    Meaning::ManyIds(_) | Meaning::KeyAndId => {
                        return Err(invalid(
                            "keys",
                            "this means several messages; name their ids",
                        ));
                    }
                }
            }
            Ok(left)
        }
    }
}

/// Reads the id of a message.
fn message_id(text: &str) -> Option<ParkedId> {
    let number = u128::from_str_radix(text, 16).ok();
    let number = number.filter(|_| text.len() == 2 * size_of::<u128>());
    number.map(|it| ParkedId::from_bytes(it.to_be_bytes()))
}

const UNKNOWN_MESSAGE: &str = "no message of this kind has it";
