//! Look-ups: the record of an operation.

use axum::http::StatusCode;
use semel_core::{Code, Key, Operation, Record, Scope, State, Store, StoreExt};
use semel_http::member::Fault;
use semel_http::{Caller, Problem};
use serde::Serialize;

use crate::answer::Instant;
use crate::outcome::Remembered;
use crate::service::Service;

/// The parameters of a look-up.
pub(crate) const PARAMETERS: [&str; 3] = ["operation", "key", "tenant"];

/// The record of an operation. Absent members do not apply to its state.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    operation: String,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    operation_id: String,
    state: &'static str,
    attempts: u32,
    possible_repeats: u32,
    created_at: Instant,
    claimed_at: Instant,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_doubt_since: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_since: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remembered_until: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(flatten)]
    outcome: Remembered,
}

impl Found {
    fn of(operation: &Operation, record: &Record) -> Result<Self, Problem> {
        let Operation { scope, key } = operation;
        let mut found = Self {
            operation: scope.operation().to_owned(),
            key: key.as_str().to_owned(),
            tenant: Some(scope.tenant())
                .filter(|tenant| !tenant.is_empty())
                .map(str::to_owned),
            operation_id: operation.id().to_string(),
            state: record.state.kind().as_str(),
            attempts: record.attempts,
            possible_repeats: record.possible_repeats,
            created_at: Instant(record.created_at),
            claimed_at: Instant(record.claimed_at),
            lease_until: None,
            not_before: None,
            completed_at: None,
            in_doubt_since: None,
            dead_since: None,
            remembered_until: record.expires_at().map(Instant),
            last_error: record.last_error.as_deref().map(str::to_owned),
            outcome: match &record.outcome {
                Some(outcome) => Remembered::of(outcome)?,
                None => Remembered::default(),
            },
        };
        match record.state {
            State::Claimed { lease_until } | State::Started { lease_until, .. } => {
                found.lease_until = Some(Instant(lease_until));
            }
            State::Released { not_before } => found.not_before = Some(Instant(not_before)),
            State::Completed { at, .. } => found.completed_at = Some(Instant(at)),
            State::Dead { at, .. } => found.dead_since = Some(Instant(at)),
            State::InDoubt { since } => found.in_doubt_since = Some(Instant(since)),
        }
        Ok(found)
    }
}

impl<S: Store + Clone> Service<S> {
    /// Answers a look-up with this query.
    pub(crate) async fn look_up(&self, caller: &Caller, query: &str) -> Result<Found, Problem> {
        let [operation, key, tenant] = parameters(query)?;
        let operation = required(operation, "operation")?;
        let key = required(key, "key")?;
        let key = Key::parse(&key).map_err(|why| fault("key", why.to_string()))?;
        if key.as_bytes().is_empty() || key.as_bytes().len() > Key::MAX_BYTES {
            let detail = format!("a key has from 1 to {} bytes", Key::MAX_BYTES);
            return Err(fault("key", detail));
        }
        if tenant.as_deref() == Some("") {
            return Err(fault("tenant", "the tenant has no name"));
        }
        let tenant = caller.for_tenant(tenant.as_deref())?;
        let tenant = tenant.as_ref().map_or("", |tenant| tenant.as_str());
        let scope = Scope::new(tenant, &operation).map_err(|why| {
            let is_tenant = Scope::new("", &operation).is_ok();
            let name = if is_tenant { "tenant" } else { "operation" };
            fault(name, why.to_string())
        })?;
        let operation = Operation::new(scope, key);
        let record = self.store.get_one(operation.clone()).await;
        let failed = |problem: Problem| problem.with("operation_id", operation.id().to_string());
        let record = record.map_err(|error| failed(Problem::from(&error)))?;
        let record = record.ok_or_else(|| {
            let detail = "nothing is on record under this key";
            Problem::new(StatusCode::NOT_FOUND, Code::KeyUnknown.as_str(), detail)
        })?;
        Found::of(&operation, &record).map_err(failed)
    }
}

/// Takes a query apart, each parameter in the place of its name.
fn parameters(query: &str) -> Result<[Option<String>; PARAMETERS.len()], Problem> {
    let mut found = [const { None }; PARAMETERS.len()];
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let Some(index) = PARAMETERS.iter().position(|known| *known == name) else {
            let detail =
                "the query has a parameter that is not known: it takes operation, key and tenant";
            return Err(Fault::new("", detail).into());
        };
        if found[index].replace(value.into_owned()).is_some() {
            return Err(fault(PARAMETERS[index], "the parameter occurs twice"));
        }
    }
    Ok(found)
}

fn required(value: Option<String>, name: &str) -> Result<String, Problem> {
    value.ok_or_else(|| fault(name, "this parameter is missing"))
}

fn fault(name: &str, detail: impl Into<String>) -> Problem {
    Fault::new(format!("/{name}"), detail).into()
}
