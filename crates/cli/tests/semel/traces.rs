//! Traces over OTLP, as a collector gets them.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use semel_conformance::certificates::Authority;
use serde_json::Value;

use crate::collector::{Collector, Span};
use crate::metrics::{HANDLER, message};
use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

fn handled(telemetry: &str, input: &str) -> Site {
    let config = format!(
        "{telemetry}\n[pipelines.pay]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n\
         pause_after = 0\nretry = {{ attempts = 3, backoff = \"1ms\" }}\n[pipelines.pay.effect]\nkind = \"exec\"\n\
         protocol = \"jsonl\"\ncommand = [\"python3\", \"handler.py\"]\nclass = \"unkeyed\"\non_doubt = \"park\"\n"
    );
    Site::with(&[
        ("semel.toml", &config),
        ("handler.py", HANDLER),
        ("in", input),
    ])
}

/// The spans of the attempts, of which each is checked for its children.
#[track_caller]
pub(crate) fn attempts(spans: &[Span]) -> Vec<Span> {
    let (attempts, children): (Vec<_>, Vec<_>) = spans.iter().cloned().partition(|it| it.kind == 5);
    for child in &children {
        let parent = attempts.iter().find(|it| it.id == child.parent_id);
        let parent = parent.expect("a child has a parent");
        assert_eq!(child.trace_id, parent.trace_id);
        assert!(
            child.began_nanos >= parent.began_nanos,
            "{child:?} {parent:?}"
        );
        assert!(
            child.ended_nanos <= parent.ended_nanos,
            "{child:?} {parent:?}"
        );
    }
    attempts
}

#[test]
fn what_arrives_is_what_was_done() {
    let collector = Collector::new();
    let input = lines(0..30, |id| message(&format!("pay-{id}"), id))
        + &lines(0..10, |id| message(&format!("pay-{id}"), id))
        + &lines(0..7, |id| message(&format!("pay-{id}"), 1_000 + id))
        + &lines(0..3, |_| "{\"amount\":1}".to_owned())
        + &lines(0..5, |id| message(&format!("dead-{id}"), id))
        + &lines(0..4, |id| message(&format!("again-{id}"), id))
        + &lines(0..2, |id| message(&format!("doubt-{id}"), id));
    let telemetry = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"",
        collector.url()
    );
    let site = handled(&telemetry, &input);
    let mut command = site.command();
    command.args(["run", "--log", "json", "--log-level", "decisions"]);
    command.env("OTEL_SERVICE_NAME", "shop");
    command.env(
        "OTEL_RESOURCE_ATTRIBUTES",
        "deployment.environment.name=test",
    );
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=s3cret");
    let ended = Running::start(&mut command).wait().done();
    assert!(!ended.stderr.contains("s3cret"));

    let request = &collector.asked("/v1/traces")[0];
    assert_eq!(request.headers["content-type"], "application/x-protobuf");
    assert_eq!(request.headers["x-token"], "s3cret");
    let spans = collector.spans();
    let attempts = attempts(&spans);
    let fate = |fate: &str| {
        let of = attempts
            .iter()
            .filter(|it| it.attribute("semel.fate") == fate);
        of.count()
    };
    let fates = [
        "applied",
        "replayed",
        "conflict",
        "quarantined",
        "dead",
        "in_doubt",
        "released",
    ];
    assert_eq!(fates.map(fate), [34, 10, 7, 3, 5, 2, 4]);
    assert_eq!(attempts.len(), 65);
    let effects = collector.named("effect jsonl");
    // 30 payments, five that are declined, two doubts, and four that are tried twice.
    assert_eq!(effects.len(), 45);
    assert_eq!(collector.named("settle").len(), 45);
    assert_eq!(collector.named("claim").len(), 62);

    let told: BTreeSet<_> = site.text("calls").lines().map(str::to_owned).collect();
    let contexts = effects
        .iter()
        .map(|it| format!("00-{}-{}-03", it.trace_id, it.id));
    assert_eq!(told, contexts.collect(), "each call is told its own span");

    let declined = attempts
        .iter()
        .find(|it| it.attribute("semel.fate") == "dead");
    let declined = declined.expect("a dead letter");
    assert_eq!(declined.name, "process pay");
    assert_eq!(
        (declined.status, &*declined.status_text),
        (2, "declined ***")
    );
    assert_eq!(declined.attribute("messaging.system"), "file");
    assert!(
        declined
            .attribute("messaging.destination.name")
            .ends_with("in")
    );
    assert_eq!(declined.attribute("messaging.operation.type"), "process");
    assert_eq!(declined.attribute("semel.decision"), "granted");
    assert_eq!(declined.attribute("semel.class"), "unkeyed");
    assert_eq!(declined.attribute("semel.attempt"), "1");
    assert_eq!(declined.attribute("semel.takeover"), "false");
    assert_eq!(declined.attribute("semel.operation_id").len(), 64);
    assert_eq!(declined.attribute("semel.key_hash").len(), 16);
    assert_eq!(declined.scope.0, "semel");
    assert_eq!(declined.resource["service.name"], "shop");
    assert_eq!(declined.resource["deployment.environment.name"], "test");
    assert_eq!(declined.resource["service.instance.id"].len(), 12);
    assert!(declined.resource.contains_key("service.version"));
    let bodies: Vec<u8> = collector
        .asked("/v1/traces")
        .into_iter()
        .flat_map(|it| it.body)
        .collect();
    let bodies = String::from_utf8_lossy(&bodies);
    for key in ["pay-1", "dead-1", "again-1", "doubt-1"] {
        assert!(!bodies.contains(key), "a key in a span");
    }

    let processes = attempts
        .iter()
        .map(|it| (it.trace_id.clone(), it.id.clone()));
    assert_eq!(logged(&ended.stderr), processes.collect());
    are_explained(&site, &attempts);
}

