//! Several sources at one address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_broker_webhook::{Listeners, Options, Verification, WebhookSource};
use semel_conformance::TestClock;
use semel_core::port::source::{Acknowledgement, Fetched, Source};
use semel_core::{ErrorKind, Fate};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::provider::send;

const LISTEN: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(
    std::net::Ipv4Addr::LOCALHOST,
    0,
));

fn options(path: &str) -> Options {
    Options {
        answer_within: Duration::from_secs(120),
        ..Options::new(LISTEN, path, Verification::none())
    }
}

async fn bind(
    paths: &[&str],
    stopping: Option<watch::Receiver<bool>>,
) -> (Arc<Listeners>, SocketAddr) {
    let places: Vec<_> = paths.iter().map(|path| (LISTEN, (*path).into())).collect();
    let clock = Arc::new(TestClock::new());
    let listeners = Listeners::bind(places, &BTreeMap::new(), clock, stopping).await;
    let listeners = listeners.expect("an address");
    let address = listeners.address(LISTEN).expect("an address");
    (Arc::new(listeners), address)
}

async fn status(address: SocketAddr, path: &str) -> u16 {
    let answer = send(address, "POST", path, &[], b"{}").await;
    answer.expect("an answer").status
}

#[tokio::test]
async fn each_path_has_its_own_source_and_a_provider_waits_for_one_that_is_not_there() {
    let (listeners, address) = bind(&["/a", "/b"], None).await;
    assert_eq!(status(address, "/a").await, 503, "not yet");
    assert_eq!(status(address, "/c").await, 404);
    let mut a = WebhookSource::on(&listeners, options("/a")).expect("a source");
    let mut b = WebhookSource::on(&listeners, options("/b")).expect("a source");
    for (source, path) in [(&mut a, "/a"), (&mut b, "/b")] {
        let request = tokio::spawn(async move { status(address, path).await });
        let Ok(Fetched::Deliveries(deliveries)) = source.fetch(10).await else {
            panic!("one delivery");
        };
        assert!(deliveries[0].coordinates.contains(path));
        let told = Acknowledgement::new(deliveries[0].id, Fate::Applied);
        source.acknowledge(&[told]).await.expect("a word");
        assert_eq!(request.await.expect("a task"), 200);
    }
    a.close().await.expect("an end");
    assert_eq!(status(address, "/a").await, 503, "no more, and not unknown");
    let request = tokio::spawn(async move { status(address, "/b").await });
    let fetched = timeout(Duration::from_secs(60), b.fetch(10)).await;
    assert!(fetched.is_ok(), "the other one goes on");
    b.close().await.expect("an end");
    assert_eq!(request.await.expect("a task"), 503);
    let answers = listeners.answers(LISTEN, "/a").expect("a path");
    let mut counts = answers.counts().filter(|(_, count)| *count > 0);
    assert_eq!(counts.next(), Some((200, 1)));
    assert_eq!(counts.next(), Some((503, 2)), "before and after");
    assert_eq!(counts.next(), None);
    assert!(listeners.answers(LISTEN, "/c").is_none());
    listeners.close().await;
    let refused = send(address, "POST", "/b", &[], b"{}").await;
    assert!(refused.is_none(), "{refused:?}");
}

#[tokio::test]
async fn a_path_has_one_source_and_must_be_named_before() {
    let (listeners, _) = bind(&["/a"], None).await;
    let source = WebhookSource::on(&listeners, options("/a")).expect("a source");
    for path in ["/a", "/b"] {
        let refused = WebhookSource::on(&listeners, options(path)).expect_err("no source");
        assert_eq!(refused.kind(), ErrorKind::InvalidConfig, "{refused}");
    }
    drop(source);
    assert!(WebhookSource::on(&listeners, options("/a")).is_ok());
}

#[tokio::test]
async fn once_a_stop_is_asked_for_new_requests_are_sent_away_and_those_in_hand_are_answered() {
    let (stop, stopping) = watch::channel(false);
    let (listeners, address) = bind(&["/a"], Some(stopping)).await;
    let mut source = WebhookSource::on(&listeners, options("/a")).expect("a source");
    let request = tokio::spawn(async move { status(address, "/a").await });
    let Ok(Fetched::Deliveries(deliveries)) = source.fetch(10).await else {
        panic!("one delivery");
    };
    stop.send_replace(true);
    assert_eq!(status(address, "/a").await, 503);
    let told = Acknowledgement::new(deliveries[0].id, Fate::Applied);
    source.acknowledge(&[told]).await.expect("a word");
    assert_eq!(request.await.expect("a task"), 200);
}
