//! `semel in-doubt resolve`: a person states the fate of an effect.

use std::borrow::Cow;
use std::env::args_os;
use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use semel_core::decide::{Directed, Verdict};
use semel_core::{Note, Operation, Outcome, Result};
use semel_operate::in_doubt::{
    Case, MessageFate, Resolution, Resolved, Word, resolve as resolve_all,
};
use semel_operate::keys::Arrival;
use semel_operate::order::{BATCH, refusal_text};
use semel_render::names::place_text;

use super::select::{Left, Selection, obstacle_text, scopes_of, select};
use crate::Exit;
use crate::args::in_doubt::Resolve;
use crate::args::{Format, Listing, Output};
use crate::command::dead_letters::keys;
use crate::command::operate::{self, Ground, note_of, usage};
use crate::output::{self, List, Plan, key_text, state_text};

/// Writes a person's statement into the records, and moves the kept messages where they belong then.
pub(super) fn resolve(arguments: &Resolve) -> Result<Exit> {
    let keys = keys(&arguments.which)?;
    let word = word_of(arguments)?;
    let note = note_of(&arguments.audit);
    if arguments.verdict.abandon && note.reason.is_empty() {
        return Err(usage("--abandon wants to know why: --reason TEXT"));
    }
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let Selection { named, is_whole } = select(ground, &arguments.which, keys).await?;
        let scopes = scopes_of(&arguments.which, &named);
        let mut left = Left::default();
        let mut cases = Vec::with_capacity(named.len());
        for doubt in named {
            let pipeline = ground.pipeline_of(&doubt.operation.scope);
            let case = Case::new(doubt, &word, pipeline);
            match case.obstacle(ground.now()) {
                None => cases.push(case),
                Some(obstacle) => left.tell(obstacle_text(ground, case.doubt(), &obstacle)),
            }
        }
        let are_all_open = left.end();
        let is_whole = are_all_open && is_whole;
        let mut plan = plan(ground, &cases);
        ground.bind_tenants(&mut plan, &scopes);
        if !are_all_open {
            plan.refuse();
        }
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os()) {
            if exit == Exit::Done && arguments.format.output == Output::Json {
                // "Nothing to do" is an answer, and prints a document.
                list(arguments.format).end()?;
            }
            return Ok(if is_whole { exit } else { Exit::No });
        }
        let is_done = carry_out(ground, cases, &note, arguments.format).await?;
        Ok(if is_done && is_whole {
            Exit::Done
        } else {
            Exit::No
        })
    })
}

/// Reads the person's statement from the arguments.
pub(crate) fn word_of(arguments: &Resolve) -> Result<Word> {
    Ok(if arguments.verdict.applied {
        Word::Applied(Bytes::from(outcome_of(arguments)?))
    } else if arguments.verdict.not_applied {
        Word::NotApplied(arguments.quiet)
    } else {
        Word::Abandon
    })
}

