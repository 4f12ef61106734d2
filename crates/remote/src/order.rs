//! Orders: planned, then carried out with the token of the plan. Messages that are run again are followed.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::Error;
use semel_operate::order::Left;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::effects::{Effects, place_of};
use crate::problem::Problem;
use crate::report::of_format;
use crate::worker::{Failure, VERSION, Worker};

/// A plan: what would change, and what is left as it is.
#[derive(Debug, Deserialize)]
pub struct Planned<C> {
    token: String,
    /// The changes that would be made.
    pub changes: Vec<C>,
    /// The keys and messages that are left as they are.
    pub left: Vec<Left>,
    /// False if there is more than fits into one plan.
    pub complete: bool,
}

/// An order that was carried out.
#[derive(Debug, Deserialize)]
pub struct Done<C> {
    /// The changes, each with what became of it.
    pub changes: Vec<Carried<C>>,
    /// True if all were made, and nothing is left to do.
    pub complete: bool,
}

/// A change, and what became of it.
#[derive(Debug, Deserialize)]
pub struct Carried<C> {
    /// The change.
    #[serde(flatten)]
    pub change: C,
    /// The result: `done`, `refused`, `failed`, `unknown` or `not_tried`.
    pub result: String,
    /// The reason, or what is left to do.
    pub why: Option<String>,
    /// False if no audit trail has it, where that can be.
    pub audited: Option<bool>,
}

/// Messages that are run again.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// The id of the run.
    pub id: String,
    /// The state: `running`, `ended`, `stopped` or `failed`.
    pub state: String,
    /// The number of messages that would have each fate.
    pub foretold: BTreeMap<String, u64>,
    /// The number of messages that have each result.
    pub came: BTreeMap<String, u64>,
    /// The messages whose fate is another than was foretold.
    pub differ: u64,
    /// True if all are done, and nothing is left to do.
    pub complete: bool,
    /// The result of each pipeline that is through.
    pub results: Vec<Value>,
    /// The problem that it broke off with.
    problem: Option<Map<String, Value>>,
}

impl Run {
    /// The failure that it broke off with.
    pub fn failure(&self) -> Option<Error> {
        Some(Problem::of_members(self.problem.as_ref()?)?.error())
    }

    /// True while it goes on.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

impl<C> Planned<C> {
    /// The token by which it is carried out.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl<C: DeserializeOwned> Planned<C> {
    /// Returns the new plan of an order whose plan no longer holds.
    pub fn of_stale(problem: &Problem) -> Option<Self> {
        of_format(Value::Object(problem.members.clone()), VERSION, "plans").ok()
    }
}

impl Worker {
    /// Plans an order; changes nothing. `action` is its path, as in `keys/release`.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn plan<C: DeserializeOwned>(
        &self,
        action: &str,
        order: &Value,
    ) -> Result<Planned<C>, Failure> {
        let path = format!("/v1/{action}/plan");
        let sent = self.post(&path, order, PLANNING, Effects::None).await?;
        of_format(sent, VERSION, "plans").map_err(|why| self.incompatible(&path, &why))
    }

    /// Carries out what was planned, if it still holds; else it is refused with `plan-stale`, and the new plan.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// The order may have been given. With the same token it is given once.
    pub async fn carry_out<C: DeserializeOwned>(
        &self,
        action: &str,
        token: &str,
        reason: &str,
    ) -> Result<Done<C>, Failure> {
        let path = format!("/v1/{action}/do");
        let effects = Effects::Some(place_of(action));
        let sent = self.give(&path, (token, reason), effects).await?;
        let done = of_format(sent, VERSION, "answers to orders");
        done.map_err(|why| self.unread(&path, &why, effects))
    }

    /// Begins to run messages again that were planned. It goes on without the one who asks: [`Worker::run`] tells how far
    /// it is.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// The run may have begun. Given once more, it is found again.
    pub async fn begin(&self, action: &str, token: &str, reason: &str) -> Result<Run, Failure> {
        let path = format!("/v1/{action}/do");
        let effects = Effects::Some(place_of(action));
        let sent = self.give(&path, (token, reason), effects).await?;
        let run = of_format(sent, VERSION, "runs");
        run.map_err(|why| self.unread(&path, &why, effects))
    }

    /// Tells how far a run is.
    ///
    /// # Errors
    ///
    /// Those of the worker, and of the way to it
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn run(&self, id: &str) -> Result<Run, Failure> {
        let path = format!("/v1/runs/{id}");
        let text = self.text(&path, &[]).await?;
        let sent = self.json(&text, Effects::None)?;
        of_format(sent, VERSION, "runs").map_err(|why| self.incompatible(&path, &why))
    }

    async fn give(
        &self,
        path: &str,
        (token, reason): (&str, &str),
        effects: Effects,
    ) -> Result<Value, Failure> {
        let body = json!({"token": token, "reason": reason});
        self.post(path, &body, EXECUTION, effects).await
    }
}

/// The time that a plan takes; a worker gives it up after twelve seconds.
const PLANNING: Duration = Duration::from_secs(30);
/// The time that the answer of an order takes; a worker says after a minute at most that it goes on.
const EXECUTION: Duration = Duration::from_secs(90);
