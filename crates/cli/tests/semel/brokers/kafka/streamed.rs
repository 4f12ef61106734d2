//! Class `streamed`: a reader of committed messages finds each key once in the output, whatever happens to the
//! workers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions};
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::{Delivery, Fetched, Source};
use semel_core::{Key, Operation, Scope};

use super::{Place, Topic, runtime};
use crate::collector::Collector;
use crate::pauses::order;
use crate::ready::Admin;
use crate::site::{Running, Site, wait_for};

/// A pipeline from one topic to another.
struct Flow {
    input: Topic,
    output: Topic,
    site: Site,
}

impl Flow {
    fn with(more: &str, files: &[(&str, &str)]) -> Self {
        let (input, output) = (Topic::new(), Topic::new());
        let config = config(&input.0, &output.0, &Topic::address(), more);
        let files: Vec<_> = files
            .iter()
            .copied()
            .chain([("semel.toml", &*config)])
            .collect();
        let site = Site::with(&files);
        Self {
            input,
            output,
            site,
        }
    }

    /// Publishes a payment for each id, under its own key.
    fn publish(&self, ids: impl IntoIterator<Item = usize>) {
        let payments = ids.into_iter();
        self.put(payments.map(|id| (id, format!("{{\"id\":\"pay-{id}\"}}"))));
    }

    fn put(&self, payments: impl Iterator<Item = (usize, String)>) {
        let batch: Vec<_> = payments
            .enumerate()
            .map(|(place, (id, payload))| Publication {
                id: place.to_string().into(),
                order: Some(format!("pay-{id}").into()),
                payload: payload.into(),
                headers: Vec::new(),
            })
            .collect();
        let sink = KafkaSink::new(SinkOptions::new(&Topic::address(), &self.input.0));
        for confirmed in runtime().block_on(sink.expect("a sink").publish(&batch)) {
            confirmed.expect("it is with the broker");
        }
    }

    /// The number of times that a committed reader finds each payload, once there are at least `count` records.
    fn output(&self, count: usize) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for delivery in self.records(count) {
            let payload = String::from_utf8(delivery.payload.into()).expect("text");
            *times.entry(payload).or_default() += 1;
        }
        times
    }

    /// The records that a committed reader finds, once there are at least `count`.
    fn records(&self, count: usize) -> Vec<Delivery> {
        runtime().block_on(async {
            let group = format!("{}-reader", self.output.0);
            let options = Options::new(&Topic::address(), &self.output.0, &group);
            let mut source = KafkaSource::new(options).expect("a source");
            let mut all = Vec::new();
            loop {
                let patience = Duration::from_secs(if all.len() < count { 60 } else { 2 });
                let Ok(fetched) = tokio::time::timeout(patience, source.fetch(1_000)).await else {
                    assert!(all.len() >= count, "{} of {count} are there", all.len());
                    return all;
                };
                if let Fetched::Deliveries(deliveries) = fetched.expect("a source") {
                    all.extend(deliveries);
                }
            }
        })
    }
}

/// Makes a configuration. `more` belongs to the pipeline, and from `effect:` on to the effect.
fn config(input: &str, output: &str, brokers: &str, more: &str) -> String {
    let (pipeline, effect) = more.split_once("effect:").unwrap_or((more, ""));
    format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.clean]\nkey = \"json:/id\"\nbatch = 20\nwindow = \"30d\"\n{pipeline}\n\
         [pipelines.clean.source]\nkind = \"kafka\"\nbrokers = \"{}\"\ntopic = \"{input}\"\ngroup = \"{input}\"\n\
         [pipelines.clean.source.properties]\n\"group.instance.id\" = \"one\"\n\"session.timeout.ms\" = \"6000\"\n\
         [pipelines.clean.effect]\nkind = \"kafka\"\nclass = \"streamed\"\nbrokers = \"{brokers}\"\ntopic = \"{output}\"\n{effect}\n",
        Topic::address()
    )
}

