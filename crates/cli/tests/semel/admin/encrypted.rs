//! The admin API and the console over TLS, with clients that are known by their certificates.

use std::sync::Arc;

use rustix::process::Signal;
use semel_conformance::certificates::{Authority, Issued};
use semel_tls::Tls;
use serde_json::json;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use crate::gateway::server::{Reply, connected, exchange, send};
use crate::site::{Running, Site, wait_for};

/// A worker whose listener encrypts.
struct Encrypted {
    site: Site,
    port: u16,
    authority: Authority,
}

impl Encrypted {
    /// One at every address, so that it needs tokens.
    fn new(knows_clients: bool) -> Self {
        let authority = Authority::new();
        let server = authority.issue("worker", &[]);
        let (site, port) = (Site::new(), free_port::take().expect("a free port"));
        let client_ca = if knows_clients {
            format!("client_ca = \"{}\"\n", authority.path.display())
        } else {
            String::new()
        };
        site.write("in", "");
        site.write(
            "semel.toml",
            format!(
                "[store]\nurl = \"embedded:data\"\n[admin]\nlisten = \"0.0.0.0:{port}\"\n\
                 [admin.tls]\ncert = \"{}\"\nkey = \"{}\"\n{client_ca}\
                 [pipelines.pay]\nkey = \"json:/id\"\nsource = {{ kind = \"stdin\" }}\neffect = {{ kind = \"stdout\" }}\n",
                server.cert.display(),
                server.key.display()
            ),
        );
        Self {
            site,
            port,
            authority,
        }
    }

    fn token(&self, words: &str) -> String {
        let words = format!("token create {words}");
        let words: Vec<_> = words.split(' ').collect();
        self.site.semel(&words).done().stdout.trim().to_owned()
    }

    /// Starts it, with an input that does not end, and waits until it answers.
    fn start(&self) -> (Running, std::process::ChildStdin) {
        let mut command = self.site.command();
        command.args(["run", "--output", "json"]);
        command.stdin(std::process::Stdio::piped());
        let mut running = Running::start(&mut command);
        let stdin = running.take_stdin().expect("a pipe");
        wait_for("a worker that is ready", || {
            assert!(running.is_running(), "{}", running.stderr());
            self.ask(None, "GET", "/readyz", &[], "")
                .is_some_and(|it| it.status == 200)
        });
        (running, stdin)
    }

