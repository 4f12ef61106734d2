//! Traces of messages that are run again: verbs send them to the collector of the configuration, as a worker does.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::collector::{Collector, Span};
use crate::site::{Site, lines};

/// A pipeline whose effect is `script`, over a folder in which `count` messages have run without a collector.
fn ran(script: &str, count: usize) -> Site {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.pay]\nsource = { kind = \"file\", path = \"in\" }\n\
         key = \"json:/id\"\npause_after = 0\nretry = { attempts = 1 }\n\
         effect = { kind = \"exec\", command = [\"sh\", \"handler.sh\"] }\n";
    let input = lines(0..count, |id| format!("{{\"id\":\"pay-{id}\"}}"));
    let site = Site::with(&[
        ("semel.toml", config),
        ("handler.sh", script),
        ("in", &input),
    ]);
    site.semel(&["run"]).done();
    site
}

/// Has the configuration name a collector.
fn trace(site: &Site, collector: &Collector) {
    let config = site.text("semel.toml");
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n",
        collector.url()
    );
    site.write("semel.toml", telemetry + &config);
}

/// The trace and the span of each line of the log that names one.
fn logged(log: &str) -> BTreeSet<(String, String)> {
    let lines = log.lines().filter(|it| it.starts_with('{'));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let named = lines.filter_map(|line| {
        let member = |name: &str| line[name].as_str().map(str::to_owned);
        Some((member("trace_id")?, member("span_id")?))
    });
    named.collect()
}

fn with(spans: &[Span], fate: &str) -> usize {
    let with = spans.iter().filter(|it| it.attribute("semel.fate") == fate);
    with.count()
}

const LOG: [&str; 4] = ["--log", "json", "--log-level", "decisions"];

#[test]
fn dead_letters_that_run_again_have_spans() {
    let collector = Collector::new();
    let site = ran("exit 1", 3);
    trace(&site, &collector);
    let forecast = site.semel(&["dead-letters", "replay", "--all"]).code(1);
    forecast.says("nothing was changed");
    assert!(collector.spans().is_empty(), "nothing ran");
    site.write(
        "handler.sh",
        "test $SEMEL_KEY = pay-0 && exit 1; echo $TRACEPARENT >> calls\n",
    );
    let again = ["dead-letters", "replay", "--all", "--yes"];
    let ended = site.semel(&[&again[..], &LOG].concat()).done();
    let processes = collector.named("process pay");
    assert_eq!(processes.len(), 3);
    assert_eq!(
        (with(&processes, "applied"), with(&processes, "dead")),
        (2, 1)
    );
    for process in &processes {
        assert_eq!(process.kind, 5);
        assert_eq!(process.attribute("semel.decision"), "granted");
        assert_eq!(process.attribute("semel.attempt"), "1", "it was requeued");
    }
    let effects = collector.named("effect exec");
    assert_eq!(effects.len(), 3);
    let applied = effects
        .iter()
        .filter(|it| it.attribute("semel.verdict") == "applied");
    let contexts = applied.map(|it| format!("00-{}-{}-03", it.trace_id, it.id));
    let told: BTreeSet<_> = site.text("calls").lines().map(str::to_owned).collect();
    assert_eq!(told, contexts.collect(), "each call is told its own span");
    let ids = processes.iter();
    let ids = ids.map(|it| (it.trace_id.clone(), it.id.clone()));
    assert_eq!(logged(&ended.stderr), ids.collect());
}

#[test]
fn a_replay_has_spans_and_names_the_source_that_it_reads() {
    let collector = Collector::new();
    let site = ran("exit 0", 3);
    trace(&site, &collector);
    let input = lines(1..5, |id| format!("{{\"id\":\"pay-{id}\"}}"));
    site.write("copies", input);
    let again = [
        "replay",
        "--id",
        "again",
        "--from",
        "copies",
        "--allow-expired",
        "--yes",
    ];
    site.semel(&again).done();
    let processes = collector.named("process pay");
    assert_eq!(processes.len(), 4);
    assert_eq!(
        (with(&processes, "applied"), with(&processes, "replayed")),
        (2, 2)
    );
    for process in &processes {
        let name = process.attribute("messaging.destination.name");
        assert!(name.ends_with("copies"), "{name}");
    }
}

#[test]
fn spans_of_a_replay_that_are_lost_are_told() {
    let collector = Collector::answering("503 Service Unavailable");
    let site = ran("exit 1", 2);
    trace(&site, &collector);
    site.write("handler.sh", "exit 0\n");
    let again = ["dead-letters", "replay", "--all", "--yes"];
    let ended = site.semel(&again).done();
    ended
        .says("spans are lost until the collector takes them")
        .says("traces: 8 spans did not reach the collector");
}
