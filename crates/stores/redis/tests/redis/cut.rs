//! Connections that break in the middle of a call.

use std::pin::pin;
use std::time::Duration;

use semel_conformance::proxy;
use semel_core::{Admission, Certainty, Code, Settled, StateKind, Store};
use semel_store_redis::{Options, RedisStore};

use crate::lab::{claim, completion, connect_to, grant, record, request};
use crate::proxy::{Cut, Proxy};
use crate::server::Server;

#[tokio::test]
async fn a_cut_claim_may_be_applied_and_is_resumed() {
    let server = Server::durable();
    let proxy = Proxy::before(server.port).await;
    let store = connect_to(&format!("{}?connections=1", proxy.url())).await;
    // The script is sent whole once, so that every later call is one command.
    let _ = grant(&store, &request("first", 1)).await;
    for (number, (when, was_applied)) in [
        (Cut::BeforeServer, false),
        (Cut::WithinCommand, false),
        (Cut::BeforeAnswer, true),
    ]
    .into_iter()
    .enumerate()
    {
        let request = request(&format!("pay-{number}"), 1);
        proxy.cut(when);
        let Err(error) = store.claim([request.clone()].into()).await else {
            panic!("the connection was cut")
        };
        assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error:?}");
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        let again = grant(&store, &request).await;
        assert_eq!(
            (again.resumed, again.attempt),
            (was_applied, 1),
            "cut {number}"
        );
        let other = claim(&store, &crate::lab::request(&format!("pay-{number}"), 2)).await;
        assert!(matches!(other, Admission::Busy { .. }), "{other:?}");
    }
}

#[tokio::test]
async fn a_cut_completion_may_be_applied_and_is_repeated() {
    let server = Server::durable();
    let proxy = Proxy::before(server.port).await;
    let store = connect_to(&format!("{}?connections=1", proxy.url())).await;
    let warm = request("first", 1);
    let _ = grant(&store, &warm).await;
    crate::lab::complete(&store, &warm).await;
    for (number, when) in [Cut::BeforeServer, Cut::WithinCommand, Cut::BeforeAnswer]
        .into_iter()
        .enumerate()
    {
        let request = request(&format!("pay-{number}"), 1);
        let _ = grant(&store, &request).await;
        proxy.cut(when);
        let cut = store.settle([completion(&request)].into()).await;
        assert_eq!(cut.expect_err("cut").certainty(), Certainty::MaybeApplied);
        let again = store
            .settle([completion(&request)].into())
            .await
            .expect("settled");
        assert!(
            matches!(again[..], [Settled::Now(StateKind::Completed)]),
            "{again:?}"
        );
        let record = record(&store, &request.operation).await.expect("a record");
        assert_eq!(record.state.kind(), StateKind::Completed);
    }
    proxy.cut(Cut::Not);
}

/// A command or its answer that is cut at any byte is a broken connection, and asking again tells whether it was
/// applied.
#[tokio::test]
async fn a_connection_that_is_cut_at_any_byte_broke() {
    let server = Server::durable();
    let proxy = proxy::Proxy::start(([127, 0, 0, 1], server.port).into());
    let url = format!("redis://{}?connections=1", proxy.address());
    let store = connect_to(&url).await;
    let _ = grant(&store, &request("first", 1)).await;
    let cuts: [fn(&proxy::Proxy, u64); 2] = [
        proxy::Proxy::cut_after_client_bytes,
        proxy::Proxy::cut_after_server_bytes,
    ];
    let (mut broke, mut resumed) = ([0, 0], [0, 0]);
    for (side, cut) in cuts.into_iter().enumerate() {
        for byte in 0..400 {
            let request = request(&format!("pay-{side}-{byte}"), 1);
            cut(&proxy, byte);
            let answer = store.claim([request.clone()].into()).await;
            proxy.heal();
            let Err(error) = answer else {
                // It was all there.
                break;
            };
            broke[side] += 1;
            assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error:?}");
            assert_eq!(error.code(), Code::StoreUnavailable, "{byte}: {error:?}");
            let again = grant(&store, &request).await;
            assert_eq!(again.attempt, 1, "nothing was sent twice");
            resumed[side] += usize::from(again.resumed);
        }
    }
    assert_eq!(broke[0], 400, "a command is longer");
    assert!(broke[1] > 10, "an answer has some bytes");
    assert_eq!(resumed, [0, broke[1]], "half a command is none");
}

/// Of many calls on one connection that is cut, each is answered, and none is sent again by itself.
#[tokio::test]
async fn a_cut_connection_answers_everybody_who_waits() {
    let server = Server::durable();
    let proxy = Proxy::before(server.port).await;
    let store = std::sync::Arc::new(connect_to(&format!("{}?connections=1", proxy.url())).await);
    let _ = grant(&store, &request("first", 1)).await;
    proxy.cut(Cut::BeforeAnswer);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = std::sync::Arc::clone(&store);
        calls.spawn(async move {
            let request = request(&format!("pay-{number}"), 1);
            let answer = store.claim([request.clone()].into()).await;
            (request, answer.is_ok())
        });
    }
    for (request, was_answered) in calls.join_all().await {
        let again = grant(&store, &request).await;
        assert!(again.resumed || !was_answered, "an answered claim is there");
        assert_eq!(again.attempt, 1, "nothing was sent twice");
    }
}

