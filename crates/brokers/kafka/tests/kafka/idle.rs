//! A source without messages whose brokers go and come back, against librdkafka's own mock of a cluster.

use std::time::Duration;

use rdkafka::mocking::MockCluster;
use semel_broker_kafka::{KafkaSource, Options};
use semel_core::port::source::{Fetched, Source};
use tokio::time::timeout;

async fn next(source: &mut KafkaSource, within_secs: u64) -> Option<Fetched> {
    let within = Duration::from_secs(within_secs);
    let fetched = timeout(within, source.fetch(10)).await;
    fetched
        .ok()
        .map(|fetched| fetched.expect("a source of use"))
}

#[tokio::test]
async fn brokers_that_are_gone_are_told_and_so_is_their_return() {
    let cluster = MockCluster::new(1).expect("a mock");
    cluster.create_topic("payments", 1, 1).expect("a topic");
    let options = Options::new(&cluster.bootstrap_servers(), "payments", "shop");
    let mut source = KafkaSource::new(options).expect("a source");
    assert!(
        next(&mut source, 4).await.is_none(),
        "there is nothing to say"
    );
    for _ in 0..2 {
        cluster.broker_down(1).expect("a broker");
        let told = next(&mut source, 10).await;
        assert!(matches!(told, Some(Fetched::Away(_))), "{told:?}");
        cluster.broker_up(1).expect("a broker");
        let told = loop {
            match next(&mut source, 15).await {
                Some(Fetched::Away(_) | Fetched::Revoked(_)) => {}
                told => break told,
            }
        };
        assert!(matches!(told, Some(Fetched::Back)), "{told:?}");
    }
}

#[tokio::test]
async fn brokers_that_are_back_soon_are_no_news() {
    let cluster = MockCluster::new(1).expect("a mock");
    cluster.create_topic("payments", 1, 1).expect("a topic");
    let options = Options::new(&cluster.bootstrap_servers(), "payments", "shop");
    let mut source = KafkaSource::new(options).expect("a source");
    assert!(next(&mut source, 4).await.is_none());
    cluster.broker_down(1).expect("a broker");
    // A fifth of the grace: a busy machine may take the rest to reach the broker again.
    let soon = timeout(Duration::from_millis(300), source.fetch(10)).await;
    assert!(soon.is_err(), "{soon:?}");
    cluster.broker_up(1).expect("a broker");
    let told = next(&mut source, 5).await;
    assert!(matches!(told, None | Some(Fetched::Revoked(_))), "{told:?}");
}