/// Checks that `keys explain` names the trace of each attempt. No message carried one, so it has the id of the claim.
fn are_explained(site: &Site, attempts: &[Span]) {
    let claimed = |it: &&Span| it.attribute("semel.fate") != "quarantined";
    for attempt in attempts.iter().filter(claimed) {
        assert_eq!(attempt.attribute("semel.claim_id"), attempt.trace_id);
    }
    let story = site.semel(&["keys", "explain", "again-1"]).done().stdout;
    let claims = |fate: &str| {
        let named = |it: &&Span| {
            let began = format!(", claim {}", it.attribute("semel.claim_id"));
            it.attribute("semel.fate") == fate && story.contains(&began)
        };
        attempts.iter().filter(named).count()
    };
    assert_eq!((claims("released"), claims("applied")), (1, 1), "{story}");
}

/// The traces and spans that the lines of a log name.
fn logged(log: &str) -> BTreeSet<(String, String)> {
    let mut logged = BTreeSet::new();
    for line in log.lines().filter(|it| it.starts_with('{')) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(span) = line["span_id"].as_str() {
            let trace = line["trace_id"].as_str().expect("a trace");
            logged.insert((trace.to_owned(), span.to_owned()));
        }
    }
    logged
}

#[test]
fn commands_and_requests_are_told_the_span_of_the_effect() {
    let collector = Collector::new();
    let url = format!("{}/charge", collector.url());
    let with_secrets = format!("{url}?token=geheim").replace("://", "://me:geheim@");
    for (effect, name) in [
        (
            "kind = \"exec\"\ncommand = [\"sh\", \"-c\", \"echo $TRACEPARENT >> calls\"]"
                .to_owned(),
            "effect exec",
        ),
        (
            format!("kind = \"http\"\nurl = \"{with_secrets}\""),
            "effect http",
        ),
    ] {
        let config = format!(
            "[telemetry]\nkeys = \"plain\"\n[pipelines.pay]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
             key = \"json:/id\"\n[pipelines.pay.effect]\n{effect}\nclass = \"unkeyed\"\non_doubt = \"park\"\n"
        );
        let site = Site::with(&[("semel.toml", &config), ("in", &message("pay-1", 1))]);
        let mut command = site.command();
        // The variables alone are enough. The worker's own trace is not that of its messages.
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
        command.env("SEMEL__TELEMETRY__SAMPLE", "100%");
        command.env(
            "TRACEPARENT",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        );
        Running::start(command.arg("run")).wait().done();
        let effects = collector.named(name);
        assert_eq!(effects.len(), 1, "{effects:?}");
        let context = format!("00-{}-{}-03", effects[0].trace_id, effects[0].id);
        let told = match collector.asked("/charge?token=geheim").first() {
            Some(request) => {
                assert_eq!(
                    (effects[0].kind, effects[0].attribute("url.full")),
                    (3, &*url)
                );
                assert_eq!(effects[0].attribute("http.request.method"), "POST");
                let server = ["server.address", "server.port"].map(|it| effects[0].attribute(it));
                assert!(url.contains(&server.join(":")), "{server:?}");
                request.headers["traceparent"].clone()
            }
            None => site.text("calls").trim_end().to_owned(),
        };
        assert_eq!(told, context);
        assert!(!format!("{:?}", collector.spans()).contains("geheim"));
        let process = collector.named("process pay").pop().expect("a span");
        assert_eq!(process.attribute("semel.key"), "pay-1");
    }
}

