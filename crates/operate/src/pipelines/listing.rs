//! The list of pipelines, with the order that stands about each.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::pause_record::OrderedPause;
use crate::value::Time;

/// A pipeline or a relay, and the order that stands about it: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipelineLine {
    /// The pipeline, or the relay.
    pub pipeline: Box<str>,
    /// True for a relay.
    #[serde(default, rename = "relay", skip_serializing_if = "std::ops::Not::not")]
    pub is_relay: bool,
    /// The order: `run`, `pause` or `drain`.
    pub order: Cow<'static, str>,
    /// The time of the order; none for one that is to run.
    pub since: Option<Time>,
    /// The person who gave it.
    pub by: Option<Box<str>>,
    /// The reason that was given; may be empty.
    pub reason: Option<Box<str>>,
}

impl PipelineLine {
    /// Lays out a pipeline.
    pub fn of(pipeline: &str, order: Option<OrderedPause>) -> Self {
        let kind = order.as_ref().map_or("run", |it| it.kind.as_str());
        let since = order.as_ref().map(|it| Time(it.since));
        let (by, reason) = order.map(|it| (it.by, it.reason)).unzip();
        Self {
            pipeline: pipeline.into(),
            is_relay: false,
            order: kind.into(),
            since,
            by,
            reason,
        }
    }

    /// Lays out a relay.
    pub fn of_relay(relay: &str, order: Option<OrderedPause>) -> Self {
        Self {
            is_relay: true,
            ..Self::of(relay, order)
        }
    }
}
