//! `semel producers` and `semel check` on a producer whose messages wait: without a broker.

use rustix::process::Signal;
use semel_backends::{BACKENDS, producers};
use semel_config::StoreUrl;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, Opening, ProducerMessage, encode};
use semel_core::{Clock, Timestamp};
use semel_engine::system::SystemClock;

use crate::operator::{items, object};
use crate::ready::Admin;
use crate::site::{Running, Site, wait_for};

/// Appends a message at this time, as the producer `billing`.
fn appended(site: &Site, at: Timestamp) {
    appended_to(&StoreUrl::Sqlite(site.path("s.db")), at);
}

fn appended_to(url: &StoreUrl, at: Timestamp) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let journal = producers::open(url).expect("a journal");
        let opening = Opening {
            name: "billing".parse().expect("a name"),
            stream: "orders".into(),
            target: "kafka here".into(),
            chance: [7; 8],
        };
        let opened = journal.open(&opening).await.expect("opened");
        let batch = Batch {
            first: opened.next,
            count: 1,
            body: encode(&[ProducerMessage::new("a")]),
            input: None,
            confirmed: 0,
            at,
        };
        let appended = journal.append(&opened.incarnation, "orders", &batch).await;
        appended.expect("appended");
    });
}

fn site() -> Site {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"line\"\neffect = { kind = \"stdout\" }\n";
    Site::with(&[("semel.toml", config), ("in", "a\n")])
}

/// A worker on this store that serves claims, and what it counts.
pub(crate) fn worker(site: &Site, url: &str) -> (Running, Admin) {
    let admin = Admin::new();
    let claims = free_port::take().expect("a free port");
    let config = format!(
        "{}[store]\nurl = \"{url}\"\n[claims]\nlisten = \"127.0.0.1:{claims}\"\n",
        admin.table()
    );
    site.write("semel.toml", config);
    let worker = site.start(&["run"]);
    (worker, admin)
}

