//! `semel keys release`, `forget`, `hold` and `extend`: a plan, the operator's consent, the orders, and their
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::env::args_os;
use std::ops::ControlFlow;

use semel_core::decide::Directed;
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{Error, Key, Operation, Record, Result};
use semel_operate::keys::{Beside, Changed, KeyChange, Planned, Proposal, Seen, since};
use semel_operate::order::{BATCH, refusal_text};
use semel_operate::paging::for_each_page;
use semel_operate::relative_time::when;
use semel_render::names::place_text;

use super::unknown::tell_all_unknown;
use crate::Exit;
use crate::args::keys::{Change, Hold};
use crate::args::{Listing, Output};
use crate::command::operate::{self, Ground, keys_from, note_of, usage};
use crate::output::{self, Go, List, Plan, key_text, state_text};

/// Lets the next delivery of these keys run at once.
pub(crate) fn release(arguments: &Change) -> Result<Exit> {
    change(arguments, "release", KeyChange::Release)
}

/// Removes records before their time.
pub(crate) fn forget(arguments: &Change) -> Result<Exit> {
    change(arguments, "forget", KeyChange::Forget)
}

/// Keeps records beyond their window, or stops doing so.
pub(crate) fn hold(arguments: &Hold) -> Result<Exit> {
    let verb = if arguments.off { "let go of" } else { "hold" };
    change(&arguments.change, verb, KeyChange::Hold(!arguments.off))
}

/// Plans a change of the named keys, and carries it out if the arguments say so.
pub(super) fn change(arguments: &Change, name: &'static str, verb: KeyChange) -> Result<Exit> {
    let keys = wanted(arguments)?;
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        ground.refuse_streamed(ground.pipeline_name()?, &keys)?;
        let operations = ground.operations(keys).await?;
        let mut plan = Plan::new(name, "key", "keys");
        let Proposals {
            all,
            unknown,
            is_refused,
        } = proposals(ground, operations, verb, &mut plan).await?;
        if is_refused {
            plan.refuse();
        }
        let is_refused = is_refused || !unknown.is_empty();
        tell_all_unknown(ground, &unknown).await?;
        ground.remark_on_use(&mut plan);
        let scopes = all.iter().map(|it| it.operation.scope.clone()).collect();
        ground.bind_tenants(&mut plan, &scopes);
        if let Some(exit) = confirmed(arguments, &plan)? {
            return Ok(if is_refused { Exit::No } else { exit });
        }
        let mut list = list(arguments);
        let is_carried_out = carry_out(ground, arguments, all, &mut list).await?;
        list.end()?;
        Ok(ended(!is_refused && is_carried_out))
    })
}

/// Returns the exit of a verb that does nothing; `None` means to do it.
pub(super) fn confirmed(arguments: &Change, plan: &Plan) -> Result<Option<Exit>> {
    let ControlFlow::Break(exit) = plan.confirmed::<Exit>(arguments.confirm, args_os()) else {
        return Ok(None);
    };
    if exit == Exit::Done && arguments.format.output == Output::Json {
        // "Nothing to do" is an answer, and prints a document.
        list(arguments).end()?;
    }
    Ok(Some(exit))
}

pub(super) const fn ended(is_carried_out: bool) -> Exit {
    if is_carried_out { Exit::Done } else { Exit::No }
}

/// The proposals for all keys.
#[derive(Default)]
struct Proposals {
    all: Vec<Planned>,
    unknown: Vec<Operation>,
    is_refused: bool,
}

/// Decides the change for every operation, and fills the plan.
async fn proposals(
    ground: &Ground,
    operations: Vec<Operation>,
    verb: KeyChange,
    plan: &mut Plan,
) -> Result<Proposals> {
    let mut proposals = Proposals::default();
    let mut remarks = BTreeSet::new();
    let records = records(ground, &operations).await?;
    for (operation, record) in operations.into_iter().zip(records) {
        let Some(record) = record else {
            proposals.unknown.push(operation);
            continue;
        };
        let key = key_text(operation.key.as_str());
        let state = state_text(record.state.kind());
        match verb.propose(seen(ground, &operation, &record)) {
            Proposal::Do { order, remark } => {
                plan.add_of(&operation.scope, standing_of(ground, &operation, &record));
                // A few are enough.
                if remarks.len() < REMARKS {
                    remarks.extend(remark.map(|remark| ground.line(remark)));
                }
                let planned = Planned::new(operation, &record, order);
                proposals.all.push(planned);
            }
            Proposal::Already { why } => {
                output::note(format_args!("{key}: {why}; left as it is"));
            }
            Proposal::Refuse { advice } => {
                proposals.is_refused = true;
                let why = ground.line(advice);
                output::note(format_args!("{key} is {state}: {why}"));
            }
        }
    }
    for remark in remarks {
        plan.remark(remark);
    }
    Ok(proposals)
}

