//! `semel check` asked of a worker: it says of itself what the verb says of its file beside it, whatever the worker has open.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use super::{Asked, end, timeless};
use crate::claims::server::{Request, ask};
use crate::ready::Admin;
use crate::site::{Ended, Running, Site, lines, wait_for};

const CANARY: &str = "c4n4ry";

/// A worker of every kind of part: pipelines with a webhook and standard input, claims, a gateway, a relay, and an order
/// that pauses a pipeline.
fn of_all_kinds(store: &str, effect: &str) -> Asked {
    let ports = [(); 4].map(|()| free_port::take().expect("a free port"));
    let [port, claims, gateway, webhook] = ports;
    let config = format!(
        "[store]\nurl = \"{store}\"\n[admin]\nlisten = \"127.0.0.1:{port}\"\n\
         [claims]\nlisten = \"127.0.0.1:{claims}\"\n\
         [gateway]\nlisten = \"127.0.0.1:{gateway}\"\nupstream = \"http://127.0.0.1:9\"\n\
         [[gateway.routes]]\npath = \"/charges\"\n\
         [pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\nowner = \"team\"\n{effect}\n\
         [pipelines.hooks]\nkey = \"header:x-github-delivery\"\n\
         [pipelines.hooks.source]\nkind = \"webhook\"\nlisten = \"127.0.0.1:{webhook}\"\npath = \"/github\"\n\
         verify = \"github\"\nsecret_file = \"secret\"\n\
         [pipelines.hooks.effect]\nkind = \"http\"\nclass = \"keyed\"\nprovider_window = \"1h\"\n\
         url = \"http://user:{CANARY}@127.0.0.1:1/charge?token={CANARY}\"\n\
         [relays.out]\nstore = \"sqlite:outbox.db\"\nstream = \"orders\"\n\
         sink = {{ kind = \"file\", path = \"published\" }}\n"
    );
    let site = Site::with(&[("worker.toml", &config), ("secret", CANARY)]);
    let made = site
        .database("outbox.db")
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE orders (number)");
    made.expect("a database");
    let made = site
        .database("shop.db")
        .execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (id)");
    made.expect("a database");
    // A worker makes one of this machine itself.
    let to_make = ["sqlite:outbox.db", store];
    for store in to_make
        .into_iter()
        .filter(|it| !it.starts_with("embedded:"))
    {
        let migrate = ["store", "migrate", "--yes", "--store", store];
        site.semel(&migrate).done();
    }
    // Not every database has a write-ahead log, which guards the locks of a process.
    let journal = site
        .database("outbox.db")
        .execute_batch("PRAGMA journal_mode = delete");
    journal.expect("a rollback journal");
    Asked { site, port }
}

/// The questions that a worker answers, too.
const QUESTIONS: [&str; 8] = [
    "",
    "--strict",
    "--rate 5",
    "--pipeline pay",
    "--pipeline hooks --rate 5",
    "--production",
    "--production --rate 1",
    "--production --pipeline pay",
];

