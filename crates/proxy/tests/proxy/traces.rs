//! Spans of requests that an upstream answers, or does not.

use std::sync::{Arc, Mutex};

use semel_core::Claimant;
use semel_engine::event::{Event, Observer};
use semel_engine::once::{Once, Settings};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_engine::trace::{HttpExchange, SampleShare, Spans};
use semel_store_memory::MemoryStore;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::site::{Site, at, nobody};
use crate::upstream::{Upstream, answer};

/// Keeps the end of each effect, and its exchange.
#[derive(Default)]
struct Gathered(Mutex<Vec<(Option<&'static str>, Option<HttpExchange>)>>);

impl Observer for Gathered {
    fn observe(&self, _: &str, _: &Event<'_>) {}

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(SampleShare::ALL)
    }

    fn observe_spans(&self, _: &str, spans: &Spans<'_>) {
        let ended = (spans.verdict, spans.http.cloned());
        self.0.lock().expect("no panic").push(ended);
    }
}

fn traced(gathered: &Arc<Gathered>) -> Once<Arc<MemoryStore>> {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let surroundings = Surroundings {
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: gathered.clone(),
    };
    Once::with(store, surroundings, Settings::default(), None)
}

#[tokio::test]
async fn a_span_says_what_was_asked_of_which_upstream_and_what_it_answered() {
    let gathered = Arc::new(Gathered::default());
    let upstream = Upstream::answering(|_, _| answer("503 Service Unavailable", "", "later")).await;
    let (once, address) = (traced(&gathered), upstream.address);
    let site = Site::of(&once, vec![at(address)], None, |_| ()).await;
    let fields = "idempotency-key: pay-1\r\n";
    let line = "POST /charges?token=geheim";
    assert_eq!(site.send(line, fields, "{}").await.status, 503);
    let exchange = HttpExchange {
        method: Some("POST".into()),
        url: Some(format!("http://{address}/charges").into()),
        server: Some(("127.0.0.1".into(), address.port())),
        status: Some(503),
    };
    let ended = gathered.0.lock().expect("no panic").clone();
    assert_eq!(ended, [(Some("not_applied"), Some(exchange))]);
}

#[tokio::test]
async fn an_upstream_that_gives_no_answer_is_named_without_a_status() {
    let gathered = Arc::new(Gathered::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let breaks = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.read(&mut [0; 1024]).await;
    });
    let site = Site::of(&traced(&gathered), vec![at(address)], None, |_| ()).await;
    assert_eq!(site.charge("pay-1").await.status, 502);
    breaks.await.expect("no panic");
    let ended = gathered.0.lock().expect("no panic").clone();
    let [(Some("maybe_applied"), Some(exchange))] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(
        (exchange.status, &exchange.method),
        (None, &Some("POST".into()))
    );
    assert_eq!(exchange.server, Some(("127.0.0.1".into(), address.port())));

    // Nobody got it, and the answer is the proxy's own: the span says whom it was for.
    let gathered = Arc::new(Gathered::default());
    let absent = nobody();
    let site = Site::of(&traced(&gathered), vec![at(absent)], None, |_| ()).await;
    assert_eq!(site.charge("pay-1").await.status, 502);
    let ended = gathered.0.lock().expect("no panic").clone();
    let exchange = HttpExchange {
        method: Some("POST".into()),
        url: Some(format!("http://{absent}/charges").into()),
        server: Some(("127.0.0.1".into(), absent.port())),
        status: None,
    };
    let are_named = ended.iter().all(|(_, it)| *it == Some(exchange.clone()));
    assert!(!ended.is_empty() && are_named, "{ended:?}");
}
