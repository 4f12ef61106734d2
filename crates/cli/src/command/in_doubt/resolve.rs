//! `semel in-doubt resolve`: a person says what became of an effect.

use std::ffi::OsStr;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use semel_core::decide::{Directed, Directive, Order, Verdict};
use semel_core::port::store::Store;
use semel_core::{
    Note, Operation, Outcome, Parked, ParkedId, Reason, Record, Result, State, StateKind, Window,
};
use serde::Serialize;

use super::{message_of, quiet_of};
use crate::Exit;
use crate::args::in_doubt::Resolve;
use crate::command::keys::{refusal_text, tell_unknown};
use crate::command::operate::{self, Ground, note_of, usage};
use crate::command::when::when;
use crate::output::{self, Answer, Answers, Block, Plan, key_text, state_text};

/// Carries a person's word into the record, and the kept message where it belongs then.
pub(super) fn resolve(arguments: &Resolve) -> Result<Exit> {
    let bytes = outcome_of(arguments)?;
    let note = note_of(&arguments.audit);
    if arguments.verdict.abandon && note.reason.is_empty() {
        return Err(usage("--abandon wants to know why: --reason TEXT"));
    }
    operate::plan(&arguments.common, arguments.confirm, async |ground| {
        let operation = Operation::new(ground.scope()?, arguments.key.clone());
        let mut records = ground.store.get(std::slice::from_ref(&operation)).await?;
        let Some(record) = records.pop().flatten() else {
            tell_unknown(ground, &operation).await?;
            return Ok(Exit::No);
        };
        let message = message_of(ground, &operation).await?;
        let word = Word::of(arguments, ground, &operation, bytes);
        let case = Case {
            ground,
            operation,
            record,
            message,
            note,
        };
        if !case.is_open(&word) {
            return Ok(Exit::No);
        }
        let mut plan = case.plan(&word);
        ground.remark_on_use(&mut plan);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm) {
            return Ok(exit);
        }
        match case.carry_out(&word).await? {
            Some(resolved) => {
                let _ = Answers::new(arguments.format).print(&resolved)?;
                Ok(Exit::Done)
            }
            None => Ok(Exit::No),
        }
    })
}

/// What the person says.
struct Word {
    verdict: Verdict,
    /// The state that it leads to.
    leads_to: StateKind,
}

