//! Fencing tokens: drawn before the lock, and never given out below an earlier one.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::{Admission, Store};

use crate::lab::{Lab, claim, complete, forget, grant, id_of, in_lock_order, request};
use crate::proxy::{Proxy, holds};

/// Keys of which a call meets the first one before the others.
const KEYS: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_gets_a_token_above_the_claim_that_came_while_it_waited() {
    let lab = Lab::new().await;
    let store = Arc::new(lab.store().await);
    let keys = in_lock_order(&KEYS);
    for key in &keys {
        let mut over = request(key, 9);
        over.lease = std::time::Duration::ZERO;
        let _ = grant(&store, &over).await;
    }
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    let lock = format!(
        "SELECT 1 FROM semel_records WHERE id = {} FOR UPDATE",
        id_of(keys[0])
    );
    other.query_drop(lock).await.expect("a lock");
    // It has drawn its tokens, and waits at the first key.
    let (calling, batch) = (
        Arc::clone(&store),
        keys.clone().into_iter().map(|key| request(key, 1)),
    );
    let batch: Vec<_> = batch.collect();
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    lab.waiting_session().await;
    let mut overtaking = request(keys[2], 2);
    overtaking.lease = std::time::Duration::ZERO;
    let overtaking = grant(&store, &overtaking).await;
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let answers = call.await.expect("a task").expect("answers");
    let [_, _, Admission::Granted(last)] = &answers[..] else {
        panic!("no takeover: {answers:?}")
    };
    assert!(
        last.takeover && last.token > overtaking.token,
        "{last:?} after {overtaking:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_drawn_before_a_removal_is_not_given_out_after_it() {
    let lab = Lab::new().await;
    let store = Arc::new(lab.store().await);
    overtaken_by_a_removal(&lab, &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_an_insertion_whose_token_was_overtaken() {
    let lab = Lab::new().await;
    drop(lab.store().await);
    let url = lab.database.url();
    // Whatever removes a record that was inserted gives everybody time to look at it.
    let proxy = Proxy::before(&url, |packet| {
        if holds(packet, "token << 20") {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let store = Arc::new(lab.store_at(&proxy.url(&url)).await);
    let mut looking = lab.database.connect().await;
    let inspection = tokio::spawn(async move {
        let select = format!(
            "SELECT token FROM semel_records WHERE id = {} \
             AND token <= (SELECT number FROM semel_meta WHERE name = 'floor')",
            id_of(in_lock_order(&KEYS)[2])
        );
        let mut seen = None::<u64>;
        // It goes on until the test ends it.
        while seen.is_none() {
            seen = looking.query_first(&*select).await.expect("an answer");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        seen
    });
    overtaken_by_a_removal(&lab, &store).await;
    assert!(!inspection.is_finished(), "{:?}", inspection.await);
    inspection.abort();
}

/// Claims a key that is claimed, finished and removed while the call waits at another key.
pub(crate) async fn overtaken_by_a_removal(lab: &Lab, store: &Arc<semel_store_mysql::MysqlStore>) {
    let keys = in_lock_order(&KEYS);
    let _ = grant(store, &request(keys[0], 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    // Of this row alone, and of no gap beside it.
    let lock = format!(
        "SELECT 1 FROM semel_records WHERE id = {} FOR UPDATE",
        id_of(keys[0])
    );
    other.query_drop(lock).await.expect("a lock");
    let (calling, batch) = (
        Arc::clone(store),
        [request(keys[0], 1), request(keys[2], 1)],
    );
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    lab.waiting_session().await;
    let removed = grant(store, &request(keys[2], 2)).await;
    let settled = store
        .settle([complete(keys[2], 2)].into())
        .await
        .expect("answers");
    assert!(matches!(settled[..], [semel_core::Settled::Now(_)]));
    forget(store, keys[2]).await;
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let answers = call.await.expect("a task").expect("answers");
    let [Admission::Busy { .. }, Admission::Granted(claim)] = &answers[..] else {
        panic!("neither busy nor granted: {answers:?}")
    };
    assert!(
        claim.token > removed.token,
        "{:?} after {:?}",
        claim.token,
        removed.token
    );
}

#[tokio::test]
async fn tokens_go_on_when_old_blocks_are_gone_and_when_drawing_is_rolled_back() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let first = grant(&store, &request("a", 1)).await.token;
    lab.database.run("DELETE FROM semel_tokens WHERE block < (SELECT MAX(block) FROM (SELECT block FROM semel_tokens) t)").await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("INSERT INTO semel_tokens (used) VALUES (1)")
        .await
        .expect("a block");
    other.query_drop("ROLLBACK").await.expect("no block");
    let second = grant(&store, &request("b", 1)).await.token;
    assert!(second > first);
}

#[tokio::test]
async fn records_that_come_before_their_tokens_are_taken_over_with_higher_ones() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let mut over = request("a", 9);
    over.lease = std::time::Duration::ZERO;
    let _ = grant(&store, &over).await;
    // As an import leaves it whose first item is a record.
    lab.database
        .run("UPDATE semel_records SET token = 999999999")
        .await;
    let Admission::Granted(claim) = claim(&store, &request("a", 1)).await else {
        panic!("no takeover")
    };
    assert!(claim.token.get() > 999_999_999, "{:?}", claim.token);
    let next = grant(&store, &request("b", 1)).await;
    assert!(next.token > claim.token);
}

#[tokio::test]
async fn a_batch_larger_than_a_block_gets_tokens_that_rise() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let batch: Vec<_> = (0..2_500)
        .map(|number| request(&format!("k{number}"), 1))
        .collect();
    let answers = store.claim(batch.into()).await.expect("answers");
    let mut tokens: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Admission::Granted(claim) => claim.token,
            other => panic!("not granted: {other:?}"),
        })
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 2_500);
    assert!(grant(&store, &request("later", 1)).await.token > tokens[2_499]);
}
