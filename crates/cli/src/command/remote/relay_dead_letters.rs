//! The dead letters of relays, asked of a worker.

use std::collections::BTreeSet;

use semel_core::port::outbox::operations::DeadOrder;
use semel_core::{Code, Error, Key, Result};
use semel_operate::relays::{RelayDeadLetter, WholeRelayDeadLetter};
use semel_remote::{Carried, Failure};
use semel_render::reports::parked::Listed;
use semel_render::reports::relays::ShownDeadLetter;
use serde_json::{Map, Value};

use super::consent::{Order, Ordered, Unmet, carried, select};
use super::door::{Door, Members};
use crate::Exit;
use crate::args::dead_letters::{OfRelay, Which};
use crate::args::{Audit, Confirm, Format, Listing, Within};
use crate::command::dead_letters::relays::{
    NamedIds, OrderedLetters, consequence, ids, line, plan_of,
};
use crate::command::parked::print_payload;
use crate::output::{self, Answers, Go, List, Plan};

/// The owners of the dead letters that are meant: as the verb on a store of this machine finds them.
pub(super) enum Owners {
    /// Pipelines, and operations of clients.
    Pipelines,
    /// The relay of this name, or all.
    Relays(Option<String>),
    /// Pipelines and relays.
    Both,
}

impl Owners {
    /// Finds out whose dead letters are meant: the relay that is named; no relay where a pipeline or a tenant is named, or
    /// where the token is confined to a tenant; else all.
    pub(super) async fn of(door: &Door, within: &Within, of: &OfRelay) -> Result<Self> {
        if of.relay.is_some() {
            return Ok(Self::Relays(of.relay.clone()));
        }
        if within.pipeline.is_some() || within.tenant.is_some() {
            return Ok(Self::Pipelines);
        }
        let all = match door.worker.page::<Value>("/v1/pipelines", &[], None).await {
            Ok(page) => page.items,
            Err(Failure::Refused(problem)) if problem.code == Code::Forbidden => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        let count = all.iter().filter(|it| it["relay"] == true).count();
        if count == 0 {
            return Ok(Self::Pipelines);
        }
        if count < all.len() {
            return Ok(Self::Both);
        }
        let status = door.find::<Value>("/v1/status", &[]).await?;
        let serves = |name| status.as_ref().is_some_and(|it| !it[name].is_null());
        Ok(if serves("claims") || serves("gateway") {
            Self::Both
        } else {
            Self::Relays(None)
        })
    }

    /// Decides whose dead letters these keys name where both may be meant: relays', if one of them has each as an id.
    ///
    /// # Errors   `InvalidInput`: some are of relays, others are not
    pub(super) async fn of_keys(self, door: &Door, keys: &[Key]) -> Result<Self> {
        let Self::Both = self else {
            return Ok(self);
        };
        let mut named = NamedIds::of(keys);
        for id in named.ids.clone() {
            let text = id.to_string();
            let members = [("id", &*text)];
            match door
                .worker
                .page::<RelayDeadLetter>(LETTERS, &members, None)
                .await
            {
                Ok(page) if page.items.is_empty() => {}
                Ok(_) => _ = named.found.insert(id),
                // The keys may be those of a pipeline.
                Err(failure) => {
                    let error = Error::from(failure);
                    if !named.found.is_empty() {
                        return Err(error);
                    }
                    output::warning(format_args!("relays are left out: {error}"));
                    break;
                }
            }
        }
        Ok(if named.are_of_relays()? {
            Self::Relays(None)
        } else {
            Self::Both
        })
    }
}

/// Lists dead letters, those of pipelines first.
pub(super) async fn list(
    door: &Door,
    owners: &Owners,
    of_pipelines: (&str, &[(&str, &str)]),
    listing: &Listing,
) -> Result<Exit> {
    let (path, members) = of_pipelines;
    let mut list = List::new(listing);
    let mut is_over = false;
    if !matches!(owners, Owners::Relays(_)) {
        let visit = |items: Vec<Listed>| {
            let go = push(&mut list, &items)?;
            is_over = go.is_break();
            Ok(go)
        };
        door.for_each(path, members, listing.limit, visit).await?;
    }
    let relay = match owners {
        Owners::Relays(Some(relay)) => Some(relay.as_str()),
        Owners::Relays(None) | Owners::Both | Owners::Pipelines => None,
    };
    let mut listed = Ok(());
    if !is_over && !matches!(owners, Owners::Pipelines) {
        let members = of_relay(relay);
        let visit = |items: Vec<RelayDeadLetter>| {
            let items: Vec<_> = items.into_iter().map(Listed::OfRelay).collect();
            push(&mut list, &items)
        };
        listed = door.for_each(LETTERS, &members, listing.limit, visit).await;
    }
    list.end()?;
    listed.map(|()| Exit::Done)
}

fn push(list: &mut List<Listed>, items: &[Listed]) -> Result<Go> {
    for item in items {
        if list.push(item)?.is_break() {
            return Ok(Go::Break(()));
        }
    }
    list.pause()
}

/// Shows dead letters with their headers and payloads; with `payload` only the bytes of the one.
pub(super) async fn show(
    door: &Door,
    relay: Option<&str>,
    keys: &[Key],
    format: Format,
    payload: bool,
) -> Result<Exit> {
    let ids = ids(keys)?;
    let mut found = BTreeSet::new();
    for id in &ids {
        let text = id.to_string();
        let mut members = of_relay(relay);
        members.push(("id", &text));
        door.for_each(LETTERS, &members, None, |letters: Vec<RelayDeadLetter>| {
            found.extend(letters.into_iter().map(|it| (it.relay, *id)));
            Ok(Go::Continue(()))
        })
        .await?;
    }
    let mut answers = Answers::new(format);
    for (relay, id) in &found {
        let id = id.to_string();
        let members = [("relay", &**relay), ("id", &*id)];
        let path = format!("{LETTERS}/show");
        let Some(whole) = door
            .find::<WholeRelayDeadLetter<'_>>(&path, &members)
            .await?
        else {
            return Ok(Exit::No);
        };
        let go = if payload {
            let (Some(bytes), None) = (whole.payload(), whole.withheld) else {
                output::note("the worker does not show this payload, or not all of it");
                return Ok(Exit::No);
            };
            print_payload(bytes)?
        } else {
            answers.print(&ShownDeadLetter::of(whole, door.now()))?
        };
        if go.is_break() {
            return Ok(Exit::Done);
        }
    }
    let known: BTreeSet<_> = found.iter().map(|(_, id)| *id).collect();
    let of = relay.map_or_else(|| " of a relay".to_owned(), |it| format!(" of relay {it}"));
    for id in ids.difference(&known) {
        output::note(format_args!("{id}: no dead letter{of} has this id"));
    }
    Ok(if known == ids { Exit::Done } else { Exit::No })
}

/// Has dead letters tried again, or dropped.
pub(super) async fn order(
    door: &Door,
    (what, relay): (DeadOrder, Option<&str>),
    (which, keys): (&Which, &[Key]),
    (audit, confirm, format): (&Audit, Confirm, Format),
) -> Result<Exit> {
    let mut body = Map::new();
    if let Some(relay) = relay {
        body.insert("relay".to_owned(), relay.into());
    }
    if which.matching.all {
        select(&mut body, &[], &which.matching);
    } else {
        let ids: Vec<_> = ids(keys)?.iter().map(ToString::to_string).collect();
        body.insert("ids".to_owned(), ids.into());
    }
    let order = Order {
        action: match what {
            DeadOrder::TryAgain => "relays/dead-letters/replay",
            DeadOrder::Drop => "relays/dead-letters/drop",
        },
        body,
        audit,
        confirm,
        unmet: Unmet::Stops,
    };
    let now = door.now();
    let fill = |plan: &mut Plan, changes: &[RelayDeadLetter]| {
        for it in changes {
            plan.add(line(it, now));
        }
        if !changes.is_empty() {
            plan.remark(consequence(what));
        }
    };
    let (done, is_whole) = match Ordered::of(door, &order, plan_of(what), fill).await? {
        Ordered::Over(exit, _) => return Ok(exit),
        Ordered::Done(done, is_whole) => (done, is_whole),
    };
    let results = results(what, &done.changes);
    let name = |it: &RelayDeadLetter| format!("relay {}  {}", it.relay, it.id);
    let exit = carried(done, is_whole, name, |_| Ok(()))?;
    let mut answers = Answers::new(format);
    for (relay, result) in results {
        let Some(result) = result else {
            output::note(format_args!(
                "{relay}: how many were changed is not known; semel dead-letters list --relay {relay} has what is left"
            ));
            continue;
        };
        if result.print(&mut answers)?.is_break() {
            break;
        }
    }
    Ok(exit)
}

/// The result for each relay whose letters were tried; nothing for one of which nobody knows how many were changed.
fn results(
    what: DeadOrder,
    changes: &[Carried<RelayDeadLetter>],
) -> Vec<(String, Option<OrderedLetters>)> {
    let relays: BTreeSet<&str> = changes.iter().map(|it| &*it.change.relay).collect();
    let results = relays.into_iter().filter_map(|relay| {
        let of_relay = || changes.iter().filter(|it| it.change.relay == relay);
        let has = |results: &[&str]| of_relay().any(|it| results.contains(&&*it.result));
        if !of_relay().all(|it| KNOWN.contains(&&*it.result)) {
            return Some((relay.to_owned(), None));
        }
        if !has(&["done", "refused"]) {
            return None;
        }
        let done = || of_relay().filter(|it| it.result == "done");
        let is_audited = done().all(|it| it.audited != Some(false));
        let result = OrderedLetters::of(relay, what, done().count() as u64, is_audited);
        Some((relay.to_owned(), Some(result)))
    });
    results.collect()
}

fn of_relay(relay: Option<&str>) -> Members<'_> {
    relay.map(|it| ("relay", it)).into_iter().collect()
}

