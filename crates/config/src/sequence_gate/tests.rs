use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::{Overrides, Settings};

fn read(store: &str, source: &str) -> Result<Option<GateOptions>, Vec<String>> {
    let text = format!(
        "store.url = '{store}'\n[pipelines.p]\nkey = 'header:semel-id'\neffect = {{ kind = 'stdout' }}\n\
         [pipelines.p.source]\n{source}\n"
    );
    let overrides = Overrides::default();
    let read = Settings::of(
        "semel.toml",
        &text,
        std::iter::empty(),
        &overrides,
        ALL_BACKENDS,
    );
    match read {
        Ok(mut settings) => Ok(settings.pipelines.remove(0).sequence_gate),
        Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
    }
}

const FILE: &str = "kind = 'file'\npath = 'in.ndjson'\n";

fn gate(lines: &str) -> Option<GateOptions> {
    read("embedded:./data", &format!("{FILE}{lines}")).expect("sound settings")
}

#[test]
fn one_selector_switches_the_gate_on_and_the_others_have_the_headers_of_semel() {
    assert_eq!(gate(""), None);
    let plain = gate("sequence = 'json:/n'").expect("a gate");
    let shown = [&plain.producer, &plain.epoch, &plain.sequence].map(ToString::to_string);
    assert_eq!(
        shown,
        ["header:semel-producer", "header:semel-epoch", "json:/n"]
    );
    assert_eq!(
        (plain.hold, plain.most_held),
        (Duration::from_secs(300), Some(100_000))
    );
    assert!(!plain.is_required && !plain.is_any_first && !plain.stops_at_gap);
    let all = gate(
        "producer = 'json:/by'\nrequire = true\nfirst = 'any'\non_gap = 'stop'\n\
         hold = { messages = 7, time = '2s' }",
    );
    let all = all.expect("a gate");
    assert_eq!((all.hold, all.most_held), (Duration::from_secs(2), Some(7)));
    assert!(all.is_required && all.is_any_first && all.stops_at_gap);
}

#[test]
fn what_a_broker_hands_over_at_once_bounds_what_is_held() {
    let amqp =
        "kind = 'amqp'\nurl = 'amqp://b'\nqueue = 'q'\nproducer = 'header:p'\nhold.time = '9s'\n";
    let gate = read("embedded:./d", &format!("{amqp}prefetch = 70")).expect("sound settings");
    let gate = gate.expect("a gate");
    assert_eq!(gate.most_held, None);
    assert_eq!(gate.hold, Duration::from_secs(9));
    let faults = read("embedded:./d", &format!("{amqp}hold.messages = 7")).expect_err("a bound");
    assert!(
        matches!(&*faults, [fault] if fault.contains("`prefetch` bounds how many wait")),
        "{faults:?}"
    );
}

#[test]
fn a_gate_is_refused_where_it_cannot_stand() {
    let ingest = "kind = 'ingest'\nlisten = '127.0.0.1:8283'\npath = '/in'\n";
    for (store, source, expected) in [
        (
            "embedded:./d",
            format!("{FILE}require = true"),
            "says nothing without a sequence gate",
        ),
        (
            "embedded:./d",
            format!("{FILE}producer = 'nonsense'"),
            "nonsense",
        ),
        (
            "embedded:./d",
            format!("{FILE}producer = 'line'\non_gap = 'apply'"),
            "on_gap",
        ),
        (
            "embedded:./d",
            format!("{FILE}producer = 'line'\nhold.time = '2h'"),
            "at most `1h`",
        ),
        (
            "embedded:./d",
            format!("{FILE}producer = 'line'\nhold.tim = '2h'"),
            "tim",
        ),
        (
            "embedded:./d",
            format!("{ingest}sequence = 'header:n'"),
            "sequence",
        ),
        (
            "redis://localhost",
            format!("{FILE}epoch = 'header:e'"),
            "Redis does not",
        ),
    ] {
        let faults = read(store, &source).expect_err(&source);
        assert!(
            matches!(&*faults, [fault] if fault.contains(expected)),
            "{source}: {faults:?}"
        );
    }
}