/// Asks each question of the file, beside the worker, and of the worker.
fn is_told_alike(asked: &Asked) {
    let pause = "pipelines pause pay --reason INC-7 --yes --config worker.toml";
    asked.here(&pause.split(' ').collect::<Vec<_>>()).done();
    for question in QUESTIONS {
        for output in ["table", "json"] {
            let words = format!("check {question} --output {output}");
            let words: Vec<_> = words.split_ascii_whitespace().collect();
            let here = asked.here(&[&words[..], &["--config", "worker.toml"]].concat());
            let there = asked.there(&words);
            assert_eq!(timeless(&here.stdout), timeless(&there.stdout), "{words:?}");
            assert_eq!(here.status, there.status, "{words:?}: {there:#?}");
            assert!(here.stdout.len() > 100, "{here:#?}");
            let Ended { stdout, stderr, .. } = there;
            assert!(!stdout.contains(CANARY) && !stderr.contains(CANARY));
        }
    }
    let reply = ask(asked.port, &Request::get("/v1/check"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(!reply.body.to_string().contains(CANARY), "{}", reply.body);
    let subjects = ["pipeline", "claims", "route", "relay"];
    for subject in subjects {
        let items = reply.body["items"].as_array().expect("reports");
        let of_subject = items.iter().filter(|it| it.get(subject).is_some());
        assert!(of_subject.count() > 0, "{subject}: {}", reply.body);
    }
    // To look at the orders is no reason to change the database of the outbox.
    let database = asked.site.database("outbox.db");
    let mode = database.pragma_query_value(None, "journal_mode", |row| row.get(0));
    assert_eq!(mode, Ok("delete".to_owned()));
    let found = |code: &str| reply.body.to_string().contains(code);
    assert!(found("pipeline-paused"), "{}", reply.body);
    assert!(!found("store-in-use"), "{}", reply.body);
}

#[test]
fn a_worker_says_of_itself_what_the_verb_says_beside_it_with_an_embedded_store() {
    let effect = "effect = { kind = \"file\", path = \"out\" }";
    let asked = of_all_kinds("embedded:data", effect);
    let worker = asked.worker();
    is_told_alike(&asked);
    end(worker);
}

#[cfg(feature = "postgres")]
#[test]
fn a_worker_says_of_itself_what_the_verb_says_beside_it_with_a_store_of_postgresql() {
    let schema = crate::postgres::Schema::new();
    let effect = "effect = { kind = \"exec\", command = [\"true\"], on_doubt = \"park\" }";
    let asked = of_all_kinds(&schema.url(), effect);
    let worker = asked.worker();
    is_told_alike(&asked);
    end(worker);
}

#[test]
fn a_worker_says_of_itself_what_the_verb_says_beside_it_and_keeps_the_locks_of_its_file() {
    let effect = "effect = { kind = \"sql\", statement = \"insert into t values (:id)\" }";
    let asked = of_all_kinds("sqlite:shop.db", effect);
    let worker = asked.worker();
    let locks = || locks(&asked.site, worker.id());
    wait_for("the locks of an open file", || !locks().is_empty());
    let before = locks();
    is_told_alike(&asked);
    // A lock of a transaction comes and goes; those of an open file stay.
    wait_for("the same locks", || {
        before.iter().all(|it| locks().contains(it))
    });
    let dropped = asked.site.database("shop.db").execute_batch("DROP TABLE t");
    dropped.expect("no table");
    let reply = ask(asked.port, &Request::get("/v1/check?pipeline=pay"));
    assert!(
        reply.body.to_string().contains("statement-refused"),
        "{}",
        reply.body
    );
    end(worker);
}

/// The locks that a process has on the files of its database: their file, and the bytes.
fn locks(site: &Site, process: u32) -> Vec<String> {
    let files = ["shop.db", "shop.db-shm"].map(|name| {
        let found = std::fs::metadata(site.path(name));
        found.map_or(0, |it| it.ino())
    });
    let text = std::fs::read_to_string("/proc/locks").expect("the locks of the system");
    let of_process = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, _, _, kind, id, place, ..] = words[..] else {
            return None;
        };
        let inode = place.rsplit(':').next()?.parse().ok()?;
        let is_ours = id == process.to_string() && files.contains(&inode);
        is_ours.then(|| format!("{kind} {}", words[5..].join(" ")))
    });
    of_process.collect()
}

/// A server that takes connections, and never says a word.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

/// Starts a worker, and waits until it answers at a path, ready or not.
fn answering(site: &Site, admin: &Admin, path: &str) -> Running {
    let mut worker = site.start(&["run"]);
    wait_for("a worker that answers", || {
        assert!(worker.is_running(), "{}", worker.stderr());
        std::net::TcpStream::connect(admin.address()).is_ok()
            && ask(admin.address().port(), &Request::get(path)).status == 200
    });
    worker
}

