//! Watches the operations that clients of the claim API name: counts and traces what is decided about them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use semel_engine::event::{Event, FanOut, Observer};
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::Traces;
use semel_telemetry::{Metrics, OperationMetrics};

/// The counts of each operation.
struct ClaimWatch {
    metrics: Metrics,
    known: Mutex<BTreeMap<Box<str>, OperationMetrics>>,
}

/// Returns these surroundings with observers that count and trace as well, as far as anybody asks for that.
pub(crate) fn watching(
    around: &Surroundings,
    metrics: Option<&Metrics>,
    traces: Option<&Traces>,
) -> Surroundings {
    let counted = metrics.map(|metrics| {
        let watch = ClaimWatch {
            metrics: metrics.clone(),
            known: Mutex::default(),
        };
        Arc::new(watch) as Arc<dyn Observer>
    });
    let spans = traces.map(|traces| Arc::new(traces.handle()) as Arc<dyn Observer>);
    let observers = [Some(Arc::clone(&around.observer)), counted, spans];
    Surroundings {
        observer: Arc::new(FanOut::new(observers.into_iter().flatten())),
        ..around.clone()
    }
}

impl ClaimWatch {
    /// Returns the counts of an operation, whose name is one of a bounded number.
    fn counts(&self, name: &str) -> OperationMetrics {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(name) {
            return counts.clone();
        }
        let counts = self.metrics.operation(name);
        known.insert(name.into(), counts.clone());
        counts
    }
}

impl Observer for ClaimWatch {
    fn observe(&self, operation: &str, event: &Event<'_>) {
        // What concerns the store concerns no operation.
        if !operation.is_empty() {
            self.counts(operation).observe(operation, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_core::{Key, Operation, Scope};
    use semel_engine::event::Unobserved;
    use semel_engine::system::{SystemClock, SystemEntropy};
    use semel_telemetry::{Build, Format};

    use super::*;

    fn around() -> Surroundings {
        let entropy = SystemEntropy;
        Surroundings {
            clock: Arc::new(SystemClock::new()),
            claimant: semel_core::Claimant::random(&entropy),
            entropy: Arc::new(entropy),
            observer: Arc::new(Unobserved),
        }
    }

    #[test]
    fn operations_are_counted_by_name_and_have_no_deliveries() {
        let metrics = Metrics::new(Build {
            version: "0",
            commit: "0",
        });
        let watched = watching(&around(), Some(&metrics), None);
        let scope = Scope::new("", "charge").expect("a scope");
        let operation = &Operation::new(scope, Key::new("k").expect("a key"));
        let stale = Event::Stale {
            operation,
            applied: 1,
        };
        for name in ["charge", "charge", ""] {
            watched.observer.observe(name, &stale);
        }
        let text = metrics.text(Format::Prometheus);
        let counted = "semel_decisions_total{pipeline=\"charge\",decision=\"stale\"} 2\n";
        assert!(text.contains(counted), "{text}");
        assert_eq!(text.matches(",decision=\"stale\"").count(), 1);
        // A series of deliveries would be missed once it is gone.
        assert!(!text.contains("semel_deliveries_total{"), "{text}");
    }
}