#[test]
fn a_transaction_names_its_database_and_no_statement() {
    let collector = Collector::new();
    let config = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n[store]\nurl = \"sqlite:shop.db\"\n[pipelines.pay]\n\
         source = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n[pipelines.pay.effect]\n\
         kind = \"sql\"\nstatement = \"insert into charges values (:id, :amount)\"\n",
        collector.url()
    );
    let site = Site::with(&[("semel.toml", &config), ("in", &message("pay-1", 1))]);
    let made = site
        .database("shop.db")
        .execute_batch("create table charges (id, amount)");
    made.expect("a table");
    site.semel(&["run"]).done();
    let effects = collector.named("effect sql");
    let [effect] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        (effect.kind, effect.attribute("db.system.name")),
        (3, "sqlite")
    );
    assert!(!format!("{:?}", collector.spans()).contains("charges"));
}

#[test]
fn a_span_says_who_answered_the_claim() {
    for (layers, effect, fed, hit) in [
        ("", "park", 60, "store"),
        (
            "cache = { size = \"8MiB\", warm = 1000 }",
            "park",
            50,
            "cache",
        ),
        (
            "approximate = { keys = 10000, error_rate = \"0.1%\" }",
            "repeat",
            60,
            "filter",
        ),
    ] {
        let collector = Collector::new();
        let config = format!(
            "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n[store]\nurl = \"embedded:./data\"\n\
             [pipelines.pay]\nsource = {{ kind = \"file\", path = \"in\" }}\nkey = \"json:/id\"\n{layers}\n\
             effect = {{ kind = \"stdout\", on_doubt = \"{effect}\" }}\n",
            collector.url()
        );
        // The first run is without the layer, and without a trace.
        let site = Site::with(&[("semel.toml", &config.replace(layers, "")), ("in", "")]);
        site.write("in", lines(0..50, |id| message(&format!("pay-{id}"), 1)));
        let mut first = site.command();
        Running::start(first.arg("run").env("OTEL_SDK_DISABLED", "true"))
            .wait()
            .done();
        site.write("semel.toml", &config);
        if fed > 50 {
            let again = lines((100..130).chain(100..130), |id| {
                message(&format!("pay-{id}"), 1)
            });
            site.write("in", again);
        }
        site.semel(&["run"]).done();
        let spans = collector.named("process pay");
        assert_eq!(spans.len(), fed, "{hit}");
        let replays: Vec<_> = spans
            .iter()
            .filter(|it| it.attribute("semel.decision") == "replay")
            .collect();
        assert!(replays.len() >= 30, "{hit}: {}", replays.len());
        assert!(
            replays.iter().all(|it| it.attribute("semel.hit") == hit),
            "{hit}: {replays:?}"
        );
        let granted = spans
            .iter()
            .filter(|it| it.attribute("semel.decision") == "granted");
        assert!(
            granted
                .into_iter()
                .all(|it| it.attribute("semel.hit") == "store")
        );
    }
}

#[test]
fn of_a_hundredth_every_conflict_arrives() {
    let collector = Collector::new();
    let input = lines(0..2_000, |id| message(&format!("pay-{id}"), id))
        + &lines(0..100, |id| message(&format!("pay-{id}"), 10_000 + id));
    let config = format!(
        "[telemetry]\notlp = \"{}\"\n[pipelines.pay]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\neffect = {{ kind = \"stdout\", class = \"unkeyed\", on_doubt = \"park\" }}\n",
        collector.url()
    );
    let site = Site::with(&[("semel.toml", &config), ("in", &input)]);
    site.semel(&["run"]).done();
    let attempts = attempts(&collector.spans());
    let (conflicts, others): (Vec<_>, Vec<_>) = attempts
        .iter()
        .partition(|it| it.attribute("semel.decision") == "conflict");
    assert_eq!(conflicts.len(), 100);
    assert!(conflicts.iter().all(|it| it.status == 2));
    // About twenty of two thousand; that there are more than eighty does not happen.
    assert!(others.len() < 80, "{}", others.len());
    assert!(others.iter().all(|it| it.flags & 1 == 1));
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is the question"
)]
#[test]
fn a_collector_that_is_away_slows_nothing_and_its_spans_are_counted() {
    // It accepts connections, and never answers.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let places = [&mute, &gone].map(|it| it.local_addr().expect("an address"));
    drop(gone);
    for place in places {
        let config = format!(
            "[telemetry]\notlp = \"http://{place}\"\nsample = \"100%\"\n[pipelines.pay]\n\
             source = {{ kind = \"file\", path = \"in\" }}\nkey = \"line\"\n\
             effect = {{ kind = \"stdout\", class = \"unkeyed\", on_doubt = \"park\" }}\n"
        );
        let input = lines(0..20_000, |id| format!("line {id}"));
        let site = Site::with(&[("semel.toml", &config), ("in", &input)]);
        let since = Instant::now();
        let ended = site.semel(&["run", "--store", "sqlite:own.db"]).done();
        // Far above what it takes: a call that waited for the collector for each batch would take longer.
        assert!(since.elapsed() < Duration::from_secs(120));
        ended
            .says("spans are lost until the collector takes them")
            .says("traces: 80000 spans did not reach the collector");
    }
}

