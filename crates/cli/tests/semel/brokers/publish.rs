//! The binary publishing to real brokers, as an effect and for dead letters. The tests read the published
//! messages back by other means than ours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rustix::process::Signal;
use semel_conformance::proxy::Proxy;
use tokio::runtime::Runtime;

use super::{Place, payments, runtime};
use crate::ready::Admin;
use crate::site::{Ended, Running, Site, wait_for};

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;

/// A queue, topic or stream that messages are published to.
pub(crate) trait Target: Place {
    /// The settings of the effect or of dead letters, for the broker at `address`.
    fn sink(&self, address: &str) -> String;
    /// Reads every message of the target.
    fn read(&self) -> Vec<Message>;
    /// Its name, as traces have it.
    fn name(&self) -> &str;
    /// The consumer group of the source, as traces have it; empty where there is none.
    fn group(&self) -> &str;
    /// The kind of the broker, as traces have it.
    const SYSTEM: &str;
    /// The default class of the effect, that is, whether the broker drops repeats by itself.
    const DROPS_REPEATS: bool;
    /// The part of the error message that reports a missing target.
    const NO_PLACE: &str;
}

/// A message as the broker has it.
pub(crate) struct Message {
    /// The id of the message, from the broker's own field for it if it has one.
    id: String,
    pub(super) payload: String,
    pub(super) headers: BTreeMap<String, String>,
}

/// The tests of one kind of broker.
macro_rules! publishing {
    ($place:ty) => {
        #[test]
        fn each_key_is_published_once() {
            crate::brokers::publish::each_key_is_published_once::<$place>();
        }
        #[test]
        fn a_broker_that_is_away_is_waited_for_and_makes_no_dead_letters() {
            crate::brokers::publish::a_broker_that_is_away_is_waited_for_and_makes_no_dead_letters::<
                $place,
            >();
        }
        #[test]
        fn after_a_kill_a_doubt_is_repeated_and_listed() {
            crate::brokers::publish::after_a_kill_a_doubt_is_repeated_and_listed::<$place>();
        }
        #[test]
        fn after_a_kill_a_doubt_is_parked_and_listed() {
            crate::brokers::publish::after_a_kill_a_doubt_is_parked_and_listed::<$place>();
        }
        #[test]
        fn a_place_that_is_missing_is_named_before_anything_runs() {
            crate::brokers::publish::a_place_that_is_missing_is_named_before_anything_runs::<$place>();
        }
        #[test]
        fn dead_letters_are_there_with_their_reasons() {
            crate::brokers::publish::dead_letters_are_there_with_their_reasons::<$place>();
        }
        #[test]
        fn a_dead_letter_that_was_not_confirmed_comes_again_after_a_kill() {
            crate::brokers::publish::a_dead_letter_that_was_not_confirmed_comes_again_after_a_kill::<
                $place,
            >();
        }
        #[test]
        fn dead_letters_wait_for_a_broker_that_is_away_and_the_rest_goes_on() {
            crate::brokers::publish::dead_letters_wait_for_a_broker_that_is_away_and_the_rest_goes_on::<
                $place,
            >();
        }
        #[test]
        fn a_trace_goes_through() {
            crate::brokers::traces::a_trace_goes_through::<$place>();
        }
        #[test]
        fn a_trace_leads_from_the_transaction_to_the_effect() {
            crate::brokers::traces::a_trace_leads_from_the_transaction_to_the_effect::<$place>();
        }
    };
}
use publishing;

fn each_key_is_published_once<T: Target>() {
    let target = T::new();
    let site = site(&target.sink(&T::address()), "");
    site.write("in.ndjson", lines((0..50).chain(20..30)));
    let summary = site.run();
    summary.is(&[("deliveries", 60), ("applied", 50), ("replayed", 10)]);
    let there = target.read();
    assert_eq!(payloads(&there), sorted(payments(0..50)));
    let ids: BTreeSet<_> = there.iter().map(|it| &it.id).collect();
    assert_eq!(ids.len(), 50);
    assert!(ids.iter().all(|id| id.len() == 64), "{ids:?}");
    for message in &there {
        let ours = ["semel-operation", "semel-operation-id", "semel-origin"];
        let theirs = ours.iter().any(|name| message.headers.contains_key(*name));
        assert!(!theirs, "{:?}", message.headers);
    }

    let again = site.run();
    again.is(&[("deliveries", 60), ("replayed", 60)]);
    assert_eq!(target.read().len(), 50);
}

