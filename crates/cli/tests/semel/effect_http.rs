//! `kind = "http"`: a tiny server gives prepared answers, and notes the requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::site::{Site, lines, wait_for};

/// One request in the form in which the server got it.
#[derive(Clone, Debug)]
struct Asked {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Asked {
    fn header(&self, name: &str) -> &str {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }
}

/// A server that gives its answers one after the other, the last one for ever. It stops with the test.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn answering(answers: &'static [&'static str]) -> Self {
        Self::listening("127.0.0.1:0", answers)
    }

    fn listening(place: &str, answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind(place).expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                serve(&stream, answers, &notes);
            }
        });
        Self {
            url: format!("http://{address}/charge?x=1"),
            asked,
        }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// Serves one request per connection, and closes the connection after the answer.
fn serve(mut stream: &TcpStream, answers: &[&str], asked: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) < 3 {
            break;
        }
        if let Some((name, value)) = header.trim_end().split_once(": ") {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    let mut request = Asked {
        line: line.trim_end().to_owned(),
        headers,
        body: String::new(),
    };
    let mut body = vec![0; request.header("content-length").parse().unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    request.body = String::from_utf8(body).expect("text");
    let mut asked = asked.lock().expect("no panic");
    let answer = answers[asked.len().min(answers.len() - 1)];
    asked.push(request);
    let _ = stream.write_all(answer.as_bytes());
}

fn site(url: &str, effect: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"sqlite:s.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nretry = {{ attempts = 3, backoff = \"1ms\" }}\n[pipelines.p.effect]\n\
         kind = \"http\"\nurl = \"{url}\"\ntimeout = \"5s\"\n{effect}\n"
    );
    Site::with(&[
        ("semel.toml", &config),
        ("in", "{\"id\":\"a\", \"n\": 1}\n"),
    ])
}

const KEYED: &str = "class = \"keyed\"\nprovider_window = \"1h\"";
const PARK: &str = "on_doubt = \"park\"";
const REPEAT: &str = "on_doubt = \"repeat\"";

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"ok\":true}";
const BAD: &str =
    "HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\nConnection: close\r\n\r\nno card";
const BROKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{\"ok\"";
const FAILED: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops";
const BUSY: &str =
    "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const MOVED: &str =
    "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const SILENT: &str = "";

#[test]
fn an_answer_of_200_completes_with_its_body() {
    let server = Server::answering(&[OK]);
    let site = site(&server.url, "headers = { X-Shop = \"7\" }");
    site.run().is(&[("applied", 1)]);
    site.run().is(&[("replayed", 1)]);
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].line, "POST /charge?x=1 HTTP/1.1");
    assert_eq!(asked[0].body, "{\"id\":\"a\", \"n\": 1}");
    assert_eq!(asked[0].header("content-type"), "application/json");
    assert_eq!(
        (asked[0].header("x-shop"), asked[0].header("semel-attempt")),
        ("7", "1")
    );
    assert_eq!(
        asked[0].header("idempotency-key"),
        asked[0].header("semel-operation-id")
    );
    assert_eq!(
        site.rows("s.db", "select outcome from semel_records"),
        ["{\"ok\":true}"]
    );
}

#[test]
fn a_busy_server_is_asked_again_when_it_wished_under_the_same_key() {
    let server = Server::answering(&[BUSY, OK]);
    let site = site(&server.url, PARK);
    let ended = site.semel(&["run", "--output", "json"]).done();
    ended.summary().is(&[("applied", 1)]);
    let elapsed = ended
        .stdout
        .rsplit_once(':')
        .and_then(|(_, rest)| rest.trim_end_matches("}\n").parse().ok());
    assert!(
        elapsed.is_some_and(|elapsed: f64| elapsed >= 1.0),
        "{}",
        ended.stdout
    );
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(
        asked[0].header("idempotency-key"),
        asked[1].header("idempotency-key")
    );
    assert_eq!(asked[1].header("semel-attempt"), "2");
    let token = |at: usize| {
        asked[at]
            .header("semel-fencing-token")
            .parse::<u64>()
            .expect("a token")
    };
    assert!(token(0) < token(1));
}

#[test]
fn an_answer_of_400_or_302_is_dead_at_once() {
    for (answer, words) in [
        (&[BAD], "HTTP 400 from "),
        (&[MOVED], "a redirection, which is not followed"),
    ] {
        let server = Server::answering(answer);
        let site = site(&server.url, KEYED);
        site.semel(&["run", "--output", "json"])
            .done()
            .says(words)
            .summary()
            .is(&[("dead", 1)]);
        assert_eq!(server.asked().len(), 1);
    }
}

#[test]
fn an_answer_that_says_nothing_certain_goes_by_the_class() {
    for (answers, words) in [
        (&[FAILED], "HTTP 500 from "),
        (&[BROKEN], "broke off"),
        (&[SILENT], "broke off before it answered"),
    ] {
        let server = Server::answering(answers);
        let parked = site(&server.url, PARK);
        parked.run().is(&[("in_doubt", 1)]);
        assert_eq!(server.asked().len(), 1, "never twice");
        let detail = parked.rows("s.db", "select detail from semel_parked");
        assert!(detail[0].contains(words), "{detail:?}");

        let server = Server::answering(answers);
        let repeated = site(&server.url, REPEAT);
        repeated.run().is(&[("in_doubt", 1)]);
        assert_eq!(server.asked().len(), 3);
        assert_eq!(
            repeated.rows("s.db", "select repeats from semel_records"),
            ["2"]
        );
    }
    let server = Server::answering(&[FAILED, BROKEN, OK]);
    let keyed = site(&server.url, KEYED);
    keyed.run().is(&[("applied", 1)]);
    let keys: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.header("idempotency-key").to_owned())
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// A provider that is down for a while: no message is dead, and the pipeline continues when it is back.
#[test]
fn a_server_that_is_not_there_is_waited_for() {
    let port = free_port::take().expect("a free port");
    let site = site(&format!("http://127.0.0.1:{port}/charge"), PARK);
    site.write("in", lines(0..200, |id| format!("{{\"id\":\"k{id}\"}}")));
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("a pause", || running.stderr().contains("[target-away]"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(running.is_running(), "it waits");
    let server = Server::listening(&format!("127.0.0.1:{port}"), &[OK]);
    let ended = running.wait().done().says("connection refused");
    ended.summary().is(&[("applied", 200)]);
    let told = |words: &str| ended.stderr.matches(words).count();
    assert_eq!(
        (told("p: paused: "), told("p: goes on after ")),
        (1, 1),
        "{}",
        ended.stderr
    );
    assert_eq!(server.asked().len(), 200, "none twice");
    let attempts = site.rows("s.db", "select distinct attempts from semel_records");
    assert_eq!(attempts, ["1"]);
}

/// An expired token: as many dead letters as it takes to notice, and the rest once the token is renewed.
#[test]
fn a_server_that_refuses_everybody_is_waited_for() {
    const EXPIRED: &str =
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const ANSWERS: &[&str] = &{
        let mut answers = [EXPIRED; 23];
        answers[22] = OK;
        answers
    };
    let server = Server::answering(ANSWERS);
    let site = site(&server.url, PARK);
    site.write("in", lines(0..100, |id| format!("{{\"id\":\"k{id}\"}}")));
    let ended = site
        .semel(&["run", "--output", "json"])
        .done()
        .says("HTTP 401 from")
        .says("[target-failing]; trying one message at a time");
    ended.summary().is(&[("dead", 20), ("applied", 80)]);
    assert_eq!(
        ended.stderr.matches("p: paused: ").count(),
        1,
        "{}",
        ended.stderr
    );
}
