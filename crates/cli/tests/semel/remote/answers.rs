//! Answers that are not those of a worker of this version: none, of another program, of another version, and refusals.
//! Played by a server whose answers are written here.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use semel_conformance::certificates::{Authority, Issued};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::site::{Ended, LONGEST_RUN, Running, Site};

/// More than any of these tests sends.
const MOST_REQUESTS: usize = 100;

/// A server that answers each request with the next of these answers, then ends; each has a connection of its own.
pub(super) struct Played {
    pub(super) port: u16,
    requests: Receiver<String>,
}

impl Played {
    pub(super) fn new(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let (sender, requests) = sync_channel(MOST_REQUESTS);
        std::thread::spawn(move || serve(&listener, answers, &sender, |stream| stream));
        Self { port, requests }
    }

    /// The same with a certificate.
    fn encrypted(issued: &Issued, answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let chain = CertificateDer::pem_file_iter(&issued.cert).and_then(Iterator::collect);
        let chain: Vec<_> = chain.expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&issued.key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let config = Arc::new(config.expect("a certificate and its key"));
        let (sender, requests) = sync_channel(MOST_REQUESTS);
        std::thread::spawn(move || {
            serve(&listener, answers, &sender, |stream| {
                let connection = ServerConnection::new(Arc::clone(&config));
                StreamOwned::new(connection.expect("a connection"), stream)
            });
        });
        Self { port, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests until now.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }

    /// Waits for so many requests.
    pub(super) fn await_requests(&self, count: usize) {
        for _ in 0..count {
            let request = self.requests.recv_timeout(LONGEST_RUN);
            request.expect("one more request");
        }
    }

    /// Asks it with a verb.
    pub(super) fn ask(&self, words: &[&str]) -> Ended {
        self.begin(&Site::new(), words).wait()
    }

    /// Begins to ask it with a verb.
    pub(super) fn begin(&self, site: &Site, words: &[&str]) -> Running {
        let mut command = site.command();
        command
            .args(words)
            .env("SEMEL_ADMIN", self.url())
            .env("SEMEL_TOKEN", TOKEN);
        Running::start(&mut command)
    }
}

fn serve<S: Read + Write>(
    listener: &TcpListener,
    answers: Vec<String>,
    requests: &SyncSender<String>,
    wrap: impl Fn(TcpStream) -> S,
) {
    for answer in answers {
        let Ok((stream, _)) = listener.accept() else {
            return;
        };
        let mut stream = wrap(stream);
        let request = request(&mut stream);
        let _ = requests.send(request);
        if answer == HELD {
            while stream.read(&mut [0]).is_ok_and(|read| read > 0) {}
        } else {
            let _ = stream.write_all(answer.as_bytes());
        }
    }
}

/// Reads a request to its end.
fn request(stream: &mut impl Read) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        text.extend_from_slice(&piece[..read]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else {
            if read == 0 {
                return whole;
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.parse::<usize>().ok())?
        });
        if read == 0 || body.len() >= length.unwrap_or(0) {
            return whole;
        }
    }
}

pub(super) fn answer(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

pub(super) fn problem(status: &str, code: &str, detail: &str) -> String {
    let body = format!("{{\"code\":\"{code}\",\"status\":1,\"detail\":\"{detail}\"}}");
    answer(status, "", &body)
}

/// In the place of an answer: the request is read, and none comes.
pub(super) const HELD: &str = "held";
pub(super) const TOKEN: &str = "semel_secret_of_this_test";
const LIST: &[&str] = &["keys", "list"];

/// Asks for the list of keys, which is answered so; expects this exit code and these words.
#[track_caller]
fn is_told(answer: &str, code: i32, words: &[&str]) {
    let played = Played::new(vec![answer.to_owned()]);
    let ended = played.ask(LIST).code(code);
    for word in words {
        assert!(ended.stderr.contains(word), "{word}: {ended:#?}");
    }
    assert!(!ended.stderr.contains(TOKEN), "{ended:#?}");
    assert_eq!(ended.stdout, "");
    let requests = played.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].contains(&format!("authorization: Bearer {TOKEN}\r\n")));
    assert!(
        requests[0].starts_with("GET /v1/keys?limit=1000 HTTP/1.1\r\n"),
        "{requests:?}"
    );
}

#[test]
fn a_refusal_has_the_code_and_the_words_of_the_worker() {
    is_told(
        &problem("401 Unauthorized", "unauthorized", "the token is not known"),
        2,
        &["the token is not known [unauthorized]"],
    );
    is_told(
        &problem(
            "403 Forbidden",
            "forbidden",
            "this takes the role `operator`; the token has the role `viewer`",
        ),
        2,
        &["this takes the role `operator`", "[forbidden]"],
    );
    is_told(
        &problem(
            "503 Service Unavailable",
            "store-unavailable",
            "the store is away",
        ),
        3,
        &["the store is away [store-unavailable]"],
    );
    is_told(
        &problem("503 Service Unavailable", "throttled", "two go on"),
        3,
        &["[throttled]"],
    );
    is_told(
        &problem("500 Oops", "internal", "it does not fit"),
        70,
        &["[internal]"],
    );
}

