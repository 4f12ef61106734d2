//! Several upstreams: their turns, and those that are left out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel_conformance::certificates::Authority;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::site::{LONG, Site, at, nobody};
use crate::upstream::{Upstream, answer, created};

async fn until(site: &Site, what: impl Fn(&semel_proxy::Availability) -> bool + Send + Sync) {
    let seen = async {
        while !what(&site.proxy.health()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, seen).await.expect("it is seen");
}

fn quick(settings: &mut semel_proxy::Settings) {
    settings.health.interval = Duration::from_millis(20);
    settings.health.timeout = Duration::from_secs(10);
}

#[tokio::test]
async fn upstreams_take_turns() {
    let (one, two) = (Upstream::counting().await, Upstream::counting().await);
    let both = vec![at(one.address), at(two.address)];
    let site = Site::over(both, None, |_| ()).await;
    for key in 0..10 {
        assert_eq!(site.charge(&format!("k{key}")).await.status, 201);
    }
    assert_eq!((one.arrived().len(), two.arrived().len()), (5, 5));
}

#[tokio::test]
async fn a_request_that_was_not_sent_goes_to_the_next_upstream() {
    let upstream = Upstream::counting().await;
    let upstreams = vec![at(nobody()), at(nobody()), at(upstream.address)];
    let site = Site::over(upstreams, None, |_| ()).await;
    assert_eq!(site.proxy.health().upstreams[0].is_up, None);
    for key in 0..6 {
        let seen = site.charge(&format!("k{key}")).await;
        assert_eq!((seen.status, seen.body), (201, format!("call {}", key + 1)));
    }
    // With a body that is not whole yet, too.
    let large = "x".repeat(2 << 20);
    assert_eq!(site.send("PUT /files", "", &large).await.status, 201);
    assert_eq!(upstream.arrived()[6].body.len(), large.len());
    let health = site.proxy.health();
    let up: Vec<_> = health.upstreams.iter().map(|it| it.is_up).collect();
    assert_eq!(up, [Some(false), Some(false), Some(true)]);
    assert!(health.is_up() && !health.is_away());
    assert!(
        health.to_string().contains("connection refused"),
        "{health}"
    );
}

#[tokio::test]
async fn an_upstream_that_may_have_the_request_is_the_last_one_that_gets_it() {
    let broken = Upstream::new(|_, _, _| Box::pin(async { None })).await;
    let other = Upstream::counting().await;
    let site = Site::over(vec![at(broken.address), at(other.address)], None, |_| ()).await;
    site.charge("k").await.problem(502, "upstream-broken");
    site.charge("k").await.problem(409, "in-doubt");
    broken.only();
    assert!(other.arrived().is_empty());
}

#[tokio::test]
async fn a_probe_finds_out_that_an_upstream_is_away_and_that_it_is_back() {
    let address = nobody();
    let site = Site::before(address, quick).await;
    let proxy = site.proxy.clone();
    let probing = tokio::spawn(async move { proxy.probe(std::future::pending()).await });
    until(&site, semel_proxy::Availability::is_away).await;
    assert!(
        site.proxy
            .health()
            .to_string()
            .contains("connection refused")
    );
    let listener = TcpListener::bind(address).await.expect("the port is free");
    let _upstream = Upstream::at(listener, |_, _, stream| Box::pin(async { Some(stream) }));
    until(&site, semel_proxy::Availability::is_up).await;
    assert_eq!(site.proxy.health().to_string(), "");
    probing.abort();
}

#[tokio::test]
async fn an_upstream_that_says_it_is_not_well_gets_no_requests() {
    let is_well = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_well);
    let ill = Upstream::answering(move |call, arrived| {
        if arrived.line() != "GET /health HTTP/1.1" {
            return created(call);
        }
        if told.load(Ordering::SeqCst) {
            answer("204 No Content", "", "")
        } else {
            answer("500 Internal Server Error", "", "")
        }
    })
    .await;
    let well = Upstream::answering(|call, _| created(call)).await;
    let path = |it: &mut semel_proxy::Settings| {
        quick(it);
        it.health.path = Some("/health".parse().expect("a path"));
    };
    let site = Site::over(vec![at(ill.address), at(well.address)], None, path).await;
    let proxy = site.proxy.clone();
    let probing = tokio::spawn(async move { proxy.probe(std::future::pending()).await });
    until(&site, |it| it.upstreams.iter().all(|it| it.is_up.is_some())).await;
    let reason = site.proxy.health().upstreams[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("/health answers 500"));
    let charged = |upstream: &Upstream| {
        let arrived = upstream.arrived();
        arrived
            .iter()
            .filter(|it| it.line().starts_with("POST"))
            .count()
    };
    for key in 0..4 {
        assert_eq!(site.charge(&format!("k{key}")).await.status, 201);
    }
    assert_eq!((charged(&ill), charged(&well)), (0, 4));
    is_well.store(true, Ordering::SeqCst);
    until(&site, |it| it.upstreams[0].is_up == Some(true)).await;
    for key in 4..8 {
        assert_eq!(site.charge(&format!("k{key}")).await.status, 201);
    }
    assert_eq!((charged(&ill), charged(&well)), (2, 6));
    probing.abort();
}

