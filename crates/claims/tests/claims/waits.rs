//! Claims that wait for another one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use semel_claims::Settings;
use semel_engine::system::SystemClock;
use semel_http::tokens::Tokens;
use semel_http::{Access, Caller, Limits, Listener};
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::site::{Site, claim_of};

fn waiting(more: Value) -> Value {
    let mut body = claim_of("pay-1", more);
    body["wait"] = json!("5s");
    body
}

async fn spawned(site: &Arc<Site>, body: Value) -> tokio::task::JoinHandle<(Value, Duration)> {
    let site = Arc::clone(site);
    let began = Instant::now();
    let task = tokio::spawn(async move { (site.claim(&body).await, began.elapsed()) });
    // It has asked once and waits.
    sleep(Duration::from_millis(1)).await;
    task
}

#[tokio::test(start_paused = true)]
async fn it_is_answered_when_the_other_one_completes() {
    let site = Arc::new(Site::new());
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let tasks = [
        spawned(&site, waiting(json!({}))).await,
        spawned(&site, waiting(json!({}))).await,
        spawned(&site, waiting(json!({}))).await,
    ];
    sleep(Duration::from_secs(2)).await;
    let began = Instant::now();
    site.state_after(&claim, "complete", &json!({"outcome": 7}))
        .await;
    for task in tasks {
        let (decision, _) = task.await.expect("an answer");
        assert_eq!(
            (&decision["decision"], &decision["outcome"]),
            (&json!("replay"), &json!(7))
        );
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "it was told at once");
}

#[tokio::test(start_paused = true)]
async fn one_of_several_gets_a_released_key_and_the_others_wait_on() {
    let site = Arc::new(Site::new());
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let tasks = [
        spawned(&site, waiting(json!({}))).await,
        spawned(&site, waiting(json!({}))).await,
    ];
    site.state_after(&claim, "release", &json!({"certainty": "not_applied"}))
        .await;
    let mut decisions = Vec::new();
    for task in tasks {
        let (decision, waited) = task.await.expect("an answer");
        decisions.push((
            decision["decision"]
                .as_str()
                .expect("a decision")
                .to_owned(),
            waited,
        ));
    }
    decisions.sort();
    assert_eq!(decisions[0].0, "busy");
    assert_eq!(decisions[1].0, "granted");
    assert!(decisions[1].1 < Duration::from_millis(10), "{decisions:?}");
    assert!(decisions[0].1 >= Duration::from_secs(5), "{decisions:?}");
}

