//! The families of metrics that a gateway counts itself: requests of which no record tells, and its upstreams.

use std::collections::BTreeMap;

use semel_gateway::Counts;
use semel_proxy::Proxy;
use semel_telemetry::{Sample, SampledFamily};

/// Returns the families as they are now.
pub(super) fn families(proxy: &Proxy) -> Vec<SampledFamily> {
    let counts = proxy.counts();
    // Routes may have one path for several methods.
    let mut requests = BTreeMap::<_, u64>::new();
    for route in &counts.routes {
        for (kind, count) in kinds(&route.counts) {
            let of = (route.operation.as_str(), route.path.as_str(), kind);
            *requests.entry(of).or_default() += count;
        }
    }
    let requests = requests
        .into_iter()
        .map(|((operation, path, kind), count)| {
            let labels = [("pipeline", operation), ("route", path), ("kind", kind)];
            Sample::new(labels, count)
        });
    let health = proxy.health();
    let upstreams = health.upstreams.iter().filter_map(|it| {
        let is_up = it.is_up?;
        Some(Sample::new([("upstream", &*it.url)], is_up.into()))
    });
    let one = |count| vec![Sample::new([], count)];
    vec![
        SampledFamily::counter(
            "semel_gateway_requests",
            "Requests of a route of which no record tells, by kind.",
            requests.collect(),
        ),
        SampledFamily::counter(
            "semel_gateway_unmatched",
            "Requests that no route matched, which pass.",
            one(counts.unmatched),
        ),
        SampledFamily::counter(
            "semel_gateway_refused",
            "Requests that were refused before a route was looked for.",
            one(counts.refused),
        ),
        SampledFamily::counter(
            "semel_gateway_unreachable",
            "Requests that did not reach an upstream.",
            one(counts.unreachable),
        ),
        SampledFamily::gauge(
            "semel_gateway_in_flight",
            "Requests that are with an upstream.",
            one(counts.in_flight),
        ),
        SampledFamily::gauge(
            "semel_upstream_up",
            "Whether an upstream answers: 1 or 0.",
            upstreams.collect(),
        ),
    ]
}

fn kinds(counts: &Counts) -> [(&'static str, u64); 8] {
    [
        ("keyless", counts.keyless),
        ("refused", counts.refused),
        ("unprotected", counts.unprotected),
        ("shadow_first", counts.shadow_first),
        ("shadow_replayed", counts.shadow_replayed),
        ("shadow_conflicts", counts.shadow_conflicts),
        ("shadow_unjudged", counts.shadow_unjudged),
        ("shadow_unrecorded", counts.shadow_unrecorded),
    ]
}
