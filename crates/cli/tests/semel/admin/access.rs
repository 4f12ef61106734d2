//! Tokens: callers that are let in, and the parts that a role and a tenant see.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::claims::server::{Reply, Request, ask};
use crate::site::{Running, Site, lines, wait_for};

/// A pipeline with tenants, on this line of `[admin]`.
pub(super) fn config(admin: &str) -> String {
    format!(
        "[store]\nurl = \"embedded:data\"\n[admin]\n{admin}\n[pipelines.pay]\nkey = \"json:/id\"\n\
         tenant = \"json:/tenant\"\nsource = {{ kind = \"stdin\" }}\n\
         effect = {{ kind = \"exec\", command = [\"cat\"] }}\n"
    )
}

/// Makes a token; returns what goes into `Authorization`.
pub(crate) fn token(site: &Site, arguments: &str) -> String {
    let words = format!("token create {arguments} --output json");
    let words: Vec<_> = words.split(' ').collect();
    let made: Value = serde_json::from_str(&site.semel(&words).done().stdout).expect("JSON");
    format!("Bearer {}", made["token"].as_str().expect("a token"))
}

fn get(port: u16, path: &str, token: &str) -> Reply {
    let headers = vec![("authorization", token)];
    let request = Request::get(path);
    ask(port, &Request { headers, ..request })
}

pub(super) fn listens(running: &mut Running, port: u16) {
    wait_for("a worker that listens", || {
        assert!(running.is_running(), "{}", running.stderr());
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}

#[test]
fn another_address_without_tokens_is_refused_at_the_start() {
    let site = Site::with(&[("semel.toml", &config("listen = \"0.0.0.0:0\""))]);
    site.semel(&["run"])
        .code(2)
        .says("admin.listen: 0.0.0.0:0 is no loopback address")
        .says("semel token create NAME --role viewer")
        .says("admin.api = false");
    // Probes and metrics need none, alone.
    let port = free_port::take().expect("a free port");
    let admin = format!("listen = \"0.0.0.0:{port}\"\napi = false");
    site.write("semel.toml", config(&admin));
    let mut command = site.command();
    command.arg("run").stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    listens(&mut running, port);
    wait_for("a worker that is ready", || {
        ask(port, &Request::get("/readyz")).status == 200
    });
    for (path, status) in [("/healthz", 200), ("/metrics", 200), ("/v1/keys", 404)] {
        assert_eq!(ask(port, &Request::get(path)).status, status, "{path}");
    }
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_viewer_sees_no_payload_and_a_tenant_sees_its_own_alone() {
    let port = free_port::take().expect("a free port");
    let site = Site::with(&[(
        "semel.toml",
        &config(&format!("listen = \"0.0.0.0:{port}\"")),
    )]);
    let viewer = token(&site, "watcher --role viewer");
    let operator = token(&site, "ada --role operator");
    let acme = token(&site, "acme --role operator --tenant acme");
    let mut command = site.command();
    let mut child = command
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("semel");
    let mut input = child.stdin.take().expect("a pipe");
    // Of each tenant a key, and another request under it.
    let messages = lines(["acme", "other"], |tenant| {
        let message =
            |amount| format!("{{\"id\":\"pay-1\",\"tenant\":\"{tenant}\",\"amount\":{amount}}}");
        format!("{}\n{}", message(1), message(2))
    });
    input.write_all(messages.as_bytes()).expect("messages");
    let has_two = |path| {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
            && get(port, path, &operator).body["items"]
                .as_array()
                .map(Vec::len)
                == Some(2)
    };
    wait_for("the records", || has_two("/v1/keys?state=completed"));
    wait_for("the conflicts", || has_two("/v1/quarantine"));
    ask(port, &Request::get("/v1/keys")).is_problem(401, "unauthorized");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_ne!(ask(port, &Request::get(path)).status, 401, "{path}");
    }
    let tenants = |path: &str, token: &str| {
        let reply = get(port, path, token);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        let items = reply.body["items"].as_array().expect("a list").iter();
        let mut tenants: Vec<_> = items
            .map(|it| it["tenant"].as_str().map(str::to_owned))
            .collect();
        tenants.sort_unstable();
        tenants.dedup();
        tenants
    };
    let [own, other] = ["acme", "other"].map(|it| Some(it.to_owned()));
    for path in ["/v1/keys", "/v1/keys/find?key=pay-1", "/v1/quarantine"] {
        assert_eq!(
            tenants(path, &viewer),
            [own.clone(), other.clone()],
            "{path}"
        );
        assert_eq!(tenants(path, &acme), std::slice::from_ref(&own), "{path}");
    }
    get(port, "/v1/keys?tenant=other", &acme).is_problem(403, "forbidden");
    get(port, "/v1/keys/show?key=pay-1&tenant=other", &acme).is_problem(403, "forbidden");
    for path in ["/v1/store", "/v1/config"] {
        get(port, path, &acme).is_problem(403, "forbidden");
        assert_eq!(get(port, path, &viewer).status, 200, "{path}");
    }
    // Two tenants have the key: a caller of one is not asked which.
    let several = get(port, "/v1/keys/show?key=pay-1", &operator);
    several.is_problem(400, "invalid-input");
    assert_eq!(several.body["pointer"], "/tenant", "{several:?}");
    let shown = get(port, "/v1/keys/show?key=pay-1", &acme).body;
    assert_eq!(shown["tenant"], "acme", "{shown}");
    assert!(shown["outcome"]["value"].is_string(), "{shown}");
    let masked = get(port, "/v1/keys/show?key=pay-1&tenant=acme", &viewer).body;
    assert!(masked["outcome"]["value"].is_null(), "{masked}");
    assert_eq!(masked["outcome"]["blake3"], shown["outcome"]["blake3"]);
    drop(input);
    assert!(child.wait().expect("a child").success());
}
