//! The laws of the source and the sink port, on the server of `SEMEL_TEST_NATS_URL`, each case with a stream of its own.

use std::time::Duration;

use semel_broker_nats::{NatsSink, NatsSource, SinkOptions};
use semel_conformance::sink::SinkSubject;
use semel_conformance::source::{self, HeldSubject, Message, SourceSubject};

use crate::test_stream::TestStream;

struct Nats(TestStream);

impl SourceSubject for Nats {
    type Source = NatsSource;

    async fn open() -> Self {
        Self(TestStream::open().await)
    }

    async fn put(&self, messages: &[Message]) {
        self.0.put(messages).await;
    }

    async fn source(&self) -> NatsSource {
        self.0.source()
    }
}

impl HeldSubject for Nats {
    const HOLD: Duration = Duration::from_secs(3);
}

impl SinkSubject for Nats {
    type Sink = NatsSink;

    async fn open() -> Self {
        Self(TestStream::open().await)
    }

    async fn sink(&self) -> NatsSink {
        NatsSink::new(SinkOptions::new(&self.0.url, &self.0.name)).expect("good options")
    }

    async fn read(&self, count: usize) -> Vec<Message> {
        source::read(&mut self.0.source(), count).await
    }
}

semel_conformance::source_laws!(Nats);
semel_conformance::sink_laws!(Nats);
semel_conformance::held_laws!(Nats);