#[test]
fn another_version_and_another_program_are_told_as_that() {
    let other = |status, body| answer(status, "", body);
    is_told(
        &problem("404 Not Found", "path-unknown", "there is nothing"),
        3,
        &["does not know /v1/keys", "[worker-incompatible]"],
    );
    is_told(&other("200 OK", "<html>"), 3, &["[worker-incompatible]"]);
    is_told(
        &other("404 Not Found", "<html>"),
        3,
        &["HTTP 404", "[worker-incompatible]"],
    );
    is_told(
        &other("200 OK", "{\"semel\":2,\"items\":[]}"),
        3,
        &["format 2", "[worker-incompatible]"],
    );
    is_told(
        &other(
            "200 OK",
            "{\"semel\":1,\"items\":[{\"key\":\"a\"}],\"complete\":true}",
        ),
        3,
        &["operation_id", "[worker-incompatible]"],
    );
    is_told(
        &other("502 Bad Gateway", "<html>"),
        3,
        &["HTTP 502", "[worker-unreachable]"],
    );
    is_told("", 3, &["broke off", "[worker-unreachable]"]);
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"semel\":1,";
    is_told(cut, 3, &["broke off", "[worker-unreachable]"]);
    let endless = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}",
        64 << 20,
        " ".repeat(33 << 20)
    );
    is_told(&endless, 3, &["more than 32 MiB", "[worker-incompatible]"]);
}

#[test]
fn a_redirect_is_not_followed_and_the_token_goes_nowhere_else() {
    let other = Played::new(vec![answer(
        "200 OK",
        "",
        "{\"semel\":1,\"items\":[],\"complete\":true}",
    )]);
    let location = format!("location: {}/v1/keys?token=x\r\n", other.url());
    is_told(
        &answer("307 Temporary Redirect", &location, ""),
        3,
        &[
            "sends elsewhere, which is not followed",
            "[worker-incompatible]",
        ],
    );
    assert!(other.requests().is_empty());
}

#[test]
fn a_member_of_a_later_version_is_left_out_with_a_warning() {
    let item = "{\"key\":\"a\",\"operation_id\":\"0\",\"pipeline\":\"pay\",\"state\":\"dead\",\"reason\":null,\
                \"since\":\"2026-11-21T10:33:00.000Z\",\"attempts\":1,\"possible_repeats\":0,\"held\":false,\
                \"remembered_until\":null";
    let list = format!("{{\"semel\":1,\"items\":[{item},\"rank\":1}}],\"complete\":true}}");
    let played = Played::new(vec![answer("200 OK", "", &list)]);
    let ended = played.ask(&["keys", "list", "--output", "jsonl"]).done();
    assert_eq!(ended.stdout, format!("{item}}}\n"));
    ended
        .says("/rank is not known here")
        .says("[worker-incompatible]");
}

#[test]
fn a_list_goes_on_at_the_cursor_and_ends_at_the_limit() {
    let page = |id: u32, next: &str| {
        let item = format!(
            "{{\"at\":\"2026-11-21T10:33:00.000Z\",\"by\":\"ada\",\"action\":\"hold\",\"pipeline\":null,\"key\":null,\
             \"operation_id\":null,\"before\":\"{id}\",\"after\":\"\",\"reason\":\"\"}}"
        );
        let next = if next.is_empty() {
            String::new()
        } else {
            format!(",\"next\":\"{next}\"")
        };
        answer(
            "200 OK",
            "",
            &format!("{{\"semel\":1,\"items\":[{item}],\"complete\":false{next}}}"),
        )
    };
    let pages = || vec![page(1, "b c"), page(2, "d"), page(3, "")];
    let played = Played::new(pages());
    let words = ["store", "audit", "--output", "jsonl"];
    assert_eq!(played.ask(&words).done().stdout.lines().count(), 3);
    let requests = played.requests();
    assert!(requests[1].contains("cursor=b+c"), "{requests:?}");
    let played = Played::new(pages());
    let words = [&words[..], &["--limit", "2"]].concat();
    assert_eq!(played.ask(&words).done().stdout.lines().count(), 2);
    let requests = played.requests();
    assert!(
        requests.len() == 2 && requests[0].contains("limit=2 "),
        "{requests:?}"
    );
    // A worker that goes round in a circle is left.
    for circle in [&["b", "b"][..], &["b", "c", "b"]] {
        let played = Played::new(circle.iter().map(|next| page(1, next)).collect());
        let left = played.ask(&["store", "audit"]).code(3);
        left.says("[worker-incompatible]");
    }
}