#[cfg(feature = "nats")]
#[test]
fn a_broker_that_does_not_answer_is_a_finding_and_the_rest_is_told() {
    let (_listener, port) = silent();
    let admin = Admin::new();
    let config = format!(
        "{}[store]\nurl = \"embedded:data\"\n\
         [pipelines.quiet]\nsource = {{ kind = \"nats\", url = \"nats://me:{CANARY}@127.0.0.1:{port}\", stream = \"S\", \
         consumer = \"c\" }}\nkey = \"json:/id\"\neffect = {{ kind = \"file\", path = \"out\" }}\n\
         [pipelines.hooks]\nkey = \"json:/id\"\neffect = {{ kind = \"file\", path = \"other\" }}\n\
         source = {{ kind = \"file\", path = \"in\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("in", "")]);
    let _worker = answering(&site, &admin, "/v1/keys");
    let url = format!("http://{}", admin.address());
    let asked = site.semel(&["check", "--admin", &url, "--output", "json"]);
    let asked = asked.code(3).says("[source-unavailable]");
    let reports: Vec<Value> = asked
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let names: Vec<_> = reports.iter().map(|it| &it["pipeline"]).collect();
    assert_eq!(names, ["hooks", "quiet"]);
    let codes = |at: usize| reports[at]["findings"].to_string();
    assert!(codes(1).contains("source-unavailable"), "{asked:#?}");
    assert!(!codes(0).contains("source-unavailable"), "{asked:#?}");
    assert_eq!(reports[1]["reach"], Value::Null);
    assert!(!asked.stdout.contains(CANARY) && !asked.stderr.contains(CANARY));
    let table = site.semel(&["check", "--admin", &url]).code(3).stdout;
    assert!(!table.contains(CANARY), "{table}");
    let row = table.lines().find(|it| it.starts_with("quiet  "));
    assert!(
        row.is_some_and(|it| it.contains("source-unavailable")),
        "{table}"
    );
}

#[cfg(feature = "nats")]
#[test]
fn many_pipelines_at_one_broker_that_does_not_answer_are_told_in_time() {
    let (_listener, port) = silent();
    let admin = Admin::new();
    let pipelines = lines(0..40, |number| {
        format!(
            "[pipelines.p{number}]\nsource = {{ kind = \"nats\", url = \"nats://127.0.0.1:{port}\", \
             stream = \"S{number}\", consumer = \"c\" }}\nkey = \"json:/id\"\n\
             effect = {{ kind = \"exec\", command = [\"true\"] }}"
        )
    });
    let config = format!(
        "{}[store]\nurl = \"embedded:data\"\n{pipelines}",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let _worker = answering(&site, &admin, "/v1/keys");
    // Eight at once would wait for 25 seconds, and there would be no answer at all.
    let reply = ask(admin.address().port(), &Request::get("/v1/check"));
    assert_eq!(reply.status, 200, "{reply:?}");
    let items = reply.body["items"].as_array().expect("reports");
    assert_eq!(items.len(), 40);
    for item in items {
        let findings = item["findings"].to_string();
        assert!(findings.contains("source-unavailable"), "{item}");
    }
    assert_eq!(reply.body["failure"]["code"], "source-unavailable");
}

#[cfg(feature = "postgres")]
#[test]
fn a_store_that_does_not_answer_is_told_before_the_worker_has_opened_it() {
    let (_listener, port) = silent();
    let admin = Admin::new();
    let config = format!(
        "{}[store]\nurl = \"postgres://me:{CANARY}@127.0.0.1:{port}/shop?sslmode=disable\"\n\
         [pipelines.pay]\nkey = \"json:/id\"\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("in", "")]);
    let _worker = answering(&site, &admin, "/v1/status");
    let url = format!("http://{}", admin.address());
    let asked = site.semel(&["check", "--admin", &url, "--output", "json"]);
    let asked = asked.code(3).says("[store-unavailable]");
    let report: Value = serde_json::from_str(&asked.stdout).expect("a report");
    assert_eq!(report["store"]["is_there"], false, "{report}");
    assert!(report["findings"].to_string().contains("store-unavailable"));
    assert!(!asked.stdout.contains(CANARY) && !asked.stderr.contains(CANARY));
}

#[test]
fn what_a_worker_cannot_be_asked_is_refused() {
    let asked = Asked::new(crate::operator::STORES[1]);
    let sample = ["check", "--sample", "in"];
    asked
        .there(&sample)
        .code(2)
        .says("--sample is read on this machine");
    let file = ["check", "worker.toml", "--admin", "http://127.0.0.1:1"];
    asked
        .here(&file)
        .code(2)
        .says("--admin goes without a file");
    let worker = asked.worker();
    let unknown = ["check", "--pipeline", "none"];
    asked.there(&unknown).code(2).says("[pipeline-unknown]");
    // What is typed goes first.
    let typed = asked.there(&["check", "worker.toml"]);
    assert_eq!(typed.stdout, asked.there(&["check"]).stdout);
    end(worker);
    asked.there(&["check", "worker.toml"]).done();
    asked.there(&["check"]).code(3).says("[worker-unreachable]");
}

#[test]
fn a_check_of_relays_alone_leaves_the_store_beside_as_it_is() {
    let admin = Admin::new();
    let config = format!(
        "{}[store]\nurl = \"sqlite:old.db\"\n\
         [relays.out]\nstream = \"orders\"\nstore = \"sqlite:outbox.db\"\n\
         sink = {{ kind = \"file\", path = \"published\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../stores/sqlite/tests/golden/v1.db"
    );
    std::fs::copy(golden, site.path("old.db")).expect("an older store");
    let made = site
        .database("outbox.db")
        .execute_batch("CREATE TABLE t (id)");
    made.expect("a database");
    site.semel(&["store", "migrate", "--yes", "--store", "sqlite:outbox.db"])
        .done();
    let before = std::fs::read(site.path("old.db")).expect("a file");
    let _worker = answering(&site, &admin, "/v1/status");
    for question in ["", "?production=true"] {
        let path = format!("/v1/check{question}");
        let reply = ask(admin.address().port(), &Request::get(&path));
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    let after = std::fs::read(site.path("old.db")).expect("a file");
    assert!(before == after, "the store was changed");
}