const LETTERS: &str = "/v1/relays/dead-letters";
/// The results after which it is known whether a change was made.
const KNOWN: [&str; 4] = ["done", "refused", "failed", "not_tried"];

#[cfg(test)]
mod tests {
    use semel_core::port::outbox::operations::DeadOrder;
    use semel_operate::relays::RelayDeadLetter;
    use semel_remote::Carried;
    use serde_json::{Value, json};

    use super::results;

    fn change((relay, result, audited): (&str, &str, Option<bool>)) -> Carried<RelayDeadLetter> {
        let mut change = json!({
            "id": "7", "relay": relay, "stream": "orders", "order_key": null, "state": "dead",
            "since": "2026-11-29T03:04:05.120Z", "created_at": "2026-11-29T03:04:05.120Z",
            "attempts": 8, "error": "HTTP 413", "size_bytes": 1, "result": result,
        });
        if let Some(audited) = audited {
            change["audited"] = audited.into();
        }
        serde_json::from_value(change).expect("a change")
    }

    #[test]
    fn a_count_is_told_only_where_it_is_known() {
        let changes = [
            // One batch was changed, of the next one nobody knows how many.
            ("a", "done", None),
            ("a", "unknown", None),
            ("b", "done", Some(false)),
            ("b", "refused", None),
            ("c", "done", None),
            ("c", "failed", None),
            ("c", "not_tried", None),
            ("d", "not_tried", None),
            ("e", "refused", None),
        ]
        .map(change);
        let told: Vec<_> = results(DeadOrder::Drop, &changes)
            .into_iter()
            .map(|(relay, result)| (relay, serde_json::to_value(result).expect("JSON")))
            .collect();
        let one = |relay: &str, dropped: u64, audited: bool| {
            let result = json!({ "relay": relay, "dropped": dropped, "audited": audited });
            (relay.to_owned(), result)
        };
        let expected = [
            ("a".to_owned(), Value::Null),
            one("b", 1, false),
            one("c", 1, true),
            one("e", 0, true),
        ];
        assert_eq!(told, expected);
    }
}
