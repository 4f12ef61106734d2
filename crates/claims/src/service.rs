//! The service: one store, its settings, and those who wait.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Operation, Record, Result, Scope, Store};
use semel_http::member::{Fault, Member, required};
use semel_http::{Caller, Problem};

use crate::names::Names;
use crate::settings::Settings;
use crate::waiters::Waiters;

/// Everything that a request is answered with.
#[derive(Debug)]
pub(crate) struct Service<S> {
    pub(crate) store: S,
    pub(crate) settings: Settings,
    pub(crate) waiters: Waiters,
    pub(crate) names: Names,
}

impl<S: Store> Service<S> {
    pub(crate) fn new(store: S, settings: Settings) -> Self {
        Self {
            store,
            waiters: Waiters::new(settings.most_waiting),
            settings,
            names: Names::default(),
        }
    }

    /// Reads the records of these operations; no call for none.
    pub(crate) async fn records(
        &self,
        operations: Arc<[Operation]>,
    ) -> Result<Vec<Option<Record>>> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        self.store.get(operations).await
    }
}

/// Reads tenant and operation name, and checks that the caller may name them.
pub(crate) fn scope(
    tenant: Option<Member<'_>>,
    operation: Option<Member<'_>>,
    base: &str,
    caller: &Caller,
) -> Result<Scope, Problem> {
    let operation = required(operation, base, "operation")?.text_within(Scope::MAX_BYTES)?;
    let tenant = match tenant {
        Some(tenant) => Some(tenant.text_within(Scope::MAX_BYTES)?),
        None => None,
    };
    let tenant = caller.for_tenant(tenant.as_deref())?;
    let name = tenant.as_ref().map_or("", |tenant| tenant.as_str());
    if Scope::is_reserved(&operation) {
        let why = format!("`{operation}` is the name of records that Semel keeps itself");
        return Err(Fault::new(format!("{base}/operation"), why).into());
    }
    Scope::new(name, &operation).map_err(|why| {
        // The lengths are those of a scope, so that a control character is left, in one of the two.
        let is_operation = operation.chars().any(char::is_control);
        let part = if is_operation { "operation" } else { "tenant" };
        Fault::new(format!("{base}/{part}"), why.to_string()).into()
    })
}

/// The longest lease: twelve hours, as in a pipeline.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(12 * 3_600);

/// The longest window, and the longest window of a provider: ten years.
pub(crate) const LONGEST_WINDOW: Duration = Duration::from_secs(10 * 366 * 86_400);