fn a_broker_that_is_away_is_waited_for_and_makes_no_dead_letters<T: Target>() {
    let target = T::new();
    let runtime = runtime();
    let proxy = absent(&runtime, &T::address());
    let site = site(&target.sink(&proxy.address().to_string()), "");
    site.write("in.ndjson", lines(0..20));
    let mut running = site.start(&["run", "--output", "json"]);
    told_to_be_away(&mut running);
    proxy.refuse(false);
    let ended = running.wait().done();
    ended.summary().is(&[("deliveries", 20), ("applied", 20)]);
    assert_eq!(payloads(&target.read()), sorted(payments(0..20)));
}

/// For brokers that refuse a message of two megabytes.
#[cfg(any(feature = "kafka", feature = "nats"))]
fn a_message_that_is_too_long_is_dead_and_listed<T: Target>() {
    let target = T::new();
    let site = site(&target.sink(&T::address()), "");
    let long = format!(
        "{{\"id\":\"pay-long\",\"x\":\"{}\"}}\n",
        "x".repeat(2_000_000)
    );
    site.write("in.ndjson", lines(0..1) + &long + &lines(1..2));
    let summary = site.run();
    summary.is(&[("deliveries", 3), ("applied", 2), ("dead", 1)]);
    assert_eq!(payloads(&target.read()), sorted(payments(0..2)));
    let listed = site
        .semel(&["dead-letters", "list", "--output", "jsonl"])
        .done();
    assert!(listed.stdout.contains("pay-long"), "{listed:?}");
}

fn after_a_kill_a_doubt_is_repeated_and_listed<T: Target>() {
    let (target, site) = killed::<T>("class = \"unkeyed\"\non_doubt = \"repeat\"\n");
    let summary = site.run();
    assert_eq!(summary.count("in_doubt"), 0, "{summary:?}");
    let there = payloads(&target.read());
    let keys: BTreeSet<_> = there.iter().collect();
    assert_eq!(keys.len(), MANY, "none is lost");
    let listed = listed(&site, &["in-doubt", "list", "--repeated"]);
    let extra = there.len() - keys.len();
    assert!(extra <= listed, "{extra} repeats, and {listed} are listed");
}

fn after_a_kill_a_doubt_is_parked_and_listed<T: Target>() {
    let (target, site) = killed::<T>("class = \"unkeyed\"\non_doubt = \"park\"\n");
    let summary = site.run();
    let there = payloads(&target.read());
    let keys: BTreeSet<_> = there.iter().collect();
    assert_eq!(keys.len(), there.len(), "none is there twice");
    let listed = listed(&site, &["in-doubt", "list"]);
    assert_eq!(summary.count("in_doubt"), listed as u64, "{summary:?}");
    assert!(
        keys.len() + listed >= MANY,
        "{} are there and {listed} in doubt: what is neither is lost",
        keys.len()
    );
}

/// Makes a site whose run was killed twice in the middle.
fn killed<T: Target>(class: &str) -> (T, Site) {
    let target = T::new();
    let site = site(
        &(target.sink(&T::address()) + class),
        "batch = 10\nlease = \"2s\"\n",
    );
    site.write("in.ndjson", lines(0..MANY));
    for _ in 0..2 {
        let mut running = site.start(&["run", "--log", "json", "--log-level", "decisions"]);
        wait_for("some batches", || {
            running.stderr().matches("\"completed\"").count() >= MANY / 10
        });
        running.signal(Signal::KILL);
        running.wait();
    }
    (target, site)
}

