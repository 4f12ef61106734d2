//! Workers on one store that is on a server: one that is killed, and two that take in at once.

use super::*;
#[cfg(feature = "mysql")]
use crate::mysql::Database;
#[cfg(feature = "postgres")]
use crate::postgres::Schema;

/// An effect that appends its message, and waits for ever before that until there is the file `quick`.
const EFFECT: &str = "effect = { kind = \"exec\", command = [\"sh\",\"handler.sh\"], class = \"keyed\", \
                      provider_window = \"30d\" }";

fn handler(site: &Site) {
    site.write(
        "handler.sh",
        "test -e quick || { echo >> begun; sleep 30; exit 1; }\nline=$(cat)\n\
         # Its worker may have been killed before it was given the message.\ntest -n \"$line\" || exit 1\n\
         echo \"$line\" >> orders.ndjson\n",
    );
}

/// The configuration of a second worker on the same store, which takes requests elsewhere.
fn another(site: &Site, client: &Provider, other: &Provider) {
    let config = site.text("semel.toml");
    let address = client.address().to_string();
    let config = config.replace(&address, &other.address().to_string());
    site.write("other.toml", config);
}

fn start_at(site: &Site, client: &Provider, file: &str) -> Running {
    let mut running = site.start(&["run", file, "--output", "json"]);
    wait_for("a worker that takes requests", || {
        assert!(running.is_running(), "{}", running.stderr());
        let reply = client.send("GET", PATH, &[], b"");
        reply.is_some_and(|reply| reply.status == 405)
    });
    running
}

/// Messages that a worker has answered run at another one, once, when the first is killed.
fn what_was_answered_runs_at_another_worker(store: &str) {
    let (client, other) = (Provider::new(), Provider::new());
    let site = of_effect(&client, store, EFFECT, "");
    handler(&site);
    another(&site, &client, &other);
    let mut first = start_at(&site, &client, "semel.toml");
    let sent = messages("billing", 1..=5);
    let (status, answer) = said(send(&client, "billing-0a", 1, 1, &sent));
    assert_eq!((status, &answer["accepted"]), (200, &json!(5)), "{answer}");
    wait_for("an effect that is under way", || {
        site.path("begun").exists()
    });
    first.signal(Signal::KILL);
    wait_for("the end", || !first.is_running());
    site.write("quick", "");
    let second = start_at(&site, &other, "other.toml");
    wait_for("the effects", || has_lines(&site, 5));
    let again = [sent, messages("billing", 6..=6)].concat();
    let (status, answer) = said(send(&other, "billing-0a", 2, 1, &again));
    assert_eq!(status, 200, "{answer}");
    let counts = (&answer["duplicates"], &answer["accepted"]);
    assert_eq!(counts, (&json!(5), &json!(1)), "{answer}");
    wait_for("the effect of the last", || has_lines(&site, 6));
    second.signal(Signal::TERM);
    second.wait().done();
    assert_eq!(
        site.sorted_lines("orders.ndjson"),
        messages("billing", 1..=6)
    );
}

/// Two workers take in for one producer, one of which dies; an operator freezes the producer meanwhile.
fn two_workers_take_in_for_one_producer(store: &str) {
    let (client, other) = (Provider::new(), Provider::new());
    let site = of_effect(&client, store, EFFECT, "");
    handler(&site);
    site.write("quick", "");
    another(&site, &client, &other);
    let first = start_at(&site, &client, "semel.toml");
    let mut second = start_at(&site, &other, "other.toml");
    let send = |at: &Provider, sequences: std::ops::RangeInclusive<u64>| {
        let begin = *sequences.start();
        said(send(
            at,
            "billing-0a",
            1,
            begin,
            &messages("billing", sequences),
        ))
    };
    for (at, sequences, accepted) in [
        (&client, 1..=3, 3),
        (&other, 2..=6, 3),
        (&client, 6..=7, 1),
        (&other, 1..=8, 1),
    ] {
        let (status, answer) = send(at, sequences);
        assert_eq!(
            (status, &answer["accepted"]),
            (200, &json!(accepted)),
            "{answer}"
        );
    }
    wait_for("the effects", || has_lines(&site, 8));
    let verb = |verb| site.semel(&["producers", verb, "billing-0a", "--store", store, "--yes"]);
    verb("freeze").done().says("froze `billing-0a`");
    let (status, answer) = send(&other, 9..=10);
    assert_eq!((status, &answer["parked"]), (202, &json!(2)), "{answer}");
    second.signal(Signal::KILL);
    wait_for("the end", || !second.is_running());
    assert_eq!(site.text("orders.ndjson").lines().count(), 8);
    verb("thaw").done();
    wait_for("what was kept", || has_lines(&site, 10));
    first.signal(Signal::TERM);
    first.wait().done();
    let mut expected = messages("billing", 1..=10);
    expected.sort_unstable();
    assert_eq!(site.sorted_lines("orders.ndjson"), expected);
}