/// The value of a family of `billing`, if it has a series.
pub(crate) fn of_billing(admin: &Admin, family: &str) -> Option<f64> {
    let text = admin.metrics();
    let mut lines = text.lines();
    let begin = format!("semel_producer_{family}{{store=\"");
    let line = lines.find(|it| it.starts_with(&begin) && it.contains("producer=\"billing\""))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// A worker tells of the messages that wait in its store, and of those that are kept, whoever publishes them.
pub(crate) fn a_worker_tells_what_waits(site: &Site, url: &str) {
    let (worker, admin) = worker(site, url);
    let of_billing = |family: &str| of_billing(&admin, family);
    wait_for("a worker", || admin.ready().0);
    let url = StoreUrl::parse(url, BACKENDS.servers).expect("a url");
    let now = SystemClock::new().now();
    appended_to(&url, now.minus(std::time::Duration::from_secs(2_000)));
    wait_for("what waits", || of_billing("backlog") == Some(1.0));
    assert_eq!(of_billing("kept"), Some(0.0));
    let age = of_billing("oldest_seconds").unwrap_or_default();
    assert!((2_000.0..3_000.0).contains(&age), "{age}");
    let freeze = ["producers", "freeze", "billing", "--yes"];
    site.semel(&freeze).done();
    wait_for("what is kept", || of_billing("kept") == Some(1.0));
    assert_eq!(of_billing("oldest_seconds"), Some(0.0));
    worker.signal(Signal::TERM);
    let ended = worker.wait().done();
    assert!(!ended.stderr.contains("for producers"), "{ended:?}");
}

#[test]
fn a_worker_tells_what_waits_in_a_folder() {
    let site = Site::new();
    let url = format!("embedded:{}", site.path("data").display());
    a_worker_tells_what_waits(&site, &url);
}

#[test]
fn a_worker_tells_what_waits_in_a_file() {
    let site = Site::new();
    let url = format!("sqlite:{}", site.path("s.db").display());
    a_worker_tells_what_waits(&site, &url);
}

#[test]
fn orders_about_a_producer_are_in_the_audit_trail() {
    let site = site();
    appended(&site, SystemClock::new().now());
    let order = |verb: &str, more: &[&str]| {
        let order = [&["producers", verb, "billing"], more].concat();
        site.semel(&order)
    };
    order("freeze", &[]).code(1);
    let with = ["--yes", "--by", "ada", "--reason", "case 4711"];
    order("freeze", &with).done();
    order("release", &["--yes", "--by", "ada"]).done();
    order("thaw", &["--yes", "--by", "bob"]).done();
    let audit = || items(&site.semel(&["store", "audit", "--output", "json"]).done());
    let entries = audit();
    let of = |at: usize, member: &str| entries[at][member].as_str().unwrap_or("").to_owned();
    let entry = |at| ["action", "by", "before", "after", "reason"].map(|it| of(at, it));
    assert_eq!(entries.len(), 3, "a plan enters nothing: {entries:?}");
    let frozen = [
        "producer-freeze",
        "ada",
        "billing: open",
        "billing: frozen",
        "case 4711",
    ];
    assert_eq!(entry(0), frozen);
    let released = "billing: frozen, released until then";
    let before = "billing: frozen, 1 kept";
    assert_eq!(entry(1), ["producer-release", "ada", before, released, ""]);
    assert_eq!(
        entry(2),
        ["producer-thaw", "bob", before, "billing: open", ""]
    );
    order("release", &["--yes"]).code(1).says("is not frozen");
    assert_eq!(audit().len(), 3, "what is refused enters nothing");
}

#[test]
fn an_export_says_which_producers_it_leaves_out() {
    let site = site();
    site.semel(&["run"]).done();
    let quiet = site
        .semel(&["store", "export", "--to", "none.jsonl"])
        .done();
    assert!(!quiet.stderr.contains("producer"), "{quiet:#?}");
    appended(&site, SystemClock::new().now());
    let left = "not in the export, and still in sqlite:s.db: 1 producer that publishes from it, 1 waiting message: \
                semel producers list";
    let told = site.semel(&["store", "export", "--to", "file.jsonl"]);
    told.done().says(left);
    let piped = site.semel(&["store", "export"]).done().says(left);
    assert!(piped.stdout.starts_with("{\"semel_export\":"), "{piped:#?}");
    assert!(!piped.stdout.contains("billing"), "{piped:#?}");
}

#[test]
fn messages_that_wait_for_long_are_found() {
    let site = site();
    let now = SystemClock::new().now();
    let check = || site.semel(&["check", "--output", "jsonl"]).done().stdout;
    appended(&site, now);
    let found = check();
    assert!(
        !found.contains("producer-"),
        "a young one is not told: {found}"
    );
    let site = self::site();
    appended(&site, now.minus(std::time::Duration::from_secs(2 * 3_600)));
    let check = || {
        let lines = site.semel(&["check", "--output", "jsonl"]).done();
        let last = lines.stdout.lines().last().unwrap_or_default().to_owned();
        serde_json::from_str::<serde_json::Value>(&last).expect("an object")
    };
    let report = check();
    assert_eq!(
        (&report["producer"], &report["waiting"], &report["frozen"]),
        (&"billing".into(), &1.into(), &false.into())
    );
    assert_eq!(report["findings"][0]["code"], "producer-waiting");
    let strict = site.semel(&["check", "--strict"]).code(1).stdout;
    assert!(strict.contains("the oldest for 2h"), "{strict}");
    site.semel(&["producers", "freeze", "billing", "--yes"])
        .done();
    assert_eq!(check()["findings"][0]["code"], "producer-frozen");
    let shown = object(
        &site
            .semel(&["producers", "show", "billing", "--output", "json"])
            .done(),
    );
    assert_eq!(shown["epoch"], 1, "a check opens nothing");
}

#[test]
fn a_damaged_producer_hides_no_other_and_is_named() {
    let site = Site::new();
    let url = StoreUrl::Embedded(site.path("data"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let journal = producers::open(&url).expect("a journal");
        for name in ["billing", "till"] {
            let opening = Opening {
                name: name.parse().expect("a name"),
                stream: "orders".into(),
                target: "kafka here".into(),
                chance: [7; 8],
            };
            journal.open(&opening).await.expect("opened");
        }
    });
    let producers = |arguments: &[&str]| {
        let arguments = [&["producers"], arguments, &["--store", "embedded:data"]].concat();
        site.semel(&arguments)
    };
    producers(&["list"]).done();
    site.write("data/producers/billing.journal", "no log");
    let listed = producers(&["list", "--output", "jsonl"]);
    let damaged = "billing.journal is damaged at byte 0";
    let listed = listed.code(DAMAGED).says(damaged).says("[record-corrupt]");
    let lines: Vec<serde_json::Value> = listed
        .stdout
        .lines()
        .map(|it| serde_json::from_str(it).expect("an object"))
        .collect();
    let [billing, till] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        billing["damage"]
            .as_str()
            .is_some_and(|it| it.starts_with(damaged))
    );
    assert_eq!(
        (&till["producer"], &till["epoch"]),
        (&"till".into(), &1.into())
    );
    assert!(till.get("damage").is_none());
    producers(&["show", "billing"]).code(DAMAGED).says(damaged);
    producers(&["freeze", "billing", "--yes"])
        .code(DAMAGED)
        .says(damaged);
    producers(&["show", "till"]).done();
}

/// The exit code for what is damaged.
const DAMAGED: i32 = 3;

/// A server that is away is told, and hides no producer, whose messages may wait for just that.
#[test]
fn messages_that_wait_are_found_while_something_is_away() {
    let config = "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"line\"\neffect = { kind = \"stdout\" }\n[relays.out]\n\
                  store = \"postgres://semel@127.0.0.1:1/shop\"\nstream = \"orders\"\n[relays.out.sink]\n\
                  kind = \"file\"\npath = \"out\"\n";
    let site = Site::with(&[("semel.toml", config), ("in", "a\n")]);
    let now = SystemClock::new().now();
    appended(&site, now.minus(std::time::Duration::from_secs(2 * 3_600)));
    let ended = site.semel(&["check", "--output", "jsonl"]).code(3);
    assert!(ended.stdout.contains("producer-waiting"), "{ended:?}");
}

#[test]
fn an_order_that_the_audit_trail_does_not_take_is_not_carried_out() {
    let site = site();
    appended(&site, SystemClock::new().now());
    let file = rusqlite::Connection::open(site.path("s.db")).expect("a file");
    let refuse =
        "CREATE TRIGGER refuse BEFORE INSERT ON semel_audit BEGIN SELECT RAISE(ABORT, 'no'); END";
    file.execute_batch(refuse).expect("a trigger");
    let freeze = site.semel(&["producers", "freeze", "billing", "--yes"]);
    freeze.says("did not freeze `billing`: the audit trail has to have the order first");
    let shown = site.semel(&["producers", "show", "billing", "--output", "json"]);
    assert_eq!(object(&shown.done())["frozen"], false);
}
