//! The trace that a provider sends along with its delivery.

use rustix::process::Signal;

use super::provider::{self, Provider};
use super::{fate, of_effect, start};
use crate::collector::Collector;

/// Nobody recorded the second trace. It goes on to the effect, and leaves no span.
#[test]
fn the_trace_of_a_delivery_goes_on_into_its_span_and_its_effect() {
    const TRACES: [&str; 2] = [
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "0af7651916cd43dd8448eb211c80319c",
    ];
    const PARENT: &str = "00f067aa0ba902b7";
    let (provider, collector) = (Provider::new(), Collector::new());
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"1%\"",
        collector.url()
    );
    let effect = "[pipelines.events.effect]\nkind = \"exec\"\nclass = \"unkeyed\"\non_doubt = \"park\"\n\
                  command = [\"sh\", \"-c\", \"echo $TRACEPARENT $TRACESTATE >> calls\"]";
    let site = of_effect(&provider, "embedded:data", &telemetry, effect);
    let running = start(&site, &provider);
    let body = b"{\"action\":\"opened\"}";
    let signed = provider::signature(provider::SECRET, body);
    for (at, trace) in TRACES.into_iter().enumerate() {
        let (id, parent) = (
            format!("d-{at}"),
            format!("00-{trace}-{PARENT}-0{}", 1 - at),
        );
        let headers = [
            ("X-Hub-Signature-256", &*signed),
            ("X-GitHub-Delivery", &*id),
            ("Traceparent", &*parent),
            ("Tracestate", "vendor=1"),
        ];
        let reply = provider.send("POST", "/github", &headers, body);
        assert_eq!(fate(reply), (200, "applied".to_owned()));
    }
    running.signal(Signal::TERM);
    running.wait().done();
    let spans = collector.spans();
    let process = collector.named("process events");
    let [process] = &process[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(
        (process.kind, &*process.trace_id, &*process.parent_id),
        (5, TRACES[0], PARENT)
    );
    assert_eq!(process.links, [(TRACES[0].to_owned(), PARENT.to_owned())]);
    assert_eq!(process.attribute("messaging.system"), "webhook");
    assert_eq!(process.attribute("messaging.destination.name"), "/github");
    assert!(
        spans
            .iter()
            .all(|it| it.trace_id == TRACES[0] && it.trace_state == "vendor=1")
    );
    let effect = &collector.named("effect exec")[0];
    assert_eq!(effect.parent_id, process.id);
    let calls = site.text("calls");
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(
        calls[0],
        format!("00-{}-{}-01 vendor=1", TRACES[0], effect.id)
    );
    let unsampled = format!("00-{}-", TRACES[1]);
    assert!(
        calls[1].starts_with(&unsampled) && calls[1].ends_with("-00 vendor=1"),
        "{calls:?}"
    );
}
