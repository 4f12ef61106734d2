//! Effects of which nobody knows whether they happened: the model of `semel in-doubt`.

mod detail;
mod listing;
mod resolution;

pub use detail::{DoubtMessage, WholeDoubt};
pub use listing::{doubts, for_each_doubt, mark_messages, message_of, messages, with_message};
pub use resolution::{Resolution, resolve};

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use semel_config::PipelineSettings;
use semel_core::decide::{self, Directed, Directive, Order, Verdict};
use semel_core::{
    Note, Operation, Outcome, Parked, ParkedId, Reason, Record, State, StateKind, Timestamp, Window,
};
use semel_worker::replay::unretried;
use semel_worker::settings::EffectSettings;
use serde::{Deserialize, Serialize};

use crate::action::{Action, ActionKind};
use crate::value::tenant;

/// The record of a named key, or one doubt of all.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// The operation of the record.
    pub operation: Operation,
    /// The record, in whatever state it is.
    pub record: Record,
    /// True if a message is kept for it.
    pub has_message: bool,
}

/// A person's statement about a doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// The effect happened, with this result.
    Applied(Bytes),
    /// The effect did not happen. This is believed after the doubt was quiet for this long; without a value,
    /// for as long as its pipeline says.
    NotApplied(Option<Duration>),
    /// Nobody will find out; the operation is given up.
    Abandon,
}

/// A doubt, and a person's statement about it.
#[derive(Clone, Debug)]
pub struct Case {
    doubt: Doubt,
    verdict: Verdict,
}

/// A reason why there is nothing to resolve or to try again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "obstacle", rename_all = "snake_case")]
pub enum Obstacle {
    /// Its call can still land.
    NotQuiet {
        /// The time until which it can.
        #[serde(serialize_with = "text")]
        until: Timestamp,
    },
    /// It is in another state.
    NotInDoubt {
        /// That state.
        #[serde(serialize_with = "text")]
        state: StateKind,
        /// The action that explains it.
        next: Action,
    },
    /// Its class does not allow a retry of an effect that may have happened.
    Unretried {
        /// The reason.
        why: &'static str,
        /// The remaining action.
        next: Action,
    },
}

/// The fate of the message that is kept for a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageFate {
    /// There is no message.
    None,
    /// The message stays.
    Kept,
    /// The message is dropped.
    Dropped,
    /// The message becomes a dead letter.
    DeadLetter,
}

/// The result for one doubt: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resolved {
    /// The key.
    pub key: String,
    /// The id of its operation.
    pub operation_id: String,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state before.
    pub before: Cow<'static, str>,
    /// The state after.
    pub after: Cow<'static, str>,
    /// The fate of the kept message.
    pub message: MessageFate,
}

impl Word {
    /// Returns the statement in the form for a store, for a doubt of a pipeline with these settings.
    pub fn verdict(&self, pipeline: Option<&PipelineSettings>) -> Verdict {
        let window = pipeline.map_or(Window::DEFAULT, |settings| settings.pipeline.window);
        match self {
            Self::Applied(bytes) => {
                let outcome = Outcome::raw(bytes.clone(), limit_of(pipeline));
                Verdict::Applied { outcome, window }
            }
            Self::NotApplied(quiet) => Verdict::NotApplied {
                quiet: quiet.unwrap_or_else(|| quiet_of(pipeline)),
                asked: None,
            },
            Self::Abandon => Verdict::Abandon { window },
        }
    }

    /// Tells whether `doubt`, of a pipeline with these settings, has not been quiet for long enough at `now`.
    pub fn waits(
        &self,
        doubt: &Doubt,
        pipeline: Option<&PipelineSettings>,
        now: Timestamp,
    ) -> bool {
        match (self, doubt.record.state) {
            (Self::NotApplied(quiet), State::InDoubt { since }) => {
                since.plus(quiet.unwrap_or_else(|| quiet_of(pipeline))) > now
            }
            (Self::NotApplied(_) | Self::Applied(_) | Self::Abandon, _) => false,
        }
    }

    /// Returns the limit that its outcome exceeds, for a doubt of a pipeline with these settings: no duplicate would
    /// get that outcome.
    pub fn exceeds(&self, pipeline: Option<&PipelineSettings>) -> Option<usize> {
        let limit = limit_of(pipeline);
        match self {
            Self::Applied(bytes) => (bytes.len() > limit).then_some(limit),
            Self::NotApplied(_) | Self::Abandon => None,
        }
    }
}

fn limit_of(pipeline: Option<&PipelineSettings>) -> usize {
    pipeline.map_or(Outcome::DEFAULT_LIMIT_BYTES, |settings| {
        settings.pipeline.outcome_limit_bytes
    })
}

impl Doubt {
    /// Returns why its effect must not be called again; nothing if it may be.
    pub fn unretried(&self, now: Timestamp) -> Option<Obstacle> {
        let state = self.record.state.kind();
        if state != StateKind::InDoubt {
            return Some(self.not_in_doubt());
        }
        let decision = decide::operate(Some(&self.record), None, &Order::Retry, now);
        match decision.answer {
            Directed::Now(_) => None,
            Directed::Refused(_) | Directed::Failed(_) => Some(Obstacle::Unretried {
                why: unretried(&self.record),
                next: Action::new(ActionKind::Resolve, self.operation.clone()),
            }),
        }
    }

