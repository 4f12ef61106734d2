//! The laws of every source and every sink, over a classic queue and over a quorum queue.

use std::sync::atomic::{AtomicU64, Ordering};

use semel_broker_amqp::{AmqpSink, AmqpSource};
use semel_conformance::sink::SinkSubject;
use semel_conformance::source::{self, Message, SourceSubject};
use semel_core::port::sink::{Publication, Sink};

use crate::lab::Queue;

async fn put(queue: &Queue, messages: &[Message]) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let publication = |message: &Message| Publication {
        id: format!("law-{}", NEXT.fetch_add(1, Ordering::Relaxed)).into(),
        order: None,
        payload: message.payload.clone(),
        headers: message.headers.clone(),
    };
    let batch: Vec<_> = messages.iter().map(publication).collect();
    for answer in queue.sink().publish(&batch).await {
        answer.expect("published");
    }
}

mod classic {
    use super::*;

    struct Classic(Queue);

    impl SourceSubject for Classic {
        type Source = AmqpSource;

        async fn open() -> Self {
            Self(Queue::open().await)
        }

        async fn put(&self, messages: &[Message]) {
            put(&self.0, messages).await;
        }

        async fn source(&self) -> AmqpSource {
            self.0.source()
        }
    }

    impl SinkSubject for Classic {
        type Sink = AmqpSink;

        async fn open() -> Self {
            Self(Queue::open().await)
        }

        async fn sink(&self) -> AmqpSink {
            self.0.sink()
        }

        async fn read(&self, count: usize) -> Vec<Message> {
            source::read(&mut self.0.source(), count).await
        }
    }

    semel_conformance::source_laws!(Classic);
    semel_conformance::sink_laws!(Classic);
}

mod quorum {
    use super::*;

    struct Quorum(Queue);

    impl SourceSubject for Quorum {
        type Source = AmqpSource;

        async fn open() -> Self {
            Self(Queue::quorum().await)
        }

        async fn put(&self, messages: &[Message]) {
            put(&self.0, messages).await;
        }

        async fn source(&self) -> AmqpSource {
            self.0.source()
        }
    }

    semel_conformance::source_laws!(Quorum);
}
