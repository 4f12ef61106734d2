//! The dashboards and rules of `deploy/`: what they ask is there, on a real Prometheus that scrapes real workers.

mod board;
mod local;
mod prometheus;
mod traffic;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use self::board::{Board, names};
use self::local::Local;
use self::prometheus::Prometheus;
use self::traffic::Traffic;
use crate::claims::server::{Request, ask};
use crate::ready::Admin;
use crate::site::{Site, wait_for};

/// The time of traffic that is queried; `SEMEL_TEST_TRAFFIC_SECONDS` says another one, such as 120.
const TRAFFIC: Duration = Duration::from_secs(12);

/// Series that no worker has here: alerts on a good day, and tenants, which the pipelines here do not have.
const EMPTY: &[&str] = &["ALERTS", "semel_tenant_decisions_total"];

/// Recording rules that compare with yesterday; `measures_days.yml` plays them.
const DAILY: &[&str] = &[
    "store:semel_store_bytes:growth1d",
    "store:semel_records:growth1d",
];

#[test]
fn every_panel_and_every_rule_has_data() {
    let (admin, other) = (Admin::new(), Admin::new());
    let place = Site::new();
    let workers = [admin.address(), other.address()];
    let prometheus = Prometheus::start(&place, workers, &rules());
    let seconds = std::env::var("SEMEL_TEST_TRAFFIC_SECONDS");
    let seconds = seconds.ok().and_then(|text| text.parse().ok());
    let lasts = seconds.map_or(TRAFFIC, Duration::from_secs);
    let mut local = Local::start(&other);
    let mut traffic = Traffic::new(admin);
    traffic.flow(lasts);
    // A rate needs traffic after the first scrape.
    local.feed();

    let boards = Board::all();
    let mut asked: Vec<_> = boards.iter().flat_map(Board::queries).collect();
    asked.extend(prometheus.rules());
    for (_, query) in &asked {
        prometheus.accepts(query);
    }
    asked.retain(|(place, query)| {
        !names(query).any(|name| EMPTY.contains(&name))
            && !names(place)
                .chain(names(query))
                .any(|name| DAILY.contains(&name))
    });
    assert!(asked.len() > 40, "{}", asked.len());
    // A counter may be sampled a second later, and a rule be computed one later still.
    let mut waited = 0;
    while waited < 300 && !asked.is_empty() {
        asked.retain(|(_, query)| !prometheus.shows(query));
        std::thread::sleep(Duration::from_millis(100));
        waited += 1;
    }
    assert!(asked.is_empty(), "without a result: {asked:#?}");

    // A query that finds zeros could be wrong and still find them.
    for (query, least) in [
        ("sum(increase(semel_duplicates_total[5m]))", 20.0),
        ("max(semel_set_aside{why=\"dead\"})", 2.0),
        ("max(semel_set_aside{why=\"in_doubt\"})", 2.0),
        ("max(semel_set_aside{why=\"quarantined\"})", 4.0),
        ("sum(max_over_time(semel_store_errors_total[5m]))", 1.0),
        ("max(max_over_time(semel_breaker_open[5m]))", 1.0),
        ("1 - min(min_over_time(semel_ready[5m]))", 1.0),
        ("sum(semel_restore_operations)", 20.0),
    ] {
        wait_for(query, || {
            prometheus.values(query).iter().any(|value| *value >= least)
        });
    }
    traffic.end();
    local.end();
}

/// One worker that has every kind of family: of a pipeline, of claims, of routes, of a relay, of its stores and of itself.
#[test]
fn promtool_finds_no_fault_with_the_metrics_of_a_worker() {
    let admin = Admin::new();
    let [claims, gateway] = [(); 2].map(|()| free_port::take().expect("a free port"));
    let site = Site::with(&[("in", "a\nb\na\n")]);
    site.write(
        "semel.toml",
        format!(
            "{}[store]\nurl = \"sqlite:shop.db\"\n[claims]\nlisten = \"127.0.0.1:{claims}\"\n[gateway]\n\
             listen = \"127.0.0.1:{gateway}\"\nupstream = \"http://127.0.0.1:9\"\n[relays.out]\nstream = \"orders\"\n\
             sink = {{ kind = \"file\", path = \"out\" }}\n[pipelines.p]\nkey = \"line\"\n\
             source = {{ kind = \"file\", path = \"in\" }}\neffect = {{ kind = \"file\", path = \"done\" }}\n",
            admin.table()
        ),
    );
    let shop = "PRAGMA journal_mode = wal; CREATE TABLE orders (id)";
    let made = site.database("shop.db").execute_batch(shop);
    made.expect("a shop");
    let migrate = ["store", "migrate", "--yes", "--store", "sqlite:shop.db"];
    site.semel(&migrate).done();
    site.database("shop.db")
        .execute_batch("INSERT INTO semel_outbox (stream, payload) VALUES ('orders', 'x')")
        .expect("a message");
    let worker = site.start(&["run"]);
    wait_for("a message of the relay", || {
        admin.shows("semel_relay_published_total{relay=\"out\"} 1")
    });
    let replayed = "semel_deliveries_total{pipeline=\"p\",fate=\"replayed\"} 1";
    wait_for("a duplicate", || admin.shows(replayed));
    let claim = Request {
        headers: vec![("content-type", "application/json")],
        body: br#"{"operation":"charge","key":"k"}"#,
        ..Request::get("/v1/claims").with_method("POST")
    };
    assert_eq!(ask(claims, &claim).status, 200);
    let keyed = Request {
        headers: vec![("idempotency-key", "k")],
        ..Request::get("/charges").with_method("POST")
    };
    assert_eq!(ask(gateway, &keyed).status, 502);
    let claimed = "semel_decisions_total{pipeline=\"charge\",decision=\"granted\"} 1";
    wait_for("the claim", || admin.shows(claimed));
    let answer = admin.metrics();
    let (_, metrics) = answer.split_once("\r\n\r\n").expect("an answer");
    prometheus::has_no_fault(metrics);
    worker.signal(Signal::TERM);
    worker.wait().done();
}

#[test]
fn dashboards_are_whole_and_told_in_the_book() {
    let book = std::fs::read_to_string(root().join(BOOK)).expect("the page");
    let mut uids = BTreeSet::new();
    for board in Board::all() {
        board.is_whole(&book);
        assert!(uids.insert(board.uid()), "{}", board.uid());
    }
}

/// The files of rules.
fn rules() -> [PathBuf; 2] {
    let folder = root().join("deploy/prometheus");
    ["rules.yml", "alerts.yml"].map(|name| folder.join(name))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const BOOK: &str = "docs/book/src/operations/dashboards.md";
