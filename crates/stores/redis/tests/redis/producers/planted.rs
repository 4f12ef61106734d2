//! Tests of the tests: a defect that is planted in a script of the journal must be caught by the named law.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use semel_conformance::producers::{ProducerSubject, check, laws};
use semel_store_redis::{Options, RedisProducers};

use crate::proxy::Proxy;
use crate::server::Server;

/// A script, the text in it to replace, the replacement, and the law that must see it.
type Bug = (&'static str, &'static str, &'static str, fn());

/// Makes of a law a function without a type of its own.
macro_rules! law {
    ($law:ident) => {
        || check(laws::$law::<Planted>)
    };
}

const BUGS: &[Bug] = &[
    (
        "append",
        "and sub(producer, 1, 8) == ARGV[5]",
        "",
        law!(an_opening_has_a_higher_epoch_and_fences_the_one_before),
    ),
    (
        "append",
        "if not is_own or sub(state, 1, 8) ~= ARGV[7] then",
        "if not is_own then",
        law!(an_append_that_is_repeated_changes_nothing_and_one_that_is_not_the_next_is_refused),
    ),
    (
        "append",
        "    forget(KEYS[3], confirmed)\n",
        "",
        law!(what_is_confirmed_is_forgotten_and_comes_never_back),
    ),
    (
        "append",
        "if moves then\n    confirmed = ARGV[9]",
        "if true then\n    confirmed = ARGV[9]",
        law!(what_is_confirmed_is_forgotten_and_comes_never_back),
    ),
    (
        "append",
        "unpack_('>I8', place) + 1)",
        "unpack_('>I8', place))",
        law!(the_input_used_longest_ago_is_forgotten_first),
    ),
    (
        "confirm",
        "if is_less(last, through) then",
        "if false then",
        law!(what_is_confirmed_is_forgotten_and_comes_never_back),
    ),
    (
        "confirm",
        ".. '-1'",
        ".. '-0'",
        law!(what_is_confirmed_is_forgotten_and_comes_never_back),
    ),
    (
        "open",
        "next_ - 1 > confirmed",
        "false",
        law!(messages_that_wait_for_one_place_are_not_published_to_another),
    ),
    (
        "open",
        "epoch + 1",
        "epoch",
        law!(an_opening_has_a_higher_epoch_and_fences_the_one_before),
    ),
    (
        "order",
        "local released = sub(state, 9, 16)",
        "local released = sub(state, 1, 8)",
        law!(a_frozen_producer_keeps_its_messages_until_they_are_released),
    ),
    (
        "pending",
        "if #out > 2 and",
        "if false and",
        law!(pages_have_whole_batches_in_order),
    ),
];

static SERVER: OnceLock<u16> = OnceLock::new();
static PLANTED: Mutex<Option<(&str, String)>> = Mutex::new(None);

/// A journal behind a proxy that runs the planted script.
struct Planted(String);

impl ProducerSubject for Planted {
    type Journal = RedisProducers;

    async fn open() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let proxy = Proxy::before(*SERVER.get().expect("a server")).await;
        if let Some((script, text)) = &*PLANTED.lock().expect("a script") {
            proxy.plant(redis::Script::new(&whole(script)).get_hash(), text);
        }
        Self(format!("{}?prefix=planted-{number}", proxy.url()))
    }

    async fn journal(&self) -> RedisProducers {
        RedisProducers::new(&self.0, &Options::default()).expect("a journal")
    }
}

#[test]
fn a_bug_in_a_script_is_caught_by_the_law_that_is_named() {
    let server = Server::start(&["--appendonly", "no"]);
    SERVER.set(server.port).expect("set once");
    let plant = |bug| *PLANTED.lock().expect("a script") = bug;
    let mut unseen = Vec::new();
    for (script, from, to, law) in BUGS {
        let sound = whole(script);
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{script}: {from} is not there");
        // As the proxy would run it without a bug.
        plant(Some((script, sound)));
        catch_unwind(law).unwrap_or_else(|_| panic!("{script}: {from}: fails without a bug"));
        plant(Some((script, text)));
        if catch_unwind(law).is_ok() {
            unseen.push((script, from));
        }
    }
    assert!(unseen.is_empty(), "{unseen:#?}");
}

/// Returns a script as the journal sends it.
fn whole(script: &str) -> String {
    let read = |name: &str| {
        let path = format!("{}/schema/producers/{name}.lua", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("a script")
    };
    match script {
        "open" | "order" => read("prelude") + &read(script),
        _ => read("prelude") + &read("own") + &read(script),
    }
}
