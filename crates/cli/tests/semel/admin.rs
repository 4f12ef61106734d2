//! The admin API of a running worker: each list and each object against the verb that prints the same, on the same
//! store; what is refused; and who sees what.

pub(crate) mod access;
mod browser;
mod connections;
mod encrypted;
mod exports;
mod live;
mod orders;
pub(crate) mod runs;

use std::io::Write;
use std::process::{Child, ChildStdin};

use serde_json::Value;

use crate::claims::server::{Reply, Request, ask};
use crate::operator::{STORES, worked, worker};
use crate::site::{Ended, Site, lines, wait_for};

/// A worker whose admin API is asked, and the folder of its store.
struct Served {
    site: Site,
    port: u16,
    running: (Child, ChildStdin),
}

impl Served {
    /// Starts one over what runs and orders have left in a store.
    fn start(store: &str) -> Self {
        let site = worked(store);
        for (verb, key) in [("hold", "done-1"), ("extend", "json:7")] {
            let window = ["--window", "30d"];
            let window = if verb == "extend" { &window[..] } else { &[] };
            let words = ["keys", verb, key, "--yes", "--by", "ada", "--reason", "why"];
            site.semel(&[&words[..], window].concat()).done();
        }
        let port = free_port::take().expect("a free port");
        let config = site.text("semel.toml");
        site.write(
            "semel.toml",
            format!(
                "{config}[admin]\nlisten = \"127.0.0.1:{port}\"\nhosts = [\"admin.example\"]\n"
            ),
        );
        let running = worker(&site);
        wait_for("the record of the first message", || {
            site.state("by-worker").as_deref() == Some("completed")
        });
        Self {
            site,
            port,
            running,
        }
    }

    fn get(&self, path: &str) -> Reply {
        ask(self.port, &Request::get(path))
    }

    /// The body of an answer that is good.
    #[track_caller]
    fn good(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        reply.body
    }

    /// The object that a verb prints.
    #[track_caller]
    fn printed(&self, verb: &str) -> Value {
        let words: Vec<_> = verb.split(' ').chain(["--output", "json"]).collect();
        json_of(&self.site.semel(&words).done())
    }
}

