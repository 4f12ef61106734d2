//! Tests of the tests: a defect that is planted in a script must be caught by the named test.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use semel_conformance::{Subject, TestClock, store_cases};
use semel_store_redis::{Options, RedisStore};

use crate::lab::connect_to;
use crate::proxy::Proxy;
use crate::server::Server;

/// A script, the text in it to replace, the replacement, and the case of the laws that must see it.
type Bug = (&'static str, &'static str, &'static str, &'static str);

const BUGS: &[Bug] = &[
    (
        "claim",
        "pairs_[2 * i], 'NX', 'GET')",
        "pairs_[2 * i], 'GET')",
        "a_finished_key_replays_inside_its_window",
    ),
    (
        "claim",
        "'MSETNX'",
        "'MSET'",
        "a_finished_key_replays_inside_its_window",
    ),
    (
        "claim",
        "if are_added == 1 then",
        "if are_young then",
        "a_finished_key_replays_inside_its_window",
    ),
    (
        "claim",
        "are_young and redis.pcall(",
        "redis.pcall(",
        "an_old_message_without_a_record_is_too_old",
    ),
    (
        "claim",
        "call('XADD', KEYS[3], decimal(stamp) .. '-0', 'i', ids)",
        "",
        "pages_of_one_are_complete",
    ),
    (
        "claim",
        "call('HINCRBY', KEYS[4], sub(stamp8, 1, 5), added)",
        "",
        "records_are_selected_by_state",
    ),
    (
        "claim",
        "in_parts(watched,",
        "in_parts({},",
        "a_sweep_finds_vanished_parks",
    ),
    (
        "claim",
        "elseif are_young or now <=",
        "elseif true or now <=",
        "an_old_message_without_a_record_is_too_old",
    ),
    (
        "complete",
        "string.find(value, claim, 62, true) == 62",
        "true",
        "a_superseded_completion_is_fenced",
    ),
    (
        "complete",
        "state <= 1 and",
        "state <= 9 and",
        "completing_twice_keeps_the_first_outcome",
    ),
    (
        "renew",
        "sub(value, 62, 77) == sub(argument, 1, 16)",
        "true",
        "a_renewal_after_a_takeover_is_lost",
    ),
    (
        "renew",
        "state <= 1 and",
        "state <= 9 and",
        "a_renewal_of_a_finished_operation_is_lost",
    ),
    (
        "commit",
        "revision ~= sub(meta, 4, 11)",
        "false",
        "of_16_takers_at_once_exactly_one_takes_over",
    ),
    (
        "commit",
        "not lost[group] then\n        entered",
        "true then\n        entered",
        "orders_at_once_are_entered_as_they_are_carried_out",
    ),
    (
        "commit",
        "call('ZADD', KEYS[5], decimal(unpack_('>I8', created)), id)",
        "",
        "records_are_selected_by_state",
    ),
    (
        "park",
        "if new == 1 then",
        "if false then",
        "pages_of_parked_messages_are_complete",
    ),
];

static SERVER: OnceLock<String> = OnceLock::new();
static PLANTED: Mutex<Option<(&str, String)>> = Mutex::new(None);

/// An instance behind a proxy that runs the planted script.
struct Planted {
    clock: TestClock,
    store: Arc<RedisStore>,
}

impl Subject for Planted {
    type Store = RedisStore;

    async fn open() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = SERVER
            .get()
            .and_then(|url| url.rsplit(':').next()?.parse().ok());
        let proxy = Proxy::before(port.expect("a server")).await;
        if let Some((script, text)) = &*PLANTED.lock().expect("a script") {
            proxy.plant(&hash(&whole(script)), text);
        }
        let clock = TestClock::new();
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let url = format!("{}?prefix=planted-{number}", proxy.url());
        let store = RedisStore::connect(&url, options).await;
        Self {
            clock,
            store: Arc::new(store.expect("a store")),
        }
    }

    fn store(&self) -> &Arc<RedisStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

