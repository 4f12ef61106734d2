//! Orders about the records of keys, and their results.

use std::borrow::Cow;
use std::sync::Arc;

use semel_core::audit::standing;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::store::Store;
use semel_core::{AnyStore, Note, Operation, Record, Result, StateKind};
use serde::{Deserialize, Serialize};

use crate::value::tenant;

/// A planned order.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The operation.
    pub operation: Operation,
    /// The order.
    pub order: Order,
    /// The state of the record, in the words of the audit trail.
    pub before: Box<str>,
}

/// The result for one key: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The key.
    pub key: String,
    /// The id of its operation.
    pub operation_id: String,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The order, by its name in the audit trail.
    pub action: Cow<'static, str>,
    /// The state before.
    pub before: Box<str>,
    /// The state after.
    pub after: Box<str>,
}

/// The result of an order about all finished keys of a pipeline: the documented object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The tenant, if only one was meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Keys that are remembered for longer now.
    pub extended: u64,
    /// Keys of which something else became between the look at them and the order.
    pub refused: u64,
}

impl Planned {
    /// Plans an order about a record.
    pub fn new(operation: Operation, record: &Record, order: Order) -> Self {
        Self {
            operation,
            order,
            before: standing(Some(record)),
        }
    }

    /// Gives the orders of a batch.
    ///
    /// # Shape
    ///
    /// One answer for each order, in the same order
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn give(store: &AnyStore, batch: &[Self], note: &Note) -> Result<Vec<Directed>> {
        let directives: Arc<[_]> = batch
            .iter()
            .map(|planned| Directive {
                operation: planned.operation.clone(),
                order: planned.order.clone(),
                note: Some(note.clone()),
            })
            .collect();
        store.operate(directives).await
    }
}

impl Changed {
    /// Reports an order that led to this state.
    pub fn of(planned: &Planned, after: Option<StateKind>) -> Self {
        let operation = &planned.operation;
        Self {
            key: operation.key.as_str().to_owned(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation().to_owned(),
            tenant: tenant(&operation.scope).map(str::to_owned),
            action: planned.order.action().into(),
            before: planned.before.clone(),
            after: after_of(&planned.order, after),
        }
    }
}

/// The new state of the record, in the words of the audit trail.
fn after_of(order: &Order, state: Option<StateKind>) -> Box<str> {
    match (order, state) {
        (_, None) => "absent".into(),
        (Order::Hold(true), Some(state)) => format!("{state}, held").into(),
        (Order::Release, Some(state @ (StateKind::Claimed | StateKind::Started))) => {
            format!("{state}, lease over").into()
        }
        (
            Order::Hold(false)
            | Order::Release
            | Order::Requeue
            | Order::Retry
            | Order::Forget
            | Order::Extend(_)
            | Order::Resolve(_),
            Some(state),
        ) => state.as_str().into(),
    }
}
