//! Traces that no producer sampled: only hard cases arrive, a hundred claims that are lost at once and a hundred
//! conflicts.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;

use super::super::Place;
use super::super::amqp::Queue;
use super::message;
use crate::collector::{Collector, Span};
use crate::site::{Running, Site, wait_for};
use crate::traces::attempts;

const COUNT: usize = 100;

/// Writes down each call. The one that is to hold answers nothing before it has a hundred, and the file `go` is there.
const HANDLER: &str = r#"
import json, os, sys, time
hold = "HOLD" in os.environ
held = []
log = open("calls", "a")
def answer(id):
    print(json.dumps({"id": id, "status": "done"}), flush=True)
for line in sys.stdin:
    log.write("call\n")
    log.flush()
    id = json.loads(line)["id"]
    if not hold:
        answer(id)
        continue
    held.append(id)
    if len(held) == 100:
        while not os.path.exists("go"):
            time.sleep(0.005)
        for id in held:
            answer(id)
        hold = False
"#;

/// The span of a producer that did not sample its trace: the trace of message `number` of this kind.
fn parent(kind: u8, number: usize) -> String {
    format!("00-{kind:02x}{:030x}-{:016x}-00", number + 1, number + 1)
}

/// Sends messages of this kind, each with a trace of its own; returns their producers' spans by their traces.
fn send(
    queue: &Queue,
    kind: u8,
    key: &str,
    amount: usize,
    count: usize,
) -> BTreeMap<String, String> {
    let batch: Vec<_> = (0..count)
        .map(|number| {
            let payload = format!("{{\"id\":\"{key}-{number}\",\"amount\":{amount}}}");
            message(&payload, &parent(kind, number))
        })
        .collect();
    queue.send(&batch);
    let parents = (0..count).map(|number| parent(kind, number));
    parents
        .map(|it| (it[3..35].to_owned(), it[36..52].to_owned()))
        .collect()
}

/// Checks that there is one of these spans in each of these traces, below the span of the producer and linked to it.
#[track_caller]
fn are_those_of(spans: &[&Span], parents: &BTreeMap<String, String>) {
    let traces: BTreeSet<_> = spans.iter().map(|it| &it.trace_id).collect();
    assert_eq!(traces, parents.keys().collect());
    assert_eq!(spans.len(), parents.len());
    for span in spans {
        let parent = &parents[&span.trace_id];
        assert_eq!(&span.parent_id, parent);
        assert_eq!(span.links, [(span.trace_id.clone(), parent.clone())]);
        assert_eq!(span.flags & 1, 0, "nobody sampled it");
    }
}

#[test]
fn of_what_nobody_sampled_every_lost_claim_every_takeover_and_every_conflict_arrives() {
    let queues = [Queue::new(), Queue::new()];
    let collector = Collector::new();
    let config = |queue: &Queue| {
        let source = queue.source(&Queue::address());
        let source = source.replace("prefetch = 50", "prefetch = 4000");
        format!(
            "[telemetry]\notlp = \"{}\"\nsample = \"1%\"\n[store]\nurl = \"sqlite:s.db\"\n\
             [pipelines.payments]\nkey = \"json:/id\"\nlease = \"2s\"\nwindow = \"30d\"\n\
             concurrency = {COUNT}\npause_after = 0\n[pipelines.payments.effect]\nkind = \"exec\"\nprotocol = \"jsonl\"\n\
             command = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"repeat\"\n\
             [pipelines.payments.source]\n{source}",
            collector.url()
        )
    };
    let site = Site::with(&[
        ("first.toml", &config(&queues[0])),
        ("second.toml", &config(&queues[1])),
        ("handler.py", HANDLER),
    ]);
    let run = |config: &str, is_held: bool| {
        let mut command = site.command();
        command.args(["run", "--config", config, "--output", "json"]);
        if is_held {
            command.env("HOLD", "1");
        }
        Running::start(&mut command)
    };
    let found = |name: &str| {
        let spans = collector.named("process payments");
        let found = spans.iter().filter(|it| it.attribute(name) == "true");
        found.count()
    };

    // Both workers get the same messages, so that no broker moves any from one to the other.
    let lost = send(&queues[0], 1, "pay", 1, COUNT);
    assert_eq!(send(&queues[1], 1, "pay", 1, COUNT), lost);
    let zombie = run("first.toml", true);
    wait_for("every call", || site.text("calls").lines().count() == COUNT);
    zombie.signal(Signal::STOP);
    let second = run("second.toml", false);
    wait_for("every takeover", || found("semel.takeover") == COUNT);
    site.write("go", "");
    zombie.signal(Signal::CONT);
    wait_for("every lost claim", || found("semel.fenced") == COUNT);
    let ordinary = send(&queues[1], 2, "other", 1, 1_000);
    let conflicts = send(&queues[1], 3, "pay", 2, COUNT);
    wait_for("every conflict", || {
        let spans = collector.named("process payments");
        let conflicts = spans
            .iter()
            .filter(|it| it.attribute("semel.decision") == "conflict");
        conflicts.count() == COUNT
    });
    wait_for("every call", || {
        site.text("calls").lines().count() == 2 * COUNT + ordinary.len()
    });
    for worker in [&zombie, &second] {
        worker.signal(Signal::TERM);
    }
    let zombie = zombie.wait().done().summary();
    let second = second.wait().done().summary();
    zombie.is(&[("deliveries", 100), ("replayed", 100)]);
    second.is(&[
        ("deliveries", 1_200),
        ("applied", 1_100),
        ("conflicts", 100),
        ("takeovers", 100),
    ]);

    let spans = collector.spans();
    let attempts = attempts(&spans);
    let those = |name: &str, value: &str| -> Vec<&Span> {
        let those = attempts.iter();
        those.filter(|it| it.attribute(name) == value).collect()
    };
    let fenced = those("semel.fenced", "true");
    are_those_of(&fenced, &lost);
    are_those_of(&those("semel.takeover", "true"), &lost);
    are_those_of(&those("semel.follows_fence", "true"), &lost);
    are_those_of(&those("semel.decision", "conflict"), &conflicts);
    // The call that the claim was lost over is below each of them.
    for process in fenced {
        let effect = |it: &&Span| it.parent_id == process.id && it.name == "effect jsonl";
        assert_eq!(spans.iter().filter(effect).count(), 1, "{process:?}");
    }
    assert_eq!(attempts.len(), 4 * COUNT, "nothing else was sampled");
}

