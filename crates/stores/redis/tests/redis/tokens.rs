//! Fencing tokens over everything that may happen to a server.

use semel_core::{Admission, FencingToken, Store};

use crate::cluster::Cluster;
use crate::lab::{connect, connect_to, grant, request, rest};
use crate::server::Server;

/// Returns the stamp behind a token, in microseconds.
fn stamp(token: FencingToken) -> u64 {
    token.get() >> 10
}

/// Sets the last stamp and the last token that the server remembers.
fn rewind(server: &Server, stamp: u64) {
    set_counter(server, b"semel:{0}:c", stamp);
}

fn set_counter(server: &Server, key: &[u8], stamp: u64) {
    let mut counter = stamp.to_be_bytes().to_vec();
    counter.extend_from_slice(&stamp.to_be_bytes());
    counter.extend_from_slice(&[0, 0]);
    server.ask_bytes(&[b"SET", key, &counter]);
}

/// Tokens go on counting while the clock of the server stands behind the last token.
#[tokio::test]
async fn tokens_rise_while_the_clock_stands_still_behind_them() {
    let server = Server::durable();
    let store = connect(&server).await;
    let first = grant(&store, &request("pay-0", 1)).await.token;
    let ahead = stamp(first) + 3_600_000_000;
    rewind(&server, ahead);
    for number in 1..50 {
        let token = grant(&store, &request(&format!("pay-{number}"), 1))
            .await
            .token;
        assert_eq!(stamp(token), ahead + number, "one stamp a call");
    }
}

/// A server that lost the end of its log and whose clock was set back gives out no token twice.
#[tokio::test]
async fn tokens_rise_over_a_lost_second_and_a_clock_that_was_set_back() {
    let mut server = Server::durable();
    let store = connect(&server).await;
    let first = grant(&store, &request("pay-0", 1)).await.token;
    // As if the clock had been an hour ahead, and the last half second of the log were lost with the process.
    let given_out = stamp(first) + 3_600_000_000;
    rewind(&server, given_out - 500_000);
    server.kill();
    server.restart();
    rest().await;
    let token = grant(&store, &request("pay-1", 1)).await.token;
    assert!(
        stamp(token) > given_out,
        "{} after {given_out}",
        stamp(token)
    );
    let next = grant(&store, &request("pay-2", 1)).await.token;
    assert_eq!(stamp(next), stamp(token) + 1, "once per process");
    // Another client of the same process counts on, whatever it knows of processes.
    let other = connect(&server).await;
    assert_eq!(
        stamp(grant(&other, &request("pay-3", 1)).await.token),
        stamp(token) + 2
    );
}

/// Within a batch tokens rise with their items, and batches of calls never share one.
#[tokio::test]
async fn tokens_of_batches_follow_each_other() {
    let server = Server::durable();
    let store = connect(&server).await;
    let mut last = FencingToken::new(0);
    for round in 0..5 {
        let batch: Vec<_> = (0..2_500)
            .map(|number| request(&format!("{round}-{number}"), 1))
            .collect();
        let mut tokens = granted(store.claim(batch.into()).await.expect("claims"));
        tokens.sort();
        assert!(tokens[0] > last);
        tokens.dedup();
        assert_eq!(tokens.len(), 2_500, "each has its own");
        last = tokens[2_499];
    }
}

/// Buckets of a cluster that count on from the same stamp still give out no token twice.
#[tokio::test]
async fn tokens_of_buckets_that_stand_at_the_same_stamp_differ() {
    let cluster = Cluster::start();
    let store = connect_to(&cluster.url()).await;
    let batch = |claimant| -> Vec<_> {
        let keys = 0..1_000;
        keys.map(|number| request(&format!("{claimant}-{number}"), claimant))
            .collect()
    };
    let first = granted(store.claim(batch(1).into()).await.expect("claims"));
    let ahead = stamp(first[0]) + 3_600_000_000;
    let mut counters = 0;
    for node in &cluster.nodes {
        for key in node.ask(&["KEYS", "semel:*:c"]) {
            set_counter(node, key.as_bytes(), ahead);
            counters += 1;
        }
    }
    assert_eq!(counters, 64, "every bucket counts");
    let mut tokens = granted(store.claim(batch(2).into()).await.expect("claims"));
    assert!(tokens.iter().all(|token| stamp(*token) <= ahead + 64));
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 1_000, "each has its own");
}

fn granted(answers: Vec<Admission>) -> Vec<FencingToken> {
    let token = |answer| match answer {
        Admission::Granted(claim) => claim.token,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(token).collect()
}