/// A record as `ground` knows it.
pub(super) fn seen<'a>(ground: &Ground, operation: &'a Operation, record: &'a Record) -> Seen<'a> {
    Seen {
        operation,
        record,
        now: ground.now(),
        is_left_alone: matches!(ground.beside, Some(Beside { process: None, .. })),
        arrival: ground.arrival_of(&operation.scope),
    }
}

/// The state of a record, as a plan shows it.
pub(super) fn standing_of(ground: &Ground, operation: &Operation, record: &Record) -> String {
    format!(
        "{}  {}  {} since {}",
        place_text(&operation.scope),
        key_text(operation.key.as_str()),
        state_text(record.state.kind()),
        when(since(record), ground.now())
    )
}

/// Reads the records of these operations; nobody needs their outcomes.
///
/// # Cost   a look-up for each of a few; if files are read, each look-up reads them all, so many are found
/// in one walk
async fn records(ground: &Ground, operations: &[Operation]) -> Result<Vec<Option<Record>>> {
    let mut records = Vec::with_capacity(operations.len());
    let (Some(_), Some(first)) = (
        ground.beside,
        operations.first().filter(|_| operations.len() > FEW),
    ) else {
        for batch in operations.chunks(BATCH) {
            records.extend(ground.store.get(batch.into()).await?);
        }
        return Ok(records);
    };
    records.resize_with(operations.len(), || None);
    let places = operations.iter().enumerate();
    let places: BTreeMap<_, _> = places
        .map(|(at, it)| ((&it.key, it.scope.tenant()), at))
        .collect();
    // All keys of a plan have one pipeline.
    let query = ListQuery {
        operation: Some(first.scope.operation().into()),
        ..ListQuery::default()
    };
    for_each_page(&ground.store, query, |page: Vec<Listed>| {
        for Listed { operation, record } in page {
            if let Some(at) = places.get(&(&operation.key, operation.scope.tenant())) {
                records[*at] = Some(record);
            }
        }
        Ok(Go::Continue(()))
    })
    .await?;
    Ok(records)
}

/// Every key once, in the order in which they were named.
pub(crate) fn wanted(arguments: &Change) -> Result<Vec<Key>> {
    let mut keys = arguments.keys.clone();
    if let Some(file) = &arguments.keys_from {
        keys.extend(keys_from(file)?);
        if keys.is_empty() {
            return Err(usage("no keys: the file that --keys-from names is empty"));
        }
    }
    if keys.is_empty() {
        return Err(usage("which ones? name keys, or --keys-from FILE"));
    }
    let mut known = BTreeSet::new();
    keys.retain(|key| known.insert(key.clone()));
    Ok(keys)
}

/// Gives the orders and prints the result of each; returns whether all were carried out.
pub(super) async fn carry_out(
    ground: &Ground,
    arguments: &Change,
    all: Vec<Planned>,
    list: &mut List<Changed>,
) -> Result<bool> {
    let note = note_of(&arguments.audit);
    let mut failure: Option<Error> = None;
    let mut is_carried_out = true;
    for batch in all.chunks(BATCH) {
        let answers = Planned::give(&ground.store, batch, &note).await?;
        for (planned, directed) in batch.iter().zip(answers) {
            let refused = match directed {
                Directed::Now(after) => {
                    // The reader may have had enough; the orders are carried out all the same.
                    let _ = list.push(&Changed::of(planned, after))?;
                    continue;
                }
                Directed::Refused(refusal) => refusal_text(refusal, ground.now()),
                Directed::Failed(error) => {
                    let text = error.to_string();
                    failure.get_or_insert(error);
                    text
                }
            };
            is_carried_out = false;
            let key = key_text(planned.operation.key.as_str());
            output::note(format_args!("{key}: refused: {refused}"));
        }
    }
    failure.map_or(Ok(is_carried_out), Err)
}

pub(super) fn list(arguments: &Change) -> List<Changed> {
    List::new(&Listing {
        format: arguments.format,
        limit: None,
    })
}

/// Up to this number, records are looked up one by one.
const FEW: usize = 50;
/// The number of remarks under a plan.
const REMARKS: usize = 3;
