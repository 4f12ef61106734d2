//! Watches the operations that clients of the claim API name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use semel_engine::event::{Event, Observer};
use semel_engine::surroundings::Surroundings;
use semel_telemetry::{Metrics, OperationMetrics};

/// Counts what clients are answered, if anybody asks for metrics, and hands it on to the observer of the worker.
struct ClaimWatch {
    metrics: Option<Metrics>,
    next: Arc<dyn Observer>,
    known: Mutex<BTreeMap<Box<str>, OperationMetrics>>,
}

/// Returns these surroundings with an observer that counts as well, if anybody asks for metrics.
pub(crate) fn watching(around: &Surroundings, metrics: Option<&Metrics>) -> Surroundings {
    let watch = ClaimWatch {
        metrics: metrics.cloned(),
        next: Arc::clone(&around.observer),
        known: Mutex::default(),
    };
    Surroundings {
        observer: Arc::new(watch),
        ..around.clone()
    }
}

impl ClaimWatch {
    /// Returns the counts of an operation, whose name is one of a bounded number.
    fn counts(&self, name: &str) -> Option<OperationMetrics> {
        let metrics = self.metrics.as_ref()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(name) {
            return Some(counts.clone());
        }
        let counts = metrics.operation(name);
        known.insert(name.into(), counts.clone());
        Some(counts)
    }
}

impl Observer for ClaimWatch {
    fn observe(&self, operation: &str, event: &Event<'_>) {
        // What concerns the store concerns no operation.
        if !operation.is_empty()
            && let Some(counts) = self.counts(operation)
        {
            counts.observe(operation, event);
        }
        self.next.observe(operation, event);
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
        let watched = watching(&around(), Some(&metrics));
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