/// An address that takes no more connections, and says nothing: as behind a wall that drops packets.
async fn silent() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = "127.0.0.1:0".parse().expect("an address");
    socket.bind(any).expect("a port");
    let listener = socket.listen(1).expect("it listens");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    let connecting = || timeout(Duration::from_millis(500), TcpStream::connect(address));
    while let Ok(Ok(stream)) = connecting().await {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the system takes as many as come");
    }
    (listener, waiting)
}

#[tokio::test]
async fn whoever_waits_for_a_connection_has_sent_nothing() {
    let (listener, _waiting) = silent().await;
    for http2 in [false, true] {
        let mut upstream = at(listener.local_addr().expect("an address"));
        upstream.http2 = http2;
        let short = |it: &mut semel_proxy::Settings| {
            it.connect_timeout = Duration::from_millis(500);
            it.routes[0].route.upstream_timeout = LONG;
        };
        let site = Arc::new(Site::over(vec![upstream], None, short).await);
        for _ in 0..2 {
            let mut clients = JoinSet::new();
            for key in 0..8 {
                let site = Arc::clone(&site);
                clients.spawn(async move { site.charge(&format!("k{key}")).await });
            }
            for seen in clients.join_all().await {
                seen.problem(502, "upstream-unreachable");
            }
        }
        let health = site.proxy.health().to_string();
        assert!(health.contains("no answer in time"), "{health}");
    }
}

#[tokio::test]
async fn an_upstream_that_is_silent_leaves_time_for_the_next() {
    let (listener, _waiting) = silent().await;
    let upstream = Upstream::counting().await;
    let both = vec![
        at(listener.local_addr().expect("an address")),
        at(upstream.address),
    ];
    let short = |it: &mut semel_proxy::Settings| it.connect_timeout = Duration::from_secs(2);
    let site = Site::over(both, None, short).await;
    assert_eq!(site.charge("k").await.status, 201);
}

/// An address that takes connections, and closes each one after a while.
async fn closing(after: Duration) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut running = JoinSet::new();
    running.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.spawn(async move {
                sleep(after).await;
                drop(stream);
            });
        }
    });
    (address, running)
}

/// Three fail in the middle of TLS, and use up most of the time; the fourth gets what is left of it.
#[tokio::test]
async fn the_time_to_connect_is_one_for_all_upstreams() {
    let authority = Authority::new();
    let (address, _closing) = closing(Duration::from_millis(600)).await;
    let (listener, _waiting) = silent().await;
    let url = format!("https://{address}").parse().expect("a URL");
    let mut slow = semel_proxy::Upstream::new(url);
    slow.tls.ca = Some(authority.path.clone());
    let mut upstreams = vec![slow; 3];
    upstreams.push(at(listener.local_addr().expect("an address")));
    let short = |it: &mut semel_proxy::Settings| {
        it.connect_timeout = Duration::from_secs(1);
        it.routes[0].route.upstream_timeout = LONG;
    };
    let site = Site::over(upstreams, None, short).await;
    for _ in 0..2 {
        site.charge("k").await.problem(502, "upstream-unreachable");
    }
}
