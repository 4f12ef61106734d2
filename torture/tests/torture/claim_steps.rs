//! Steps that clients of the claim API report: the server dies of each request once, with `kill -9`,
//! and the client asks again in the same words. What it is told then stands in the laws, whatever the server had done.

use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use torture::{Run, Site, tell};

use crate::claims::{post, start};

/// A server, and those who ask it.
struct Server {
    site: Site,
    port: u16,
    run: Option<Run>,
    kills: u64,
}

impl Server {
    fn start() -> Self {
        let port = free_port::take().expect("a free port");
        let config =
            format!("[store]\nurl = \"embedded:data\"\n[claims]\nlisten = \"127.0.0.1:{port}\"\n");
        let site = Site::with(&[("semel.toml", &config)]);
        let run = Some(start(&site, port));
        Self {
            site,
            port,
            run,
            kills: 0,
        }
    }

    /// Asks, kills the server a moment later, and asks its successor the same.
    fn asked(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a server");
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .expect("a server");
        let moment = MOMENTS[usize::try_from(self.kills).unwrap_or(0) % MOMENTS.len()];
        let run = self.run.take().expect("a server");
        assert!(run.kill_after(moment), "it ran until then");
        self.kills += 1;
        self.run = Some(start(&self.site, self.port));
        loop {
            match post(self.port, path, &body) {
                Some((status, said)) if status < 500 => return (status, said),
                Some(_) | None => sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Claims a key without a class, under this id.
    fn claims(&mut self, key: &str, id: u32, more: &Value) -> Value {
        let mut claim = json!({
            "operation": "charge", "key": key, "lease": LEASE_TEXT, "claim_id": format!("{id:032x}"),
        });
        let members = more.as_object().expect("members").clone();
        claim.as_object_mut().expect("members").extend(members);
        let (status, said) = self.asked("/v1/claims", &claim);
        assert_eq!(status, 200, "{claim}: {said}");
        said
    }

    /// Is granted a key that nobody is at.
    fn granted(&mut self, key: &str, id: u32, more: &Value) -> String {
        let said = self.claims(key, id, more);
        assert_eq!(said["decision"], "granted", "{key}: {said}");
        said["claim"].as_str().expect("a claim").to_owned()
    }

    /// Is told that the key is parked in this state.
    fn parked(&mut self, key: &str, id: u32, more: &Value, state: &str) {
        let said = self.claims(key, id, more);
        let told = (&said["decision"], &said["state"]);
        assert_eq!(told, (&json!("parked"), &json!(state)), "{key}: {said}");
    }

    /// Reports a step that is taken.
    fn says(&mut self, claim: &str, verb: &str, body: &Value, state: &str) {
        let (status, said) = self.asked(&format!("/v1/claims/{claim}/{verb}"), body);
        let told = (status, &said["state"]);
        assert_eq!(told, (200, &json!(state)), "{verb} {body}: {said}");
    }

    /// Reports a step of a claim that is lost.
    fn is_fenced(&mut self, claim: &str, verb: &str, body: &Value) {
        let (status, said) = self.asked(&format!("/v1/claims/{claim}/{verb}"), body);
        let told = (status, &said["code"]);
        assert_eq!(told, (409, &json!("claim-lost")), "{verb} {body}: {said}");
    }
}

/// The row S11 of the protocol: of late failures, only one that speaks for every attempt ends a doubt.
fn a_late_failure(server: &mut Server) {
    let none = json!({});
    let claim = server.granted("late", 1, &none);
    server.says(&claim, "start", &none, "started");
    sleep(LEASE);
    server.parked("late", 2, &none, "in_doubt");
    let sure = json!({"certainty": "not_applied"});
    server.says(&claim, "fail", &sure, "in_doubt");
    server.parked("late", 3, &none, "in_doubt");
    let decisive = json!({"certainty": "not_applied", "decisive": true});
    server.says(&claim, "fail", &decisive, "dead");
    server.says(&claim, "fail", &decisive, "dead");
    server.is_fenced(&claim, "complete", &json!({"outcome": 1}));
    server.parked("late", 4, &none, "dead");
}

/// An effect that began unmarked, and whose claim lost its entity since: it is in doubt, and not run again.
fn a_late_word(server: &mut Server, verb: &str) {
    let none = json!({});
    let unsure = json!({"error": "timed out", "certainty": "maybe_applied"});
    let version = |version: u64| json!({"entity": format!("of {verb}"), "version": version});
    let (old, new) = (format!("old {verb}"), format!("new {verb}"));
    let first = server.granted(&old, 1, &version(1));
    sleep(LEASE);
    let second = server.granted(&new, 2, &version(2));
    server.is_fenced(&first, "start", &none);
    server.says(&first, verb, &unsure, "in_doubt");
    server.parked(&old, 3, &version(1), "in_doubt");
    server.says(&second, "complete", &json!({"outcome": 2}), "completed");
    server.says(&first, "complete", &json!({"outcome": 1}), "completed");
}

/// A claim that another one has taken over changes nothing, whatever it says.
fn a_lost_claim(server: &mut Server) {
    let none = json!({});
    let first = server.granted("lost", 1, &none);
    sleep(LEASE);
    let second = server.granted("lost", 2, &none);
    for (verb, body) in [
        ("complete", json!({"outcome": 1})),
        ("release", json!({"certainty": "maybe_applied"})),
        ("fail", json!({"certainty": "maybe_applied"})),
        ("fail", json!({"decisive": true})),
    ] {
        server.is_fenced(&first, verb, &body);
    }
    server.says(&second, "complete", &json!({"outcome": 2}), "completed");
    let said = server.claims("lost", 3, &none);
    let told = (&said["decision"], &said["outcome"]);
    assert_eq!(told, (&json!("replay"), &json!(2)), "{said}");
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn what_clients_say_counts_though_the_server_dies_of_each_word() {
    let mut server = Server::start();
    a_late_failure(&mut server);
    a_late_word(&mut server, "release");
    a_late_word(&mut server, "fail");
    a_lost_claim(&mut server);
    assert!(server.kills > 30, "{} kills", server.kills);
    tell("claims, word by word", &[("kills", server.kills)]);
}

const LEASE: Duration = Duration::from_millis(600);
const LEASE_TEXT: &str = "500ms";
/// The lives that a server still has when a request is on its way: some die before they read it, some behind their answer.
const MOMENTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_micros(500),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
];