/// Ordinary messages, dead ends and doubts among them, and what comes again of the last two.
#[test]
fn of_what_nobody_sampled_every_dead_end_and_every_doubt_arrives() {
    let queue = Queue::new();
    let collector = Collector::new();
    let config = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"1%\"\n[store]\nurl = \"sqlite:s.db\"\n\
         [pipelines.payments]\nkey = \"json:/id\"\nwindow = \"30d\"\npause_after = 0\n\
         [pipelines.payments.effect]\nkind = \"exec\"\nprotocol = \"jsonl\"\n\
         command = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"park\"\n\
         [pipelines.payments.source]\n{}",
        collector.url(),
        queue.source(&Queue::address())
    );
    let site = Site::with(&[
        ("semel.toml", &config),
        ("handler.py", crate::metrics::HANDLER),
    ]);
    let ordinary = send(&queue, 1, "pay", 1, 1_000);
    let dead = send(&queue, 2, "dead", 1, COUNT);
    let doubts = send(&queue, 3, "doubt", 1, COUNT);
    let worker = site.start(&["run", "--output", "json"]);
    let fates = |fate: &str| {
        let spans = collector.named("process payments");
        spans
            .iter()
            .filter(|it| it.attribute("semel.fate") == fate)
            .count()
    };
    wait_for("every doubt", || fates("in_doubt") == COUNT);
    // They meet what is on record.
    let dead_again = send(&queue, 4, "dead", 1, COUNT);
    let doubts_again = send(&queue, 5, "doubt", 1, COUNT);
    wait_for("what came again", || {
        fates("in_doubt") == 2 * COUNT && fates("dead") == 2 * COUNT
    });
    wait_for("every call", || {
        site.text("calls").lines().count() == 2 * COUNT + ordinary.len()
    });
    worker.signal(Signal::TERM);
    worker
        .wait()
        .done()
        .summary()
        .is(&[("applied", 1_000), ("dead", 200), ("in_doubt", 200)]);

    let spans = collector.spans();
    let attempts = attempts(&spans);
    let of = |kind: u8, fate: &str| -> Vec<&Span> {
        let trace = format!("{kind:02x}");
        let of = attempts.iter().filter(|it| it.trace_id.starts_with(&trace));
        of.inspect(|it| assert_eq!(it.attribute("semel.fate"), fate))
            .collect()
    };
    are_those_of(&of(2, "dead"), &dead);
    are_those_of(&of(3, "in_doubt"), &doubts);
    are_those_of(&of(4, "dead"), &dead_again);
    are_those_of(&of(5, "in_doubt"), &doubts_again);
    // The call is below each of those that were called.
    let effects = spans.iter().filter(|it| it.name == "effect jsonl");
    let verdicts = effects.map(|it| (&it.trace_id[..2], it.attribute("semel.verdict")));
    let mut verdicts: Vec<_> = verdicts.collect();
    verdicts.sort_unstable();
    verdicts.dedup();
    assert_eq!(verdicts, [("02", "failed"), ("03", "maybe_applied")]);
    assert_eq!(attempts.len(), 4 * COUNT, "nothing else was sampled");
}
