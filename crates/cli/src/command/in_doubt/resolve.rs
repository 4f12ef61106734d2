//! `semel in-doubt resolve`: a person says what became of an effect.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use semel_core::decide::{Directed, Directive, Order, Verdict};
use semel_core::port::store::{ListQuery, Store};
use semel_core::{
    Error, Note, Operation, Outcome, Parked, ParkedId, Reason, Result, State, StateKind, Window,
};
use serde::Serialize;

use super::quiet_of;
use super::select::{BATCH, Left, Named, Selection, id, in_doubt, select};
use crate::Exit;
use crate::args::in_doubt::Resolve;
use crate::args::{Format, Listing, Output};
use crate::command::dead_letters::keys;
use crate::command::keys::refusal_text;
use crate::command::operate::{self, Ground, for_each_page, note_of, usage};
use crate::command::when::when;
use crate::output::{self, Column, Entry, Go, List, Plan, Row, key_text, state_text};

/// Carries a person's word into the records, and the kept messages where they belong then.
pub(super) fn resolve(arguments: &Resolve) -> Result<Exit> {
    let keys = keys(&arguments.which)?;
    let bytes = Bytes::from(outcome_of(arguments)?);
    let note = note_of(&arguments.audit);
    if arguments.verdict.abandon && note.reason.is_empty() {
        return Err(usage("--abandon wants to know why: --reason TEXT"));
    }
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let Selection { named, is_whole } = select(ground, &arguments.which, keys).await?;
        let mut left = Left::default();
        let mut cases = Vec::with_capacity(named.len());
        for named in named {
            let word = Word::of(arguments, ground, &named.operation, bytes.clone());
            let case = Case { named, word };
            match case.why_not(ground) {
                None => cases.push(case),
                Some(why) => left.tell(why),
            }
        }
        let is_whole = left.end() && is_whole;
        let plan = plan(ground, &cases);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm) {
            if exit == Exit::Done && arguments.format.output == Output::Json {
                // Nothing to do is an answer, and a document.
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

/// What the person says.
struct Word {
    verdict: Verdict,
    /// The state that it leads to.
    leads_to: StateKind,
}

impl Word {
    fn of(arguments: &Resolve, ground: &Ground, operation: &Operation, bytes: Bytes) -> Self {
        let settings = ground.pipeline_of(&operation.scope);
        let window = settings.map_or(Window::DEFAULT, |settings| settings.pipeline.window);
        if arguments.verdict.applied {
            let limit = settings.map_or(Outcome::DEFAULT_LIMIT_BYTES, |settings| {
                settings.pipeline.outcome_limit_bytes
            });
            let outcome = Outcome::raw(bytes, limit);
            Self {
                verdict: Verdict::Applied { outcome, window },
                leads_to: StateKind::Completed,
            }
        } else if arguments.verdict.not_applied {
            let quiet = arguments.quiet.unwrap_or_else(|| quiet_of(settings));
            Self {
                verdict: Verdict::NotApplied { quiet, asked: None },
                leads_to: StateKind::Released,
            }
        } else {
            Self {
                verdict: Verdict::Abandon { window },
                leads_to: StateKind::Dead,
            }
        }
    }
}

/// A doubt, and what the person says of it.
struct Case {
    named: Named,
    word: Word,
}

impl Case {
    fn state(&self) -> StateKind {
        self.named.record.state.kind()
    }

    fn key(&self) -> String {
        key_text(self.named.operation.key.as_str()).into_owned()
    }

    /// Why there is nothing to resolve; none where there is, or something is left of an earlier word that was
    /// interrupted.
    fn why_not(&self, ground: &Ground) -> Option<String> {
        let now = ground.now();
        let key = self.key();
        if let (State::InDoubt { since }, Verdict::NotApplied { quiet, .. }) =
            (self.named.record.state, &self.word.verdict)
            && since.plus(*quiet) > now
        {
            let until = when(since.plus(*quiet), now);
            return Some(format!(
                "{key}: refused: its call can still land until {until}; ask again then"
            ));
        }
        if self.state() == StateKind::InDoubt || self.is_left_over() {
            return None;
        }
        Some(format!(
            "{key} is not in doubt but {}: {}",
            state_text(self.state()),
            ground.command("keys explain", &self.named.operation)
        ))
    }

    /// Whether the record has followed this word already and its message has not.
    fn is_left_over(&self) -> bool {
        self.state() == self.word.leads_to
            && self.word.leads_to != StateKind::Released
            && self.named.has_message
    }

    fn directive(&self, note: &Note) -> Directive {
        Directive {
            operation: self.named.operation.clone(),
            order: Order::Resolve(self.word.verdict.clone()),
            note: Some(note.clone()),
        }
    }

    /// What becomes of the message, in a word.
    fn message(&self) -> &'static str {
        match self.word.verdict {
            _ if !self.named.has_message => "none",
            Verdict::NotApplied { .. } => "kept",
            Verdict::Applied { .. } => "dropped",
            Verdict::Abandon { .. } => "dead_letter",
        }
    }
}

fn plan(ground: &Ground, cases: &[Case]) -> Plan {
    let mut plan = Plan::new("resolve", "doubt", "doubts");
    for case in cases {
        plan.add(format_args!(
            "{}  {}  {} → {}",
            case.named.operation.scope.operation(),
            case.key(),
            state_text(case.state()),
            state_text(case.word.leads_to)
        ));
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
    plan.remark(match &first.word.verdict {
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
            "the effect runs again when a message of the key comes".to_owned()
        }
        Verdict::Abandon { .. } => "the effect is not run again".to_owned(),
    });
    let kept = cases.iter().filter(|case| case.named.has_message).count();
    let is_one = cases.len() == 1;
    match (&first.word.verdict, kept) {
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

/// Gives the orders, then moves the messages, batch by batch; answers whether all were carried out. Interrupted in
/// between, the same word again goes on.
async fn carry_out(ground: &Ground, cases: Vec<Case>, note: &Note, format: Format) -> Result<bool> {
    let mut list = list(format);
    let mut left = Left::default();
    let mut failure = None;
    let mut kept: Option<Operation> = None;
    for batch in cases.chunks(BATCH) {
        let resolved = order(ground, batch, note, &mut left, &mut failure).await?;
        settle_messages(ground, &resolved, note).await?;
        for case in resolved {
            if case.message() == "kept" {
                kept.get_or_insert_with(|| case.named.operation.clone());
            }
            // Whoever reads may have had enough; the orders are carried out all the same.
            let _ = list.push(&Resolved::of(case))?;
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

/// Gives the orders of a batch; answers with those that were carried out.
async fn order<'c>(
    ground: &Ground,
    batch: &'c [Case],
    note: &Note,
    left: &mut Left,
    failure: &mut Option<Error>,
) -> Result<Vec<&'c Case>> {
    let (over, open): (Vec<_>, Vec<_>) = batch.iter().partition(|case| case.is_left_over());
    let mut resolved = over;
    let directives: Vec<_> = open.iter().map(|case| case.directive(note)).collect();
    if directives.is_empty() {
        return Ok(resolved);
    }
    let answers = ground.store.operate(&directives).await?;
    for (case, answer) in open.into_iter().zip(answers) {
        let why = match answer {
            Directed::Now(_) => {
                resolved.push(case);
                continue;
            }
            Directed::Refused(refusal) => refusal_text(refusal, ground.now()),
            Directed::Failed(error) => {
                let text = error.to_string();
                failure.get_or_insert(error);
                text
            }
        };
        left.tell(format_args!("{}: refused: {why}", case.key()));
    }
    Ok(resolved)
}

/// Puts the messages of what was resolved where they belong.
///
/// # Cost   reads the messages that are kept for doubts, where one has to be moved
async fn settle_messages(ground: &Ground, resolved: &[&Case], note: &Note) -> Result<()> {
    let moved = resolved
        .iter()
        .filter(|case| matches!(case.message(), "dropped" | "dead_letter"));
    let moved: BTreeMap<ParkedId, &Case> = moved
        .map(|case| (id(&case.named.operation), *case))
        .collect();
    if moved.is_empty() {
        return Ok(());
    }
    let store = &ground.store;
    let is_abandoned = |case: &Case| matches!(case.word.verdict, Verdict::Abandon { .. });
    if moved.values().any(|case| is_abandoned(case)) {
        let scopes: BTreeSet<_> = moved.values().map(|it| &it.named.operation.scope).collect();
        for scope in scopes {
            let query = ListQuery {
                scope: Some(scope.clone()),
                ..in_doubt()
            };
            let mut dead = Vec::new();
            let fetch = async |query: &ListQuery| store.list_parked(query).await;
            for_each_page(query, fetch, |messages| {
                let messages = messages.into_iter();
                let messages = messages.filter(|message| moved.contains_key(&message.id()));
                dead.extend(messages.map(|message| dead_letter(message, note)));
                Ok(Go::Continue(()))
            })
            .await?;
            for few in dead.chunks(MESSAGES) {
                store.park(few).await?;
            }
        }
    }
    let ids: Vec<_> = moved.into_keys().collect();
    store.drop_parked(&ids, Some(note)).await?;
    Ok(())
}

/// The message of a doubt that was given up.
fn dead_letter(message: Parked, note: &Note) -> Parked {
    Parked {
        reason: Reason::Dead.code().into(),
        detail: format!("given up in doubt by {}: {}", note.by, note.reason).into(),
        ..message
    }
}

/// What came of one doubt.
#[derive(Debug, Serialize)]
struct Resolved {
    key: String,
    operation_id: String,
    pipeline: String,
    before: &'static str,
    after: &'static str,
    /// What became of the kept message: `none`, `kept`, `dropped` or `dead_letter`.
    message: &'static str,
}

impl Resolved {
    fn of(case: &Case) -> Self {
        let operation = &case.named.operation;
        Self {
            key: operation.key.as_str().to_owned(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation().to_owned(),
            before: case.state().as_str(),
            after: case.word.leads_to.as_str(),
            message: case.message(),
        }
    }
}

impl Entry for Resolved {
    const COLUMNS: &'static [Column] = &[
        Column::key("key"),
        Column::text("pipeline"),
        Column::word("before"),
        Column::word("after"),
        Column::word("message"),
    ];
    const NONE: &'static str = "nothing was resolved";

    fn fill(&self, row: &mut Row) {
        row.text(&key_text(&self.key))
            .text(&self.pipeline)
            .text(&self.before.replace('_', " "))
            .text(self.after)
            .text(&self.message.replace('_', " "));
    }
}

/// The bytes of the outcome that was handed over; none is an empty one.
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

/// Messages that are parked at once; each may be long.
const MESSAGES: usize = 64;
