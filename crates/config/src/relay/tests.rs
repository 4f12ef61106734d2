use std::num::NonZeroU32;

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::{Fault, Overrides, Settings};

const STORE: &str = "[store]\nurl = 'postgres://me:geheim@db/shop'\n";

fn read(text: &str) -> Result<Settings, Vec<Fault>> {
    let variables = std::iter::empty();
    let overrides = Overrides::default();
    Settings::of("conf/semel.toml", text, variables, &overrides, ALL_BACKENDS)
}

fn relays(text: &str) -> Vec<RelaySettings> {
    read(text).map(|it| it.relays).unwrap_or_default()
}

fn faults(text: &str) -> Vec<String> {
    let faults = read(text).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_with_relays_alone_is_sound() {
    let text = format!(
        "{STORE}[relays.out]\nstream = 'orders'\nsink = {{ kind = 'nats', url = 'nats://hub', subject = 'orders' }}\n"
    );
    let relays = relays(&text);
    let [relay] = &*relays else {
        panic!("{:?}", faults(&text));
    };
    assert_eq!((&*relay.name, &*relay.stream), ("out", "orders"));
    assert_eq!(relay.sink.to_string(), "nats orders at hub:4222");
    assert_eq!(relay.sink.kind(), "nats");
    assert_eq!(relay.rules.lease, Duration::from_secs(10));
    assert_eq!(relay.rules.attempts, NonZeroU32::new(10).expect("ten"));
    assert_eq!(relay.rules.keep, None);
    assert!(relay.store.is_server());
    assert!(!relay.sink.to_string().contains("geheim"));
}

#[test]
fn a_relay_may_have_a_store_of_its_own_and_keep_what_it_published() {
    let text = "[relays.out]\nstore = 'postgres://me:geheim@other/shop'\nstream = 'orders'\nkeep = '1d'\nlease = '1m'\n\
                retry = { attempts = 3 }\nsink = { kind = 'file', path = 'orders.ndjson' }\n";
    let it = read(text).expect("sound settings");
    let relay = &it.relays[0];
    assert_eq!(relay.rules.keep, Some(Duration::from_secs(86_400)));
    assert_eq!(relay.rules.attempts.get(), 3);
    assert_eq!(relay.sink.to_string(), "file conf/orders.ndjson");
    let shown = it.effective.text(&["relays", "out", "store"]);
    assert_eq!(shown, Some("postgres://me:***@other/shop"));
    let http = format!(
        "{STORE}[relays.out]\nstream = 'a'\nsink = {{ kind = 'http', url = 'http://me:geheim@api/x' }}\n"
    );
    let sink = relays(&http)[0].sink.to_string();
    assert!(
        sink.starts_with("POST http://") && !sink.contains("geheim"),
        "{sink}"
    );
}

#[test]
fn an_outbox_may_be_in_an_sqlite_file() {
    let text = "[relays.out]\nstore = 'sqlite:./shop.db'\nstream = 'orders'\n\
                sink = { kind = 'file', path = 'orders.ndjson' }\n";
    let relays = relays(text);
    let [relay] = &*relays else {
        panic!("{:?}", faults(text));
    };
    assert_eq!(relay.store.to_string(), "sqlite:conf/shop.db");
    let twice = format!(
        "{text}[relays.two]\nstore = 'sqlite:shop.db'\nstream = 'orders'\n\
                         sink = {{ kind = 'file', path = 'x' }}\n"
    );
    let faults = faults(&twice);
    assert!(
        matches!(&*faults, [it] if it.contains("is published by relay `out` as well")),
        "{faults:?}"
    );
}

#[test]
fn a_relay_reads_from_mysql_as_well() {
    let text = "[relays.out]\nstore = 'mysql://me:geheim@db/shop'\nstream = 'orders'\n\
                sink = { kind = 'file', path = 'x' }\n";
    let relays = relays(text);
    let [relay] = &*relays else {
        panic!("{:?}", faults(text));
    };
    assert_eq!(relay.store.to_string(), "mysql://me:***@db/shop");
}

#[test]
fn a_bad_relay_is_told_with_its_line() {
    let sink = "sink = { kind = 'file', path = 'x' }";
    for (lines, line, why) in [
        ("stream = 'a'".to_owned(), 3, "relays.out.sink: is missing"),
        (sink.to_owned(), 3, "relays.out.stream: is missing"),
        (
            format!("stream = ''\n{sink}"),
            4,
            "relays.out.stream: must have from 1 to 255 bytes",
        ),
        (
            format!("stream = 'a'\nlease = '1s'\n{sink}"),
            5,
            "relays.out.lease: must be from `3s`",
        ),
        (
            format!("stream = 'a'\nkeep = '0s'\n{sink}"),
            5,
            "relays.out.keep: must be longer than zero",
        ),
        (
            format!("stream = 'a'\nstore = 'embedded:./x'\n{sink}"),
            5,
            "relays.out.store: an outbox is a table",
        ),
        (
            format!("stream = 'a'\nstore = 'redis://db'\n{sink}"),
            5,
            "relays.out.store: an outbox is a table",
        ),
        (
            "stream = 'a'\nsink = { kind = 'kafak' }".to_owned(),
            5,
            "relays.out.sink.kind: `kafak` is no kind of sink; did you mean `kafka`?",
        ),
        (
            format!("stream = 'a'\nkeys = 'x'\n{sink}"),
            5,
            "relays.out.keys: unknown setting",
        ),
        (
            format!("stream = 'a'\n{sink}\n[relays.two]\nstream = 'a'\n{sink}"),
            7,
            "relays.two.stream: is published by relay `out` as well",
        ),
    ] {
        let faults = faults(&format!("{STORE}[relays.out]\n{lines}\n"));
        let is_told =
            |it: &String| it.starts_with(&format!("conf/semel.toml:{line}: ")) && it.contains(why);
        assert!(
            matches!(&*faults, [it] if is_told(it)),
            "{lines}: {faults:?}"
        );
    }
    let embedded = faults(&format!("[relays.out]\nstream = 'a'\n{sink}\n"));
    assert!(
        matches!(&*embedded, [it] if it.contains("relays.out.store: an outbox is a table")),
        "{embedded:?}"
    );
}

#[test]
fn a_run_of_one_pipeline_has_no_relays() {
    let text = format!(
        "{STORE}[pipelines.p]\nkey = 'line'\nsource = {{ kind = 'stdin' }}\neffect = {{ kind = 'stdout' }}\n\
         [relays.out]\nstream = 'a'\nsink = {{ kind = 'file', path = 'x' }}\n"
    );
    assert_eq!(relays(&text).len(), 1);
    let only = Overrides {
        pipeline: Some("p".into()),
        ..Overrides::default()
    };
    let variables = std::iter::empty();
    let it = Settings::of("semel.toml", &text, variables, &only, ALL_BACKENDS);
    assert!(it.expect("sound settings").relays.is_empty());
}

#[test]
fn a_relay_has_no_name_of_a_pipeline() {
    let text = |name: &str| {
        format!(
            "{STORE}[relays.{name}]\nstream = 'a'\nsink = {{ kind = 'file', path = 'out' }}\n\
             [pipelines.pay]\nkey = 'json:/id'\nsource = {{ kind = 'file', path = 'in' }}\neffect = {{ kind = 'stdout' }}\n"
        )
    };
    assert_eq!(faults(&text("out")), [""; 0]);
    let found = faults(&text("pay"));
    assert!(
        found.len() == 1 && found[0].contains("relays.pay: is the name of a pipeline, too"),
        "{found:?}"
    );
}