#[tokio::test(start_paused = true)]
async fn beyond_their_budget_claims_do_not_wait() {
    let site = Arc::new(Site::with(|settings| Settings {
        most_waiting: 1,
        ..settings
    }));
    for key in ["pay-1", "pay-2"] {
        site.granted(&claim_of(key, json!({}))).await;
    }
    let first = spawned(&site, waiting(json!({}))).await;
    let mut other = waiting(json!({}));
    other["key"] = json!("pay-2");
    let (decision, waited) = spawned(&site, other).await.await.expect("an answer");
    assert_eq!(
        (&decision["decision"], waited),
        (&json!("busy"), Duration::ZERO)
    );
    let (_, waited) = first.await.expect("an answer");
    assert_eq!(waited.as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_large_claim_that_waits_keeps_no_other_large_one_out() {
    let mut site = Site::new();
    let (_known, tokens) = watch::channel(Arc::<Tokens>::default());
    let address = "127.0.0.1:8181".parse().expect("an address");
    let clock = Arc::new(site.clock.clone());
    let access = Access::new(address, &[], tokens, 1 << 20, clock);
    site.router = access.protect(site.router.clone());
    let site = Arc::new(site);
    let large = json!({"fingerprint": "x".repeat(100_000)});
    let claim = site.granted(&claim_of("pay-1", large.clone())).await;
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(spawned(&site, waiting(large.clone())).await);
    }
    let began = Instant::now();
    let done = json!({"outcome": "y".repeat(100_000)});
    let state = site.state_after(&claim, "complete", &done).await;
    assert_eq!((&*state, began.elapsed()), ("completed", Duration::ZERO));
    for task in tasks {
        let (decision, _) = task.await.expect("an answer");
        assert_eq!(decision["decision"], "replay");
    }
}

/// Asks on a connection of its own.
async fn asked(address: SocketAddr, path: String, body: Value) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn claims_that_wait_leave_connections_to_the_holder_of_the_key() {
    assert_eq!(
        Settings::default().most_waiting,
        Limits::API.room() / 4,
        "well under the connections"
    );
    let limits = Limits {
        connections: 8,
        ..Limits::API
    };
    let site = Arc::new(Site::with(|settings| Settings {
        most_waiting: limits.room() / 4,
        ..settings
    }));
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind("claims.listen", address).await;
    let listener = listener.expect("a listener");
    let address = listener.address();
    let router = site.router.clone().layer(Extension(Caller::loopback()));
    tokio::spawn(listener.serve_router(limits, router, std::future::pending()));
    let mut waiting_ones = JoinSet::new();
    for _ in 0..2 * limits.connections {
        waiting_ones.spawn(asked(address, "/v1/claims".to_owned(), waiting(json!({}))));
    }
    sleep(Duration::from_millis(200)).await;
    let path = format!("/v1/claims/{claim}/complete");
    let done = timeout(Duration::from_secs(3), asked(address, path, json!({})));
    let done = done.await.expect("an answer while others wait");
    assert!(done.contains("completed"), "{done}");
    let answers = waiting_ones.join_all().await;
    let replays = answers.iter().filter(|it| it.contains("replay")).count();
    assert!(replays >= 1, "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_when_its_time_is_over() {
    let site = Arc::new(Site::new());
    site.granted(&claim_of("pay-1", json!({}))).await;
    let (decision, waited) = spawned(&site, waiting(json!({})))
        .await
        .await
        .expect("an answer");
    assert_eq!(decision["decision"], "busy");
    assert_eq!(waited.as_millis(), 5_000);
    let none = claim_of("pay-1", json!({"wait": "0s"}));
    let (decision, waited) = spawned(&site, none).await.await.expect("an answer");
    assert_eq!(
        (&decision["decision"], waited.as_millis()),
        (&json!("busy"), 0)
    );
}

#[tokio::test]
async fn it_takes_a_lease_over_that_ends_meanwhile() {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryStore::new(clock));
    let site = Arc::new(Site::over(store, semel_conformance::TestClock::new()));
    site.granted(&claim_of("pay-1", json!({"lease": "300ms"})))
        .await;
    let (decision, waited) = spawned(&site, waiting(json!({})))
        .await
        .await
        .expect("an answer");
    assert_eq!(
        (&decision["decision"], &decision["takeover"]),
        (&json!("granted"), &json!(true))
    );
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn it_hears_of_a_completion_through_another_server() {
    let site = Arc::new(Site::new());
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let task = spawned(&site, waiting(json!({}))).await;
    sleep(Duration::from_secs(1)).await;
    site.restarted()
        .state_after(&claim, "complete", &json!({}))
        .await;
    let (decision, waited) = task.await.expect("an answer");
    assert_eq!(decision["decision"], "replay");
    assert!(waited <= Duration::from_millis(1_502), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_does_not_wait() {
    let site = Arc::new(Site::new());
    site.granted(&claim_of("pay-1", json!({"fingerprint": 1})))
        .await;
    let body = waiting(json!({"fingerprint": 2}));
    let (decision, waited) = spawned(&site, body).await.await.expect("an answer");
    assert_eq!(
        (&decision["decision"], waited),
        (&json!("conflict"), Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn it_is_answered_when_the_server_stops() {
    let (stop, stopped) = watch::channel(false);
    let site = Arc::new(Site::with(|mut settings| {
        settings.stop = Some(stopped);
        settings
    }));
    site.granted(&claim_of("pay-1", json!({}))).await;
    let task = spawned(&site, waiting(json!({}))).await;
    sleep(Duration::from_secs(1)).await;
    stop.send_replace(true);
    let (decision, waited) = task.await.expect("an answer");
    assert_eq!(
        (&decision["decision"], waited.as_secs()),
        (&json!("busy"), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn all_of_many_hear_of_it_through_another_server_and_not_one_by_one() {
    let site = Arc::new(Site::new());
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let mut tasks = Vec::new();
    for _ in 0..100 {
        tasks.push(spawned(&site, waiting(json!({}))).await);
    }
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    site.restarted()
        .state_after(&claim, "complete", &json!({}))
        .await;
    for task in tasks {
        let (decision, _) = task.await.expect("an answer");
        assert_eq!(decision["decision"], "replay");
    }
    assert!(
        began.elapsed() <= Duration::from_millis(520),
        "{:?}",
        began.elapsed()
    );
}