/// A store that reaches the server through a proxy, over so many connections, and waits that long for an answer.
async fn behind_a_proxy(
    server: &Server,
    connections: usize,
    answer_timeout: Duration,
) -> (proxy::Proxy, RedisStore) {
    let proxy = proxy::Proxy::start(([127, 0, 0, 1], server.port).into());
    let mut options = Options::default();
    options.answer_timeout = answer_timeout;
    let url = format!("redis://{}?connections={connections}", proxy.address());
    let store = RedisStore::connect(&url, options).await.expect("a store");
    (proxy, store)
}

/// A network that forgets connections, as at a failover, tells nobody: the answers never come. Those connections are
/// given up with the first call that waited in vain, all of them.
#[tokio::test]
async fn connections_that_are_lost_without_a_word_cost_one_call_its_answer() {
    let server = Server::durable();
    let (proxy, store) = behind_a_proxy(&server, 3, Duration::from_secs(10)).await;
    for number in 0..3 {
        let _ = grant(&store, &request(&format!("first-{number}"), 1)).await;
    }
    assert_eq!(proxy.connections(), 3);
    proxy.lose_now();
    let request = request("pay", 1);
    let lost = store.claim([request.clone()].into()).await;
    let error = lost.expect_err("nobody answers");
    assert_eq!(error.code(), Code::Timeout, "{error:?}");
    assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error:?}");
    for number in 0..3 {
        let _ = grant(&store, &crate::lab::request(&format!("next-{number}"), 1)).await;
    }
    let again = grant(&store, &request).await;
    assert_eq!((again.resumed, again.attempt), (false, 1));
}

/// A caller with less time than the store has for an answer need not wait that long either: behind two seconds of
/// silence, the next call asks for a sign of life first, and has another connection if none comes.
#[tokio::test]
async fn a_connection_that_is_lost_without_a_word_is_replaced_for_an_impatient_caller() {
    let server = Server::durable();
    let (proxy, store) = behind_a_proxy(&server, 1, NEVER).await;
    let _ = grant(&store, &request("first", 1)).await;
    proxy.lose_now();
    let impatient = request("impatient", 1);
    let asked = store.claim([impatient.clone()].into());
    let left = tokio::time::timeout(Duration::from_secs(3), asked).await;
    assert!(left.is_err(), "nobody answers");
    let next = request("next", 1);
    let granted = tokio::time::timeout(LONG, grant(&store, &next)).await;
    let _ = granted.expect("another connection");
    let again = grant(&store, &impatient).await;
    assert_eq!((again.resumed, again.attempt), (false, 1));
}

/// A server that is slow, and not lost, is heard in the end: who waits on a doubted connection goes on.
#[tokio::test]
async fn an_answer_that_comes_late_is_heard_on_the_connection_that_was_replaced() {
    let server = Server::durable();
    let (proxy, store) = behind_a_proxy(&server, 1, NEVER).await;
    let _ = grant(&store, &request("first", 1)).await;
    proxy.hold_answers();
    let slow = store.claim([request("slow", 1)].into());
    let later = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let refused = store.claim([request("later", 1)].into()).await;
        proxy.release();
        refused
    };
    let (slow, later) = tokio::join!(slow, later);
    assert!(
        matches!(slow.as_deref(), Ok([Admission::Granted(_)])),
        "{slow:?}"
    );
    let error = later.expect_err("no connection");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
}

/// A call that timed out ends its connection, although something is unanswered: others that wait on it hear so at once.
#[tokio::test]
async fn a_connection_that_timed_out_ends_for_all_that_wait_on_it() {
    let server = Server::durable();
    let (proxy, store) = behind_a_proxy(&server, 1, Duration::from_secs(10)).await;
    let _ = grant(&store, &request("first", 1)).await;
    proxy.hold_answers();
    let mut first = pin!(store.claim([request("pay", 1)].into()));
    tokio::select! {
        answer = &mut first => panic!("no answer comes: {answer:?}"),
        _ = proxy.until(|seen| seen.held > 0) => {}
    }
    let mut second = pin!(store.claim([request("second", 1)].into()));
    let sent = proxy.seen().client_bytes;
    tokio::select! {
        answer = &mut second => panic!("no answer comes: {answer:?}"),
        _ = proxy.until(|seen| seen.client_bytes > sent) => {}
    }
    let first = first.await;
    // The proxy passes the end on to the server, whose one client is then who asks for the list.
    let clients = || server.ask(&["CLIENT", "LIST"]).join("\n").lines().count();
    let closed = async {
        while clients() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, closed).await.expect("an end");
    // It looks at what came before it looks at the time, which may be up by now.
    let second = second.await;
    for (answer, code) in [(first, Code::Timeout), (second, Code::StoreUnavailable)] {
        let error = answer.expect_err("no answer comes");
        assert_eq!(error.code(), code, "{error:?}");
        assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error:?}");
    }
}

/// Longer than any call of the tests lives.
const NEVER: Duration = Duration::from_secs(3_600);
/// More than any wait of the tests that is as it should be.
const LONG: Duration = Duration::from_secs(120);
