//! Servers that cannot be reached: reported once, within two seconds, with the reason and without the password.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use rustix::process::Signal;

use crate::site::{Running, Site};

const PASSWORD: &str = "c4n4ry";
/// The promise is two seconds; the rest is for a busy machine.
const PROMPT: Duration = Duration::from_secs(6);

/// A server and its place: its name, and its configuration at an address.
struct Server {
    name: &'static str,
    config: fn(&str) -> String,
}

const STORES: &[Server] = &[
    #[cfg(feature = "postgres")]
    Server {
        name: "PostgreSQL",
        config: |at| {
            of_store(&format!(
                "postgres://me:{PASSWORD}@{at}/shop?sslmode=disable"
            ))
        },
    },
    #[cfg(feature = "mysql")]
    Server {
        name: "MySQL",
        config: |at| of_store(&format!("mysql://me:{PASSWORD}@{at}/shop")),
    },
    #[cfg(feature = "redis")]
    Server {
        name: "Redis",
        config: |at| of_store(&format!("redis://:{PASSWORD}@{at}")),
    },
];

const BROKERS: &[Server] = &[
    #[cfg(feature = "nats")]
    Server {
        name: "NATS",
        config: |at| {
            of_source(&format!(
                "kind = \"nats\"\nurl = \"nats://me:{PASSWORD}@{at}\"\nstream = \"S\"\nconsumer = \"c\""
            ))
        },
    },
    #[cfg(feature = "kafka")]
    Server {
        name: "Kafka",
        config: |at| {
            of_source(&format!(
                "kind = \"kafka\"\nbrokers = \"{at}\"\ntopic = \"t\"\ngroup = \"g\""
            ))
        },
    },
    #[cfg(feature = "amqp")]
    Server {
        name: "RabbitMQ",
        config: |at| {
            of_source(&format!(
                "kind = \"amqp\"\nurl = \"amqp://me:{PASSWORD}@{at}/\"\nqueue = \"q\""
            ))
        },
    },
];

fn of_store(url: &str) -> String {
    format!(
        "[store]\nurl = \"{url}\"\n[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\", on_doubt = \"repeat\" }}\n"
    )
}

fn of_source(source: &str) -> String {
    format!(
        "[store]\nurl = \"embedded:./semel-data\"\n[pipelines.p]\nkey = \"line\"\n\
         effect = {{ kind = \"stdout\", on_doubt = \"repeat\" }}\n[pipelines.p.source]\n{source}\n"
    )
}

/// Starts a run and waits until it says `words`; returns everything that it says within the next second.
#[track_caller]
fn told(server: &Server, at: &str, words: &str) -> String {
    let site = Site::with(&[("semel.toml", &(server.config)(at))]);
    let mut running = site.start(&["run"]);
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while !running.stderr().contains(words) {
        let name = server.name;
        let said = running.stderr();
        assert!(running.is_running(), "{name}: it ended: {said}");
        assert!(waited < PROMPT, "{name}: no {words:?} in {said}");
        std::thread::sleep(step);
        waited += step;
    }
    std::thread::sleep(Duration::from_secs(1));
    ended(running)
}

fn ended(running: Running) -> String {
    running.signal(Signal::TERM);
    let ended = running.wait().done();
    assert!(!ended.stderr.contains(PASSWORD), "{}", ended.stderr);
    assert!(!ended.stderr.contains("error:"), "{}", ended.stderr);
    ended.stderr
}

fn all() -> impl Iterator<Item = &'static Server> {
    STORES.iter().chain(BROKERS)
}

#[test]
fn a_closed_port_is_told_as_such() {
    let port = free_port::take().expect("a free port");
    let at = format!("127.0.0.1:{port}");
    for server in all() {
        let words = format!("{at}: connection refused");
        let said = told(server, &at, &words);
        let what = format!("{} cannot be reached at ", server.name);
        assert_eq!(said.matches(&what).count(), 1, "told once: {said}");
        assert_eq!(said.matches("trying again").count(), 1, "{said}");
    }
}

#[test]
fn a_name_of_nobody_is_told_as_such() {
    for server in all() {
        let at = "nohost.invalid:1234";
        let words = format!("{at}: the name does not resolve");
        let said = told(server, at, &words);
        let what = format!("{} cannot be reached at ", server.name);
        assert_eq!(said.matches(&what).count(), 1, "told once: {said}");
    }
}

/// A server that never answers is reported after two seconds, however long a driver would wait.
#[test]
fn a_listener_that_never_answers_is_told_within_two_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("an address").to_string();
    for server in all() {
        let said = told(server, &at, "no answer");
        assert_eq!(said.matches("no answer").count(), 1, "told once: {said}");
    }
}

/// A listener that is no server of this kind, and speaks no TLS.
#[cfg(all(
    feature = "postgres",
    feature = "redis",
    feature = "amqp",
    feature = "nats"
))]
#[test]
fn a_listener_without_tls_is_told_where_tls_is_wanted() {
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = plain.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in plain.incoming() {
            let Ok(mut stream) = stream else { continue };
            // The client is most likely gone again.
            let _ = stream.write_all(b"220 plain text here\r\n");
        }
    });
    for config in [
        of_store(&format!(
            "postgres://me:{PASSWORD}@{at}/shop?sslmode=require"
        )),
        of_store(&format!("rediss://:{PASSWORD}@{at}")),
        of_source(&format!(
            "kind = \"amqp\"\nurl = \"amqps://me:{PASSWORD}@{at}/\"\nqueue = \"q\""
        )),
    ] {
        let site = Site::with(&[("semel.toml", &config)]);
        let ended = site.semel(&["run"]).code(2).says("TLS").says(&at);
        assert!(!ended.stderr.contains(PASSWORD), "{}", ended.stderr);
    }
}

#[test]
fn a_taken_admin_port_names_who_has_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let config = of_store("embedded:./semel-data") + &format!("[admin]\nlisten = \"{at}\"\n");
    let site = Site::with(&[("semel.toml", &config)]);
    let ended = site.semel(&["run"]).code(3);
    let ended = ended
        .says("[address-in-use]")
        .says(&format!("{at} is in use by "));
    if cfg!(target_os = "linux") {
        // The listener is this test.
        ended.says(&format!("process {} (", std::process::id()));
    }
    site.semel(&["explain", "address-in-use"]).done();
}
