//! Keys and messages that an order leaves as they are.

use semel_core::Operation;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::parked::Foretold;
use crate::value::tenant;

/// A key or a message that is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Left {
    /// The key; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id that was named, or that of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer: Option<String>,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The reason.
    pub why: String,
    /// The step that helps, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Action>,
    /// True if it is already as the order would make it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
}

impl Left {
    /// A message that is left as it is.
    pub fn message(foretold: Foretold) -> Self {
        Self {
            key: foretold.key,
            id: Some(foretold.id),
            pipeline: Some(foretold.pipeline),
            producer: None,
            tenant: foretold.tenant,
            why: foretold.detail,
            next: None,
            already: false,
        }
    }

    /// An operation that is left as it is.
    pub fn of(operation: &Operation, why: impl Into<String>, next: Option<Action>) -> Self {
        let scope = &operation.scope;
        Self {
            key: Some(operation.key.as_str().to_owned()),
            id: Some(operation.id().to_string()),
            pipeline: Some(scope.operation().to_owned()),
            producer: None,
            tenant: tenant(scope).map(str::to_owned),
            why: why.into(),
            next,
            already: false,
        }
    }

    /// A key under which nothing is.
    pub fn key(key: &str, why: impl Into<String>) -> Self {
        Self {
            key: Some(key.to_owned()),
            id: None,
            pipeline: None,
            producer: None,
            tenant: None,
            why: why.into(),
            next: None,
            already: false,
        }
    }

    /// A pipeline that is left as it is.
    pub fn pipeline(name: &str, why: impl Into<String>) -> Self {
        Self {
            key: None,
            pipeline: Some(name.to_owned()),
            ..Self::key("", why)
        }
    }

    /// A producer that is left as it is.
    pub fn producer(name: &str, why: impl Into<String>) -> Self {
        Self {
            key: None,
            producer: Some(name.to_owned()),
            ..Self::key("", why)
        }
    }

    /// True if nothing has the name that was given.
    pub const fn is_unknown(&self) -> bool {
        let is_named_alone = self.pipeline.is_none() || (self.key.is_none() && self.id.is_none());
        is_named_alone && !self.already
    }

    /// The same where it is already as the order would make it.
    #[must_use]
    pub fn already(self) -> Self {
        Self {
            already: true,
            ..self
        }
    }

    /// An id that nothing has.
    pub fn id(id: &str, why: impl Into<String>) -> Self {
        Self {
            key: None,
            id: Some(id.to_owned()),
            ..Self::key("", why)
        }
    }
}