#[test]
fn a_bug_in_a_script_is_caught_by_the_case_that_is_named() {
    let server = Server::durable();
    SERVER.set(server.url()).expect("set once");
    let cases = store_cases::<Planted>();
    let case = |name: &str| {
        let case = cases.iter().find(|case| case.name == name);
        case.unwrap_or_else(|| panic!("there is no case {name}"))
    };
    let mut unseen = Vec::new();
    for (script, from, to, name) in BUGS {
        let sound = whole(script);
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{script}: {from} is not there");
        *PLANTED.lock().expect("a script") = None;
        catch_unwind(|| case(name).run()).unwrap_or_else(|_| panic!("{name} fails without a bug"));
        // As the proxy would run it without a bug.
        *PLANTED.lock().expect("a script") = Some((script, sound));
        catch_unwind(|| case(name).run())
            .unwrap_or_else(|_| panic!("{name} fails through the proxy"));
        *PLANTED.lock().expect("a script") = Some((script, text));
        let caught = (0..5).any(|_| catch_unwind(|| case(name).run()).is_err());
        if !caught {
            unseen.push((script, from, name));
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}

/// A bug that only the server's own clock shows: records that expire too early, or never.
#[tokio::test]
async fn a_bug_in_the_expiry_is_caught_by_the_check_of_the_indexes() {
    for (from, to) in [
        (
            "call('SET', key, after, 'PXAT', until_)",
            "call('SET', key, after)",
        ),
        ("call('HDEL', KEYS[4], name)", ""),
        (
            "call('ZADD', KEYS[6], 'GT', decimal(segment.forget), name)",
            "",
        ),
    ] {
        let server = Server::durable();
        let proxy = Proxy::before(server.port).await;
        let sound = whole("complete");
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from} is not there");
        proxy.plant(&hash(&sound), &text);
        let store = connect_to(&proxy.url()).await;
        // Some of it shows only where nothing else is under way.
        let request = crate::lab::request("pay-1", 1);
        let _ = crate::lab::grant(&store, &request).await;
        crate::lab::complete(&store, &request).await;
        let checked = tokio::spawn(async move { crate::index::check(&server, &store).await }).await;
        assert!(checked.is_err(), "{from} went unseen");
    }
}

/// A bug that only a race shows: a drop that adds an entry for a message that another has dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bug_in_the_dropping_of_messages_is_caught_by_drops_at_once() {
    let server = Server::durable();
    let proxy = Proxy::before(server.port).await;
    let sound = whole("drop");
    let text = sound.replacen("if there == 1 then", "if true then", 1);
    assert_ne!(text, sound);
    proxy.plant(&hash(&sound), &text);
    let store = Arc::new(connect_to(&format!("{}?connections=16", proxy.url())).await);
    let caught =
        tokio::spawn(async move { crate::contention::drops_at_once(&store, 20).await }).await;
    assert!(caught.is_err(), "it went unseen");
}

/// A bug of the counter that only a restart shows.
#[tokio::test]
async fn a_bug_in_the_counting_of_runs_is_caught_over_a_restart() {
    let mut server = Server::durable();
    let proxy = Proxy::before(server.port).await;
    let sound = whole("claim");
    let text = sound.replacen("if is_new_run and last > 0", "if false and last > 0", 1);
    assert_ne!(text, sound);
    proxy.plant(&hash(&sound), &text);
    let store = connect_to(&proxy.url()).await;
    let first = crate::lab::grant(&store, &crate::lab::request("pay-0", 1))
        .await
        .token
        .get()
        >> 10;
    let given_out = first + 3_600_000_000;
    let mut counter = (given_out - 500_000).to_be_bytes().to_vec();
    counter.extend_from_slice(&counter.clone());
    counter.extend_from_slice(&[0, 0]);
    server.ask_bytes(&[b"SET", b"semel:{0}:c", &counter]);
    server.kill();
    server.restart();
    let store = connect_to(&proxy.url()).await;
    let token = crate::lab::grant(&store, &crate::lab::request("pay-1", 1))
        .await
        .token
        .get()
        >> 10;
    assert!(token <= given_out, "the bug is not there");
}

/// Returns the text that a store sends for a script.
fn whole(script: &str) -> String {
    let read = |name: &str| {
        let path = format!("{}/schema/{name}.lua", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("a script")
    };
    read("prelude") + &read(script)
}

fn hash(text: &str) -> String {
    redis::Script::new(text).get_hash().to_owned()
}
