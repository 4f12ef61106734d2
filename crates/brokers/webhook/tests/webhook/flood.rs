//! Many forged bodies that come slowly, while a provider delivers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use semel_core::Fate;
use semel_core::port::source::{Acknowledgement, Fetched, Source};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::provider::send;
use crate::requests::{FORGED, PATIENCE, SECRET, open, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_forged_bodies_leave_room_for_genuine_requests() {
    let (mut source, address) = open(options()).await;
    let (stop, mut stopped) = oneshot::channel::<()>();
    let working = tokio::spawn(async move {
        let mut seen = Vec::new();
        loop {
            let fetched = tokio::select! {
                fetched = source.fetch(100) => fetched,
                _ = &mut stopped => return seen,
            };
            let Ok(Fetched::Deliveries(deliveries)) = fetched else {
                panic!("{fetched:?}");
            };
            assert!(deliveries.iter().all(|it| it.payload.len() == BODY_BYTES));
            let told = |id| Acknowledgement::new(id, Fate::Applied);
            let told: Vec<_> = deliveries.iter().map(|it| told(it.id)).collect();
            seen.extend(deliveries.into_iter().map(|it| it.coordinates));
            source.acknowledge(&told).await.expect("a word");
        }
    });
    let begun = Arc::new(AtomicUsize::new(0));
    let throttled = Arc::new(AtomicUsize::new(0));
    let mut forging = JoinSet::new();
    for _ in 0..FORGERS {
        let (begun, throttled) = (Arc::clone(&begun), Arc::clone(&throttled));
        forging.spawn(async move { forge(address, &begun, &throttled).await });
    }
    let all_began = async {
        while begun.load(Ordering::SeqCst) < FORGERS {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, all_began).await.expect("forged requests");
    // Longer than whatever the memory that is left would take.
    let body = vec![b'x'; BODY_BYTES];
    let signature = signature(&body);
    let delivered = async {
        for number in 0..GENUINE {
            until_taken(address, &format!("d-{number}"), &body, &signature).await;
        }
    };
    let delivered = timeout(PATIENCE, delivered).await;
    delivered.expect("genuine requests are taken meanwhile");
    while let Some(ended) = forging.try_join_next() {
        let _ = ended.expect("an answer that asks for another try");
    }
    forging.abort_all();
    stop.send(()).expect("a worker");
    let seen = working.await.expect("a worker");
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (GENUINE, GENUINE));
    assert!(
        throttled.load(Ordering::SeqCst) > 0,
        "what comes slowly makes way"
    );
}

fn signature(body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length");
    let tag = mac.chain_update(body).finalize().into_bytes();
    let digits: Vec<_> = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={}", digits.concat())
}

/// Sends the head of a request and a part of its body, and then a byte now and then until it is answered.
async fn forge(
    address: SocketAddr,
    begun: &AtomicUsize,
    throttled: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /github HTTP/1.1\r\nHost: localhost\r\n{FORGED}Content-Length: {}\r\n\r\n",
        25 << 20
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b'x'; PART_BYTES]).await?;
    begun.fetch_add(1, Ordering::SeqCst);
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4 << 10];
        match timeout(Duration::from_millis(500), stream.read(&mut part)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(length)) => answer.extend_from_slice(&part[..length]),
            Err(_) => stream.write_all(b"x").await?,
        }
    }
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    if !answer.is_empty() {
        assert!(answer.starts_with("http/1.1 503 "), "{answer}");
        assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("\"throttled\""), "{answer}");
        throttled.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// Delivers a body under this id, again and again as long as it is told to come again.
async fn until_taken(address: SocketAddr, id: &str, body: &[u8], signature: &str) {
    let headers = [
        ("X-Hub-Signature-256", signature),
        ("X-GitHub-Delivery", id),
    ];
    loop {
        let answer = send(address, "POST", "/github", &headers, body).await;
        let answer = answer.expect("an answer");
        if answer.status == 200 {
            return;
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.has("retry-after: 1"), "{answer:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

const FORGERS: usize = 1_000;
/// Of all forgers together, more than the memory of all that arrives, and of all that is in hand.
const PART_BYTES: usize = 70 << 10;
const GENUINE: usize = 30;
const BODY_BYTES: usize = 256 << 10;
