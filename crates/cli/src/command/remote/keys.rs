//! `semel keys`, asked of a worker.

use semel_core::{Key, Result};
use semel_operate::action::Advice;
use semel_operate::keys::{Changed, Detail, Explanation, KeyEntry};
use semel_render::reports::keys::Command;
use serde::Deserialize;

use super::consent::{Order, Ordered, Unmet, add, body_within, carried};
use super::door::{Door, place};
use super::{extension, through};
use crate::Exit;
use crate::args::keys::{Change, Explain, Keys, List, Show};
use crate::args::{Listing, Output};
use crate::command::keys::wanted;
use crate::command::operate::usage;
use crate::command::parked::print_payload;
use crate::output::{self, Answers, Plan, key_text};

pub(super) fn run(verb: &Keys) -> Option<Result<Exit>> {
    match verb {
        Keys::List(arguments) => through(arguments.common.door(), async |door| {
            list(door, arguments).await
        }),
        Keys::Show(arguments) => through(arguments.common.door(), async |door| {
            show(door, arguments).await
        }),
        Keys::Explain(arguments) => through(arguments.common.door(), async |door| {
            explain(door, arguments).await
        }),
        Keys::Release(arguments) => change(arguments, ("release", "release"), &[]),
        Keys::Forget(arguments) => change(arguments, ("forget", "forget"), &[]),
        Keys::Hold(arguments) => {
            let verb = if arguments.off { "let go of" } else { "hold" };
            change(
                &arguments.change,
                ("hold", verb),
                &[("off", arguments.off.into())],
            )
        }
        Keys::Extend(arguments) => {
            let window = semel_core::units::duration_text(arguments.window);
            if arguments.all {
                return extension::run(arguments);
            }
            change(
                &arguments.change,
                ("extend", "extend"),
                &[("window", window.into())],
            )
        }
    }
}

async fn list(door: &Door, arguments: &List) -> Result<Exit> {
    let age = arguments.older_than.map(semel_core::units::duration_text);
    let mut members = place(&arguments.common);
    members.extend(arguments.state.map(|it| ("state", it.as_str())));
    members.extend(arguments.prefix.as_deref().map(|it| ("prefix", it)));
    members.extend(arguments.held.then_some(("held", "true")));
    members.extend(arguments.repeated.then_some(("repeated", "true")));
    members.extend(age.as_deref().map(|it| ("older_than", it)));
    let listing = &arguments.listing;
    door.print_list::<KeyEntry>("/v1/keys", &members, listing)
        .await
}

async fn show(door: &Door, arguments: &Show) -> Result<Exit> {
    if arguments.outcome && arguments.keys.len() != 1 {
        return Err(usage("--outcome prints the outcome of one key; name one"));
    }
    let mut answers = Answers::new(arguments.format);
    let mut exit = Exit::Done;
    for key in &arguments.keys {
        let mut members = place(&arguments.common);
        members.push(("key", key.as_str()));
        let Some(detail) = door.find::<Detail<'_>>("/v1/keys/show", &members).await? else {
            exit = Exit::No;
            continue;
        };
        if arguments.outcome {
            return print_outcome(&detail);
        }
        let detail = Detail {
            now: door.now(),
            ..detail
        };
        if answers.print(&detail)?.is_break() {
            return Ok(exit);
        }
    }
    Ok(exit)
}

/// Prints the bytes of the outcome and nothing else.
fn print_outcome(detail: &Detail<'_>) -> Result<Exit> {
    let Some(outcome) = &detail.outcome else {
        let state = detail.state.replace('_', " ");
        output::note(format_args!("there is no outcome: the key is {state}"));
        return Ok(Exit::No);
    };
    if outcome.withheld.is_some() {
        output::note("the worker does not show this outcome, or not all of it");
        return Ok(Exit::No);
    }
    if let Some(bytes) = outcome.bytes() {
        return print_payload(bytes).map(|_| Exit::Done);
    }
    output::note(format_args!(
        "the outcome had {} bytes, too many to keep; its BLAKE3 is on record",
        outcome.len_bytes
    ));
    Ok(Exit::No)
}

async fn explain(door: &Door, arguments: &Explain) -> Result<Exit> {
    let mut members = place(&arguments.common);
    members.push(("key", arguments.key.as_str()));
    let path = "/v1/keys/explain";
    let Some(explanation) = door.find::<Explanation<'_>>(path, &members).await? else {
        return Ok(Exit::No);
    };
    let command = |choice| Command::new(&choice, door.command_for(&choice.action));
    let explanation = explanation.with_choices(command);
    let _ = Answers::new(arguments.format).print(&explanation)?;
    Ok(Exit::Done)
}

/// A change of a record as it is planned.
#[derive(Deserialize)]
struct KeyChange {
    #[serde(flatten)]
    changed: Changed,
    /// A remark for the person who is to consent.
    remark: Option<Advice>,
}

fn change(
    arguments: &Change,
    (action, verb): (&str, &'static str),
    more: &[(&str, serde_json::Value)],
) -> Option<Result<Exit>> {
    through(arguments.common.door(), async |door| {
        let keys = wanted(arguments)?;
        let mut body = body_within(&arguments.common);
        let keys: Vec<_> = keys.iter().map(Key::as_str).collect();
        body.insert("keys".to_owned(), keys.into());
        body.extend(
            more.iter()
                .map(|(name, it)| ((*name).to_owned(), it.clone())),
        );
        let order = Order {
            action: &format!("keys/{action}"),
            body,
            audit: &arguments.audit,
            confirm: arguments.confirm,
            unmet: Unmet::Left,
        };
        let plan = Plan::new(verb, "key", "keys");
        let fill = |plan: &mut Plan, changes: &[KeyChange]| fill(door, plan, changes);
        let listing = Listing {
            format: arguments.format,
            limit: None,
        };
        match Ordered::of(door, &order, plan, fill).await? {
            Ordered::Over(exit, is_none) => {
                if is_none && arguments.format.output == Output::Json {
                    // "Nothing to do" is an answer, and prints a document.
                    output::List::<Changed>::new(&listing).end()?;
                }
                Ok(exit)
            }
            Ordered::Done(done, is_whole) => {
                let mut list = output::List::new(&listing);
                let name = |it: &KeyChange| key_text(&it.changed.key).into_owned();
                let exit = carried(done, is_whole, name, |it| {
                    // The reader may have had enough.
                    list.push(&it.changed).map(drop)
                })?;
                list.end()?;
                Ok(exit)
            }
        }
    })
}

fn fill(door: &Door, plan: &mut Plan, changes: &[KeyChange]) {
    let mut remarks = std::collections::BTreeSet::new();
    for KeyChange { changed, remark } in changes {
        let place = (&*changed.pipeline, changed.tenant.as_deref());
        let what = format!("{} → {}", changed.before, changed.after);
        add(plan, place, &changed.key, what.replace('_', " "));
        // A few are enough.
        if let Some(Advice { text, action }) = remark
            && remarks.len() < REMARKS
        {
            let command = action
                .as_ref()
                .map(|it| format!(": {}", door.command_for(it)));
            remarks.insert(format!("{text}{}", command.unwrap_or_default()));
        }
    }
    for remark in remarks {
        plan.remark(remark);
    }
}

/// The number of remarks under a plan.
const REMARKS: usize = 3;
