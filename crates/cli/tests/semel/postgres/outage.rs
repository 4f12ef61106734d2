//! A store that goes away and comes back during a run.

use std::io::{BufRead, BufReader, Write};
use std::net::ToSocketAddrs;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use semel_conformance::proxy::Proxy;
use serde_json::Value;

use super::{Schema, server};
use crate::ready::Admin;
use crate::site::{Site, read_all, wait_for};

/// A run that reads messages as they are written, with a proxy before its store.
struct Worker {
    schema: Schema,
    proxy: Proxy,
    admin: Admin,
    site: Site,
    child: Child,
    input: ChildStdin,
    told: Arc<Mutex<String>>,
    telling: JoinHandle<()>,
}

/// A proxy before the server, and the url of the store that leads through it.
pub(super) fn through_proxy(schema: &Schema) -> (Proxy, String) {
    let place = server().split_once('@').expect("a user").1.to_owned();
    let (host, database) = place.split_once('/').expect("a database");
    let upstream = host.to_socket_addrs().expect("an address").next();
    let entered = schema.runtime.enter();
    let proxy = Proxy::start(upstream.expect("an address"));
    drop(entered);
    let url = schema.url().replace(host, &proxy.address().to_string());
    assert!(url.contains(database));
    (proxy, url)
}

impl Worker {
    fn start(fail: &str) -> Self {
        let schema = Schema::new();
        let (proxy, url) = through_proxy(&schema);
        let admin = Admin::new();
        let config = format!(
            "[store]\nurl = \"{url}\"\n{}[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
             fail = \"{fail}\"\neffect = {{ kind = \"exec\", command = [\"sh\", \"-c\", 'echo $(cat) >> out'], \
             on_doubt = \"repeat\" }}\n",
            admin.table()
        );
        let site = Site::with(&[("semel.toml", &config), ("out", "")]);
        let mut command = site.command();
        let mut child = command
            .args(["run", "--output", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("semel");
        let input = child.stdin.take().expect("a pipe");
        let told = Arc::new(Mutex::new(String::new()));
        let (lines, heard) = (child.stderr.take().expect("a pipe"), Arc::clone(&told));
        let telling = std::thread::spawn(move || {
            for line in BufReader::new(lines).lines() {
                let line = line.expect("text");
                let mut heard = heard.lock().expect("no panic");
                heard.extend([&*line, "\n"]);
            }
        });
        Self {
            schema,
            proxy,
            admin,
            site,
            child,
            input,
            told,
            telling,
        }
    }

    /// Adds up the samples of a family of metrics that counts.
    fn sum(&self, family: &str) -> u64 {
        let text = self.admin.metrics();
        let of_family = text.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(family)?.rsplit_once(' ')?;
            labels.starts_with('{').then(|| value.parse::<u64>())
        });
        of_family.map(|value| value.expect("a number")).sum()
    }

    fn tells(&self, words: &str) {
        wait_for(words, || {
            self.told.lock().expect("no panic").contains(words)
        });
    }

    fn send(&mut self, ids: std::ops::Range<u32>) {
        for id in ids {
            writeln!(self.input, "{{\"id\":{id}}}").expect("a reader");
        }
    }

    fn happened(&self, count: usize) {
        let out = self.site.path("out");
        wait_for("the effects", || {
            std::fs::read_to_string(&out).is_ok_and(|text| text.lines().count() >= count)
        });
    }

    fn cut_off(&self) {
        self.proxy.refuse(true);
        self.proxy.cut_now();
    }

    /// Returns the schema, the summary, the messages meanwhile, and the effects.
    fn end(self) -> (Schema, Value, String, Vec<String>) {
        let Self {
            schema,
            proxy: _proxy,
            admin: _,
            site,
            mut child,
            input,
            told,
            telling,
        } = self;
        drop(input);
        let printed = read_all(child.stdout.take().expect("a pipe"));
        telling.join().expect("no panic");
        let told = told.lock().expect("no panic").clone();
        assert!(child.wait().expect("a child").success(), "{told}");
        let summary = serde_json::from_str(printed.trim()).expect("a summary");
        (schema, summary, told, site.sorted_lines("out"))
    }
}