#[cfg(feature = "postgres")]
#[test]
fn what_was_answered_runs_at_another_worker_on_postgres() {
    let schema = Schema::new();
    what_was_answered_runs_at_another_worker(&schema.url());
}

#[cfg(feature = "mysql")]
#[test]
fn what_was_answered_runs_at_another_worker_on_mysql() {
    let database = Database::new();
    what_was_answered_runs_at_another_worker(&database.url());
}

#[cfg(feature = "postgres")]
#[test]
fn two_workers_on_postgres_take_in_for_one_producer() {
    let schema = Schema::new();
    two_workers_take_in_for_one_producer(&schema.url());
}

#[cfg(feature = "mysql")]
#[test]
fn two_workers_on_mysql_take_in_for_one_producer() {
    let database = Database::new();
    two_workers_take_in_for_one_producer(&database.url());
}

/// A producer that is silent for longer than `forget_producers` is not on record any more, and begins anew.
fn silent_producers_are_forgotten(store: &str) {
    let client = Provider::new();
    let site = site(&client, store, "forget_producers = \"15s\"");
    let config = site
        .text("semel.toml")
        .replace("window = \"7d\"", "window = \"15s\"")
        .replace("lease = \"2s\"", "lease = \"1s\"");
    site.write(
        "semel.toml",
        format!("window = {{ margin = \"0s\" }}\n{config}"),
    );
    let running = start(&site, &client);
    let billing = |epoch, sequence: u64| {
        let one = messages("billing", sequence..=sequence);
        said(send(&client, "billing-0a", epoch, sequence, &one))
    };
    assert_eq!(billing(5, 1).0, 200);
    assert_eq!(billing(5, 2).0, 200);
    wait_for("the effects", || has_lines(&site, 2));
    let listed = || {
        let list = ["producers", "list", "--store", store, "--output", "jsonl"];
        site.semel(&list).done().stdout
    };
    wait_for("nobody on record", || !listed().contains("billing-0a"));
    let (status, answer) = billing(5, 3);
    let code = &answer["code"];
    assert_eq!(
        (status, code),
        (409, &json!("producer-unknown")),
        "{answer}"
    );
    // The epoch is forgotten as well.
    let (status, answer) = billing(1, 1);
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    wait_for("the effect of its new life", || has_lines(&site, 3));
    assert_eq!(billing(1, 2).0, 200);
    wait_for("the next one", || has_lines(&site, 4));
    running.signal(Signal::TERM);
    running.wait().done().summary().is(&[("applied", 4)]);
}

#[test]
fn silent_producers_are_forgotten_on_this_machine() {
    silent_producers_are_forgotten("embedded:data");
    silent_producers_are_forgotten("sqlite:semel.db");
}

#[cfg(feature = "postgres")]
#[test]
fn silent_producers_are_forgotten_on_postgres() {
    let schema = Schema::new();
    silent_producers_are_forgotten(&schema.url());
}

#[cfg(feature = "mysql")]
#[test]
fn silent_producers_are_forgotten_on_mysql() {
    let database = Database::new();
    silent_producers_are_forgotten(&database.url());
}
