//! `semel dead-letters` and `semel quarantine`, asked of a worker.

use std::collections::BTreeSet;

use semel_core::port::outbox::operations::DeadOrder;
use semel_core::{Key, Result};
use semel_operate::parked::{Quarantined, WholeMessage};
use semel_operate::relative_time::when;
use semel_operate::value::Time;
use semel_render::reports::parked::{Dropped, SHORT, ShownMessage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::consent::{Order, Ordered, Unmet, add, body_within, carried, select};
use super::door::{Door, place};
use super::relay_dead_letters::{self, Owners};
use super::{rerun, through};
use crate::Exit;
use crate::args::dead_letters::{DeadLetters, DeadWhich, Matching};
use crate::args::quarantine::Quarantine;
use crate::args::{Audit, Confirm, Format, Within};
use crate::command::dead_letters::keys;
use crate::command::operate::usage;
use crate::command::parked::print_payload;
use crate::command::quarantine::named;
use crate::output::{self, Answers, Go, Plan, key_text};

pub(super) fn dead_letters(verb: &DeadLetters) -> Option<Result<Exit>> {
    match verb {
        DeadLetters::List(arguments) => through(arguments.common.door(), async |door| {
            let owners = Owners::of(door, &arguments.common, &arguments.of).await?;
            let members = place(&arguments.common);
            let of_pipelines = (DEAD_LETTERS, &*members);
            relay_dead_letters::list(door, &owners, of_pipelines, &arguments.listing).await
        }),
        DeadLetters::Show(arguments) => through(arguments.common.door(), async |door| {
            let (keys, format, payload) = (&arguments.keys, arguments.format, arguments.payload);
            if payload && keys.len() != 1 {
                return Err(usage("--payload prints the payload of one key; name one"));
            }
            let owners = Owners::of(door, &arguments.common, &arguments.of).await?;
            if let Owners::Relays(relay) = owners.of_keys(door, keys).await? {
                return relay_dead_letters::show(door, relay.as_deref(), keys, format, payload)
                    .await;
            }
            let names: Vec<_> = keys.iter().map(Name::Key).collect();
            show(
                door,
                DEAD_LETTERS,
                &names,
                &arguments.common,
                format,
                payload,
            )
            .await
        }),
        DeadLetters::Replay(arguments) => through(arguments.common.door(), async |door| {
            let DeadWhich { which, of } = &arguments.which;
            let keys = keys(which)?;
            let owners = Owners::of(door, &arguments.common, of).await?;
            if let Owners::Relays(relay) = owners.of_keys(door, &keys).await? {
                let what = (DeadOrder::TryAgain, relay.as_deref());
                let how = (&arguments.audit, arguments.confirm, arguments.format);
                return relay_dead_letters::order(door, what, (which, &keys), how).await;
            }
            let mut body = body_within(&arguments.common);
            select(&mut body, &keys, &which.matching);
            let plan = Plan::new("replay", "dead letter", "dead letters");
            let how = ("dead-letters/replay", Unmet::Stops);
            rerun::run(door, how, body, arguments, plan).await
        }),
        DeadLetters::Drop(arguments) => through(arguments.common.door(), async |door| {
            let DeadWhich { which, of } = &arguments.which;
            let keys = keys(which)?;
            let how = (&arguments.audit, arguments.confirm, arguments.format);
            let owners = Owners::of(door, &arguments.common, of).await?;
            if let Owners::Relays(relay) = owners.of_keys(door, &keys).await? {
                let what = (DeadOrder::Drop, relay.as_deref());
                return relay_dead_letters::order(door, what, (which, &keys), how).await;
            }
            let mut body = body_within(&arguments.common);
            select(&mut body, &keys, &which.matching);
            let plan = Plan::new("drop", "dead letter", "dead letters");
            drop_all(door, "dead-letters/drop", body, how, plan).await
        }),
    }
}

pub(super) fn quarantine(verb: &Quarantine) -> Option<Result<Exit>> {
    match verb {
        Quarantine::List(arguments) => through(arguments.common.door(), async |door| {
            let members = place(&arguments.common);
            let listing = &arguments.listing;
            door.print_list::<Quarantined>(QUARANTINE, &members, listing)
                .await
        }),
        Quarantine::Show(arguments) => through(arguments.common.door(), async |door| {
            let names = typed(&arguments.names)?;
            let (common, format) = (&arguments.common, arguments.format);
            show(door, QUARANTINE, &names, common, format, arguments.payload).await
        }),
        Quarantine::Release(arguments) => through(arguments.common.door(), async |door| {
            let which = &arguments.which.which;
            named(which)?;
            let Some(mut body) =
                quarantined(door, &which.names, &which.matching, &arguments.common).await?
            else {
                return Ok(Exit::No);
            };
            if let Some(key) = &arguments.which.key {
                body.insert("key".to_owned(), key.as_str().into());
            }
            let plan = Plan::new("release", "message", "messages");
            let how = ("quarantine/release", Unmet::Stops);
            rerun::run(door, how, body, arguments, plan).await
        }),
        Quarantine::Drop(arguments) => through(arguments.common.door(), async |door| {
            let which = &arguments.which;
            named(which)?;
            let Some(body) =
                quarantined(door, &which.names, &which.matching, &arguments.common).await?
            else {
                return Ok(Exit::No);
            };
            let plan = Plan::new("drop", "message in quarantine", "messages in quarantine");
            let how = (&arguments.audit, arguments.confirm, arguments.format);
            drop_all(door, "quarantine/drop", body, how, plan).await
        }),
    }
}

/// A message as it is named.
#[derive(Clone)]
enum Name<'a> {
    /// By its key.
    Key(&'a Key),
    /// By its key, or the beginning of its id.
    Typed(&'a str, Option<Key>),
}

/// Reads keys or beginnings of ids as the verb on a store of this machine does.
fn typed(names: &[String]) -> Result<Vec<Name<'_>>> {
    crate::command::parked::names(names)?;
    let names = names.iter();
    Ok(names
        .map(|it| Name::Typed(it, Key::parse(it).ok()))
        .collect())
}

/// The facts of a message that a verb goes by; a list and a plan have more.
#[derive(Deserialize, Serialize)]
struct Message {
    id: String,
    key: Option<String>,
    pipeline: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    reason: String,
    since: Time,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Message {
    /// The key, or the beginning of the id if there is no key.
    fn name(&self) -> String {
        let id = || self.id.get(..SHORT).unwrap_or(&self.id).to_owned();
        self.key
            .as_deref()
            .map_or_else(id, |key| key_text(key).into_owned())
    }
}

/// Finds the ids of the messages that are named, in the order of the list; nothing after a name that nothing has was
/// told.
///
/// # Errors   `InvalidInput`: a name means several things
async fn find(
    door: &Door,
    path: &str,
    names: &[Name<'_>],
    within: &Within,
) -> Result<Option<Vec<String>>> {
    let mut members = place(within);
    if let [Name::Key(only)] = names {
        members.push(("key", only.as_str()));
    }
    let mut met = vec![Met::default(); names.len()];
    let mut ids = Vec::new();
    door.for_each(path, &members, None, |messages: Vec<Message>| {
        for message in messages {
            let mut is_meant = false;
            for (name, met) in names.iter().zip(&mut met) {
                is_meant |= met.add(name, &message);
            }
            if is_meant {
                ids.push(message.id);
            }
        }
        Ok(Go::Continue(()))
    })
    .await?;
    let mut are_all = true;
    for (name, met) in names.iter().zip(&met) {
        let name = match name {
            Name::Key(key) => key.as_str(),
            Name::Typed(text, _) => text,
        };
        let why = match (met.keys.len(), met.ids) {
            (0, 0) => {
                output::note(format_args!("{}: no such message is kept", key_text(name)));
                are_all = false;
                continue;
            }
            (1, 0) | (0, 1) => continue,
            (0, count) => format!("{count} ids begin so; type more of it"),
            (_, 0) => "several pipelines or tenants have it; name one with --pipeline NAME or --tenant NAME".to_owned(),
            _ => "a key, and the beginning of another message's id; type the whole id".to_owned(),
        };
        return Err(usage(format!("{}: {why}", key_text(name))));
    }
    Ok(are_all.then_some(ids))
}

/// The messages that a name was found to mean.
#[derive(Clone, Default)]
struct Met {
    /// The pipelines and tenants with messages of this key.
    keys: BTreeSet<(String, Option<String>)>,
    /// The messages of other keys whose ids begin so.
    ids: usize,
}

impl Met {
    /// Notes a message; returns whether it is meant.
    fn add(&mut self, name: &Name<'_>, message: &Message) -> bool {
        let (key, text, may_be_id) = match name {
            Name::Key(key) => (Some(*key), key.as_str(), false),
            Name::Typed(text, key) => (key.as_ref(), *text, text.len() >= FEWEST_DIGITS),
        };
        if key.is_some_and(|key| message.key.as_deref() == Some(key.as_str())) {
            let place = (message.pipeline.clone(), message.tenant.clone());
            self.keys.insert(place);
            return true;
        }
        let is_id = may_be_id && message.id.starts_with(&text.to_ascii_lowercase());
        self.ids += usize::from(is_id);
        is_id
    }
}

async fn show(
    door: &Door,
    path: &str,
    names: &[Name<'_>],
    within: &Within,
    format: Format,
    payload: bool,
) -> Result<Exit> {
    let Some(ids) = find(door, path, names, within).await? else {
        return Ok(Exit::No);
    };
    if payload && ids.len() != 1 {
        let count = ids.len();
        return Err(usage(format!(
            "--payload prints the payload of one message, and this names {count}; type an id"
        )));
    }
    let mut answers = Answers::new(format);
    for id in &ids {
        let mut members = place(within);
        members.push(("id", id));
        let path = format!("{path}/show");
        let Some(message) = door.find::<WholeMessage<'_>>(&path, &members).await? else {
            return Ok(Exit::No);
        };
        if payload {
            let (Some(bytes), None) = (message.payload(), message.withheld) else {
                output::note("the worker does not show this payload, or not all of it");
                return Ok(Exit::No);
            };
            return print_payload(bytes).map(|_| Exit::Done);
        }
        if answers
            .print(&ShownMessage::of(message, door.now()))?
            .is_break()
        {
            break;
        }
    }
    Ok(Exit::Done)
}

/// The members of an order about messages in quarantine; nothing after a name that nothing has was told.
async fn quarantined(
    door: &Door,
    names: &[String],
    matching: &Matching,
    within: &Within,
) -> Result<Option<Map<String, Value>>> {
    let mut body = body_within(within);
    if matching.all {
        select(&mut body, &[], matching);
        return Ok(Some(body));
    }
    let names = typed(names)?;
    let Some(ids) = find(door, QUARANTINE, &names, within).await? else {
        return Ok(None);
    };
    body.insert("ids".to_owned(), ids.into());
    Ok(Some(body))
}

async fn drop_all(
    door: &Door,
    action: &str,
    body: Map<String, Value>,
    (audit, confirm, format): (&Audit, Confirm, Format),
    plan: Plan,
) -> Result<Exit> {
    let order = Order {
        action,
        body,
        audit,
        confirm,
        unmet: Unmet::Stops,
    };
    let now = door.now();
    let fill = |plan: &mut Plan, changes: &[Message]| {
        for it in changes {
            let what = format_args!("{}  kept since {}", it.reason, when(it.since.0, now));
            let place = (&*it.pipeline, it.tenant.as_deref());
            add(plan, place, &it.name(), what);
        }
        if !changes.is_empty() {
            plan.remark("nothing else keeps them: what is not delivered again is lost");
        }
    };
    match Ordered::of(door, &order, plan, fill).await? {
        Ordered::Over(exit, _) => Ok(exit),
        Ordered::Done(done, is_whole) => {
            let mut dropped = Dropped::default();
            let exit = carried(done, is_whole, Message::name, |_| {
                dropped.dropped += 1;
                Ok(())
            })?;
            let _ = Answers::new(format).print(&dropped)?;
            Ok(exit)
        }
    }
}

const DEAD_LETTERS: &str = "/v1/dead-letters";
const QUARANTINE: &str = "/v1/quarantine";
/// The digits that the beginning of an id has at least.
const FEWEST_DIGITS: usize = 4;