#[track_caller]
fn json_of(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// The same list, whose order is that of the operations: files are read in another order than memory.
fn in_order(mut list: Value) -> Value {
    if let Some(items) = list["items"].as_array_mut() {
        items.sort_by_key(|item| item["operation_id"].to_string() + &item["at"].to_string());
    }
    list
}

#[test]
fn each_list_is_what_its_verb_prints() {
    for store in STORES {
        let served = Served::start(store);
        for (path, verb, count) in [
            ("keys", "keys list", 6),
            ("keys?state=in_doubt", "keys list --state in_doubt", 2),
            (
                "keys?prefix=d&pipeline=pay",
                "keys list --prefix d --pipeline pay",
                4,
            ),
            ("keys?held=true&repeated=false", "keys list --held", 1),
            ("keys?repeated=true", "keys list --repeated", 0),
            ("keys?older_than=0s", "keys list --older-than 0s", 6),
            ("keys?older_than=1h", "keys list --older-than 1h", 0),
            ("keys?tenant=other", "keys list --tenant other", 0),
            ("in-doubt", "in-doubt list", 2),
            ("in-doubt?repeated=true", "in-doubt list --repeated", 0),
            ("dead-letters", "dead-letters list", 1),
            (
                "dead-letters?pipeline=mail",
                "dead-letters list --pipeline mail",
                0,
            ),
            ("quarantine", "quarantine list", 1),
            ("audit", "store audit", 2),
            (
                "audit?key=json:7&since=1h",
                "store audit --key json:7 --since 1h",
                1,
            ),
            ("audit?since=0s", "store audit --since 0s", 0),
        ] {
            let told = served.good(&format!("/v1/{path}"));
            let printed = served.printed(verb);
            assert_eq!(in_order(told.clone()), in_order(printed), "{store}: {path}");
            let items = told["items"].as_array().map(Vec::len);
            assert_eq!(items, Some(count), "{store}: {path}: {told}");
        }
    }
}

#[test]
fn each_object_is_what_its_verb_prints() {
    for store in STORES {
        let mut served = Served::start(store);
        for key in ["done-1", "json:7", "dead-1", "doubt-1"] {
            let path = format!("/v1/keys/show?key={key}");
            let printed = served.printed(&format!("keys show {key}"));
            assert_eq!(served.good(&path), printed, "{store}: {path}");
            // What may be done is an action in the place of a command, and every explanation has its own time.
            let path = format!("/v1/keys/explain?key={key}&pipeline=pay");
            let mut told = served.good(&path);
            let mut printed = served.printed(&format!("keys explain {key} --pipeline pay"));
            for (at, command) in printed["can"].as_array().into_iter().flatten().enumerate() {
                let choice = &told["can"][at];
                assert_eq!(choice["action"]["key"], key, "{command} {choice}");
                assert_eq!(choice["action"]["pipeline"], "pay", "{choice}");
            }
            for name in ["can", "now", "next", "text", "duplicate"] {
                assert!(!told[name].is_null(), "{name}: {told}");
                told[name] = Value::Null;
                printed[name] = Value::Null;
            }
            assert_eq!(told, printed, "{store}: {path}");
            let found = served.good(&format!("/v1/keys/find?key={key}"));
            let item = &found["items"][0];
            assert_eq!(
                (&item["key"], &item["state"]),
                (&told["key"], &told["state"])
            );
            let id = item["operation_id"].as_str().expect("an id");
            let by_id = served.good(&format!("/v1/keys/find?key={}", &id[..12]));
            assert_eq!(by_id, found, "by the beginning of its operation id");
        }
        for (kind, by) in [("dead-letters", "key"), ("quarantine", "id")] {
            let listed = served.good(&format!("/v1/{kind}"));
            let item = &listed["items"][0];
            let [id, name] = ["id", by].map(|it| item[it].as_str().expect("a name"));
            let told = served.good(&format!("/v1/{kind}/show?id={id}"));
            let printed = served.printed(&format!("{kind} show {name}"));
            assert_eq!(told, printed, "{store}");
        }
        let (mut told, mut printed) = (served.good("/v1/store"), served.printed("store stats"));
        // Of an embedded store the files are counted while the worker writes them.
        (told["disk_bytes"], printed["disk_bytes"]) = (Value::Null, Value::Null);
        // And they do not tell what has passed its window.
        if store.starts_with("embedded") {
            (told["remembered"], printed["remembered"]) = (0.into(), 0.into());
        }
        assert_eq!(told, printed, "{store}");
        let config = served.printed("config show --config worker.toml");
        assert_eq!(served.good("/v1/config"), config, "{store}");
        let status = served.good("/v1/status");
        assert_eq!(status["state"], "running", "{status}");
        let port = served.port;
        let pay = || ask(port, &Request::get("/v1/pipelines")).body["items"][0].clone();
        // A pipeline reports its counts while messages come: here the same one over and over.
        let (_, input) = &mut served.running;
        wait_for("the counts", || {
            let again = input.write_all(b"{\"id\":\"by-worker\"}\n");
            again.expect("a message");
            pay()["so_far"]["applied"] == 1
        });
        wait_for("what waits for a person", || {
            pay()["set_aside"]["in_doubt"] == 2
        });
        let pay = pay();
        for (member, value) in [
            ("pipeline", "pay"),
            ("state", "running"),
            ("class", "unkeyed"),
        ] {
            assert_eq!(pay[member], value, "{pay}");
        }
        let document = served.good("/v1/openapi.json");
        assert_eq!(document["info"]["title"], "Semel admin API");
    }
}

#[test]
fn a_list_is_read_page_by_page_and_is_the_same_in_the_end() {
    for store in STORES {
        let served = Served::start(store);
        for (path, verb) in [
            ("/v1/keys?", "keys list"),
            ("/v1/keys?state=completed&", "keys list --state completed"),
            ("/v1/in-doubt?", "in-doubt list"),
            ("/v1/audit?", "store audit"),
        ] {
            let (mut items, mut next, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let cursor = next.map(|it| format!("&cursor={it}")).unwrap_or_default();
                let page = served.good(&format!("{path}limit=1{cursor}"));
                let on_page = page["items"].as_array().expect("a list");
                assert!(on_page.len() <= 1, "{page}");
                items.extend_from_slice(on_page);
                pages += 1;
                next = page["next"].as_str().map(str::to_owned);
                assert_eq!(page["complete"], next.is_none(), "{page}");
                assert!(pages < 20, "{path} comes to no end");
                if next.is_none() {
                    break;
                }
            }
            let whole = served.printed(verb);
            let mut list = whole.clone();
            list["items"] = items.into();
            assert_eq!(in_order(list), in_order(whole), "{store}: {path}");
            assert!(pages > 1, "{path}");
        }
        let page = served.good("/v1/keys?limit=1");
        let next = page["next"].as_str().expect("more");
        for other in [
            format!("/v1/keys?limit=1&cursor={next}&state=completed"),
            format!("/v1/in-doubt?cursor={next}"),
            format!("/v1/keys?cursor={}", &next[1..]),
            "/v1/keys?cursor=?".to_owned(),
        ] {
            let refused = served.get(&other);
            refused.is_problem(400, "invalid-input");
            assert_eq!(refused.body["pointer"], "/cursor", "{other}");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_code_and_advice() {
    let served = Served::start("embedded:data");
    for (path, status, code, pointer) in [
        ("/v1/nothing", 404, "path-unknown", None),
        ("/v1/", 404, "path-unknown", None),
        ("/v1/keys/show?key=nobody", 404, "key-unknown", None),
        ("/v1/keys/explain?key=nobody", 404, "key-unknown", None),
        ("/v1/keys?page=2", 400, "invalid-input", Some("/")),
        ("/v1/status?verbose", 400, "invalid-input", Some("/")),
        ("/v1/keys?limit=0", 400, "invalid-input", Some("/limit")),
        ("/v1/keys?limit=1001", 400, "invalid-input", Some("/limit")),
        (
            "/v1/keys?limit=1&limit=1",
            400,
            "invalid-input",
            Some("/limit"),
        ),
        ("/v1/keys?state=done", 400, "invalid-input", Some("/state")),
        ("/v1/keys?held=yes", 400, "invalid-input", Some("/held")),
        (
            "/v1/keys?older_than=1",
            400,
            "invalid-input",
            Some("/older_than"),
        ),
        (
            "/v1/keys?pipeline=%01",
            400,
            "invalid-input",
            Some("/pipeline"),
        ),
        ("/v1/keys?tenant=%01", 400, "invalid-input", Some("/tenant")),
        ("/v1/keys/find", 400, "invalid-input", Some("/key")),
        (
            "/v1/keys/find?key=json:%7B",
            400,
            "invalid-input",
            Some("/key"),
        ),
        ("/v1/audit?key=", 400, "invalid-input", Some("/key")),
    ] {
        let refused = served.get(path);
        refused.is_problem(status, code);
        let detail = refused.body["detail"].as_str().unwrap_or_default();
        assert!(detail.len() > 20, "{path}: it says what to do: {detail}");
        if let Some(pointer) = pointer {
            assert_eq!(refused.body["pointer"], pointer, "{path}");
        }
    }
    for method in ["POST", "DELETE", "PUT"] {
        let request = Request::get("/v1/keys").with_method(method);
        let refused = ask(served.port, &request);
        refused.is_problem(405, "method-not-allowed");
        assert_eq!(refused.header("allow"), Some("GET,HEAD"));
    }
    let ask_as = |headers: Vec<(&str, &str)>| {
        let request = Request::get("/v1/keys");
        ask(served.port, &Request { headers, ..request })
    };
    ask_as(vec![("host", "evil.example")]).is_problem(403, "host-refused");
    ask_as(vec![("origin", "http://evil.example")]).is_problem(403, "origin-refused");
    ask_as(vec![("authorization", "Bearer semel_00")]).is_problem(401, "unauthorized");
    let own = format!("127.0.0.1:{}", served.port);
    let origin = format!("http://{own}");
    let page = ask_as(vec![("host", &own), ("origin", &origin)]);
    assert_eq!(page.status, 200, "its own pages may: {page:?}");
    let named = ask_as(vec![("host", "admin.example")]);
    assert_eq!(named.status, 200, "it is among `hosts`: {named:?}");
}

#[test]
fn readers_do_not_hold_up_the_messages() {
    let mut served = Served::start("embedded:data");
    let config = served.site.text("worker.toml");
    assert!(config.contains("handler.sh"), "{config}");
    let (port, stop) = (served.port, std::sync::atomic::AtomicBool::new(false));
    let ordering = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16)
            .map(|_| {
                let stop = &stop;
                scope.spawn(move || {
                    let (mut good, mut put_off) = (0, 0);
                    while !stop.load(ordering) {
                        for path in ["/v1/keys?limit=1000", "/v1/store", "/v1/keys/find?key=abcd"] {
                            match ask(port, &Request::get(path)).status {
                                200 => good += 1,
                                503 => put_off += 1,
                                other => panic!("{path}: {other}"),
                            }
                        }
                    }
                    (good, put_off)
                })
            })
            .collect();
        let messages = lines(0..100, |id| format!("{{\"id\":\"load-{id}\"}}"));
        let (_, input) = &mut served.running;
        input.write_all(messages.as_bytes()).expect("messages");
        wait_for("the effects", || {
            (0..100).all(|id| served.site.path(&format!("ran-load-{id}")).exists())
        });
        stop.store(true, ordering);
        let read: Vec<_> = readers
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect();
        assert!(read.iter().any(|(good, _)| *good > 0), "{read:?}");
    });
    assert_eq!(served.get("/healthz").status, 200);
}
