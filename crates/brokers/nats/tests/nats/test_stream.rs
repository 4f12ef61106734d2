//! A stream of the test's own, on the server of `SEMEL_TEST_NATS_URL`, deleted in the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{self, Stream};
use async_nats::jetstream::{self, Context, ContextBuilder};
use bytes::Bytes;
use futures_util::future::join_all;
use semel_broker_nats::{NatsSource, Options};
use semel_conformance::source::Message;

/// The consumer of every source.
pub(crate) const CONSUMER: &str = "workers";

pub(crate) struct TestStream {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) context: Context,
}

impl TestStream {
    pub(crate) async fn open() -> Self {
        Self::at(&server()).await
    }

    pub(crate) async fn at(url: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{next}", std::process::id());
        let client = async_nats::connect(url).await.expect("the server is there");
        // The driver's own five seconds are too few on a machine that is busy with other tests.
        let context = ContextBuilder::new().timeout(Duration::from_secs(60));
        let test_stream = Self {
            url: url.to_owned(),
            context: context.build(client),
            name,
        };
        test_stream.make(|_| {}).await;
        test_stream
    }

    /// Creates the stream, or changes it.
    pub(crate) async fn make(&self, change: impl FnOnce(&mut stream::Config)) -> Stream {
        let mut config = stream::Config {
            name: self.name.clone(),
            subjects: vec![self.name.clone(), format!("{}.>", self.name)],
            ..stream::Config::default()
        };
        change(&mut config);
        let made = self
            .context
            .create_or_update_stream(config)
            .await
            .expect("a stream");
        self.context
            .get_stream(made.config.name)
            .await
            .expect("a stream")
    }

    pub(crate) async fn stream(&self) -> Stream {
        self.context
            .get_stream(&self.name)
            .await
            .expect("the stream")
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(&self.url, &self.name, CONSUMER);
        options.lease = Duration::from_secs(3);
        options
    }

    pub(crate) fn source(&self) -> NatsSource {
        NatsSource::new(self.options()).expect("good options")
    }

    pub(crate) async fn put(&self, messages: &[Message]) {
        let mut sent = Vec::new();
        for message in messages {
            let mut publish = PublishMessage::build().payload(message.payload.clone());
            if !message.headers.is_empty() {
                let mut headers = HeaderMap::new();
                for (name, value) in &message.headers {
                    let value = std::str::from_utf8(value).expect("text");
                    headers.append(&**name, value);
                }
                publish = publish.headers(headers);
            }
            let one = self.context.send_publish(self.name.clone(), publish).await;
            sent.push(async move { one.expect("sent").await });
        }
        for confirmed in join_all(sent).await {
            confirmed.expect("stored");
        }
    }

    /// Publishes as many messages, each with its number.
    pub(crate) async fn put_numbers(&self, count: u32) {
        let number = |n: u32| Message::new(Bytes::from(n.to_string()));
        let all: Vec<_> = (0..count).map(number).collect();
        // The driver sends no more than so many that nobody has waited for.
        for some in all.chunks(4_000) {
            self.put(some).await;
        }
    }
}

impl Drop for TestStream {
    fn drop(&mut self) {
        let (url, name) = (self.url.clone(), self.name.clone());
        let delete = async move {
            let connecting = async_nats::connect(url);
            // A server of the test's own may be gone.
            if let Ok(Ok(client)) = tokio::time::timeout(Duration::from_secs(2), connecting).await {
                let _ = jetstream::new(client).delete_stream(name).await;
            }
        };
        // The runtime of the test may be ending.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                runtime.block_on(delete);
            }
        });
        let _ = thread.join();
    }
}

pub(crate) fn server() -> String {
    variable("SEMEL_TEST_NATS_URL")
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run `cargo xtask services up nats`, then `. target/services/env`"
        )
    })
}
