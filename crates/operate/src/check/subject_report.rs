//! A report of a check, whatever it is about.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::claims::ClaimsReport;
use super::gateway::RouteReport;
use super::producers::ProducerReport;
use super::production::Production;
use super::relays::RelayReport;
use super::report::Report;

/// A report of a check. Its first member says what it is about; the list before production has `lines`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CheckReport {
    /// That of a pipeline.
    Pipeline(Box<Report>),
    /// The list before production, of a pipeline or of a route.
    Production(Production),
    /// That of a listener of the claim API.
    Claims(ClaimsReport),
    /// That of a route of a gateway.
    Route(Box<RouteReport>),
    /// That of a relay.
    Relay(RelayReport),
    /// That of a producer.
    Producer(ProducerReport),
}

impl<'de> Deserialize<'de> for CheckReport {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let has = |member: &str| value.get(member).is_some();
        let read = if has("lines") {
            serde_json::from_value(value).map(Self::Production)
        } else if has("pipeline") {
            serde_json::from_value(value).map(Self::Pipeline)
        } else if has("claims") {
            serde_json::from_value(value).map(Self::Claims)
        } else if has("route") {
            serde_json::from_value(value).map(Self::Route)
        } else if has("relay") {
            serde_json::from_value(value).map(Self::Relay)
        } else if has("producer") {
            serde_json::from_value(value).map(Self::Producer)
        } else {
            return Err(D::Error::custom("a report about nothing that is known"));
        };
        read.map_err(D::Error::custom)
    }
}