    /// Sends a request, and shows this certificate; nothing if there is no answer.
    fn ask(
        &self,
        shows: Option<&Issued>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let tls = Tls {
            ca: Some(self.authority.path.clone()),
            cert: shows.map(|it| it.cert.clone()),
            key: shows.map(|it| it.key.clone()),
            server_name: None,
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let config = Arc::new(tls.config().expect("of use"));
        let session = ClientConnection::new(config, name).expect("a client");
        let stream = StreamOwned::new(session, connected(self.port)?);
        exchange(stream, method, path, headers, body)
    }
}

#[test]
fn the_admin_listener_encrypts_and_takes_tokens_as_ever() {
    let worker = Encrypted::new(false);
    let ada = worker.token("ada --role operator");
    let (running, _stdin) = worker.start();
    let ask = |path: &str, headers: &[(&str, &str)]| {
        let answer = worker.ask(None, "GET", path, headers, "");
        answer.expect("an answer")
    };
    assert_eq!(ask("/metrics", &[]).status, 200);
    ask("/v1/status", &[]).is_problem(401, "unauthorized");
    let bearer = format!("Bearer {ada}");
    let told = ask("/v1/status", &[("authorization", &bearer)]);
    assert_eq!(told.json()["state"], "running", "{told:?}");
    // A browser keeps its cookie to encrypted pages.
    let form = format!("token={ada}");
    let headers = [
        ("sec-fetch-site", "same-origin"),
        ("origin", "https://api.example"),
    ];
    let logged_in = worker.ask(None, "POST", "/login", &headers, &form);
    let logged_in = logged_in.expect("an answer");
    let cookie = logged_in.header("set-cookie").unwrap_or_default();
    assert!(cookie.contains("; Secure"), "{logged_in:?}");
    // In the clear, nobody is answered.
    assert_eq!(send(worker.port, "GET", "/healthz", &[], ""), None);
    // Another authority's certificate is not taken for the worker's.
    let stranger = Authority::new();
    let tls = Tls {
        ca: Some(stranger.path.clone()),
        ..Tls::default()
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let config = Arc::new(tls.config().expect("of use"));
    let session = ClientConnection::new(config, name).expect("a client");
    let stream = StreamOwned::new(session, connected(worker.port).expect("connected"));
    assert_eq!(exchange(stream, "GET", "/healthz", &[], ""), None);
    let checked = worker.site.semel(&["check", "--production"]);
    assert!(checked.stdout.contains("it encrypts"), "{checked:?}");
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_certificate_has_the_role_and_the_tenant_of_its_subject() {
    let worker = Encrypted::new(true);
    let authority = &worker.authority;
    let [ada, acme, nobody] = ["ada", "acme", "nobody"].map(|it| authority.issue(it, &[]));
    let stranger = Authority::new();
    let forged = stranger.issue("ada", &[]);
    let expired = authority.issue("late", &["-days", "-1"]);
    worker.token("ada --role operator --subject CN=ada");
    worker.token("acme --role viewer --tenant acme --subject CN=acme");
    let (running, _stdin) = worker.start();
    let ask = |shows: Option<&Issued>, path: &str| worker.ask(shows, "GET", path, &[], "");
    let answer = |shows: Option<&Issued>, path: &str| ask(shows, path).expect("an answer");
    assert_eq!(answer(Some(&ada), "/v1/status").status, 200);
    assert_eq!(answer(Some(&acme), "/v1/keys").status, 200);
    answer(Some(&acme), "/v1/status").is_problem(403, "forbidden");
    answer(Some(&nobody), "/v1/status").is_problem(401, "unauthorized");
    answer(None, "/v1/status").is_problem(401, "unauthorized");
    assert_eq!(
        ask(Some(&forged), "/healthz"),
        None,
        "nobody vouches for it"
    );
    assert_eq!(ask(Some(&expired), "/healthz"), None, "its time is over");
    assert_eq!(answer(None, "/healthz").status, 200, "probes have none");
    // The page needs no cookie then, and an order has the name.
    let page = answer(Some(&ada), "/");
    let text = String::from_utf8_lossy(&page.body);
    assert!(text.contains("ada, operator"), "{text}");
    let post = |shows: &Issued, path: &str, body: serde_json::Value| {
        let answer = worker.ask(Some(shows), "POST", path, &[], &body.to_string());
        answer.expect("an answer")
    };
    let order = json!({ "pipelines": ["pay"] });
    post(&acme, "/v1/pipelines/pause/plan", order.clone()).is_problem(403, "forbidden");
    let plan = post(&ada, "/v1/pipelines/pause/plan", order).json();
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let done = post(&ada, "/v1/pipelines/pause/do", order);
    assert_eq!(done.json()["done"], 1, "{done:?}");
    let trail = answer(Some(&ada), "/v1/audit").json();
    assert_eq!(trail["items"][0]["by"], "ada", "{trail}");
    // One that is revoked is refused within two seconds.
    worker
        .site
        .semel(&["token", "revoke", "ada", "--yes"])
        .done();
    wait_for("the refusal", || {
        answer(Some(&ada), "/v1/status").status == 401
    });
    running.signal(Signal::TERM);
    running.wait().done();
}

#[test]
fn a_certificate_that_is_of_no_use_ends_the_start() {
    let worker = Encrypted::new(true);
    worker.token("ada --role operator");
    let text = worker.site.text("semel.toml");
    for (from, to, says) in [
        (
            "client_ca = ",
            "client_ca = \"none.pem\" # ",
            "tls.client_ca",
        ),
        ("key = \"/", "key = \"none.pem\" # \"/", "tls.key"),
    ] {
        worker.site.write("bad.toml", text.replace(from, to));
        let ended = worker.site.semel(&["run", "bad.toml"]);
        ended.code(2).says("admin").says(says);
    }
}