fn a_place_that_is_missing_is_named_before_anything_runs<T: Target>() {
    let target = T::new();
    let settings = target.sink(&T::address());
    let wrong = settings.replace("\"cli-", "\"absent-");
    assert_ne!(settings, wrong);
    for (effect, more) in [
        (wrong.clone(), String::new()),
        (
            "kind = \"stdout\"\n".to_owned(),
            format!("[pipelines.clean.dead_letter]\n{wrong}"),
        ),
    ] {
        let site = site(&effect, "");
        let config = site.text("semel.toml") + &more;
        site.write("semel.toml", config);
        site.write("in.ndjson", lines(0..3));
        site.semel(&["run"]).code(2).says(T::NO_PLACE);
        let checked = site.semel(&["check"]).code(1);
        assert!(checked.stdout.contains("target-unavailable"), "{checked:?}");
        assert!(checked.stdout.contains(T::NO_PLACE), "{checked:?}");
    }
    let site = site(&settings, "");
    site.write("in.ndjson", lines(0..3));
    let checked = site.semel(&["check"]).done();
    assert!(
        !checked.stdout.contains("target-unavailable"),
        "{checked:?}"
    );
    let window = checked
        .stdout
        .contains("exactly once inside the provider's window");
    assert_eq!(window, T::DROPS_REPEATS, "{checked:?}");
}

fn dead_letters_are_there_with_their_reasons<T: Target>() {
    let target = T::new();
    let site = failing(&target.sink(&T::address()));
    let summary = site.run();
    summary.is(&[("deliveries", 8), ("applied", 6), ("dead", 2)]);
    let mut letters = target.read();
    letters.sort_by(|one, other| one.payload.cmp(&other.payload));
    assert_eq!(payloads(&letters), sorted(payments([3, 5])));
    for (letter, (key, place)) in letters.iter().zip([("pay-3", 4), ("pay-5", 6)]) {
        for (name, value) in [
            ("semel-operation", "clean"),
            ("semel-key", key),
            ("semel-reason", "failed"),
            ("semel-attempts", "1"),
            ("semel-origin", &format!("in.ndjson:{place}")),
        ] {
            assert_eq!(letter.headers[name], value, "{name}");
        }
        let error = &letter.headers["semel-error"];
        assert!(error.contains("card stolen"), "{error}");
        for name in ["semel-operation-id", "semel-first-seen", "semel-failed-at"] {
            assert!(letter.headers.contains_key(name), "{name}");
        }
    }
    assert_eq!(
        listed(&site, &["dead-letters", "list"]),
        2,
        "the store keeps them"
    );
}

fn dead_letters_wait_for_a_broker_that_is_away_and_the_rest_goes_on<T: Target>() {
    let target = T::new();
    let runtime = runtime();
    let proxy = absent(&runtime, &T::address());
    let site = failing(&target.sink(&proxy.address().to_string()));
    let admin = Admin::new();
    let config = format!("{}\n{}", site.text("semel.toml"), admin.table());
    site.write("semel.toml", config);
    let mut running = site.start(&["run", "--output", "json"]);
    letters_told_to_wait(&mut running);
    wait_for("the others", || site.text("out").lines().count() == 6);
    admin.tells(
        "semel_waits_total{pipeline=\"clean\",why=\"dead_letter\"}",
        2,
    );
    admin.tells("semel_in_flight{pipeline=\"clean\"}", 2);
    assert!(running.is_running(), "it waits");
    proxy.refuse(false);
    let ended: Ended = running.wait().done();
    ended
        .summary()
        .is(&[("deliveries", 8), ("applied", 6), ("dead", 2)]);
    assert_eq!(payloads(&target.read()), sorted(payments([3, 5])));
}