impl Word {
    fn of(arguments: &Resolve, ground: &Ground, operation: &Operation, bytes: Vec<u8>) -> Self {
        let settings = ground.pipeline_of(&operation.scope);
        let window = settings.map_or(Window::DEFAULT, |settings| settings.pipeline.window);
        if arguments.verdict.applied {
            let limit = settings.map_or(Outcome::DEFAULT_LIMIT_BYTES, |settings| {
                settings.pipeline.outcome_limit_bytes
            });
            let outcome = Outcome::raw(bytes.into(), limit);
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

/// A doubt with all that belongs to it.
struct Case<'a> {
    ground: &'a Ground,
    operation: Operation,
    record: Record,
    message: Option<Parked>,
    note: Note,
}

impl Case<'_> {
    /// Whether there is something to resolve, or something left of an earlier word that was
    /// interrupted; else tells why not.
    fn is_open(&self, word: &Word) -> bool {
        let now = self.ground.now();
        let key = key_text(self.operation.key.as_str());
        let state = self.record.state.kind();
        if let (State::InDoubt { since }, Verdict::NotApplied { quiet, .. }) =
            (self.record.state, &word.verdict)
            && since.plus(*quiet) > now
        {
            output::note(format_args!(
                "{key}: refused: its call can still land until {}; ask again then",
                when(since.plus(*quiet), now)
            ));
            return false;
        }
        if state == StateKind::InDoubt || self.is_left_over(word) {
            return true;
        }
        output::note(format_args!(
            "{key} is not in doubt but {}: {}",
            state_text(state),
            self.ground.command("keys explain", &self.operation)
        ));
        false
    }

    /// Whether the record has followed this word already and its message has not.
    fn is_left_over(&self, word: &Word) -> bool {
        self.record.state.kind() == word.leads_to
            && word.leads_to != StateKind::Released
            && self.message.is_some()
    }

    fn plan(&self, word: &Word) -> Plan {
        let mut plan = Plan::new("resolve", "doubt", "doubts");
        plan.add(format_args!(
            "{}  {}  {} → {}",
            self.operation.scope.operation(),
            key_text(self.operation.key.as_str()),
            state_text(self.record.state.kind()),
            state_text(word.leads_to)
        ));
        if self.is_left_over(word) {
            plan.remark("the record says so already; its message was left over");
        }
        plan.remark(match (&word.verdict, &self.message) {
            (Verdict::Applied { outcome, .. }, _) => match outcome {
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
            (Verdict::NotApplied { .. }, _) => {
                "the effect runs again when a message of the key comes".to_owned()
            }
            (Verdict::Abandon { .. }, _) => "the effect is not run again".to_owned(),
        });
        match (&word.verdict, &self.message) {
            (Verdict::Applied { .. }, Some(_)) => {
                plan.remark("the message that was kept is dropped");
            }
            (Verdict::NotApplied { .. }, Some(_)) => plan.remark("the message that was kept stays"),
            (Verdict::Abandon { .. }, Some(_)) => {
                plan.remark("the message that was kept becomes a dead letter");
            }
            (_, None) => {}
        }
        plan
    }

    /// Gives the order, then moves the message. Interrupted in between, the same word again goes on.
    async fn carry_out(self, word: &Word) -> Result<Option<Resolved>> {
        let before = self.record.state.kind();
        if !self.is_left_over(word) {
            let directive = Directive {
                operation: self.operation.clone(),
                order: Order::Resolve(word.verdict.clone()),
                note: Some(self.note.clone()),
            };
            let mut answers = self.ground.store.operate(&[directive]).await?;
            match answers.pop() {
                Some(Directed::Now(_)) | None => {}
                Some(Directed::Refused(refusal)) => {
                    output::note(format_args!(
                        "{}: refused: {}",
                        key_text(self.operation.key.as_str()),
                        refusal_text(refusal, self.ground.now())
                    ));
                    return Ok(None);
                }
                Some(Directed::Failed(error)) => return Err(error),
            }
        }
        let message = self.settle_message(word).await?;
        if message == "kept" {
            output::note(format_args!(
                "to run the message that was kept: {}",
                self.ground.command("dead-letters replay", &self.operation)
            ));
        }
        Ok(Some(Resolved {
            key: self.operation.key.as_str().to_owned(),
            operation_id: self.operation.id().to_string(),
            pipeline: self.operation.scope.operation().to_owned(),
            before: before.as_str(),
            after: word.leads_to.as_str(),
            message,
        }))
    }

    /// What becomes of the message, in a word.
    async fn settle_message(&self, word: &Word) -> Result<&'static str> {
        let Some(message) = &self.message else {
            return Ok("none");
        };
        let store = &self.ground.store;
        let id = ParkedId::of(&self.operation, &Reason::InDoubt);
        match word.verdict {
            Verdict::NotApplied { .. } => Ok("kept"),
            Verdict::Applied { .. } => {
                store.drop_parked(&[id], Some(&self.note)).await?;
                Ok("dropped")
            }
            Verdict::Abandon { .. } => {
                let dead = Parked {
                    reason: Reason::Dead.code().into(),
                    detail: format!(
                        "given up in doubt by {}: {}",
                        self.note.by, self.note.reason
                    )
                    .into(),
                    ..message.clone()
                };
                store.park(&[dead]).await?;
                store.drop_parked(&[id], Some(&self.note)).await?;
                Ok("dead_letter")
            }
        }
    }
}

/// What came of it.
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

impl Answer for Resolved {
    fn describe(&self, block: &mut Block) {
        block
            .field("key", key_text(&self.key))
            .field("pipeline", &self.pipeline)
            .field("before", self.before.replace('_', " "))
            .field("after", self.after)
            .field("message", self.message.replace('_', " "));
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
