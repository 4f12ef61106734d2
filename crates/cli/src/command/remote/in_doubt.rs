//! `semel in-doubt`, asked of a worker.

use semel_core::Result;
use semel_operate::in_doubt::{MessageFate, Resolved, WholeDoubt, Word};
use semel_operate::keys::KeyEntry;
use semel_operate::value::Base64;
use serde_json::{Map, Value};

use super::consent::{Order, Ordered, Unmet, add, body_within, carried, select};
use super::door::{Door, place};
use super::{rerun, through};
use crate::Exit;
use crate::args::in_doubt::{InDoubt, List, Resolve, Show};
use crate::args::{Listing, Output};
use crate::command::dead_letters::keys;
use crate::command::in_doubt::word_of;
use crate::output::{self, Answers, Plan, key_text};

pub(super) fn run(verb: &InDoubt) -> Option<Result<Exit>> {
    match verb {
        InDoubt::List(arguments) => through(arguments.common.door(), async |door| {
            list(door, arguments).await
        }),
        InDoubt::Show(arguments) => through(arguments.common.door(), async |door| {
            show(door, arguments).await
        }),
        InDoubt::Resolve(arguments) => through(arguments.common.door(), async |door| {
            resolve(door, arguments).await
        }),
        InDoubt::Retry(arguments) => through(arguments.common.door(), async |door| {
            let which = &arguments.which;
            let mut body = body_within(&arguments.common);
            select(&mut body, &keys(which)?, &which.matching);
            let plan = Plan::new("retry", "doubt", "doubts");
            let how = ("in-doubt/retry", Unmet::Left);
            rerun::run(door, how, body, arguments, plan).await
        }),
    }
}

async fn list(door: &Door, arguments: &List) -> Result<Exit> {
    let mut members = place(&arguments.common);
    members.extend(arguments.repeated.then_some(("repeated", "true")));
    let listing = &arguments.listing;
    door.print_list::<KeyEntry>("/v1/in-doubt", &members, listing)
        .await
}

async fn show(door: &Door, arguments: &Show) -> Result<Exit> {
    let mut members = place(&arguments.common);
    members.push(("key", arguments.key.as_str()));
    let path = "/v1/in-doubt/show";
    let Some(mut doubt) = door.find::<WholeDoubt<'_>>(path, &members).await? else {
        return Ok(Exit::No);
    };
    doubt.record.now = door.now();
    let _ = Answers::new(arguments.format).print(&doubt)?;
    Ok(Exit::Done)
}

async fn resolve(door: &Door, arguments: &Resolve) -> Result<Exit> {
    let keys = keys(&arguments.which)?;
    let mut body = body_within(&arguments.common);
    select(&mut body, &keys, &arguments.which.matching);
    let word = word_of(arguments)?;
    tell(&word, &mut body);
    let order = Order {
        action: "in-doubt/resolve",
        body,
        audit: &arguments.audit,
        confirm: arguments.confirm,
        unmet: Unmet::Left,
    };
    let plan = Plan::new("resolve", "doubt", "doubts");
    let listing = Listing {
        format: arguments.format,
        limit: None,
    };
    let fill = |plan: &mut Plan, changes: &[Resolved]| fill(&word, plan, changes);
    match Ordered::of(door, &order, plan, fill).await? {
        Ordered::Over(exit, is_none) => {
            if is_none && arguments.format.output == Output::Json {
                // "Nothing to do" is an answer, and prints a document.
                output::List::<Resolved>::new(&listing).end()?;
            }
            Ok(exit)
        }
        Ordered::Done(done, is_whole) => {
            let mut list = output::List::new(&listing);
            let name = |it: &Resolved| key_text(&it.key).into_owned();
            let exit = carried(done, is_whole, name, |it| {
                // The reader may have had enough.
                list.push(&it).map(drop)
            })?;
            list.end()?;
            Ok(exit)
        }
    }
}

/// Adds a person's statement to an order.
fn tell(word: &Word, body: &mut Map<String, Value>) {
    let mut member = |name: &str, value: String| body.insert(name.to_owned(), value.into());
    match word {
        Word::Applied(outcome) => {
            member("verdict", "applied".to_owned());
            if !outcome.is_empty() {
                let base64 = Base64(outcome[..].into()).to_string();
                member("outcome_base64", base64);
            }
        }
        Word::NotApplied(quiet) => {
            member("verdict", "not_applied".to_owned());
            if let Some(quiet) = quiet {
                member("quiet", semel_core::units::duration_text(*quiet));
            }
        }
        Word::Abandon => {
            member("verdict", "abandon".to_owned());
        }
    }
}

fn fill(word: &Word, plan: &mut Plan, changes: &[Resolved]) {
    for it in changes {
        let what = format!("{} → {}", it.before, it.after);
        let place = (&*it.pipeline, it.tenant.as_deref());
        add(plan, place, &it.key, what.replace('_', " "));
    }
    if changes.is_empty() {
        return;
    }
    plan.remark(match word {
        Word::Applied(outcome) if outcome.is_empty() => {
            "duplicates get an empty outcome (--outcome TEXT gives another)".to_owned()
        }
        Word::Applied(outcome) => {
            format!("duplicates get an outcome of {} bytes", outcome.len())
        }
        Word::NotApplied(_) => "the effect runs again when the key comes again".to_owned(),
        Word::Abandon => "the effect is not run again".to_owned(),
    });
    let kept = changes.iter().filter(|it| it.message != MessageFate::None);
    let kept = kept.count();
    if kept > 0 {
        let fate = match word {
            Word::Applied(_) => "are dropped",
            Word::NotApplied(_) => "stay",
            Word::Abandon => "become dead letters",
        };
        plan.remark(format_args!("messages that were kept and {fate}: {kept}"));
    }
}
