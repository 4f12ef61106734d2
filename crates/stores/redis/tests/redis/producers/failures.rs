//! Scripts that break off, servers that are full or no primary any more, and what is damaged.

use std::collections::BTreeSet;

use semel_conformance::producers::{batch, opening};
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, InputMark, ProducerOrder};
use semel_core::{Certainty, Code, ErrorKind};
use semel_store_redis::{Options, RedisProducers};

use super::{append, journal, open};
use crate::server::Server;

const BATCHES: &str = "semel:{0}:bbilling orders";
const INPUTS: &str = "semel:{0}:ibilling orders";

fn read(text: &'static str) -> Batch {
    Batch {
        input: Some(InputMark {
            digest: [7; 32],
            rows: 1,
            bytes: 1,
            is_whole: true,
        }),
        ..batch(1, &[text])
    }
}

/// An append that fails, for whatever reason, leaves nothing: made again, it is there whole.
#[tokio::test]
async fn an_append_that_fails_leaves_nothing() {
    for key in [BATCHES, INPUTS] {
        let server = Server::start(&["--appendonly", "no"]);
        let journal = journal(&server.url());
        let opened = open(&journal).await;
        assert_eq!(server.ask(&["SET", key, "of others"]), ["+OK"]);
        let error = journal.append(&opened, "orders", &read("a")).await;
        let error = error.expect_err("of another kind");
        assert_eq!(error.code(), Code::StoreForeign, "{key}");
        assert_eq!(server.ask(&["DEL", key]), [":1"]);
        is_taken_whole(&journal, &opened).await;
    }
    // A right that is taken away meanwhile.
    for right in ["xadd", "hset", "xlen", "hlen"] {
        let server = Server::start(&["--appendonly", "no"]);
        let user = ["ACL", "SETUSER", "job", "on", "nopass", "~*", "+@all"];
        assert_eq!(server.ask(&user), ["+OK"]);
        let journal = journal(&format!("redis://job:x@127.0.0.1:{}", server.port));
        let opened = open(&journal).await;
        server.ask(&["ACL", "SETUSER", "job", &format!("-{right}")]);
        let appended = journal.append(&opened, "orders", &read("a")).await;
        appended.expect_err(right);
        server.ask(&["ACL", "SETUSER", "job", &format!("+{right}")]);
        is_taken_whole(&journal, &opened).await;
    }
}

async fn is_taken_whole(journal: &RedisProducers, opened: &semel_core::producer::Incarnation) {
    let listed = journal.list().await.expect("a list");
    assert_eq!(listed[0].streams[0].next, 1, "no sequence was given out");
    append(journal, opened, &read("a")).await;
    let pending = journal.pending(opened, "orders", 0, 10).await;
    assert_eq!(pending.expect("batches").len(), 1);
    let mark = journal.input(opened, "orders", &[7; 32]).await;
    assert!(mark.expect("an answer").is_some());
}

#[tokio::test]
async fn an_order_that_fails_changes_nothing() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    let streams = "semel:{0}:sbilling";
    server.ask(&["RENAME", streams, "aside"]);
    server.ask(&["SET", streams, "of others"]);
    let ordered = journal.order(&opened.name, ProducerOrder::Freeze).await;
    ordered.expect_err("of another kind");
    server.ask(&["DEL", streams]);
    server.ask(&["RENAME", "aside", streams]);
    assert!(!journal.list().await.expect("a list")[0].is_frozen);
}

/// An append that a full server refuses still confirms: that makes the room that it wants.
#[tokio::test]
async fn an_append_to_a_full_server_frees_what_it_confirms() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    append(&journal, &opened, &batch(1, &["a"])).await;
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let next = Batch {
        confirmed: 1,
        ..batch(2, &["b"])
    };
    let error = journal.append(&opened, "orders", &next).await;
    let error = error.expect_err("full");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreFull, Certainty::NotApplied)
    );
    assert_eq!(server.ask(&["XLEN", BATCHES]), [":0"]);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    append(&journal, &opened, &next).await;
    let pending = journal.pending(&opened, "orders", 1, 10).await;
    assert_eq!(pending.expect("batches").len(), 1);
}

/// A process that starts again on a full server sends what is there, and takes orders.
#[tokio::test]
async fn a_full_server_is_emptied_by_the_next_process() {
    let server = Server::start(&["--appendonly", "no"]);
    let before = journal(&server.url());
    append(&before, &open(&before).await, &batch(1, &["a"])).await;
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let next = journal(&server.url());
    let opened = open(&next).await;
    assert_eq!(opened.epoch, 2);
    for order in [
        ProducerOrder::Freeze,
        ProducerOrder::Release,
        ProducerOrder::Thaw,
    ] {
        assert!(next.order(&opened.name, order).await.expect("ordered"));
    }
    let pending = next.pending(&opened, "orders", 0, 10).await;
    assert_eq!(pending.expect("batches").len(), 1);
    let error = next.append(&opened, "orders", &batch(2, &["b"])).await;
    assert_eq!(error.expect_err("full").code(), Code::StoreFull);
    let other = next.open(&opening("shipping", "orders")).await;
    assert_eq!(other.expect_err("full").code(), Code::StoreFull);
    next.confirm(&opened, "orders", 1).await.expect("confirmed");
    assert_eq!(server.ask(&["XLEN", BATCHES]), [":0"]);
}

/// Nothing is promised by a server whose place another has taken.
#[tokio::test]
async fn a_replica_says_of_nobody_that_he_is_the_latest() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    assert_eq!(server.ask(&["REPLICAOF", "127.0.0.1", "1"]), ["+OK"]);
    let answers = [
        journal.confirm(&opened, "orders", 0).await.map(drop),
        journal.pending(&opened, "orders", 0, 1).await.map(drop),
        journal.input(&opened, "orders", &[7; 32]).await.map(drop),
    ];
    let codes: BTreeSet<_> = answers
        .into_iter()
        .map(|it| format!("{:?}", it.map_err(|error| error.code())))
        .collect();
    let read_only = format!("{:?}", Err::<(), _>(Code::StoreReadOnly));
    assert_eq!(codes, [read_only].into());
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    append(&journal, &opened, &batch(1, &["a"])).await;
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]), ["+OK"]);
    append(&journal, &opened, &batch(2, &["b"])).await;
    let pending = journal.pending(&opened, "orders", 0, 10).await;
    assert_eq!(pending.expect("batches").len(), 2);
}

/// A backup that is restored would give out the same sequences twice.
#[tokio::test]
async fn what_is_damaged_asks_for_another_name_and_not_for_a_backup() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    open(&journal).await;
    server.ask(&["HSET", "semel:{0}:h", "billing", "x"]);
    let error = journal.list().await.expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("go on under another name"), "{text}");
    assert!(!text.contains("backup"), "{text}");
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_whatever_the_options_say() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut options = Options::default();
    options.allow_eviction = true;
    let journal = RedisProducers::new(&server.url(), &options).expect("a journal");
    let error = journal.open(&opening("billing", "orders")).await;
    let error = error.expect_err("it evicts");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("given out again"), "{error}");
}
