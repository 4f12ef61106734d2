//! Watches the routes of a gateway: counts and traces what is decided about their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_config::RouteSettings;
use semel_engine::event::{Event, FanOut, Observer};
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::Exporter;
use semel_telemetry::{Metrics, RouteMetrics};

/// The counts of each name of a route.
struct RouteWatch(BTreeMap<Box<str>, RouteMetrics>);

/// Returns these surroundings with observers that count and trace as well, as far as anybody asks for that.
pub(crate) fn watching(
    around: &Surroundings,
    routes: &[RouteSettings],
    metrics: Option<&Metrics>,
    exporter: Option<&Exporter>,
) -> Surroundings {
    let counted = metrics.map(|metrics| {
        let names = routes.iter().map(name);
        let counts = names.map(|name| {
            let counts = metrics.route(&name);
            (name, counts)
        });
        Arc::new(RouteWatch(counts.collect())) as Arc<dyn Observer>
    });
    let traced = exporter.map(|it| Arc::new(it.traces().handle()) as Arc<dyn Observer>);
    let observers = [Some(Arc::clone(&around.observer)), counted, traced];
    Surroundings {
        observer: Arc::new(FanOut::new(observers.into_iter().flatten())),
        ..around.clone()
    }
}

/// The name under which the keys of a route are kept.
fn name(settings: &RouteSettings) -> Box<str> {
    let route = &settings.route;
    if route.shadow {
        return format!("{}.shadow", route.operation).into();
    }
    route.operation.clone()
}

impl Observer for RouteWatch {
    fn observe(&self, operation: &str, event: &Event<'_>) {
        // What concerns the store concerns no operation.
        if let Some(counts) = self.0.get(operation) {
            counts.observe(operation, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semel_config::{Overrides, Settings};
    use semel_core::{Claimant, Key, Operation, Scope};
    use semel_engine::event::Unobserved;
    use semel_engine::system::{SystemClock, SystemEntropy};
    use semel_telemetry::{Build, Format};

    use super::*;

    #[test]
    fn routes_of_one_name_are_counted_together_and_those_in_shadow_apart() {
        let text = "[gateway]\nlisten = '127.0.0.1:1'\nupstream = 'http://127.0.0.1:9'\n\
                    [[gateway.routes]]\npath = '/a'\noperation = 'charges'\n\
                    [[gateway.routes]]\npath = '/b'\noperation = 'charges'\nshadow = true\n";
        let (variables, overrides) = (std::iter::empty(), Overrides::default());
        let backends = semel_backends::BACKENDS;
        let settings = Settings::of("semel.toml", text, variables, &overrides, backends);
        let gateway = settings.expect("sound settings").gateway;
        let metrics = Metrics::new(Build {
            version: "0",
            commit: "0",
        });
        let around = Surroundings {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: Arc::new(Unobserved),
        };
        let routes = gateway.expect("a gateway").routes;
        let watched = watching(&around, &routes, Some(&metrics), None);
        let scope = Scope::new("", "charges").expect("a scope");
        let operation = &Operation::new(scope, Key::from(1));
        let wait = Duration::ZERO;
        for name in ["charges", "charges", "charges.shadow", "another", ""] {
            watched
                .observer
                .observe(name, &Event::Busy { operation, wait });
            let attempt = 1;
            watched
                .observer
                .observe(name, &Event::Unprotected { operation, attempt });
        }
        let text = metrics.text(Format::Prometheus);
        for (name, count) in [("charges", 2), ("charges.shadow", 1), ("http", 0)] {
            let busy =
                format!("semel_decisions_total{{pipeline=\"{name}\",decision=\"busy\"}} {count}\n");
            assert!(text.contains(&busy), "{text}");
            let unprotected = format!("semel_unprotected_total{{pipeline=\"{name}\"}} {count}\n");
            assert!(text.contains(&unprotected), "{text}");
        }
        assert!(!text.contains("\"another\""), "{text}");
    }
}
