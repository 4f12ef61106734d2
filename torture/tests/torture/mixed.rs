//! `kill -9` over the cases that the other torture leaves out: the embedded store under calls to
//! the outside, one child for many messages, HTTP, standard output, two workers on one store, and a
//! kill that hits the drain of a SIGTERM.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use torture::{Moments, Payments, Provider, Run, Site, Summary, tell};

const MS: fn(u64) -> Duration = Duration::from_millis;
const RUN: &[&str] = &["run", "--output", "json"];

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_http_effect_with_keys_is_carried_out_once() {
    let mut moments = Moments::seeded(21);
    let payments = Payments::generate(6_000, &mut moments);
    let provider = Provider::start();
    let effect = format!("kind = \"http\"\nurl = \"{}\"\n{KEYED}", provider.url());
    let site = site("embedded:data", &effect, &payments);
    let killed = kill_runs(&site, 40, &mut moments, kill);
    let summary = site.run_to_the_end();
    summary.check_sum(payments.deliveries);
    assert_eq!((summary.count("dead"), summary.count("in_doubt")), (0, 0));
    check_once(&provider, &payments);
    println!("http, keyed: {} arrivals", provider.arrivals());
    report("http, keyed", killed, 40, &payments);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn two_workers_on_one_store_of_which_one_is_killed_carry_out_each_once() {
    let mut moments = Moments::seeded(22);
    let payments = Payments::generate(6_000, &mut moments);
    let provider = Provider::start();
    let effect = format!("kind = \"http\"\nurl = \"{}\"\n{KEYED}", provider.url());
    let site = site("sqlite:shop.db", &effect, &payments);
    let (mut one, mut other) = (site.start(RUN), site.start(RUN));
    let mut killed = 0;
    for _ in 0..40 {
        killed += u32::from(one.kill_after(moments.between(MS(5), MS(80))));
        one = std::mem::replace(&mut other, site.start(RUN));
    }
    let ends = [one.wait(), other.wait()];
    let mut takeovers = 0;
    for (status, stdout) in ends {
        assert!(status.success(), "{}", site.text("stderr.log"));
        let summary = Summary::parse(&stdout);
        summary.check_sum(payments.deliveries);
        assert_eq!((summary.count("dead"), summary.count("in_doubt")), (0, 0));
        takeovers += summary.count("takeovers");
    }
    check_once(&provider, &payments);
    println!("two workers: {takeovers} takeovers in the last runs");
    report("two workers", killed, 40, &payments);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_child_with_many_in_flight_keeps_to_its_class() {
    for class in [REPEAT, PARK] {
        let mut moments = Moments::seeded(23);
        let payments = Payments::generate(20_000, &mut moments);
        let effect = format!("{JSONL}{class}");
        let site = site("embedded:data", &effect, &payments);
        let killed = kill_runs(&site, 30, &mut moments, kill);
        let summary = site.run_to_the_end();
        check_class(class, &summary, &payments, site.text("calls.log").lines());
        report(class.trim(), killed, 30, &payments);
    }
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_drain_that_is_killed_repeats_nothing_that_is_parked() {
    let mut moments = Moments::seeded(24);
    let payments = Payments::generate(20_000, &mut moments);
    let site = site("embedded:data", &format!("{JSONL}{PARK}"), &payments);
    let killed = kill_runs(&site, 30, &mut moments, |run, moments| {
        let moment = moments.between(MS(20), MS(120));
        run.stop_and_kill_after(moment, moments.between(MS(0), MS(8)))
    });
    let summary = site.run_to_the_end();
    check_class(PARK, &summary, &payments, site.text("calls.log").lines());
    println!("SIGTERM, then kill: {killed} of 30 kills struck a drain");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn a_killed_printer_keeps_to_its_class() {
    for class in [REPEAT, PARK] {
        let mut moments = Moments::seeded(25);
        let payments = Payments::generate(40_000, &mut moments);
        let effect = format!("kind = \"stdout\"\n{class}");
        let site = site("embedded:data", &effect, &payments);
        let mut killed = 0;
        for _ in 0..30 {
            let run = site.start_into("out", RUN);
            killed += u32::from(kill(run, &mut moments));
        }
        let (status, _) = site.start_into("out", RUN).wait();
        assert!(status.success(), "{}", site.text("stderr.log"));
        let out = site.text("out");
        let (printed, summary) = out.trim_end().rsplit_once('\n').expect("a summary");
        let ids = printed.lines().filter_map(id_of);
        check_class(class, &Summary::parse(summary), &payments, ids);
        report(class.trim(), killed, 30, &payments);
    }
}

/// Checks that `repeat` loses none and `park` repeats none, and that every missing one is in doubt.
fn check_class<'a>(
    class: &str,
    summary: &Summary,
    payments: &Payments,
    effects: impl Iterator<Item = &'a str>,
) {
    summary.check_sum(payments.deliveries);
    assert_eq!(summary.count("dead"), 0);
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for id in effects {
        *times.entry(id).or_default() += 1;
    }
    let missing: BTreeSet<_> = payments
        .distinct
        .iter()
        .map(|payment| &*payment.id)
        .collect();
    let missing: BTreeSet<_> = missing
        .into_iter()
        .filter(|id| !times.contains_key(id))
        .collect();
    if class == REPEAT {
        assert_eq!((missing.len(), summary.count("in_doubt")), (0, 0), "lost");
    } else {
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "repeated: {twice:?}");
        let is_missing = |line: &&str| id_of(line).is_some_and(|id| missing.contains(id));
        let unheard = payments.ndjson.lines().filter(is_missing).count() as u64;
        assert!(
            unheard <= summary.count("in_doubt"),
            "{unheard} deliveries had no effect and are not all in doubt"
        );
    }
}

/// Checks that each payment was carried out once, and always requested under one key.
fn check_once(provider: &Provider, payments: &Payments) {
    let wrong = provider.wrong(payments);
    let some: Vec<_> = wrong.iter().take(10).collect();
    assert!(wrong.is_empty(), "{} are wrong, as {some:?}", wrong.len());
}

/// The payment on a line. A kill may have cut short the text before it.
fn id_of(line: &str) -> Option<&str> {
    let (_, payment) = line.rsplit_once("{\"id\":\"")?;
    let (id, _) = payment.split_once('"')?;
    payment.ends_with('}').then_some(id)
}

fn kill_runs(
    site: &Site,
    kills: u32,
    moments: &mut Moments,
    kill: impl Fn(Run, &mut Moments) -> bool,
) -> u32 {
    (0..kills)
        .map(|_| u32::from(kill(site.start(RUN), moments)))
        .sum()
}

fn kill(run: Run, moments: &mut Moments) -> bool {
    run.kill_after(moments.between(MS(5), MS(100)))
}

/// Reports a run. A run in which no kill hit it at work has tested nothing.
fn report(effect: &str, killed: u32, kills: u32, payments: &Payments) {
    println!("{effect}: {killed} of {kills} kills struck a run at work");
    assert!(
        killed * 2 > kills,
        "most kills came too late: make the input longer"
    );
    let figures = [
        ("operations", payments.deliveries),
        ("workers killed", killed.into()),
    ];
    tell(&format!("file, {effect}"), &figures);
}

fn site(store: &str, effect: &str, payments: &Payments) -> Site {
    let config = format!("[store]\nurl = \"{store}\"\n{PIPELINE}{effect}");
    Site::with(&[
        ("payments.ndjson", &payments.ndjson),
        ("semel.toml", &config),
        ("child.py", CHILD),
    ])
}

const PIPELINE: &str = r#"
[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
lease = "300ms"
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.payments.effect]
"#;

const KEYED: &str = "class = \"keyed\"\nprovider_window = \"24h\"\n";
const REPEAT: &str = "on_doubt = \"repeat\"\n";
const PARK: &str = "on_doubt = \"park\"\n";
const JSONL: &str =
    "kind = \"exec\"\nprotocol = \"jsonl\"\ncommand = [\"python3\", \"-S\", \"child.py\"]\n";

/// The child appends each key to its log, one write: the effect.
const CHILD: &str = r#"
import json, os, sys

log = os.open("calls.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    request = json.loads(line)
    os.write(log, (request["key"] + "\n").encode())
    print(json.dumps({"id": request["id"], "status": "done"}), flush=True)
"#;
