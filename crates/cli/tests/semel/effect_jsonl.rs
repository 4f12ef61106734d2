//! `kind = "exec"` with `protocol = "jsonl"`: one child, many messages in flight.

use crate::site::{Site, lines, wait_for};

fn site(body: &str, effect: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nretry = {{ attempts = 3, backoff = \"1ms\" }}\n[pipelines.p.effect]\n\
         kind = \"exec\"\nprotocol = \"jsonl\"\ncommand = [\"python3\", \"-u\", \"handler.py\"]\n{effect}\n"
    );
    let handler = format!("{PRELUDE}{body}");
    Site::with(&[
        ("semel.toml", &config),
        ("in", input),
        ("handler.py", &handler),
    ])
}

fn ids(count: u32) -> String {
    lines(0..count, |id| format!("{{\"id\":\"k{id}\"}}"))
}

fn calls(site: &Site) -> usize {
    site.text("calls.log").lines().count()
}

#[test]
fn answers_may_come_in_any_order() {
    // Answers none of the first 20 requests before all of them are there, and then in reverse order: a pipeline
    // has that many in flight before its first success.
    let body = "
requests = [next(read()) for _ in range(20)]
for request in reversed(requests):
    answer(request, 'done', result={'charged': request['key']})
for request in read():
    answer(request, 'done')
";
    let site = site(body, "", &ids(200));
    site.run().is(&[("applied", 200)]);
    let log = site.text("calls.log");
    assert_eq!(
        log.lines().count(),
        200,
        "one child was called once for each"
    );
    assert_eq!(
        site.rows("s.db", "select outcome from semel_records where key = 'k7'"),
        ["{\"charged\":\"k7\"}"]
    );
    site.run().is(&[("replayed", 200)]);
    assert_eq!(calls(&site), 200);
}

#[test]
fn every_status_has_its_fate() {
    let body = "
for request in read():
    kind = request['key']
    if kind == 'again' and request['attempt'] < 3:
        answer(request, 'retry', error='not yet', retry_after='10ms')
    elif kind == 'never':
        answer(request, 'retry', error='never')
    elif kind == 'refused':
        answer(request, 'dead', error='card refused')
    elif kind == 'unknown':
        answer(request, 'unknown', error='lost the line')
    else:
        answer(request, 'done')
";
    let input = "{\"id\":\"good\"}\n{\"id\":\"again\"}\n{\"id\":\"never\"}\n{\"id\":\"refused\"}\n{\"id\":\"unknown\"}\n";
    let site = site(body, "", input);
    site.run()
        .is(&[("applied", 2), ("dead", 2), ("in_doubt", 1)]);
    assert_eq!(calls(&site), 1 + 3 + 3 + 1 + 1);
    let log = site.text("calls.log");
    let keys: std::collections::BTreeSet<_> = log
        .lines()
        .filter(|line| line.starts_with("again "))
        .map(|line| line.split(' ').nth(2))
        .collect();
    assert_eq!(keys.len(), 1, "one idempotency key on every attempt: {log}");
    assert_eq!(
        site.rows(
            "s.db",
            "select key, reason, detail from semel_parked order by key"
        ),
        [
            "never|dead|never",
            "refused|dead|card refused",
            "unknown|in-doubt|lost the line"
        ]
    );
}

#[test]
fn the_request_carries_the_message_and_who_asks() {
    let body = "
for request in read():
    with open('got.json', 'a') as got:
        print(json.dumps(request, sort_keys=True), file=got)
    answer(request, 'done')
";
    let site = site(body, "", "{\"id\":\"a\",\"n\":12345678901234567890}\n");
    site.run().is(&[("applied", 1)]);
    let got: serde_json::Value = serde_json::from_str(&site.text("got.json")).expect("a request");
    assert_eq!(
        (&got["key"], &got["operation"], &got["attempt"]),
        (&"a".into(), &"p".into(), &1.into())
    );
    assert_eq!(got["payload"]["n"].to_string(), "12345678901234567890");
    assert_eq!(got["coordinates"], "in:1");
    assert_eq!(got["idempotency_key"], got["operation_id"]);
}

#[test]
fn a_handler_that_dies_is_started_again_and_a_keyed_effect_goes_on() {
    // Dies at its tenth request, without answering the requests in flight.
    let body = "
for count, request in enumerate(read(), 1):
    if count == 10 and not os.path.exists('died'):
        open('died', 'w').close()
        print('out of memory', file=sys.stderr)
        os._exit(1)
    if count < 10 or os.path.exists('died'):
        answer(request, 'done')
";
    let site = site(
        body,
        "class = \"keyed\"\nprovider_window = \"1h\"",
        &ids(40),
    );
    let ended = site
        .semel(&["run", "--output", "json"])
        .done()
        .says("python3: out of memory");
    ended.summary().is(&[("applied", 40)]);
    let log = site.text("calls.log");
    for id in 0..40 {
        let key = format!("k{id} ");
        assert!(
            log.lines().any(|line| line.starts_with(&key)),
            "{key} was lost"
        );
    }
}

#[test]
fn a_handler_that_dies_leaves_in_doubt_what_it_may_have_read_and_nothing_else() {
    let body = "
for count, request in enumerate(read(), 1):
    if request['key'] == 'k5':
        os._exit(1)
    answer(request, 'done')
";
    let site = site(body, "on_doubt = \"park\"", &ids(12));
    let config = site
        .text("semel.toml")
        .replace("retry =", "concurrency = 1\nretry =");
    site.write("semel.toml", config);
    site.run().is(&[("applied", 11), ("in_doubt", 1)]);
    assert_eq!(
        site.rows(
            "s.db",
            "select key from semel_operations where state = 'in_doubt'"
        ),
        ["k5"]
    );
    let log = site.text("calls.log");
    let mut keys: Vec<_> = log.lines().map(|line| line.split(' ').next()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(
        keys.len(),
        log.lines().count(),
        "nothing was called twice: {log}"
    );
}

/// A missing module: no message is dead or in doubt, and the run continues once it is there.
#[test]
fn a_handler_that_is_broken_from_the_start_kills_nothing() {
    let site = site("import nosuchmodule\n", "on_doubt = \"park\"", &ids(100));
    let handler = site.text("handler.py");
    site.write("handler.py", format!("import nosuchmodule\n{handler}"));
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a pause", || running.stderr().contains("[handler-broken]"));
    assert!(running.is_running(), "it waits");
    let mended = format!("{PRELUDE}\nfor request in read():\n    answer(request, 'done')\n");
    site.write("handler.py", mended);
    let ended = running
        .wait()
        .done()
        .says("No module named 'nosuchmodule' [handler-broken]; trying one message at a time");
    ended.summary().is(&[("applied", 100)]);
    assert_eq!(
        ended.stderr.matches("p: paused: ").count(),
        1,
        "{}",
        ended.stderr
    );
    let attempts = site.rows("s.db", "select distinct attempts from semel_records");
    assert_eq!(attempts, ["1"]);
}

#[test]
fn an_answer_that_breaks_the_protocol_is_told() {
    let body = "
for request in read():
    print('charged!', flush=True)
";
    let site = site(body, "on_doubt = \"park\"", "{\"id\":\"a\"}\n");
    site.run().is(&[("in_doubt", 1)]);
    let detail = site.rows("s.db", "select detail from semel_parked");
    assert!(
        detail[0].starts_with("the child sent an answer "),
        "{detail:?}"
    );
}

const PRELUDE: &str = "
import json, os, sys

def read():
    for line in sys.stdin:
        request = json.loads(line)
        with open('calls.log', 'a') as log:
            print(request['key'], request['attempt'], request['idempotency_key'], file=log)
        yield request

def answer(request, status, **more):
    print(json.dumps({'id': request['id'], 'status': status, **more}), flush=True)
";
