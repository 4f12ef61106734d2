//! The laws, and the failures of NATS that other brokers do not have, on the server of
//! `SEMEL_TEST_NATS_URL`.

mod backlog;
mod inspection;
mod laws;
mod outage;
mod own;
mod refusals;
mod rescan;
mod sink;
mod source;
mod test_stream;
mod tls;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use semel_broker_nats::NatsSource;
use semel_conformance::proxy::Proxy;
use semel_core::Error;
use semel_core::port::source::{Delivery, DeliveryId, Fetched, Source};
use tokio::time::timeout;

/// Returns the next deliveries, however often the broker is away before.
pub(crate) async fn some(source: &mut NatsSource, max: usize) -> Vec<Delivery> {
    let fetched = timeout(Duration::from_secs(40), async {
        loop {
            match source.fetch(max).await {
                Ok(Fetched::Deliveries(some)) => return some,
                Ok(Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    fetched.await.expect("something comes")
}

/// Returns deliveries, once there are those of `count` messages.
pub(crate) async fn take(source: &mut NatsSource, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    while numbers(&all).len() < count {
        all.extend(some(source, count).await);
    }
    all
}

/// Checks that nothing comes for so long.
pub(crate) async fn nothing(source: &mut NatsSource, time: Duration) {
    let fetched = timeout(time, async {
        loop {
            match source.fetch(100).await {
                // Deliveries in the hands of others are not for this one.
                Ok(Fetched::Elsewhere { .. }) => {}
                other => return other,
            }
        }
    });
    let fetched = fetched.await;
    assert!(fetched.is_err(), "{fetched:?}");
}

/// Returns the report that the broker is away, which must come within `time`.
pub(crate) async fn is_away(source: &mut NatsSource, time: Duration) -> Error {
    let fetched = async {
        loop {
            match source.fetch(10).await {
                Ok(Fetched::Elsewhere { .. }) => {}
                other => return other,
            }
        }
    };
    match timeout(time, fetched).await {
        Ok(Ok(Fetched::Away(error))) => error,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

pub(crate) fn numbers(deliveries: &[Delivery]) -> BTreeSet<u32> {
    let number = |delivery: &Delivery| {
        let text = std::str::from_utf8(&delivery.payload).expect("a number");
        text.parse().expect("a number")
    };
    deliveries.iter().map(number).collect()
}

/// Starts a proxy in front of the server at `url`; also returns the URL that leads through it.
pub(crate) fn in_front_of(url: &str) -> (Proxy, String) {
    let address: SocketAddr = url
        .trim_start_matches("nats://")
        .parse()
        .expect("an address");
    let proxy = Proxy::start(address);
    let url = format!("nats://{}", proxy.address());
    (proxy, url)
}
