//! The journal of producers: servers that die, fill up, evict, refuse a right; memory that stays bounded.

mod failures;
mod planted;

use std::net::{Ipv4Addr, SocketAddr};

use semel_conformance::producers::servers::{self, KilledServer};
use semel_conformance::producers::turns::numbered;
use semel_conformance::producers::{ProducerSubject, batch, check, laws, opening};
use semel_conformance::proxy::Proxy;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Durability;
use semel_core::producer::{Batch, InputMark, ProducerOrder};
use semel_core::{Certainty, Code, ErrorKind};
use semel_store_redis::{Options, RedisProducers, inspect, migrate};

use crate::lab::words;
use crate::server::Server;

#[tokio::test]
async fn the_first_opening_makes_the_journal_and_a_newer_one_is_refused() {
    let server = Server::durable();
    let url = server.url();
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let name = "billing".parse().expect("a name");
    let ordered = journal(&url).order(&name, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    assert_eq!(server.ask(&["DBSIZE"]), [":0"], "looking makes nothing");
    open(&journal(&url)).await;
    let looked = inspect(&url, Options::default(), &[]).await;
    assert_eq!(looked.expect("an inspection").format, None, "no store");
    migrate(&url, Options::default()).await.expect("a store");
    assert_eq!(open(&journal(&url)).await.epoch, 2);
    server.ask(&["HSET", "semel:{0}:g", "format", "2"]);
    for error in [
        journal(&url)
            .open(&opening("billing", "orders"))
            .await
            .map(drop),
        journal(&url).list().await.map(drop),
    ] {
        let error = error.expect_err("refused");
        assert_eq!(error.code(), Code::StoreNewer);
        assert!(error.to_string().contains("format 2"), "{error}");
    }
    server.ask(&["SET", "semel:{0}:g", "of another program"]);
    let error = journal(&url).list().await.expect_err("refused");
    assert_eq!(error.code(), Code::StoreForeign, "{error}");
}

#[tokio::test]
async fn processes_that_make_the_journal_at_once_all_find_it() {
    let server = Server::durable();
    let url = server.url();
    let migrate = || {
        let url = url.clone();
        async move { migrate(&url, Options::default()).await.map(drop) }
    };
    servers::processes_that_make_the_tables_at_once_all_find_them(|| journal(&url), migrate).await;
}

#[tokio::test]
async fn an_append_that_comes_late_is_fenced() {
    let server = Server::durable();
    let (proxy, slow) = behind(&server);
    let fast = journal(&server.url());
    servers::an_append_that_comes_late_is_fenced(slow, &fast, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_is_lost_is_known_when_it_is_made_again() {
    let server = Server::durable();
    let (proxy, journal) = behind(&server);
    let cut = |sequence| sequence * 7 % 400;
    servers::an_append_whose_answer_is_lost_is_known_when_it_is_made_again(
        &journal, &proxy, cut, 15,
    )
    .await;
}

impl KilledServer for Server {
    fn kill(&mut self) {
        Self::kill(self);
    }

    async fn start(&mut self) {
        self.restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    let mut server = Server::durable();
    let url = server.url();
    servers::what_was_answered_survives_a_killed_server(&mut server, || journal(&url)).await;
}

/// The control of the test above: without a log, epochs and sequences are given out again.
#[tokio::test]
async fn a_server_without_a_log_forgets_and_says_so_before() {
    let mut server = Server::start(&["--appendonly", "no"]);
    let before = journal(&server.url());
    let found = before.capabilities().await.expect("an answer");
    assert_eq!(found.durability, Durability::Process);
    assert!(found.warnings[0].contains("appendonly is off"), "{found:?}");
    let opened = open(&before).await;
    append(&before, &opened, &batch(1, &["a"])).await;
    server.kill();
    server.restart();
    assert_eq!(open(&journal(&server.url())).await.epoch, 1);
}

#[tokio::test]
async fn what_a_server_promises_less_is_told() {
    let server = Server::durable();
    let found = journal(&server.url()).capabilities().await;
    let found = found.expect("an answer");
    assert_eq!(
        (found.durability, &found.warnings[..]),
        (Durability::PowerCut, &[][..])
    );
    server.ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let found = journal(&server.url()).capabilities().await;
    let found = found.expect("an answer");
    assert_eq!(found.durability, Durability::Kill);
    assert!(found.warnings[0].contains("everysec"), "{found:?}");
    assert!(found.warnings[0].contains("given out again"), "{found:?}");
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let error = journal(&server.url())
        .open(&opening("billing", "orders"))
        .await;
    let error = error.expect_err("it evicts");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    assert_eq!(server.ask(&["DBSIZE"]), [":0"], "a refusal changes nothing");
}

/// Batches go when they are confirmed, whole or in part, and nothing grows with what was published.
#[tokio::test]
async fn memory_is_that_of_what_is_not_confirmed() {
    let server = Server::start(&["--appendonly", "no"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    let keys = || server.ask(&["KEYS", "*"]).len();
    let used = || {
        let used = server.ask(&[
            "MEMORY",
            "USAGE",
            "semel:{0}:bbilling orders",
            "SAMPLES",
            "0",
        ]);
        used[0]
            .trim_start_matches(':')
            .parse::<u64>()
            .expect("a number")
    };
    let large = "x".repeat(10_000).leak();
    let mut next = 1;
    let mut first_keys = 0;
    for round in 0..300 {
        let three = Batch {
            // Up to within the batch before.
            confirmed: (next - 1_u64).saturating_sub(1),
            input: Some(InputMark {
                digest: [7; 32],
                rows: next,
                bytes: next,
                is_whole: false,
            }),
            ..batch(next, &[large, large, large])
        };
        append(&journal, &opened, &three).await;
        next += 3;
        if round == 0 {
            first_keys = keys();
        }
    }
    let length = server.ask(&["XLEN", "semel:{0}:bbilling orders"]);
    assert_eq!(length, [":2"], "one is confirmed in part");
    assert!(used() < 100_000, "{}", used());
    let standing = journal.confirm(&opened, "orders", u64::MAX).await;
    assert_eq!(standing.expect("confirmed").confirmed, next - 1);
    assert_eq!(server.ask(&["XLEN", "semel:{0}:bbilling orders"]), [":0"]);
    assert!(used() < 10_000, "{}", used());
    assert_eq!(keys(), first_keys);
}

/// A full server takes no message, loses none, and gets rid of what is confirmed.
#[tokio::test]
async fn a_full_server_refuses_messages_and_takes_confirmations() {
    let server = Server::start(&["--appendonly", "yes"]);
    let journal = journal(&server.url());
    let opened = open(&journal).await;
    let large = "x".repeat(100_000).leak();
    append(&journal, &opened, &batch(1, &[large])).await;
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = journal.append(&opened, "orders", &batch(2, &[large])).await;
    let error = error.expect_err("full");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreFull, Certainty::NotApplied)
    );
    let standing = journal.confirm(&opened, "orders", 1).await;
    assert_eq!(standing.expect("confirmed").confirmed, 1);
    assert_eq!(server.ask(&["XLEN", "semel:{0}:bbilling orders"]), [":0"]);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    append(&journal, &opened, &batch(2, &["b"])).await;
}

#[tokio::test]
async fn the_rights_that_the_pages_name_are_enough_and_a_missing_one_is_named() {
    for (page, user) in [
        (include_str!("../../../../../docs/spec/redis.md"), "semel"),
        (
            include_str!("../../../../../docs/book/src/guides/producers.md"),
            "job",
        ),
    ] {
        let server = Server::start(&[]);
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with(&format!("ACL SETUSER {user} ")));
        let rules: Vec<&str> = line.expect("the line with the rights").split(' ').collect();
        assert_eq!(server.ask(&rules), ["+OK"]);
        let url = format!("redis://{user}:SECRET@127.0.0.1:{}", server.port);
        every_call_is_taken(&url).await;
        server.ask(&["ACL", "SETUSER", user, "-xtrim"]);
        let error = journal(&url).open(&opening("billing", "orders")).await;
        let error = error.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("lacks a right"), "{error}");
        assert!(!words(&error).contains("SECRET"), "{}", words(&error));
        // What the trial has left is in nobody's way once the right is there.
        server.ask(&["ACL", "SETUSER", user, "+xtrim"]);
        open(&journal(&url)).await;
        server.ask(&["ACL", "SETUSER", user, "-hget"]);
        let error = journal(&url).open(&opening("billing", "orders")).await;
        error.expect_err("refused");
        migrate(&server.url(), Options::default())
            .await
            .expect("a store");
    }
}

async fn every_call_is_taken(url: &str) {
    let granted = journal(url);
    let opened = open(&granted).await;
    let read = Batch {
        input: Some(InputMark {
            digest: [7; 32],
            rows: 1,
            bytes: 1,
            is_whole: true,
        }),
        confirmed: 1,
        ..numbered(2, 2)
    };
    append(&granted, &opened, &numbered(1, 1)).await;
    append(&granted, &opened, &read).await;
    let pending = granted.pending(&opened, "orders", 0, 10).await;
    assert_eq!(pending.expect("batches").len(), 1);
    let mark = granted.input(&opened, "orders", &[7; 32]).await;
    assert!(mark.expect("an answer").is_some());
    granted
        .confirm(&opened, "orders", 2)
        .await
        .expect("confirmed");
    for order in [
        ProducerOrder::Freeze,
        ProducerOrder::Release,
        ProducerOrder::Thaw,
    ] {
        let ordered = granted.order(&opened.name, order).await;
        assert!(ordered.expect("an answer"));
    }
    assert_eq!(granted.list().await.expect("a list").len(), 1);
}

/// Without a sync for each write, as many inputs as there may be are soon written.
struct Unsynced(Server);

impl ProducerSubject for Unsynced {
    type Journal = RedisProducers;

    async fn open() -> Self {
        Self(Server::start(&["--appendonly", "no"]))
    }

    async fn journal(&self) -> RedisProducers {
        journal(&self.0.url())
    }
}

#[test]
fn the_input_used_longest_ago_is_forgotten_first() {
    check(laws::the_input_used_longest_ago_is_forgotten_first::<Unsynced>);
}

/// Returns a proxy in front of the server, and a journal that goes through it.
fn behind(server: &Server) -> (Proxy, RedisProducers) {
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port)));
    let journal = journal(&format!("redis://{}", proxy.address()));
    (proxy, journal)
}

fn journal(url: &str) -> RedisProducers {
    RedisProducers::new(url, &Options::default()).expect("a journal")
}

async fn open(journal: &RedisProducers) -> semel_core::producer::Incarnation {
    let opened = journal.open(&opening("billing", "orders")).await;
    opened.expect("opened").incarnation
}

async fn append(journal: &RedisProducers, of: &semel_core::producer::Incarnation, batch: &Batch) {
    let appended = journal.append(of, "orders", batch).await;
    appended.expect("appended");
}