/// A worker of this many messages whose traces all go to a collector.
fn traced(collector: &Collector, count: usize) -> Site {
    let config = format!(
        "[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n[pipelines.pay]\n\
         source = {{ kind = \"file\", path = \"in\" }}\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\", class = \"unkeyed\", on_doubt = \"park\" }}\n",
        collector.url()
    );
    let input = lines(0..count, |id| format!("line {id}"));
    Site::with(&[("semel.toml", &config), ("in", &input)])
}

#[test]
fn a_collector_may_be_encrypted() {
    let authority = Authority::new();
    let collector = Collector::encrypted(&authority.issue("collector", &[]));
    let site = traced(&collector, 10);
    let mut command = site.command();
    command.arg("run").env("SSL_CERT_FILE", &authority.path);
    let ended = Running::start(&mut command).wait().done();
    assert!(!ended.stderr.contains("spans"), "{ended:?}");
    assert_eq!(attempts(&collector.spans()).len(), 10);
}

#[test]
fn without_certificates_to_trust_a_collector_with_the_work_goes_on() {
    let collector = Collector::encrypted(&Authority::new().issue("collector", &[]));
    let site = traced(&collector, 10);
    site.write("none.pem", "");
    let mut command = site.command();
    command.arg("run").env("SSL_CERT_FILE", "none.pem");
    command.env("SSL_CERT_DIR", "nowhere");
    let ended = Running::start(&mut command).wait().done();
    let printed = ended.stdout.lines().filter(|it| it.starts_with("line "));
    assert_eq!(printed.count(), 10, "{ended:?}");
    let told = "spans are lost until the collector takes them";
    assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is the question"
)]
#[test]
fn a_collector_with_a_wrong_certificate_is_told_once_and_slows_nothing() {
    let (trusted, other) = (Authority::new(), Authority::new());
    for (issued, words) in [
        (
            other.issue("stranger", &[]),
            "an authority that is not trusted",
        ),
        (
            trusted.issue("old", &["-days", "-1"]),
            "the time of its certificate is over",
        ),
        (
            trusted.issue_for("elsewhere", "DNS:elsewhere.example", &[]),
            "its certificate is for another name",
        ),
    ] {
        let collector = Collector::encrypted(&issued);
        let site = traced(&collector, 10_000);
        let mut command = site.command();
        command.arg("run").env("SSL_CERT_FILE", &trusted.path);
        let since = Instant::now();
        let ended = Running::start(&mut command).wait().done();
        // Far above what it takes: a message that waited for a handshake would take longer.
        assert!(since.elapsed() < Duration::from_secs(60));
        let told = "spans are lost until the collector takes them";
        assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
        let ended = ended
            .says(&format!(
                "cannot reach {}/v1/traces: no TLS: ",
                collector.url()
            ))
            .says("traces: 40000 spans did not reach the collector");
        assert_eq!(ended.stderr.matches(words).count(), 1, "{}", ended.stderr);
        assert!(collector.spans().is_empty());
    }
}

#[test]
fn lost_spans_are_counted_where_they_can_be_scraped() {
    let collector = Collector::answering("503 Service Unavailable");
    let admin = Admin::new();
    let config = format!(
        "{}[telemetry]\notlp = \"{}\"\nsample = \"100%\"\n[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\n\
         key = \"line\"\neffect = {{ kind = \"stdout\", class = \"unkeyed\", on_doubt = \"park\" }}\n",
        admin.table(),
        collector.url()
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let (input, mut messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    let running = Running::start(command.arg("run").stdin(Stdio::from(input)));
    messages.write_all(b"one\ntwo\n").expect("messages");
    wait_for("lost spans", || admin.shows("semel_spans_lost_total 8"));
    drop(messages);
    running
        .wait()
        .done()
        .says("HTTP 503 from http://127.0.0.1:");
    assert!(!collector.asked("/v1/traces").is_empty());
}

#[test]
fn settings_that_are_wrong_are_refused() {
    let site = handled(
        "[telemetry]\notlp = \"localhost:4318\"\nsample = \"200%\"",
        "",
    );
    let said = site.semel(&["run"]).code(2).says("telemetry.otlp: ").stderr;
    assert!(
        said.contains("telemetry.sample: must be a share from `0%` to `100%`"),
        "{said}"
    );
    handled("[telemetry]\nkey = \"plain\"", "")
        .semel(&["run"])
        .code(2)
        .says("telemetry.key: unknown setting");
}
