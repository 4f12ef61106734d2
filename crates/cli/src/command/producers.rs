//! `semel producers`: what they are and have, and the orders that freeze and release them.

mod audit_entry;

use std::env::args_os;
use std::ops::ControlFlow;

use semel_backends::producers::open_all as open;
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};
use semel_core::{Error, Result};
use semel_operate::producers::{ProducerLine, Side, matching};

use crate::Exit;
use crate::args::producers::{Change, List, Producers, Show};
use crate::command::operate;
use crate::output::{self, Answers, Plan};

use self::audit_entry::Trail;

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Producers) -> Result<Exit> {
    match verb {
        Producers::List(arguments) => list(arguments),
        Producers::Show(arguments) => show(arguments),
        Producers::Freeze(arguments) => change(arguments, ProducerOrder::Freeze),
        Producers::Thaw(arguments) => change(arguments, ProducerOrder::Thaw),
        Producers::Release(arguments) => change(arguments, ProducerOrder::Release),
    }
}

fn list(arguments: &List) -> Result<Exit> {
    operate::at(&arguments.place.common(), async |url| {
        let mut list = output::List::new(&arguments.listing);
        let producers = open(url)?;
        let mut faults = Vec::new();
        let shown = producers.visit(|side, entry| {
            faults.extend(entry.fault());
            list.push(&ProducerLine::of(side, &entry))
        });
        shown.await?;
        list.end()?;
        let fault = faults.pop();
        faults.iter().for_each(output::failure);
        fault.map_or(Ok(Exit::Done), Err)
    })
}

fn show(arguments: &Show) -> Result<Exit> {
    operate::at(&arguments.place.common(), async |url| {
        let entries = open(url)?.named(&[arguments.producer.as_str()]).await?;
        let Some((side, entry)) = find(&entries, arguments)? else {
            return Ok(Exit::No);
        };
        let answered = Answers::new(arguments.format).print(&ProducerLine::of(*side, entry));
        answered.map(|_| Exit::Done)
    })
}

fn change(arguments: &Change, order: ProducerOrder) -> Result<Exit> {
    operate::at(&arguments.which.place.common(), async |url| {
        let journals = open(url)?;
        let asked = arguments.which.producer.as_str();
        let entries = journals.named(&[asked]).await?;
        let Some((side, entry)) = find(&entries, &arguments.which)? else {
            return Ok(Exit::No);
        };
        let (verb, done) = match order {
            ProducerOrder::Freeze => ("freeze", "froze"),
            ProducerOrder::Thaw => ("thaw", "thawed"),
            ProducerOrder::Release => ("release", "released"),
        };
        let means = side.meaning(order);
        let name = &entry.name;
        if order == ProducerOrder::Release && !entry.is_frozen {
            output::note(format_args!(
                "producer {name} is not frozen: nothing of it is kept"
            ));
            return Ok(Exit::No);
        }
        let mut plan = Plan::new(verb, "producer", "producers");
        plan.add(ProducerLine::of(*side, entry));
        plan.remark(means);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os()) {
            return Ok(exit);
        }
        // An order is not given where the trail cannot be opened, but for what `Trail::open` warns of.
        let trail = Trail::open(url).await?;
        if let Some(trail) = trail {
            let entered = trail.enter(&arguments.audit, (*side, entry), order).await;
            entered.map_err(|error| unentered(verb, name, error))?;
        }
        if !journals.order(*side, name, order).await? {
            output::note(format_args!("there is no producer {name} any more"));
            return Ok(Exit::No);
        }
        output::note(format_args!("{done} `{name}`"));
        Ok(Exit::Done)
    })
}

/// The error for an order that was not carried out, since the audit trail does not take it.
fn unentered(verb: &str, name: &ProducerName, error: Error) -> Error {
    let message = format!(
        "did not {verb} `{name}`: the audit trail has to have the order first, and does not take it: {error}"
    );
    Error::new(error.kind(), message)
        .with_code(error.code())
        .with_source(error)
        .not_applied()
}

/// Finds a producer by its name or its id; says so if there is none, or more than one. One that is damaged is an error.
fn find<'a>(
    entries: &'a [(Side, ProducerEntry)],
    which: &Show,
) -> Result<Option<&'a (Side, ProducerEntry)>> {
    let asked = which.producer.as_str();
    let only = match (which.publisher, which.sender) {
        (true, _) => Some(Side::Publishes),
        (_, true) => Some(Side::Sends),
        (false, false) => None,
    };
    match matching(entries, asked, only)[..] {
        [one] => return one.1.fault().map_or(Ok(Some(one)), Err),
        [] => output::note(format_args!(
            "there is no producer `{asked}`; `semel producers list` names those of the store"
        )),
        _ => output::note(format_args!(
            "`{asked}` is a producer that publishes from here, and one that sends its messages here; say which: \
             `--publisher` or `--sender`"
        )),
    }
    Ok(None)
}
