//! The export of the store of a running worker: over HTTP, by the verb through its admin API, and by the verb beside it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::Served;
use super::access::{config, listens, token};
use crate::claims::server::{Request, ask};
use crate::operator::STORES;
use crate::site::{Running, Site, lines, wait_for};

const BODY: &str = "{\"reason\":\"a copy for the audit\"}";

/// Sends an order to export, of which nothing is read yet.
fn begun(port: u16, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a limit");
    let head = format!(
        "POST /v1/store/export HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// The status of an answer, and its body up to where it ends.
fn read(mut stream: TcpStream) -> (u16, Vec<u8>) {
    let mut answer = Vec::new();
    // Of one that breaks off, what came counts.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let body = &answer[end + 4..];
    let body = if head.contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_vec()
    };
    (status.expect("a status"), body)
}

/// The parts of a body that comes in chunks, put together; panics if the last one is missing.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|it| it == b"\r\n");
        let (len, rest) = body.split_at(end.expect("a length"));
        let len = std::str::from_utf8(len).expect("digits");
        let len = usize::from_str_radix(len, 16).expect("a length");
        if len == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[2..2 + len]);
        body = &rest[2 + len + 2..];
    }
}

/// The lines of an export after its head, without their checksums: those go back to the time in the head.
fn bodies(export: &str) -> Vec<String> {
    let body = |line: &str| {
        line.rsplit_once(",\"crc\":")
            .expect("a checksum")
            .0
            .to_owned()
    };
    export.lines().skip(1).map(body).collect()
}

#[test]
fn it_is_the_file_of_the_verb_and_is_imported_as_such() {
    for store in STORES {
        let Served {
            site,
            port,
            running: (mut child, input),
        } = Served::start(store);
        let (status, export) = read(begun(port, ""));
        assert_eq!(status, 200);
        let export = String::from_utf8(export).expect("text");
        site.write("http.jsonl", &export);
        let entry = site.trail().pop().expect("an entry");
        let [by, action, _, _, reason] = &entry;
        assert_eq!(
            (&**by, &**action, &**reason),
            ("loopback", "export", "a copy for the audit")
        );
        // Each has one entry more than the one before it.
        let less_entries = |export: &str| {
            let mut bodies = bodies(export);
            bodies
                .retain(|it| !it.contains("\"action\":\"export\"") && !it.starts_with("{\"end\":"));
            bodies
        };
        // The verb beside the worker writes the same. An embedded store is exported by its worker, which is told, and
        // that leaves an entry; of others, nobody knows who works on them.
        let beside = site.semel(&["store", "export"]).done();
        assert_eq!(
            less_entries(&beside.stdout),
            less_entries(&export),
            "{store}"
        );
        let is_beside = store.starts_with("embedded:");
        let is_told = beside.stderr.contains("works on the store");
        assert_eq!(is_told, is_beside, "{beside:#?}");
        let entries = |export: &str| export.matches("\"action\":\"export\"").count();
        assert_eq!(
            entries(&beside.stdout),
            1 + usize::from(is_beside),
            "{store}"
        );
        let url = format!("http://127.0.0.1:{port}");
        let verb = ["store", "export", "--admin", &url, "--reason", "moving"];
        site.semel(&[&verb[..], &["--to", "verb.jsonl"]].concat())
            .done()
            .says("may be missing from the export")
            .says("verb.jsonl: ");
        let by_verb = site.text("verb.jsonl");
        let to_stdout = site.semel(&verb).done().stdout;
        assert_eq!(less_entries(&by_verb), less_entries(&export), "{store}");
        assert_eq!(less_entries(&to_stdout), less_entries(&export), "{store}");
        assert_eq!(entries(&by_verb), 2 + usize::from(is_beside), "{store}");
        // The worker goes on.
        let mut input = input;
        input.write_all(b"{\"id\":\"after\"}\n").expect("a message");
        wait_for("the effect", || site.path("ran-after").exists());
        drop(input);
        assert!(child.wait().expect("a child").success());
        let import = ["store", "import", "http.jsonl", "--store", "sqlite:new.db"];
        let import = site.semel(&[&import[..], &["--yes"]].concat()).done();
        assert!(import.stdout.contains("new:  "), "{import:#?}");
        let imported = site.semel(&["store", "export", "--store", "sqlite:new.db"]);
        let [mut there, mut here] = [&imported.done().stdout, &export].map(|it| less_entries(it));
        there.retain(|it| !it.contains("\"action\":\"import\""));
        for bodies in [&mut there, &mut here] {
            bodies.retain(|it| !it.starts_with("{\"token\":"));
            bodies.sort();
        }
        assert_eq!(there, here, "{store}");
    }
}

