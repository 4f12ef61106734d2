//! A path at a listener that is another part's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Extension;
use semel_broker_webhook::{Entrance, Identity, IngestOptions, IngestSource, Listeners};
use semel_conformance::TestClock;
use semel_core::Result;
use semel_core::ingest::{GateAnswer, Submission};
use semel_core::port::ingest::{
    Accepted, AnyIngestJournal, Forgotten, IngestJournal, Settled, Silence,
};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder};
use semel_http::{Caller, Limits, Listener};
use semel_store_memory::MemoryIngest;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::provider::send;
use crate::requests::PATIENCE;

/// A journal that keeps nothing before it is let.
struct Held {
    inner: MemoryIngest,
    asked: Semaphore,
    let_go: Semaphore,
}

impl IngestJournal for Held {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        self.asked.add_permits(1);
        let _place = self.let_go.acquire().await.expect("open");
        self.inner.submit(submission).await
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        self.inner.accepted(producer, stream, after, most).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        self.inner.settle(producer, stream, settled).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.inner.page(after, most).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.inner.order(name, order).await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        self.inner.forget(silence).await
    }
}

#[tokio::test]
async fn a_close_waits_for_the_answer_of_a_request_in_hand() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let entrance = Entrance::Admin(listen);
    let places = [(entrance, "/v1/ingest/orders".into())];
    let clock = Arc::new(TestClock::new());
    let listeners = Listeners::bind(places, &BTreeMap::new(), clock, None).await;
    let listeners = listeners.expect("nothing to listen at");
    let lender = Listener::bind("admin.listen", listen).await.expect("bound");
    let address = lender.address();
    let router = listeners.router(entrance, address).expect("a path");
    let router = router.layer(Extension(Caller::loopback()));
    let serving = lender.serve_router(Limits::ADMIN, router, std::future::pending());
    let serving = tokio::spawn(serving);
    let journal = Arc::new(Held {
        inner: MemoryIngest::default(),
        asked: Semaphore::new(0),
        let_go: Semaphore::new(0),
    });
    let options = IngestOptions {
        entrance,
        ..IngestOptions::new(listen, "/v1/ingest/orders", "orders")
    };
    let kept = AnyIngestJournal::shared(Arc::clone(&journal));
    let source = IngestSource::on(&listeners, options, kept).await;
    let source = source.expect("a source");
    let request =
        tokio::spawn(async move { send(address, "POST", "/v1/ingest/orders", &[], b"{}").await });
    let asked = timeout(PATIENCE, journal.asked.acquire()).await;
    drop(asked.expect("a request in hand"));
    {
        let mut close = pin!(listeners.close());
        tokio::select! {
            biased;
            () = &mut close => panic!("a request has no answer"),
            () = std::future::ready(()) => {}
        }
        journal.let_go.add_permits(1);
        let ended = timeout(PATIENCE, close).await;
        ended.expect("an end behind the answer");
    }
    let answer = request.await.expect("a task").expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(source);
    serving.abort();
}

#[tokio::test]
async fn the_certificate_of_a_lender_is_not_that_of_a_listener_at_the_same_address() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let (own, lent) = (Entrance::Own(listen), Entrance::Gateway(listen));
    let nowhere = Identity {
        cert: "none.pem".into(),
        key: "none.pem".into(),
        client_ca: None,
    };
    let tls = BTreeMap::from([(lent, nowhere)]);
    let places = [own, lent].map(|it| (it, "/orders".into()));
    let clock = Arc::new(TestClock::new());
    let listeners = Listeners::bind(places, &tls, clock, None).await;
    let listeners = listeners.expect("in the clear");
    let address = listeners.address(own).expect("an address");
    let answer = send(address, "POST", "/orders", &[], b"{}").await;
    assert_eq!(answer.expect("in the clear").status, 503);
    listeners.close().await;
}