fn plan(ground: &Ground, cases: &[Case]) -> Plan {
    let mut plan = Plan::new("resolve", "doubt", "doubts");
    for case in cases {
        plan.add_of(
            &case.doubt().operation.scope,
            format_args!(
                "{}  {}  {} → {}",
                place_text(&case.doubt().operation.scope),
                key_of(case),
                state_text(case.state()),
                state_text(case.leads_to())
            ),
        );
    }
    let Some(first) = cases.first() else {
        return plan;
    };
    if cases.iter().any(Case::is_left_over) {
        plan.remark(if cases.len() == 1 {
            "the record says so already; its message was left over"
        } else {
            "some records say so already; their messages were left over"
        });
    }
    plan.remark(match first.verdict() {
        Verdict::Applied { outcome, .. } => match outcome {
            Outcome::Kept { bytes, .. } if bytes.is_empty() => {
                "duplicates get an empty outcome (--outcome TEXT gives another)".to_owned()
            }
            Outcome::Kept { bytes, .. } => {
                format!("duplicates get an outcome of {} bytes", bytes.len())
            }
            Outcome::TooLarge { len_bytes, .. } => format!(
                "the outcome has {len_bytes} bytes, too many to keep; duplicates are told so"
            ),
        },
        Verdict::NotApplied { .. } => {
            let mut arrivals = cases.iter().map(|case| arrival_of(ground, case));
            let first = arrivals.next().unwrap_or(Arrival::Delivery);
            let comes = if arrivals.all(|it| it == first) {
                first.of(
                    "a message of the key comes",
                    "a client claims the key again",
                    "its caller sends the request again",
                )
            } else {
                "the key comes again"
            };
            format!("the effect runs again when {comes}")
        }
        Verdict::Abandon { .. } => "the effect is not run again".to_owned(),
    });
    let is_claimed = cases
        .iter()
        .any(|case| arrival_of(ground, case) == Arrival::Claim);
    if let Verdict::Applied { outcome, .. } = first.verdict()
        && is_claimed
        && is_text(outcome)
    {
        plan.remark(
            "the outcome is no JSON: clients that claim the key get it as text/plain in `outcome_base64`",
        );
    }
    let kept = cases.iter().filter(|case| case.doubt().has_message).count();
    let is_one = cases.len() == 1;
    match (first.verdict(), kept) {
        (_, 0) => {}
        (Verdict::Applied { .. }, _) if is_one => {
            plan.remark("the message that was kept is dropped");
        }
        (Verdict::NotApplied { .. }, _) if is_one => {
            plan.remark("the message that was kept stays");
        }
        (Verdict::Abandon { .. }, _) if is_one => {
            plan.remark("the message that was kept becomes a dead letter");
        }
        (Verdict::Applied { .. }, kept) => {
            plan.remark(format_args!(
                "messages that were kept and are dropped: {kept}"
            ));
        }
        (Verdict::NotApplied { .. }, kept) => {
            plan.remark(format_args!("messages that were kept and stay: {kept}"));
        }
        (Verdict::Abandon { .. }, kept) => {
            plan.remark(format_args!(
                "messages that were kept and become dead letters: {kept}"
            ));
        }
    }
    ground.remark_on_use(&mut plan);
    plan
}

fn arrival_of(ground: &Ground, case: &Case) -> Arrival {
    ground.arrival_of(&case.doubt().operation.scope)
}

/// Tells whether an outcome has bytes that are no JSON.
fn is_text(outcome: &Outcome) -> bool {
    let bytes = outcome.result().unwrap_or_default();
    !bytes.is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_err()
}

fn key_of(case: &Case) -> Cow<'_, str> {
    key_text(case.doubt().operation.key.as_str())
}

/// Gives the orders, then moves the messages, batch by batch; returns whether all were carried out. If it is
/// interrupted in between, the same statement again continues the work.
async fn carry_out(ground: &Ground, cases: Vec<Case>, note: &Note, format: Format) -> Result<bool> {
    let mut list = list(format);
    let mut left = Left::default();
    let mut failure = None;
    let mut kept: Option<Operation> = None;
    for batch in cases.chunks(BATCH) {
        let resolution = resolve_all(&ground.store, batch, note).await?;
        let Resolution {
            answers,
            failure: of_messages,
        } = resolution;
        for (case, answer) in batch.iter().zip(answers) {
            let why = match answer {
                Directed::Now(_) => None,
                Directed::Refused(refusal) => Some(refusal_text(refusal, ground.now())),
                Directed::Failed(error) => {
                    let text = error.to_string();
                    failure.get_or_insert(error);
                    Some(text)
                }
            };
            if let Some(why) = why {
                left.tell(format_args!("{}: refused: {why}", key_of(case)));
                continue;
            }
            if case.message() == MessageFate::Kept {
                kept.get_or_insert_with(|| case.doubt().operation.clone());
            }
            // The reader may have had enough; the orders are carried out all the same.
            let _ = list.push(&Resolved::of(case))?;
        }
        if let Some(error) = of_messages {
            // The records say so already; the same statement again continues with the messages.
            failure.get_or_insert(error);
            break;
        }
    }
    list.end()?;
    let is_done = left.end();
    if let Some(operation) = kept {
        let command = if cases.len() == 1 {
            ground.command("dead-letters replay", &operation)
        } else {
            ground.command_of_all("dead-letters replay --all")
        };
        output::note(format_args!("to run what was kept: {command}"));
    }
    failure.map_or(Ok(is_done), Err)
}

fn list(format: Format) -> List<Resolved> {
    List::new(&Listing {
        format,
        limit: None,
    })
}

/// The bytes of the outcome that the person handed over; without one, an empty outcome.
fn outcome_of(arguments: &Resolve) -> Result<Vec<u8>> {
    let Some(file) = &arguments.outcome_file else {
        return Ok(arguments.outcome.clone().unwrap_or_default().into_bytes());
    };
    read(file).map_err(|error| {
        usage(format!(
            "cannot read the outcome from {}: {error}",
            file.display()
        ))
    })
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file.as_os_str() != OsStr::new("-") {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
