//! Traces that begin with a transaction: from the outbox through a relay and a broker to the effect of a worker.

use rustix::process::Signal;

use super::super::publish::Target;
use crate::collector::{Collector, Span};
use crate::site::{Site, wait_for};

/// The span in which the application wrote its message.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// The trace of an application that did not record it.
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
/// The id of the message that belongs to no trace.
const ID: &str = "0190a6f1-2b3c-7d4e-8f50-112233445566";

/// One process relays and consumes. The mark of the application decides about sampling, whatever the share is; what belongs
/// to no trace has one from its relay on.
pub(crate) fn a_trace_leads_from_the_transaction_to_the_effect<T: Target>() {
    let place = T::new();
    let collector = Collector::new();
    let config = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n[store]\nurl = \"embedded:./store\"\n\
         [relays.out]\nstore = \"sqlite:shop.db\"\nstream = \"orders\"\n[relays.out.sink]\n{}\
         [pipelines.payments]\nkey = \"json:/id\"\nwindow = \"30d\"\n[pipelines.payments.effect]\nkind = \"exec\"\n\
         command = [\"sh\", \"-c\", \"echo $TRACEPARENT $TRACESTATE >> calls\"]\nclass = \"unkeyed\"\non_doubt = \"park\"\n\
         [pipelines.payments.source]\n{}",
        collector.url(),
        place.sink(&T::address()),
        place.source(&T::address()),
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let shop = "PRAGMA journal_mode = wal; CREATE TABLE orders (id)";
    let made = site.database("shop.db").execute_batch(shop);
    made.expect("a shop");
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
    site.semel(&migrate).done();
    let uuid = ID.replace('-', "");
    let written = site.database("shop.db").execute_batch(&format!(
        "BEGIN IMMEDIATE; INSERT INTO orders VALUES ('o-1');
         INSERT INTO semel_outbox (stream, order_key, headers, payload) VALUES
         ('orders', 'a', '{{\"Traceparent\":\"00-{TRACE}-{PARENT}-01\",\"tracestate\":\"vendor=1\"}}', '{{\"id\":\"o-1\"}}'),
         ('orders', 'a', '{{\"traceparent\":\"{UNSAMPLED}\"}}', '{{\"id\":\"o-2\"}}');
         INSERT INTO semel_outbox (id, stream, order_key, headers, payload) VALUES
         (X'{uuid}', 'orders', 'a', '{{\"traceparent\":\"none\",\"tracestate\":\"of=none\"}}', '{{\"id\":\"o-3\"}}');
         COMMIT;"
    ));
    written.expect("messages");
    let worker = site.start(&["run"]);
    wait_for("every effect", || {
        site.path("calls").exists() && site.text("calls").lines().count() == 3
    });
    worker.signal(Signal::TERM);
    worker.wait().done();

    let calls = site.text("calls");
    let published = collector.named("publish out");
    let processes = collector.named("process payments");
    let effects = collector.named("effect exec");
    let counts = [&published, &processes, &effects].map(Vec::len);
    assert_eq!(counts, [2; 3], "nobody sampled the second: {published:?}");
    let of = |spans: &[Span], trace: &str| -> Span {
        let mut spans = spans.iter().filter(|it| it.trace_id == trace);
        spans.next().expect("a span of the trace").clone()
    };
    for (trace, parent, state, mark) in [(TRACE, PARENT, "vendor=1", 1), (&uuid, "", "", 3)] {
        let (publish, process) = (of(&published, trace), of(&processes, trace));
        assert_eq!((publish.kind, &*publish.parent_id), (4, parent));
        assert_eq!(process.parent_id, publish.id);
        assert_eq!(process.links, [(trace.to_owned(), publish.id.clone())]);
        for span in [&publish, &process] {
            assert_eq!((&*span.trace_state, span.flags & 0xff), (state, mark));
        }
        let effect = of(&effects, trace);
        assert_eq!(effect.parent_id, process.id);
        let told = format!("00-{trace}-{}-0{mark} {state}", effect.id);
        let mut calls = calls.lines();
        assert!(calls.any(|it| it == told.trim_end()), "{told}");
    }
    let publish = of(&published, &uuid);
    let send = if T::SYSTEM == "kafka" {
        "send"
    } else {
        "publish"
    };
    for (name, value) in [
        ("messaging.system", T::SYSTEM),
        ("messaging.operation.type", "send"),
        ("messaging.operation.name", send),
        ("messaging.destination.name", place.name()),
        ("messaging.message.id", ID),
        ("messaging.message.body.size", "12"),
        ("semel.relay", "out"),
        ("semel.stream", "orders"),
        ("semel.attempt", "1"),
        ("semel.fate", "published"),
    ] {
        assert_eq!(publish.attribute(name), value, "{name}");
    }
    // The second goes on in its trace all the same.
    let goes_on = |it: &&str| it.contains(&UNSAMPLED[3..35]) && it.ends_with("-00");
    let unsampled: Vec<_> = calls.lines().filter(goes_on).collect();
    assert!(
        matches!(unsampled[..], [one] if one != UNSAMPLED),
        "{calls}"
    );
}
