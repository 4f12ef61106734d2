use std::ffi::OsString;

use semel_engine::trace::SampleShare;

use super::*;
use crate::all_backends::ALL_BACKENDS;
use crate::settings::{Overrides, Settings};

const PIPELINE: &str = "[pipelines.pay]\nsource = { kind = \"stdin\" }\nkey = \"line\"\n\
                        effect = { kind = \"stdout\", class = \"unkeyed\", on_doubt = \"park\" }\n";

fn load(telemetry: &str, variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let text = format!("{telemetry}\n{PIPELINE}");
    let owned = variables
        .iter()
        .map(|(name, value)| (OsString::from(*name), OsString::from(*value)));
    Settings::of(
        "semel.toml",
        &text,
        owned,
        &Overrides::default(),
        ALL_BACKENDS,
    )
    .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn read(telemetry: &str, variables: &[(&str, &str)]) -> TelemetrySettings {
    load(telemetry, variables).expect("sound").telemetry
}

fn url(telemetry: &str, variables: &[(&str, &str)]) -> Option<String> {
    read(telemetry, variables).collector.map(|it| it.url)
}

#[test]
fn without_a_collector_there_are_no_traces() {
    let settings = read("", &[]);
    assert!(settings.collector.is_none());
    assert_eq!(settings.sample, SampleShare::per_million(10_000));
    assert!(!settings.has_plain_keys);
    assert!(
        read("[telemetry]\nsample = \"100%\"", &[])
            .collector
            .is_none()
    );
}

#[test]
fn traces_go_below_the_url_of_the_collector() {
    for (base, expected) in [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp?token=x", "https://c/otlp/v1/traces?token=x"),
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
    ] {
        let found = url(&format!("[telemetry]\notlp = \"{base}\""), &[]);
        assert_eq!(found.as_deref(), Some(expected));
        let found = url("", &[(ENDPOINT, base)]);
        assert_eq!(found.as_deref(), Some(expected), "the variable alone");
    }
}

#[test]
fn the_file_goes_before_the_variables_of_everybody() {
    let file = "[telemetry]\notlp = \"http://file:1\"";
    let own = [("SEMEL__TELEMETRY__OTLP", "http://own:2")];
    let all = [(ENDPOINT, "http://all:3"), (SERVICE, "shop")];
    assert_eq!(url(file, &all).as_deref(), Some("http://file:1/v1/traces"));
    assert_eq!(url(file, &own).as_deref(), Some("http://own:2/v1/traces"));
    let exact = [
        (ENDPOINT, "http://all:3"),
        (TRACES_ENDPOINT, "http://t:4/x"),
    ];
    assert_eq!(url("", &exact).as_deref(), Some("http://t:4/x"), "as it is");
    let shown = load("", &[(ENDPOINT, "http://u:p@all:3")]).expect("sound");
    let shown = shown.effective.toml(true);
    assert!(
        shown.contains(&format!(
            "otlp = \"http://***@all:3/v1/traces\"  # {ENDPOINT}"
        )),
        "{shown}"
    );
}

#[test]
fn a_secret_in_the_url_of_the_collector_is_shown_nowhere() {
    let secret = "https://user:pass-word@c/otlp?token=query-word";
    let file = format!("[telemetry]\notlp = \"{secret}\"");
    let own = [("SEMEL__TELEMETRY__OTLP", secret)];
    for (file, variables) in [(&*file, &[][..]), ("", &own[..])] {
        let settings = load(file, variables).expect("sound");
        let effective = &settings.effective;
        for shown in [effective.toml(true), effective.json(true)] {
            assert!(!shown.contains("-word"), "{shown}");
            assert!(shown.contains("https://***@c/otlp?token=***"), "{shown}");
        }
        let collector = settings.telemetry.collector.expect("one");
        assert!(collector.url.contains("pass-word"), "what is sent to");
    }
}

#[test]
fn a_variable_switches_all_of_it_off() {
    let file = "[telemetry]\notlp = \"http://file:1\"";
    for (name, value) in [(DISABLED, "TRUE"), (EXPORTER, "none")] {
        assert_eq!(url(file, &[(name, value)]), None);
        let faulty = [(name, value), (ENDPOINT, "nowhere"), (HEADERS, "x")];
        assert_eq!(url("", &faulty), None, "and their faults");
    }
    assert!(url(file, &[(DISABLED, "false"), (EXPORTER, "otlp")]).is_some());
    assert!(url(file, &[(DISABLED, "")]).is_some(), "not set");
}

#[test]
fn shares_are_read_to_the_millionth() {
    for (text, per_million) in [
        ("0%", 0),
        ("1%", 10_000),
        ("1 %", 10_000),
        ("0.05%", 500),
        ("33.3333%", 333_333),
        ("100%", 1_000_000),
        ("100.0%", 1_000_000),
    ] {
        let settings = read(&format!("[telemetry]\nsample = \"{text}\""), &[]);
        let expected = SampleShare::per_million(per_million);
        assert_eq!(settings.sample, expected, "{text}");
    }
    for text in [
        "",
        "%",
        "1",
        "0.5",
        "-1%",
        "+1%",
        "101%",
        "100.0001%",
        "1e2%",
        "1.%",
        ".5%",
        "1,5%",
        "0.00001%",
        "99999999999%",
        "all",
    ] {
        let faults = load(&format!("[telemetry]\nsample = \"{text}\""), &[]).err();
        let faults = faults.expect(text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with("semel.toml:2: telemetry.sample: must be a share from `0%`"),
            "{faults:?}"
        );
    }
}

#[test]
fn keys_are_hashed_unless_they_are_to_be_plain() {
    assert!(read("[telemetry]\nkeys = \"plain\"", &[]).has_plain_keys);
    assert!(!read("[telemetry]\nkeys = \"hashed\"", &[]).has_plain_keys);
    let faults = load("[telemetry]\nkeys = \"plane\"", &[]).err();
    assert!(faults.expect("no form")[0].contains("telemetry.keys: `plane` is unknown"));
}

#[test]
fn a_url_that_is_none_is_refused_where_it_is_written_and_not_repeated() {
    for base in [
        "localhost:4318",
        "grpc://secret:4317",
        "http://",
        "http://h:port",
    ] {
        let faults = load(&format!("[telemetry]\notlp = \"{base}\""), &[]).err();
        let faults = faults.expect(base);
        assert!(
            faults[0].starts_with("semel.toml:2: telemetry.otlp: "),
            "{faults:?}"
        );
        let settings = read("", &[(ENDPOINT, base)]);
        assert!(settings.collector.is_none(), "{base}");
        let [note] = &settings.notes[..] else {
            panic!("{:?}", settings.notes)
        };
        assert!(note.starts_with(ENDPOINT), "{note}");
        assert!(!note.contains("secret"), "{note}");
    }
}

#[test]
fn headers_are_taken_from_variables_and_shown_nowhere() {
    let variables = [
        (ENDPOINT, "http://c:4318"),
        (HEADERS, "Authorization=Basic%20c2VjcmV0, x-team = shop"),
        (TRACES_HEADERS, "X-Team=traces"),
    ];
    let settings = load("", &variables).expect("sound");
    let headers = settings.telemetry.collector.clone().expect("one").headers;
    let has = |name: &str, value: &str| {
        let pair = (name.to_owned(), value.to_owned());
        assert!(headers.contains(&pair), "{headers:?}");
    };
    has("Content-Type", "application/x-protobuf");
    has("Authorization", "Basic c2VjcmV0");
    has("X-Team", "traces");
    assert_eq!(headers.len(), 3);
    let shown = format!(
        "{:?}{}{}",
        settings.telemetry,
        settings.effective.toml(true),
        settings.effective.json(true)
    );
    assert!(!shown.contains("c2VjcmV0"), "{shown}");
    for bad in ["secret", "=secret", "a b=secret", "x=a%0Asecret"] {
        for name in [HEADERS, TRACES_HEADERS] {
            let settings = read("", &[(ENDPOINT, "http://c:4318"), (name, bad)]);
            assert_eq!(settings.collector.expect("one").headers.len(), 1);
            let [note] = &settings.notes[..] else {
                panic!("{:?}", settings.notes)
            };
            assert!(note.starts_with(&format!("{name}: ")), "{note}");
            assert!(!note.contains("secret"), "{note}");
            let alone = read("", &[(name, bad)]);
            assert!(alone.notes.is_empty(), "without a collector");
        }
    }
}

#[test]
fn another_protocol_switches_off_what_the_variables_ask_for() {
    let asked = [(ENDPOINT, "http://c:4317"), (PROTOCOL, "grpc")];
    let settings = read("", &asked);
    assert!(settings.collector.is_none());
    assert!(
        settings.notes[0].starts_with(PROTOCOL),
        "{:?}",
        settings.notes
    );
    let file = "[telemetry]\notlp = \"http://file:1\"";
    assert!(
        read(file, &asked).collector.is_some(),
        "ours is of one kind"
    );
    let exact = [asked[0], asked[1], (TRACES_PROTOCOL, SPOKEN)];
    assert!(read("", &exact).collector.is_some());
}

#[test]
fn attributes_that_are_no_list_are_ignored_with_a_note() {
    let bad = (ATTRIBUTES, "nothing");
    let settings = read("", &[(ENDPOINT, "http://c:4318"), bad]);
    assert_eq!(settings.resource, [service("semel")]);
    assert!(settings.notes[0].starts_with(ATTRIBUTES));
    assert!(read("", &[bad]).notes.is_empty());
}

#[test]
fn the_resource_is_named_by_variables() {
    let resource = |variables: &[(&str, &str)]| {
        let collector = [(ENDPOINT, "http://c:4318")];
        read("", &[&collector[..], variables].concat()).resource
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(resource(&[]), [pair("service.name", "semel")]);
    let attributes = (
        ATTRIBUTES,
        "service.name=a,deployment.environment.name=t%2Ce",
    );
    let environment = pair("deployment.environment.name", "t,e");
    assert_eq!(
        resource(&[attributes]),
        [pair("service.name", "a"), environment.clone()]
    );
    assert_eq!(
        resource(&[attributes, (SERVICE, "shop")]),
        [environment, pair("service.name", "shop")]
    );
}