#[test]
fn messages_wait_for_a_store_that_is_away_and_go_on_without_a_restart() {
    let mut worker = Worker::start("closed");
    worker.send(0..20);
    worker.happened(20);
    worker.cut_off();
    worker.send(20..40);
    worker.tells("the store is away");
    assert_eq!(
        worker.site.sorted_lines("out").len(),
        20,
        "nothing began without a claim"
    );
    worker.proxy.heal();
    worker.happened(40);
    let (schema, summary, told, effects) = worker.end();
    assert_eq!(summary["applied"], 40, "{told}");
    assert_eq!(summary["unprotected"], Value::Null);
    assert_eq!(effects.len(), 40, "{effects:?}");
    assert_eq!(schema.count("records"), 40);
    assert_eq!(told.matches("the store is away").count(), 1, "{told}");
    assert_eq!(told.matches("the store answers again").count(), 1, "{told}");
}

#[test]
fn a_pipeline_that_fails_open_runs_unprotected_and_says_so() {
    let mut worker = Worker::start("open");
    worker.send(0..20);
    worker.happened(20);
    worker.cut_off();
    // Messages in flight when the store went may be claimed, and wait; later ones run.
    worker.send(20..21);
    worker.tells("the store is away");
    worker.send(21..40);
    worker.happened(39);
    assert_eq!(worker.schema.count("records"), 20, "no record of them");
    worker.proxy.heal();
    worker.happened(40);
    let (schema, summary, told, effects) = worker.end();
    let unprotected = summary["unprotected"].as_u64().expect("a count");
    assert!((1..=20).contains(&unprotected), "{summary}");
    assert_eq!(
        summary["applied"].as_u64(),
        Some(40 - unprotected),
        "{summary}"
    );
    assert_eq!(effects.len(), 40, "each of them once: {effects:?}");
    assert_eq!(schema.count("records"), 40 - unprotected);
    assert!(told.contains("FAILS OPEN"), "{told}");
    assert_eq!(told.matches("unprotected: attempt").count(), 1, "{told}");
}

#[test]
fn each_call_that_fails_is_an_error_of_the_store() {
    const CUTS: u32 = 7;
    let mut worker = Worker::start("closed");
    worker.send(0..1);
    worker.happened(1);
    wait_for("the first sample", || {
        worker.sum("semel_store_call_seconds_count") > 0
    });
    assert_eq!(worker.sum("semel_store_errors_total"), 0);
    for cut in 1..=CUTS {
        worker.proxy.cut_before_answer(1);
        worker.send(cut..cut + 1);
        worker.happened(cut as usize + 1);
        let cut = u64::from(cut);
        wait_for("the error", || {
            worker.sum("semel_store_errors_total") >= cut
        });
        assert_eq!(worker.sum("semel_store_errors_total"), cut);
    }
    let calls = worker.sum("semel_store_call_seconds_count");
    assert!(calls >= u64::from(2 * (CUTS + 1) + CUTS), "{calls}");
    let (schema, summary, told, effects) = worker.end();
    assert_eq!(summary["applied"], CUTS + 1, "{told}");
    assert_eq!(effects.len(), CUTS as usize + 1, "{effects:?}");
    assert_eq!(schema.count("records"), u64::from(CUTS) + 1);
}

#[test]
fn each_message_whose_claim_has_no_answer_waits_for_the_store() {
    let mut worker = Worker::start("open");
    worker.send(0..1);
    worker.happened(1);
    let (mut waited, mut sent) = (0, 1);
    let series = "semel_waits_total{pipeline=\"p\",why=\"store\"}";
    while waited < 3 {
        worker.admin.tells("semel_in_flight{pipeline=\"p\"}", 0);
        // The answer to the claim is lost, and then the store is away. Now and then the worker's own look, or its question
        // about pauses, loses it instead, and the message runs.
        worker.proxy.refuse(true);
        worker.proxy.cut_before_answer(1);
        worker.send(sent..sent + 1);
        sent += 1;
        let runs = |worker: &Worker| worker.site.text("out").lines().count() == sent as usize;
        let waits = format!("{series} {}", waited + 1);
        wait_for("a message that runs or waits", || {
            runs(&worker) || worker.admin.shows(&waits)
        });
        waited += u32::from(!runs(&worker));
        worker.admin.tells(series, waited);
        worker.proxy.heal();
        worker.happened(sent as usize);
        worker.admin.tells(series, waited);
        assert!(sent < 100, "{}", worker.admin.metrics());
    }
    let (_, summary, told, effects) = worker.end();
    assert_eq!(summary["deliveries"], sent, "{told}");
    assert_eq!(effects.len(), sent as usize, "{effects:?}");
}
