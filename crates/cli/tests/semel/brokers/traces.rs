//! Traces through real brokers: from the header of a message to that of the one that is published for it, and to a
//! collector.

use rustix::process::Signal;
use semel_core::port::sink::Publication;

use super::publications;
use super::publish::Target;
use crate::collector::Collector;
use crate::site::{Running, Site, wait_for};

#[cfg(feature = "amqp")]
mod hard_cases;
mod outbox;

pub(super) use outbox::a_trace_leads_from_the_transaction_to_the_effect;

/// A message with this span as that of its producer.
fn message(payload: &str, parent: &str) -> Publication {
    let mut published = publications(&[payload.to_owned()]).remove(0);
    published.headers = vec![
        ("traceparent".into(), parent.to_owned().into()),
        ("tracestate".into(), "vendor=1".into()),
    ];
    published
}

/// Sends one message with a collector and one without. The mark of the producer decides, whatever the share is.
pub(super) fn a_trace_goes_through<T: Target>() {
    const PARENTS: [&str; 2] = [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ];
    const PAYLOADS: [&str; 2] = [r#"{"id":"pay-1"}"#, r#"{"id":"pay-2"}"#];
    let (from, to) = (T::new(), T::new());
    let collector = Collector::new();
    let config = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"0%\"\n[store]\nurl = \"embedded:./store\"\n\
         [pipelines.payments]\nkey = \"json:/id\"\nwindow = \"30d\"\n[pipelines.payments.effect]\n{}\
         [pipelines.payments.source]\n{}",
        collector.url(),
        to.sink(&T::address()),
        from.source(&T::address()),
    );
    let site = Site::with(&[("semel.toml", &config)]);
    for (at, is_exported) in [true, false].into_iter().enumerate() {
        from.send(&[message(PAYLOADS[at], PARENTS[at])]);
        let mut command = site.command();
        command.args(["run", "--log", "json", "--log-level", "decisions"]);
        command.env("OTEL_SDK_DISABLED", (!is_exported).to_string());
        let mut running = Running::start(&mut command);
        wait_for("the message", || running.stderr().contains("\"completed\""));
        running.signal(Signal::TERM);
        running.wait().done();
    }
    let mut published = to.read();
    published.sort_by(|one, other| one.payload.cmp(&other.payload));
    let payloads: Vec<_> = published.iter().map(|it| &*it.payload).collect();
    assert_eq!(payloads, PAYLOADS);
    assert!(
        published
            .iter()
            .all(|it| it.headers["tracestate"] == "vendor=1")
    );
    assert_eq!(
        published[1].headers["traceparent"], PARENTS[1],
        "as it came"
    );

    let [trace, parent] = [&PARENTS[0][3..35], &PARENTS[0][36..52]];
    let processes = collector.named("process payments");
    let [process] = &processes[..] else {
        panic!("{processes:?}")
    };
    assert_eq!(process.kind, 5, "a consumer");
    assert_eq!((&*process.trace_id, &*process.parent_id), (trace, parent));
    assert_eq!(process.links, [(trace.to_owned(), parent.to_owned())]);
    assert_eq!(process.trace_state, "vendor=1");
    assert_eq!(process.attribute("messaging.system"), T::SYSTEM);
    assert_eq!(process.attribute("messaging.destination.name"), from.name());
    assert_eq!(process.attribute("messaging.operation.type"), "process");
    let group = process.attribute("messaging.consumer.group.name");
    assert_eq!(group, from.group());

    let effects = collector.named("effect publish");
    let [effect] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(effect.kind, 4, "a producer");
    assert_eq!(
        (&effect.trace_id, &effect.parent_id),
        (&process.trace_id, &process.id)
    );
    assert_eq!(effect.attribute("messaging.system"), T::SYSTEM);
    assert_eq!(effect.attribute("messaging.destination.name"), to.name());
    assert_eq!(effect.attribute("messaging.operation.type"), "send");
    let [host, port] = ["server.address", "server.port"].map(|it| effect.attribute(it));
    let place = format!("{host}:{port}");
    assert!(!port.is_empty() && T::address().contains(&place), "{place}");
    let told = &published[0].headers["traceparent"];
    assert_eq!(told, &format!("00-{trace}-{}-01", effect.id));
}