#[test]
fn a_stale_plan_is_shown_anew_and_refused_and_nothing_is_sent_again() {
    let change = |before: &str| {
        format!(
            "{{\"key\":\"a\",\"operation_id\":\"0\",\"pipeline\":\"pay\",\"action\":\"forget\",\"before\":\"{before}\",\
             \"after\":\"absent\"}}"
        )
    };
    let plan = |before: &str| {
        let change = change(before);
        format!("\"token\":\"of {before}\",\"changes\":[{change}],\"left\":[],\"complete\":true}}")
    };
    let stale = format!(
        "{{\"code\":\"plan-stale\",\"status\":409,\"detail\":\"it is not as it was\",\"semel\":1,{}",
        plan("completed")
    );
    let played = Played::new(vec![
        answer("200 OK", "", &format!("{{\"semel\":1,{}", plan("dead"))),
        answer("409 Conflict", "", &stale),
    ]);
    let forget = ["keys", "forget", "a", "--reason", "why", "--yes"];
    let ended = played.ask(&forget).code(1);
    let ended = ended
        .says("pay  a  dead → absent")
        .says("nothing was done: it is not as it was [plan-stale]");
    assert!(
        ended.stderr.contains("pay  a  completed → absent"),
        "{ended:#?}"
    );
    assert_eq!(ended.stdout, "");
    let requests = played.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(
        requests[1].contains("\"token\":\"of dead\"") && requests[1].contains("\"reason\":\"why\"")
    );
    // An order of which no answer comes may have been given.
    let planned = answer("200 OK", "", &format!("{{\"semel\":1,{}", plan("dead")));
    let played = Played::new(vec![planned, String::new()]);
    let lost = played.ask(&forget).code(3).says("[worker-unreachable]");
    lost.says("the order may have been given");
}

#[test]
fn an_address_or_a_token_that_is_none_is_a_mistake_of_the_command_line() {
    let site = Site::new();
    for (address, word) in [
        ("ops:9464", "http://HOST:PORT"),
        ("http://me:secret@ops", "neither user nor password"),
        ("http://ops/?token=secret", "neither query"),
    ] {
        let ended = site
            .semel(&["keys", "list", "--admin", address])
            .code(2)
            .says(word);
        assert!(!ended.stderr.contains("secret"), "{ended:#?}");
    }
    site.write("token", "two words");
    let words = [
        "keys",
        "list",
        "--admin",
        "http://127.0.0.1:1",
        "--token-file",
    ];
    for (file, word) in [
        ("token", "the token is none"),
        ("none", "cannot read the token"),
    ] {
        site.semel(&[&words[..], &[file]].concat())
            .code(2)
            .says(word);
    }
    // It is told before anything is sent, and is no error.
    site.write("token", TOKEN);
    let words = [
        "keys",
        "list",
        "--admin",
        "http://worker.invalid:1",
        "--token-file",
        "token",
    ];
    let ended = site
        .semel(&words)
        .code(3)
        .says("unencrypted")
        .says("[worker-unreachable]");
    assert!(!ended.stderr.contains(TOKEN), "{ended:#?}");
}

#[test]
fn behind_https_the_authority_that_is_named_is_trusted_and_no_other() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let issued = trusted.issue("worker", &[]);
    let list = answer("200 OK", "", "{\"semel\":1,\"items\":[],\"complete\":true}");
    let played = Played::encrypted(&issued, vec![list.clone(); 3]);
    let url = format!("https://localhost:{}", played.port);
    let site = Site::new();
    let asked = |authority: &Authority| {
        let ca = authority.path.to_str().expect("a path");
        let mut command = site.command();
        command.args(["keys", "list", "--admin", &url, "--ca", ca]);
        command.env("SEMEL_TOKEN", TOKEN);
        Running::start(&mut command).wait()
    };
    let refused = asked(&other).code(3).says("no TLS").says("with --ca FILE");
    refused.says("[worker-unreachable]");
    asked(&trusted).done();
    // Another host of the same authority is another one.
    let elsewhere = trusted.issue_for("elsewhere", "DNS:elsewhere", &[]);
    let played_elsewhere = Played::encrypted(&elsewhere, vec![list]);
    let url_elsewhere = format!("https://localhost:{}", played_elsewhere.port);
    let ca = trusted.path.to_str().expect("a path");
    let words = ["keys", "list", "--admin", &url_elsewhere, "--ca", ca];
    let mut command = site.command();
    command.args(words).env("SEMEL_TOKEN", TOKEN);
    let refused = Running::start(&mut command).wait().code(3).says("no TLS");
    refused.says("[worker-unreachable]");
    played_elsewhere.await_requests(1);
    let shown: Vec<_> = played.requests();
    let whole = shown.iter().filter(|it| it.contains(TOKEN)).count();
    assert_eq!(
        whole, 1,
        "the token is shown to the one that is trusted: {shown:?}"
    );
    let none = ["keys", "list", "--admin", &url, "--ca", "none.pem"];
    site.semel(&none).code(2).says("--ca");
    let plain = [
        "keys",
        "list",
        "--admin",
        "http://127.0.0.1:1",
        "--ca",
        "none.pem",
    ];
    site.semel(&plain).code(2).says("https://");
}