fn once(ids: std::ops::Range<usize>) -> BTreeMap<String, usize> {
    ids.map(|id| (format!("{{\"id\":\"pay-{id}\"}}"), 1))
        .collect()
}

#[test]
fn a_pipeline_that_is_paused_and_drained_commits_each_key_once() {
    let flow = Flow::with("", &[]);
    let admin = Admin::new();
    let config = format!("{}\n{}", flow.site.text("semel.toml"), admin.table());
    flow.site.write("semel.toml", config);
    let state = || admin.ready().1["pipelines"]["clean"]["state"].clone();
    flow.publish(0..200);
    let running = flow.site.start(&["run", "--output", "json"]);
    for (verb, ids) in [("pause", 200..300), ("drain", 300..400)] {
        wait_for("a pipeline that runs", || state() == "running");
        order(&flow.site, verb, "clean");
        wait_for("a pause", || state() == "paused");
        flow.publish(ids);
        order(&flow.site, "resume", "clean");
    }
    assert_eq!(flow.output(400), once(0..400));
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("applied"), 400, "{summary:?}");
}

#[test]
fn each_key_is_put_out_once_and_its_repeats_are_counted() {
    let flow = Flow::with("", &[]);
    flow.publish((0..100).chain(40..60));
    let running = flow.site.start(&["run", "--output", "json"]);
    assert_eq!(flow.output(100), once(0..100));
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("applied"), 100, "{summary:?}");
    assert_eq!(summary.count("replayed"), 20, "{summary:?}");
}

#[test]
fn the_output_belongs_to_the_trace_of_its_message() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let flow = Flow::with("", &[]);
    let collector = Collector::new();
    flow.input.send(&[Publication {
        id: "1".into(),
        order: Some("pay-1".into()),
        payload: "{\"id\":\"pay-1\"}".into(),
        headers: vec![(
            "traceparent".into(),
            format!("00-{TRACE}-00f067aa0ba902b7-01").into(),
        )],
    }]);
    let mut command = flow.site.command();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let running = Running::start(command.arg("run"));
    let records = flow.records(1);
    running.signal(Signal::TERM);
    running.wait().done();
    let effects = collector.named("effect streamed");
    let [effect] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((&*effect.trace_id, effect.kind), (TRACE, 4));
    assert_eq!(effect.attribute("messaging.system"), "kafka");
    let destination = effect.attribute("messaging.destination.name");
    assert_eq!(destination, flow.output.0);
    let port = effect.attribute("server.port");
    assert!(Topic::address().ends_with(&format!(":{port}")), "{port}");
    let sent = records[0].headers.iter();
    let sent: Vec<_> = sent.filter(|(name, _)| *name == "traceparent").collect();
    let [(_, told)] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(&told[..], format!("00-{TRACE}-{}-01", effect.id).as_bytes());
}

#[test]
fn the_id_of_its_operation_goes_along_where_it_is_asked_for() {
    let operation = Operation::new(
        Scope::new("", "clean").expect("a scope"),
        Key::parse("pay-7").expect("a key"),
    );
    let id = operation.id().to_string();
    for (more, expected) in [("", None), ("effect:id_header = true", Some(&*id))] {
        let flow = Flow::with(more, &[]);
        flow.publish([7]);
        let running = flow.site.start(&["run"]);
        let records = flow.records(1);
        let sent = records[0].headers.iter();
        let sent = sent.filter(|(name, _)| *name == "semel-id");
        let sent: Vec<_> = sent.map(|(_, id)| &id[..]).collect();
        assert_eq!(sent, Vec::from_iter(expected.map(str::as_bytes)));
        running.signal(Signal::TERM);
        running.wait().done();
    }
}

