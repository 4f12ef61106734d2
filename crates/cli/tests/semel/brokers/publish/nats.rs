//! NATS JetStream, read back message by message.

use std::collections::BTreeMap;

use rustix::process::Signal;
use semel_broker_nats::{NatsSink, SinkOptions};
use semel_core::port::sink::{Publication, Sink};

use super::super::nats::Stream;
use super::super::{Place, runtime};
use super::{Message, Target, killed, payloads, publishing, site, sorted};
use crate::brokers::payments;
use crate::collector::Collector;
use crate::site::{Running, Site, wait_for};

publishing!(Stream);

impl Target for Stream {
    fn sink(&self, address: &str) -> String {
        let Self(subject) = self;
        let url = if address.contains("://") {
            address.to_owned()
        } else {
            format!("nats://{address}")
        };
        format!("kind = \"nats\"\nurl = \"{url}\"\nsubject = \"{subject}\"\n")
    }

    fn read(&self) -> Vec<Message> {
        runtime().block_on(async {
            let client = async_nats::connect(&Self::address()).await;
            let context = async_nats::jetstream::new(client.expect("a server"));
            let stream = context.get_stream(&self.0).await.expect("the stream");
            let state = stream.get_info().await.expect("its state").state;
            let mut messages = Vec::new();
            for sequence in 1..=state.last_sequence {
                let raw = stream.get_raw_message(sequence).await.expect("a message");
                let headers = raw.headers.iter();
                let headers = headers.map(|(name, values)| {
                    let value = values.first().map_or("", |value| value.as_str());
                    (name.to_string(), value.to_owned())
                });
                let headers: BTreeMap<_, _> = headers.collect();
                messages.push(Message {
                    id: headers["Nats-Msg-Id"].clone(),
                    payload: String::from_utf8(raw.payload.to_vec()).expect("text"),
                    headers,
                });
            }
            messages
        })
    }

    const DROPS_REPEATS: bool = true;
    const NO_PLACE: &str = "no stream takes in the subject";
}

#[test]
fn a_message_that_is_too_long_is_dead_and_listed() {
    super::a_message_that_is_too_long_is_dead_and_listed::<Stream>();
}

#[test]
fn what_was_under_way_at_a_kill_is_there_once() {
    let (target, site) = killed::<Stream>("");
    let summary = site.run();
    assert_eq!(summary.count("in_doubt"), 0, "{summary:?}");
    assert_eq!(payloads(&target.read()), sorted(payments(0..super::MANY)));
}

#[test]
fn a_window_that_the_stream_does_not_have_is_refused() {
    let target = Stream::new();
    let settings = target.sink(&Stream::address()) + "provider_window = \"3m\"\n";
    let site = site(&settings, "");
    site.write("in.ndjson", super::lines(0..3));
    site.semel(&["run"]).code(2).says("duplicate window");
    let checked = site.semel(&["check"]).code(1);
    assert!(checked.stdout.contains("duplicate window"), "{checked:?}");
    assert!(target.read().is_empty());
}

#[test]
fn a_trace_goes_through() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for is_exported in [true, false] {
        let (from, to) = (Stream::new(), Stream::new());
        let collector = Collector::new();
        let publication = Publication {
            id: from.0.clone().into(),
            order: None,
            payload: r#"{"id":"pay-1"}"#.into(),
            headers: vec![
                ("traceparent".into(), PARENT.into()),
                ("tracestate".into(), "vendor=1".into()),
            ],
        };
        let options = SinkOptions::new(Stream::address(), &from.0);
        runtime().block_on(async {
            let sink = NatsSink::new(options).expect("a sink");
            let confirmed = sink.publish(&[publication]).await.remove(0);
            confirmed.expect("it is with the broker");
        });
        // The mark of the producer decides, whatever the share is.
        let config = format!(
            "[telemetry]\notlp = \"{}\"\nsample = \"0%\"\n[store]\nurl = \"embedded:./store\"\n\
             [pipelines.pay]\nkey = \"json:/id\"\nwindow = \"30d\"\n[pipelines.pay.source]\n{}\
             [pipelines.pay.effect]\n{}",
            collector.url(),
            from.source(&Stream::address()),
            to.sink(&Stream::address())
        );
        let site = Site::with(&[("semel.toml", &config)]);
        let mut command = site.command();
        command.env("OTEL_SDK_DISABLED", (!is_exported).to_string());
        let running = Running::start(command.arg("run"));
        wait_for("the message", || to.read().len() == 1);
        running.signal(Signal::TERM);
        running.wait().done();
        let published = to.read().remove(0);
        assert_eq!(published.headers["tracestate"], "vendor=1");
        let told = &published.headers["traceparent"];
        if !is_exported {
            assert_eq!(told, PARENT, "as it came");
            assert!(collector.spans().is_empty());
            continue;
        }
        let [trace, parent] = [&PARENT[3..35], &PARENT[36..52]];
        let process = collector.named("process pay").remove(0);
        assert_eq!((&*process.trace_id, &*process.parent_id), (trace, parent));
        assert_eq!(process.links, [(trace.to_owned(), parent.to_owned())]);
        assert_eq!(process.trace_state, "vendor=1");
        assert_eq!(process.attribute("messaging.system"), "nats");
        assert_eq!(process.attribute("messaging.destination.name"), from.0);
        let effect = collector.named("effect publish").remove(0);
        assert_eq!(effect.kind, 4, "a producer");
        assert_eq!(told, &format!("00-{trace}-{}-01", effect.id));
    }
}
