//! The laws of the source port. The provider sends each message to one source after the other, until it is answered with
//! success: it is the queue.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_broker_webhook::{Options, Verification, WebhookSource};
use semel_conformance::TestClock;
use semel_conformance::source::{Message, SourceSubject};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::provider::send;

struct Provider {
    /// The addresses of the sources so far, of which the last ones may live.
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
    sending: Mutex<JoinSet<()>>,
}

impl SourceSubject for Provider {
    type Source = WebhookSource;

    const KEEPS_CASE: bool = false;

    async fn open() -> Self {
        Self {
            addresses: Arc::default(),
            sending: Mutex::default(),
        }
    }

    async fn put(&self, messages: &[Message]) {
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, message) in messages.iter().enumerate() {
            let addresses = Arc::clone(&self.addresses);
            let message = message.clone();
            sending.spawn(async move { until_taken(number, &addresses, &message).await });
        }
    }

    async fn source(&self) -> WebhookSource {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options {
            // However slow the machine is, no message is sent twice for it.
            answer_within: Self::PATIENCE * 4,
            ..Options::new(listen, "/in", Verification::none())
        };
        let clock = Arc::new(TestClock::new());
        let source = WebhookSource::open(options, clock).await.expect("a source");
        let address = source.address().expect("an address");
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.push(address);
        source
    }
}

/// Sends a message to one source after the other until one answers with success.
async fn until_taken(number: usize, addresses: &Mutex<Vec<SocketAddr>>, message: &Message) {
    let headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| (&**name, std::str::from_utf8(value).expect("a text")))
        .collect();
    for attempt in number.. {
        let known = addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(address) = known.get(attempt % known.len().max(1)) {
            let answer = send(*address, "POST", "/in", &headers, &message.payload).await;
            if answer.is_some_and(|it| it.status == 200) {
                return;
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

semel_conformance::source_laws!(Provider);