#[test]
fn killed_workers_put_out_nothing_twice_and_lose_nothing() {
    let flow = Flow::with("", &[]);
    flow.publish((0..2_000).chain(0..100));
    for kill in 1..=3 {
        let mut running = flow.site.start(&["run"]);
        // The worker announces itself before it has done anything; after that it works for some moments.
        wait_for("a word", || running.stderr().contains("streamed"));
        std::thread::sleep(Duration::from_millis(700 * kill));
        running.signal(Signal::KILL);
        running.wait();
        flow.publish(0..100);
    }
    let running = flow.site.start(&["run", "--output", "json"]);
    assert_eq!(flow.output(2_000), once(0..2_000));
    running.signal(Signal::TERM);
    running.wait().done();
}

/// A handler that refuses one payment, and answers the others.
const NO_THREES: &str = "import json, sys\n\
                         for line in sys.stdin:\n\
                         \x20   asked = json.loads(line)\n\
                         \x20   if asked['payload']['id'] == 'pay-3':\n\
                         \x20       answer = {'id': asked['id'], 'status': 'dead', 'error': 'no threes'}\n\
                         \x20   else:\n\
                         \x20       made = {'made of': asked['payload']['id']}\n\
                         \x20       answer = {'id': asked['id'], 'status': 'done', 'result': made}\n\
                         \x20   print(json.dumps(answer), flush=True)\n";
const TRANSFORM: &str = "effect:transform = { command = [\"python3\", \"made.py\"] }";

#[test]
fn a_transform_makes_what_is_put_out() {
    let flow = Flow::with(TRANSFORM, &[("made.py", NO_THREES)]);
    flow.publish(0..10);
    let running = flow.site.start(&["run", "--output", "json"]);
    let output = flow.output(9);
    assert_eq!(output.len(), 9, "{output:?}");
    for id in [0, 9] {
        let made = output
            .keys()
            .any(|it| it.contains(&format!("\"pay-{id}\"")) && it.contains("made of"));
        assert!(made, "{output:?}");
    }
    running.signal(Signal::TERM);
    let summary = running.wait().done().summary();
    assert_eq!(summary.count("dead"), 1, "{summary:?}");
    let dead = flow
        .site
        .semel(&["dead-letters", "list", "--output", "jsonl"])
        .done();
    assert!(dead.stdout.contains("pay-3"), "{dead:?}");
}

/// Only the worker that has its partition can run a dead letter, so it goes there, with its key and its
/// headers.
#[test]
fn a_dead_letter_goes_to_its_partition_again_and_is_dropped_once_it_is_done() {
    let flow = Flow::with(TRANSFORM, &[("made.py", NO_THREES)]);
    flow.publish(0..10);
    let replay = |more: &[&str]| {
        let words = ["dead-letters", "replay", "pay-3", "--output", "json"];
        flow.site.semel(&[&words, more].concat())
    };
    let kept = || {
        let shown = ["dead-letters", "show", "pay-3", "--payload"];
        assert_eq!(flow.site.semel(&shown).done().stdout, "{\"id\":\"pay-3\"}");
    };
    let work = |until: &str, count: usize| {
        let mut running = flow.site.start(&["run", "--output", "json"]);
        wait_for("a word of it", || running.stderr().contains(until));
        let output = flow.output(count);
        running.signal(Signal::TERM);
        (output, running.wait().done().summary())
    };
    let (_, summary) = work("no threes", 9);
    assert_eq!(summary.count("dead"), 1, "{summary:?}");
    let planned = replay(&[]).code(1);
    assert!(planned.stdout.contains("published"), "{planned:?}");
    let published = replay(&["--yes"]).done();
    assert!(
        published.stdout.contains("\"published\":1,\"dropped\":0"),
        "{published:?}"
    );
    kept();
    // The message is refused again, so the same message is set aside, and still there.
    let (output, summary) = work("no threes", 9);
    assert_eq!((output.len(), summary.count("dead")), (9, 1), "{summary:?}");
    kept();
    replay(&["--yes"]).done();
    flow.site
        .write("made.py", NO_THREES.replace("'pay-3'", "'pay-x'"));
    let (output, _) = work("streamed", 10);
    assert!(
        output.keys().any(|it| it.contains("\"pay-3\"")),
        "{output:?}"
    );
    let planned = replay(&[]).code(1);
    assert!(planned.stdout.contains("done"), "{planned:?}");
    let dropped = replay(&["--yes"]).done();
    assert!(
        dropped.stdout.contains("\"published\":0,\"dropped\":1"),
        "{dropped:?}"
    );
    let none = ["dead-letters", "list", "--output", "jsonl"];
    assert_eq!(flow.site.semel(&none).done().stdout, "");
}