#[test]
fn a_client_that_stops_taking_holds_up_nobody_but_others_who_export() {
    let served = Served::start("embedded:data");
    // More than fits into the buffers of a connection.
    let text = "x".repeat(512 << 10);
    let large = lines(0..48, |id| {
        format!("{{\"id\":\"done-1\",\"amount\":{id},\"text\":\"{text}\"}}")
    });
    let (mut child, mut input) = served.running;
    let (site, port) = (&served.site, served.port);
    input.write_all(large.as_bytes()).expect("messages");
    wait_for("the messages in quarantine", || {
        let status = ask(port, &Request::get("/v1/store")).body;
        status["parked"]["fingerprint-conflict"].as_u64() >= Some(49)
    });
    let mut slow = begun(port, "");
    let mut begin = [0; 1 << 10];
    slow.read_exact(&mut begin).expect("the head");
    assert!(begin.starts_with(b"HTTP/1.1 200 "));
    let (status, problem) = read(begun(port, ""));
    let problem: Value = serde_json::from_slice(&problem).expect("JSON");
    assert_eq!(
        (status, &problem["code"]),
        (409, &"export-unfinished".into())
    );
    let url = format!("http://127.0.0.1:{port}");
    let verb = ["store", "export", "--admin", &url, "--reason", "why"];
    site.semel(&verb).code(3).says("[export-unfinished]");
    // Messages go on meanwhile.
    input
        .write_all(b"{\"id\":\"meanwhile\"}\n")
        .expect("a message");
    wait_for("the effect", || site.path("ran-meanwhile").exists());
    drop(slow);
    let mut last = Vec::new();
    wait_for("a place for another one", || {
        let (status, export) = read(begun(port, ""));
        last = export;
        status == 200
    });
    let export = String::from_utf8(last).expect("text");
    assert!(export.len() > 24 << 20, "{}", export.len());
    assert!(
        export
            .lines()
            .last()
            .is_some_and(|it| it.starts_with("{\"end\":"))
    );
    drop(input);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_worker_that_is_killed_leaves_no_file_of_the_verb() {
    // Whoever answers here breaks off, or ends in good order before the last line.
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"se\n\r\n";
    for (end, said) in [
        (
            "",
            "broke off after 5 bytes of the export, which is not whole",
        ),
        ("0\r\n\r\n", "it ends before its last line"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let broken = thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().expect("a verb");
                let mut asked = Vec::new();
                while !asked.ends_with(b"}") {
                    let mut part = [0; 1 << 10];
                    let count = stream.read(&mut part).expect("a request");
                    asked.extend_from_slice(&part[..count]);
                }
                stream.write_all(head.as_bytes()).expect("sent");
                stream.write_all(end.as_bytes()).expect("sent");
            }
        });
        let site = Site::new();
        let verb = ["store", "export", "--admin", &url, "--reason", "why"];
        site.semel(&verb).code(3).says(said);
        site.semel(&[&verb[..], &["--to", "a.jsonl"]].concat())
            .code(3)
            .says(said);
        let left = std::fs::read_dir(site.path(".")).expect("a folder");
        let left: Vec<_> = left.map(|it| it.expect("an entry").file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
        broken.join().expect("no panic");
    }
}

#[test]
fn an_admin_alone_exports_and_says_why() {
    let port = free_port::take().expect("a free port");
    let text = config(&format!("listen = \"0.0.0.0:{port}\""));
    let site = Site::with(&[("semel.toml", &text)]);
    let mut command = site.command();
    let roles = ["viewer", "operator", "admin"];
    let tokens = roles.map(|role| token(&site, &format!("{role} --role {role}")));
    let mut running = Running::start(command.arg("run").stdin(Stdio::piped()));
    listens(&mut running, port);
    wait_for("a worker that is ready", || {
        ask(port, &Request::get("/readyz")).status == 200
    });
    for (token, role) in tokens.iter().zip(roles) {
        let (status, body) = read(begun(port, &format!("authorization: {token}\r\n")));
        let is_export = body.starts_with(b"{\"semel_export\":");
        let expected = if role == "admin" {
            (200, true)
        } else {
            (403, false)
        };
        assert_eq!((status, is_export), expected, "{role}");
    }
    assert_eq!(read(begun(port, "")).0, 401);
    let url = format!("http://127.0.0.1:{port}");
    let secret = |token: &str| token.trim_start_matches("Bearer ").to_owned();
    let verb = |token: &str, words: &[&str]| {
        let mut command = site.command();
        command
            .args(["store", "export", "--admin", &url])
            .args(words);
        command.env("SEMEL_TOKEN", secret(token));
        Running::start(&mut command).wait()
    };
    let [_, operator, admin] = &tokens;
    verb(operator, &["--reason", "why"])
        .code(2)
        .says("[forbidden]");
    verb(admin, &[]).code(2).says("--reason TEXT");
    verb(admin, &["--reason", "why", "--pipeline", "pay"])
        .code(2)
        .says("leave out --pipeline");
    verb(admin, &["--reason", "why"]).done();
    running.signal(Signal::TERM);
    running.wait().done();
    // The reason is for a worker that is asked.
    site.semel(&["store", "export", "--reason", "why"]).code(2);
    let by: Vec<_> = site.trail().into_iter().map(|[by, ..]| by).collect();
    assert_eq!(by, ["admin", "admin"]);
}
