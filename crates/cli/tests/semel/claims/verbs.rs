//! Operating verbs about keys that clients claim: what they say is true of claims, and what they advise works.

use serde_json::{Value, json};

use super::server::Server;
use super::{FIRST, SECOND, claim};
use crate::operator::items;
use crate::site::Site;

/// The words that are only true of keys which messages have.
const OF_MESSAGES: [&str; 6] = [
    "message",
    "deliver",
    "broker",
    "worker",
    "quarantine",
    "dead letter",
];

/// Ends the claim of a new key with this step.
fn ended(server: &Server, key: &str, more: &Value, verb: &str, report: &Value) -> Value {
    let mut asked = json!({ "operation": "charge", "key": key });
    for (name, value) in more.as_object().into_iter().flatten() {
        asked[name] = value.clone();
    }
    let granted = server.claims(&asked);
    assert_eq!(granted["decision"], "granted", "{granted}");
    let done = server.step(&granted, verb, report);
    assert_eq!(done.status, 200, "{done:?}");
    done.body["state"].clone()
}

/// Makes a key of each state that lasts.
fn all_states(server: &Server) -> [&'static str; 5] {
    let none = json!({});
    let keyed = json!({ "class": "keyed", "provider_window": "24h" });
    let parked = json!({ "class": "unkeyed" });
    let sure = json!({ "error": "declined", "certainty": "not_applied" });
    let surely = json!({ "certainty": "not_applied" });
    let unsure = json!({ "error": "timed out" });
    for (key, more, verb, report, state) in [
        ("completed-1", &none, "complete", &none, "completed"),
        ("released-1", &none, "release", &surely, "released"),
        ("dead-1", &none, "fail", &sure, "dead"),
        ("keyed-1", &keyed, "fail", &unsure, "in_doubt"),
        ("parked-1", &parked, "fail", &unsure, "in_doubt"),
    ] {
        assert_eq!(ended(server, key, more, verb, report), state, "{key}");
    }
    ["completed-1", "released-1", "dead-1", "keyed-1", "parked-1"]
}

/// The words of a command to paste.
fn words(command: &str) -> Vec<String> {
    let words = command.split(' ').skip(1);
    words
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

fn run(site: &Site, words: &[String]) -> crate::site::Ended {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    site.semel(&words)
}

#[test]
fn an_explanation_speaks_of_claims_and_advises_what_works() {
    for store in ["embedded:data", "sqlite:claims.db"] {
        let server = Server::start(store, "");
        let site = server.site();
        for key in all_states(&server) {
            let shown = site.semel(&["keys", "explain", key]).done().stdout;
            for word in OF_MESSAGES {
                assert!(!shown.to_lowercase().contains(word), "{word}: {shown}");
            }
            let explained = site.semel(&["keys", "explain", key, "--output", "json"]);
            let explained: Value = serde_json::from_str(&explained.done().stdout).expect("JSON");
            let can = explained["can"].as_array().expect("a list");
            assert!(!can.is_empty(), "{explained}");
            for command in can.iter().filter_map(|it| it["command"].as_str()) {
                let ended = run(site, &words(command));
                let code = ended.status.code();
                let said = format!("{}{}", ended.stdout, ended.stderr);
                // A plan that is not confirmed changes nothing, which is a no.
                assert!(matches!(code, Some(0 | 1)), "{command}: {said}");
                if said.contains("its call can still land") {
                    // It says from when on it works.
                    continue;
                }
                for word in ["no dead letter", "a message", "nothing to "] {
                    assert!(!said.contains(word), "{command}: {word}: {said}");
                }
            }
        }
    }
}

#[test]
fn a_doubt_is_tried_again_by_the_next_claim() {
    for store in ["embedded:data", "sqlite:claims.db"] {
        let server = Server::start(store, "");
        all_states(&server);
        let site = server.site();
        let of = ["--pipeline", "charge"];
        let refused = [&["in-doubt", "retry", "parked-1"][..], &of].concat();
        site.semel(&refused).code(1).says("refused");
        let retry = [&["in-doubt", "retry", "keyed-1"][..], &of].concat();
        site.semel(&retry)
            .code(1)
            .says("released for the next claim of its key");
        site.semel(&[&retry[..], &["--yes"]].concat()).done();
        let again = server.claims(&json!({ "operation": "charge", "key": "keyed-1" }));
        assert_eq!(again["decision"], "granted", "{store}: {again}");
        // A dead one as well, and nothing is said of a message that nobody kept.
        let release = [&["keys", "release", "dead-1"][..], &of].concat();
        site.semel(&release)
            .code(1)
            .says("a client has to claim the key again");
        site.semel(&[&release[..], &["--yes"]].concat()).done();
        let again = server.claims(&json!({ "operation": "charge", "key": "dead-1" }));
        assert_eq!(again["decision"], "granted", "{store}: {again}");
        let doubts = site.semel(&["in-doubt", "list", "--output", "json"]).done();
        assert_eq!(items(&doubts).len(), 1, "{doubts:?}");
    }
}

#[test]
fn an_outcome_that_an_operator_gives_as_a_text_says_that_it_is_one() {
    let server = Server::start("embedded:data", "");
    for (key, outcome, told) in [
        (
            "payment-1",
            "receipt 17",
            json!({ "outcome_base64": "cmVjZWlwdCAxNw==", "content_type": "text/plain; charset=utf-8" }),
        ),
        (
            "payment-2",
            "\"receipt 17\"",
            json!({ "outcome": "receipt 17" }),
        ),
        ("payment-3", "", json!({})),
    ] {
        let granted = server.claims(&claim(key, FIRST));
        let doubt = server.step(&granted, "fail", &json!({}));
        assert_eq!(doubt.body["state"], "in_doubt", "{doubt:?}");
        let words = [
            "in-doubt",
            "resolve",
            key,
            "--pipeline",
            "charge",
            "--applied",
            "--outcome",
            outcome,
        ];
        let plan = server.site().semel(&words).code(1);
        assert_eq!(
            plan.stderr.contains("as text/plain in `outcome_base64`"),
            key == "payment-1",
            "{plan:?}"
        );
        server
            .site()
            .semel(&[&words[..], &["--yes"]].concat())
            .done();
        let replay = server.claims(&claim(key, SECOND));
        assert_eq!(replay["decision"], "replay", "{replay}");
        for name in ["outcome", "outcome_base64", "content_type"] {
            assert_eq!(replay.get(name), told.get(name), "{name}: {replay}");
        }
    }
}
