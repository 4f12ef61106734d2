//! The next steps that a report names, as data: the command line prints one as a command to paste, a console
//! shows it as a button.

use semel_core::{Key, Operation, Scope};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::value::tenant;

/// A step that an operator may take next about one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its kind.
    #[serde(rename = "action")]
    pub kind: ActionKind,
    /// The operation that it is about.
    #[serde(flatten)]
    pub target: Target,
}

/// The kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Explains the key: the known facts, and the possible steps.
    Explain,
    /// Shows its record.
    Show,
    /// Shows the outcome of its effect.
    ShowOutcome,
    /// Ends its lease or its backoff, or gives it another chance.
    Release,
    /// Removes its record.
    Forget,
    /// Keeps its record beyond its window.
    Hold,
    /// Keeps its record no longer than its window.
    LetGo,
    /// States what became of its effect, which is in doubt.
    Resolve,
    /// States that its effect happened.
    ResolveApplied,
    /// States that its effect did not happen.
    ResolveNotApplied,
    /// Gives it up in doubt, which requires a reason.
    Abandon,
    /// Calls its effect again although it is in doubt.
    Retry,
    /// Shows the message that is kept for its doubt.
    ShowDoubt,
    /// Runs again the message that was kept when Semel gave the operation up.
    Replay,
    /// Shows the message that was kept when Semel gave the operation up.
    ShowDeadLetter,
    /// Drops the message that was kept when Semel gave the operation up.
    DropDeadLetter,
    /// Lists the messages of the key in quarantine.
    ListQuarantine,
}

impl Action {
    /// Makes an action about an operation.
    pub const fn new(kind: ActionKind, operation: Operation) -> Self {
        let target = Target(operation);
        Self { kind, target }
    }
}

/// The operation that an action is about; in JSON its id, its pipeline, its tenant and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(pub Operation);

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Operation { scope, key } = &self.0;
        let tenant = tenant(scope);
        let count = if tenant.is_some() { 4 } else { 3 };
        let mut object = to.serialize_struct("Target", count)?;
        object.serialize_field("key", key.as_str())?;
        object.serialize_field("operation_id", &self.0.id().to_string())?;
        object.serialize_field("pipeline", scope.operation())?;
        match tenant {
            Some(tenant) => object.serialize_field("tenant", tenant)?,
            None => object.skip_field("tenant")?,
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Sent {
            key: String,
            pipeline: String,
            tenant: Option<String>,
        }
        let sent = Sent::deserialize(from)?;
        let scope = Scope::new(sent.tenant.as_deref().unwrap_or_default(), &sent.pipeline);
        let scope = scope.map_err(serde::de::Error::custom)?;
        let key = Key::parse(&sent.key).map_err(serde::de::Error::custom)?;
        Ok(Self(Operation::new(scope, key)))
    }
}

/// A sentence, and an action that follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The fact, or the advice.
    pub text: String,
    /// The action, if there is a single one.
    pub action: Option<Action>,
}

impl Advice {
    /// Makes advice of a sentence alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            action: None,
        }
    }

    /// Makes advice of a sentence and an action.
    pub fn with(text: impl Into<String>, action: Action) -> Self {
        Self {
            text: text.into(),
            action: Some(action),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_what_it_is_about_and_no_command() {
        let scope = Scope::new("default", "payments").expect("a scope");
        let operation = Operation::new(scope, Key::parse("pay-1").expect("a key"));
        let id = operation.id().to_string();
        let advice = Advice::with("forget the key", Action::new(ActionKind::Forget, operation));
        let json = serde_json::to_value(&advice).expect("JSON");
        let action = serde_json::json!({
            "action": "forget", "key": "pay-1", "operation_id": id, "pipeline": "payments",
            "tenant": "default",
        });
        assert_eq!(json["action"], action);
        let read: Advice = serde_json::from_value(json.clone()).expect("advice");
        assert_eq!(read, advice);
        assert_eq!(json["text"], "forget the key");
        let scope = Scope::new("", "payments").expect("a scope");
        let operation = Operation::new(scope, Key::parse("pay-1").expect("a key"));
        let json = serde_json::to_value(Action::new(ActionKind::Show, operation)).expect("JSON");
        assert_eq!(json.get("tenant"), None, "there is none: {json}");
    }
}