    fn not_in_doubt(&self) -> Obstacle {
        Obstacle::NotInDoubt {
            state: self.record.state.kind(),
            next: Action::new(ActionKind::Explain, self.operation.clone()),
        }
    }
}

impl Case {
    /// Takes a person's statement about `doubt`, under the settings of its pipeline.
    pub fn new(doubt: Doubt, word: &Word, pipeline: Option<&PipelineSettings>) -> Self {
        let verdict = word.verdict(pipeline);
        Self { doubt, verdict }
    }

    /// Returns the doubt.
    pub const fn doubt(&self) -> &Doubt {
        &self.doubt
    }

    /// Returns the person's statement.
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns the state of the record.
    pub const fn state(&self) -> StateKind {
        self.doubt.record.state.kind()
    }

    /// Returns the state to which the statement leads.
    pub const fn leads_to(&self) -> StateKind {
        match self.verdict {
            Verdict::Applied { .. } => StateKind::Completed,
            Verdict::NotApplied { .. } => StateKind::Released,
            Verdict::Abandon { .. } => StateKind::Dead,
        }
    }

    /// Returns why there is nothing to resolve; nothing if there is, or if an earlier statement was interrupted
    /// and left something to do.
    pub fn obstacle(&self, now: Timestamp) -> Option<Obstacle> {
        if let (State::InDoubt { since }, Verdict::NotApplied { quiet, .. }) =
            (self.doubt.record.state, &self.verdict)
            && since.plus(*quiet) > now
        {
            let until = since.plus(*quiet);
            return Some(Obstacle::NotQuiet { until });
        }
        if self.state() == StateKind::InDoubt || self.is_left_over() {
            return None;
        }
        Some(self.doubt.not_in_doubt())
    }

    /// Tells whether the record already follows this statement, and its message does not.
    pub fn is_left_over(&self) -> bool {
        self.state() == self.leads_to()
            && self.leads_to() != StateKind::Released
            && self.doubt.has_message
    }

    /// Returns the order that writes the statement into the record.
    pub fn directive(&self, note: &Note) -> Directive {
        Directive {
            operation: self.doubt.operation.clone(),
            order: Order::Resolve(self.verdict.clone()),
            note: Some(note.clone()),
        }
    }

    /// Returns the fate of the message.
    pub const fn message(&self) -> MessageFate {
        match self.verdict {
            _ if !self.doubt.has_message => MessageFate::None,
            Verdict::NotApplied { .. } => MessageFate::Kept,
            Verdict::Applied { .. } => MessageFate::Dropped,
            Verdict::Abandon { .. } => MessageFate::DeadLetter,
        }
    }
}

impl MessageFate {
    /// Returns the name for people and programs, for example `dead_letter`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kept => "kept",
            Self::Dropped => "dropped",
            Self::DeadLetter => "dead_letter",
        }
    }
}

impl Resolved {
    /// Reports a case whose statement was carried out.
    pub fn of(case: &Case) -> Self {
        let operation = &case.doubt.operation;
        Self {
            key: operation.key.as_str().to_owned(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation().to_owned(),
            tenant: tenant(&operation.scope).map(str::to_owned),
            before: case.state().as_str().into(),
            after: case.leads_to().as_str().into(),
            message: case.message(),
        }
    }
}

/// Returns the id of the message that is kept for a doubt.
pub fn message_id(operation: &Operation) -> ParkedId {
    ParkedId::of(operation, &Reason::InDoubt)
}

/// Returns the dead letter for the message of a doubt that was given up.
pub fn dead_letter(message: Parked, note: &Note) -> Parked {
    Parked {
        reason: Reason::Dead.code().into(),
        detail: format!("given up in doubt by {}: {}", note.by, note.reason).into(),
        ..message
    }
}

/// Returns the time for which a doubt must have been quiet before "not applied" is believed: as long as a call
/// of the effect can live, as far as the configuration tells.
pub fn quiet_of(pipeline: Option<&PipelineSettings>) -> Duration {
    let timeout = pipeline.and_then(|settings| match &settings.effect {
        EffectSettings::Http(settings, _) => Some(settings.timeout),
        EffectSettings::Exec(settings, _) => Some(settings.timeout),
        EffectSettings::Jsonl(settings, _) => Some(settings.timeout),
        EffectSettings::Publish(settings) => Some(settings.target.timeout()),
        EffectSettings::Sql(_)
        | EffectSettings::File { .. }
        | EffectSettings::Stdout(_)
        | EffectSettings::Streamed(_) => None,
    });
    timeout.unwrap_or(DEFAULT_QUIET)
}

fn text<S: serde::Serializer>(it: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(it)
}

/// The quiet time if the configuration gives none.
const DEFAULT_QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