fn a_dead_letter_that_was_not_confirmed_comes_again_after_a_kill<T: Target>() {
    let (source, target) = (T::new(), T::new());
    let runtime = runtime();
    let proxy = absent(&runtime, &T::address());
    let dead_letter = target.sink(&proxy.address().to_string());
    let from = source.source(&T::address());
    let from = from.replace("pipelines.payments", "pipelines.clean");
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.clean]\nkey = \"json:/id\"\nlease = \"2s\"\nwindow = \
         \"30d\"\neffect = {{ kind = \"exec\", command = [\"sh\", \"-c\", '''{REFUSES_TWO}'''] \
         }}\n[pipelines.clean.dead_letter]\n{dead_letter}[pipelines.clean.source]\n{from}"
    );
    let site = Site::with(&[("semel.toml", &config)]);
    source.publish(&payments(0..8));
    let mut running = site.start(&["run"]);
    letters_told_to_wait(&mut running);
    // An operation on record is not begun anew; a line in the output alone may belong to a call that is not on
    // record.
    for (state, count) in [("completed", 6), ("dead", 2)] {
        wait_for(state, || {
            listed(&site, &["keys", "list", "--state", state]) == count
        });
    }
    running.signal(Signal::KILL);
    running.wait();
    assert!(target.read().is_empty());

    proxy.refuse(false);
    let running = site.start(&["run", "--output", "json"]);
    let mut letters = BTreeSet::new();
    wait_for("the dead letters", || {
        letters = target.read().into_iter().map(|it| it.payload).collect();
        letters.len() >= 2
    });
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("applied"), 0, "{summary:?}");
    assert_eq!(letters, payments([3, 5]).into_iter().collect());

    // The messages are acknowledged now.
    let running = site.start(&["run", "--output", "json"]);
    source.publish(&payments(8..9));
    wait_for("one more", || site.text("out").lines().count() == 7);
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("dead"), 0, "{summary:?}");
}

/// A pipeline whose effect refuses two of eight messages for good.
fn failing(dead_letter: &str) -> Site {
    let effect = format!("kind = \"exec\"\ncommand = [\"sh\", \"-c\", '''{REFUSES_TWO}''']\n");
    let site = site(&effect, "");
    let config = site.text("semel.toml") + "[pipelines.clean.dead_letter]\n" + dead_letter;
    site.write("semel.toml", config);
    site.write("in.ndjson", lines(0..8));
    site
}

/// A proxy before the broker at `address` that refuses every connection.
pub(super) fn absent(runtime: &Runtime, address: &str) -> Proxy {
    let _runtime = runtime.enter();
    let proxy = Proxy::start(socket(address));
    proxy.refuse(true);
    proxy
}

/// Waits until the target of effects is reported away: the pipeline pauses.
fn told_to_be_away(running: &mut Running) {
    told(running, "[target-away]; trying one message at a time");
}

/// Waits until the target of dead letters is reported away: only dead letters wait.
fn letters_told_to_wait(running: &mut Running) {
    told(running, "[target-unavailable]; trying again");
}

fn told(running: &mut Running, words: &str) {
    let mut said = String::new();
    wait_for("a word about it", || {
        said.push_str(&running.stderr());
        said.contains(words)
    });
}

/// `HOST:PORT` of an address that may be a URL.
fn socket(address: &str) -> SocketAddr {
    let host = address.rsplit("://").next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    host.parse().expect("an address and a port")
}

fn site(effect: &str, more: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.clean]\nkey = \"json:/id\"\n{more}source = {{ kind = \
         \"file\", path = \"in.ndjson\" }}\n[pipelines.clean.effect]\n{effect}"
    );
    Site::with(&[("semel.toml", &config)])
}

fn lines(ids: impl IntoIterator<Item = usize>) -> String {
    payments(ids).join("\n") + "\n"
}

/// The number of lines of a listing.
fn listed(site: &Site, arguments: &[&str]) -> usize {
    let listed = site.semel(&[arguments, &["--output", "jsonl"]].concat());
    listed.done().stdout.lines().count()
}

fn payloads(messages: &[Message]) -> Vec<String> {
    sorted(messages.iter().map(|it| it.payload.clone()).collect())
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

const MANY: usize = 600;
const REFUSES_TWO: &str = "message=$(cat); case $message in *-3*|*-5*) echo card stolen >&2; exit 1;; esac; \
                           echo $message >> out";
