//! NATS JetStream, read back message by message.

use std::collections::BTreeMap;

use super::super::nats::Stream;
use super::super::{Place, runtime};
use super::{Message, Target, killed, payloads, publishing, site, sorted};
use crate::brokers::payments;

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

    fn name(&self) -> &str {
        &self.0
    }

    fn group(&self) -> &'static str {
        "payments"
    }

    const SYSTEM: &str = "nats";
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