/// The finished operation is not what the dead letter asks for, so dropping it as done would lose it.
#[test]
fn a_dead_letter_whose_key_was_done_for_another_request_is_left_alone() {
    let flow = Flow::with(TRANSFORM, &[("made.py", NO_THREES)]);
    flow.publish([3]);
    let mut running = flow.site.start(&["run"]);
    wait_for("a word of it", || running.stderr().contains("no threes"));
    running.signal(Signal::TERM);
    running.wait().done();
    flow.site
        .write("made.py", NO_THREES.replace("'pay-3'", "'pay-x'"));
    flow.put([(3, r#"{"id":"pay-3","amount":2}"#.to_owned())].into_iter());
    let running = flow.site.start(&["run"]);
    assert_eq!(flow.output(1).len(), 1);
    running.signal(Signal::TERM);
    running.wait().done();
    for more in [&[][..], &["--yes"]] {
        let replay = [&["dead-letters", "replay", "pay-3"], more].concat();
        let refused = flow.site.semel(&replay).code(1);
        refused.says("its key belongs to another request by now");
    }
    let kept = flow
        .site
        .semel(&["dead-letters", "show", "pay-3", "--payload"]);
    assert_eq!(kept.done().stdout, "{\"id\":\"pay-3\"}");
}

#[test]
fn what_transactions_cannot_do_is_refused_with_the_setting() {
    let (input, output, here) = ("in", "out", Topic::address());
    let elsewhere = config(input, output, "elsewhere:9092", "");
    let gated = "entity = \"json:/order\"\nversion = \"json:/version\"";
    let gated = config(input, output, &here, gated);
    let cached = config(input, output, &here, "cache = { size = \"1MiB\" }");
    let doubted = config(input, output, &here, "effect:on_doubt = \"park\"");
    for (config, setting, words) in [
        (elsewhere, "effect.class", "same `brokers`"),
        (gated, "entity", "version gate"),
        (cached, "cache", "remove it"),
        (doubted, "effect.on_doubt", "does not apply"),
    ] {
        let site = Site::with(&[("semel.toml", &config)]);
        site.semel(&["run"]).code(2).says(setting).says(words);
    }
}

#[test]
fn records_without_a_key_of_their_own_end_the_run_with_a_word() {
    let flow = Flow::with("", &[]);
    flow.input.publish(&["{\"id\":\"pay-1\"}".to_owned()]);
    let ended = flow.site.semel(&["run"]);
    ended.code(2).says("no record key").says("copartitioned");
    assert!(flow.output(0).is_empty());
}

/// The check finds a missing topic before the first transaction fails for it.
#[test]
fn check_looks_at_the_topic_that_is_put_out_to() {
    let flow = Flow::with("", &[]);
    flow.publish(0..1);
    let there = flow.site.semel(&["check"]);
    assert!(!there.stdout.contains("target-unavailable"), "{there:?}");
    let config = flow.site.text("semel.toml");
    let wrong = config.replace(&flow.output.0, "absent");
    assert_ne!(config, wrong);
    flow.site.write("semel.toml", wrong);
    let absent = flow.site.semel(&["check"]).code(1);
    assert!(absent.stdout.contains("target-unavailable"), "{absent:?}");
    assert!(
        absent.stdout.contains("absent: there is no such topic"),
        "{absent:?}"
    );
}

#[test]
fn operators_see_what_the_changelog_has_and_are_told_what_cannot_be_changed() {
    let flow = Flow::with("", &[]);
    flow.publish(0..10);
    let running = flow.site.start(&["run"]);
    assert_eq!(flow.output(10), once(0..10));
    let changelog = format!("semel.{}.clean.changelog", flow.input.0);
    // The verb runs beside the worker.
    let shown = flow
        .site
        .semel(&["keys", "show", "pay-3", "--output", "json"]);
    let shown = shown.done();
    assert!(
        shown.stdout.contains("\"state\":\"completed\""),
        "{shown:?}"
    );
    let told = flow.site.semel(&["keys", "explain", "pay-3"]).done();
    assert!(told.stdout.contains("completed"), "{told:?}");
    flow.site
        .semel(&["keys", "show", "pay-10"])
        .code(1)
        .says("no record of pay-10");
    let list = flow.site.semel(&["keys", "list"]).done();
    list.says(&changelog).says("keys show KEY --pipeline clean");
    for verb in ["release", "forget", "hold"] {
        let refused = flow.site.semel(&["keys", verb, "pay-3"]).code(2);
        refused
            .says(&changelog)
            .says("[unsupported]")
            .says("keys show pay-3");
    }
    let all = ["keys", "extend", "--all", "--window", "30d"];
    let refused = flow.site.semel(&all).code(2);
    refused.says(&changelog).says("[unsupported]");
    let replay = flow.site.semel(&["replay", "--id", "r"]).code(2);
    replay.says("semel-replay-id").says("[unsupported]");
    running.signal(Signal::TERM);
    running.wait().done();
}

/// The test asks over the wire, as a balancer would, from the first moment on.
#[test]
fn a_worker_is_not_ready_while_it_restores_and_says_how_far_it_is() {
    let flow = Flow::with("", &[]);
    let port = free_port::take().expect("a free port");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let config = flow.site.text("semel.toml");
    let config =
        format!("{config}[admin]\nlisten = \"{address}\"\n").replace("batch = 20", "batch = 500");
    flow.site.write("semel.toml", config);
    flow.publish(0..5_000);
    let running = flow.site.start(&["run"]);
    wait_for("every message", || {
        ask(address, "/metrics").contains("fate=\"applied\"} 5000")
    });
    assert!(ask(address, "/readyz").starts_with("HTTP/1.1 200"));
    running.signal(Signal::TERM);
    running.wait().done();
    // The worker has to restore all of it again.
    let running = flow.site.start(&["run"]);
    let mut answers = Vec::new();
    wait_for("an answer of one that is ready", || {
        let answer = ask(address, "/readyz");
        answers.push(answer);
        let answer = answers.last().map_or("", String::as_str);
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"operations\":5000")
    });
    let restoring: Vec<_> = answers
        .iter()
        .filter(|it| it.contains("{\"state\":\"restoring\""))
        .collect();
    assert!(!restoring.is_empty(), "{answers:?}");
    assert!(restoring.iter().all(|it| it.starts_with("HTTP/1.1 503")));
    let metrics = ask(address, "/metrics");
    assert!(
        metrics.contains("semel_restoring{pipeline=\"clean\",partition=\"0\"} 0"),
        "{metrics}"
    );
    running.signal(Signal::TERM);
    running.wait().done();
    // A worker that cannot open its status address does not begin.
    let _taken = TcpListener::bind(address).expect("the port again");
    let refused = flow.site.semel(&["run"]).code(3);
    refused.says("admin.listen").says(&address.to_string());
}

/// Returns the whole answer, its head included; empty if nobody listens.
fn ask(address: SocketAddr, path: &str) -> String {
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let asked = format!("GET {path} HTTP/1.1\r\nHost: semel\r\n\r\n");
        let _ = stream.write_all(asked.as_bytes());
        let _ = stream.read_to_end(&mut answer);
    }
    String::from_utf8_lossy(&answer).into_owned()
}
