//! The metrics of one operation that clients name: those of the claim API, and those of a route of a gateway.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use semel_engine::event::{Event, Observer};

use crate::decisions::Decisions;
use crate::effects::Effects;
use crate::families::{Families, labels};
use crate::watched::Shared;

/// Counts what is decided about the claims of one operation, under its name in place of that of a pipeline. It has no
/// deliveries and no calls of an effect: those are not the service's own.
///
/// It counts every event that it is told, whatever the name in it.
#[derive(Clone, Debug)]
pub struct OperationMetrics(Arc<Decisions>);

impl OperationMetrics {
    pub(crate) fn new(families: &Families, shared: &Arc<Shared>, name: &str) -> Self {
        Self(Arc::new(Decisions::new(families, shared, name)))
    }
}

impl Observer for OperationMetrics {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        self.0.observe(event);
    }
}

/// Counts what is decided about the requests of the routes of one name, and the calls of what is behind them. It has no
/// deliveries: requests that no record tells of are counted by the gateway itself.
///
/// It counts every event that it is told, whatever the name in it.
#[derive(Clone, Debug)]
pub struct RouteMetrics(Arc<Route>);

#[derive(Debug)]
struct Route {
    decisions: Decisions,
    effects: Effects,
    effect_seconds: Histogram,
    unprotected: Counter,
    /// Calls under a claim that began and have not ended.
    in_flight: Gauge,
}

impl RouteMetrics {
    pub(crate) fn new(families: &Families, shared: &Arc<Shared>, name: &str) -> Self {
        let of_effect = labels([("pipeline", name), ("effect", EFFECT)]);
        let alone = labels([("pipeline", name)]);
        Self(Arc::new(Route {
            decisions: Decisions::new(families, shared, name),
            effects: Effects::new(families, name, EFFECT),
            effect_seconds: families.effect_seconds.get_or_create_owned(&of_effect),
            unprotected: families.unprotected.get_or_create_owned(&alone),
            in_flight: families.in_flight.get_or_create_owned(&alone),
        }))
    }
}

impl Observer for RouteMetrics {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let it = &*self.0;
        it.decisions.observe(event);
        match event {
            // Told when its call begins.
            Event::Granted { .. } => _ = it.in_flight.inc(),
            Event::EffectEnded { verdict, took, .. } => {
                it.in_flight.dec();
                it.effects.of(verdict).inc();
                it.effect_seconds.observe(took.as_secs_f64());
            }
            Event::Unprotected { .. } => _ = it.unprotected.inc(),
            _ => {}
        }
    }
}

/// The kind of the effect behind a route, as that of a pipeline which calls a server.
const EFFECT: &str = "http";
