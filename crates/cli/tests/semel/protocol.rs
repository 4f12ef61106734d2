//! The protocol as a run shows it: versions, births, order, windows, fingerprints.

use std::thread::sleep;
use std::time::Duration;

use crate::site::{Site, lines};

const STORES: [&str; 2] = ["sqlite:s.db", "embedded:data"];

fn site(store: &str, settings: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n{settings}\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n"
    );
    Site::with(&[("semel.toml", &config), ("in", input)])
}

#[test]
fn the_version_gate_refuses_older_and_equal_versions() {
    let gate = "key = \"json:/event\"\nentity = \"json:/id\"\nversion = \"json:/v\"";
    let applied = [
        r#"{"event":"e1","id":"a","v":1}"#,
        r#"{"event":"e2","id":"a","v":3}"#,
        r#"{"event":"e5","id":"b","v":1}"#,
        r#"{"event":"e6","id":"a","v":"4"}"#,
    ];
    let input = [
        applied[0],
        applied[1],
        r#"{"event":"e3","id":"a","v":2}"#,
        r#"{"event":"e4","id":"a","v":3}"#,
        applied[2],
        applied[1],
        applied[3],
        r#"{"event":"e7","id":"a"}"#,
        r#"{"event":"e8","id":"a","v":-1}"#,
        r#"{"event":"e9","id":"a","v":1.5}"#,
        r#"{"event":"e10","v":9}"#,
    ];
    for store in STORES {
        let site = site(store, gate, &input.join("\n"));
        // Older and equal under new keys: stale, no duplicates. The same event again: a duplicate.
        site.run().is(&[
            ("applied", 4),
            ("stale", 2),
            ("replayed", 1),
            ("quarantined", 4),
        ]);
        // The order of the source, entity by entity.
        let of = |id: &str, lines: &[&str]| -> Vec<String> {
            lines
                .iter()
                .filter(|line| line.contains(id))
                .map(|line| (*line).to_owned())
                .collect()
        };
        let out = site.text("out");
        let out: Vec<_> = out.lines().collect();
        assert_eq!(out.len(), 4);
        for id in ["\"id\":\"a\"", "\"id\":\"b\""] {
            assert_eq!(of(id, &out), of(id, &applied));
        }
        site.run()
            .is(&[("replayed", 5), ("stale", 2), ("quarantined", 4)]);
        if store == STORES[0] {
            assert_eq!(
                site.rows(
                    "s.db",
                    "select reason, count(*) from semel_parked group by reason"
                ),
                ["entity-missing|1", "version-invalid|3"]
            );
        }
    }
}

#[test]
fn the_age_gate_quarantines_what_has_no_record_and_is_older_than_the_window() {
    let settings = "key = \"json:/id\"\nbirth = \"json:/at\"\nwindow = \"7d\"";
    // A birth in the future counts as now.
    let fresh = r#"{"id":"a","at":"2999-01-01T00:00:00Z"}"#;
    let input = [
        fresh,
        r#"{"id":"b","at":"2020-01-01T00:00:00Z"}"#,
        r#"{"id":"c","at":1577836800}"#,
        r#"{"id":"d"}"#,
        r#"{"id":"e","at":"yesterday"}"#,
    ];
    for store in STORES {
        let site = site(store, settings, &input.join("\n"));
        let ended = site
            .semel(&["run", "--output", "json"])
            .done()
            .says("age gate: on");
        ended
            .summary()
            .is(&[("applied", 1), ("too_old", 2), ("quarantined", 2)]);
        assert!(
            ended
                .stderr
                .contains("quarantined in:2: no record, and older than the window [too-old]")
        );
        assert_eq!(site.text("out"), format!("{fresh}\n"));
        if store == STORES[0] {
            assert_eq!(
                site.rows(
                    "s.db",
                    "select reason, coordinates from semel_parked order by coordinates"
                ),
                [
                    "too-old|in:2",
                    "too-old|in:3",
                    "birth-missing|in:4",
                    "birth-invalid|in:5"
                ]
            );
        }
    }
}

#[test]
fn an_old_message_with_a_record_is_a_duplicate_and_not_too_old() {
    let settings = "key = \"json:/id\"\nfingerprint = \"none\"";
    let site = site(
        "sqlite:s.db",
        settings,
        "{\"id\":\"a\",\"at\":\"2020-01-01T00:00:00Z\"}\n",
    );
    site.run().is(&[("applied", 1)]);
    let config = site
        .text("semel.toml")
        .replace("fingerprint", "birth = \"json:/at\"\nfingerprint");
    site.write("semel.toml", config);
    site.run().is(&[("replayed", 1)]);
}

#[test]
fn without_a_fingerprint_the_first_message_of_a_key_wins() {
    let input = "{\"id\":1,\"n\":1}\n{\"id\":1,\"n\":2}\n";
    for store in STORES {
        let with = site(store, "key = \"json:/id\"", input);
        with.run().is(&[("applied", 1), ("conflicts", 1)]);
        let without = site(store, "key = \"json:/id\"\nfingerprint = \"none\"", input);
        without.run().is(&[("applied", 1), ("replayed", 1)]);
        assert_eq!(without.text("out"), "{\"id\":1,\"n\":1}\n");
    }
}

#[test]
fn a_fingerprint_does_not_mind_white_space_nor_the_order_of_members() {
    let input =
        "{\"id\":1,\"n\":[1,2.0]}\n{ \"n\" : [1.0, 2],\t\"id\": 1e0 }\n{\"id\":1,\"n\":[2,1]}\n";
    site("embedded:data", "key = \"json:/id\"", input)
        .run()
        .is(&[("applied", 1), ("replayed", 1), ("conflicts", 1)]);
}

#[test]
fn a_key_is_forgotten_when_its_window_has_passed() {
    for store in STORES {
        let site = site(
            store,
            "key = \"json:/id\"\nwindow = \"1s\"",
            "{\"id\":1}\n{\"id\":1}\n",
        );
        let ended = site
            .semel(&["run", "--output", "json"])
            .done()
            .says("window 1s, age gate: off");
        ended.summary().is(&[("applied", 1), ("replayed", 1)]);
        site.run().is(&[("replayed", 2)]);
        // The latest time is an eighth of the window plus one second after it.
        sleep(Duration::from_millis(2_300));
        site.run().is(&[("applied", 1), ("replayed", 1)]);
        assert_eq!(site.text("out"), "{\"id\":1}\n{\"id\":1}\n");
    }
}

#[test]
fn messages_of_one_order_key_run_in_source_order() {
    let customers = 5;
    let lines: String = lines(0..60, |id| {
        format!("{{\"id\":{id},\"customer\":{}}}", id % customers)
    });
    let exec = |order: &str| {
        format!(
            "[store]\nurl = \"embedded:data\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
             key = \"json:/id\"\nconcurrency = 8\n{order}\n\
             effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"] }}\n"
        )
    };
    // The earlier the message, the longer it takes.
    let handler =
        "read line; test \"${SEMEL_KEY#json:}\" -lt 8 && sleep 0.1; echo \"$line\" >> calls.log\n";
    let site = Site::with(&[
        ("semel.toml", &exec("order = \"json:/customer\"")),
        ("in", &lines),
        ("handler.sh", handler),
    ]);
    site.run().is(&[("applied", 60)]);
    let mut last = vec![-1; customers];
    for line in site.text("calls.log").lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect("a message");
        let id = message["id"].as_i64().expect("an id");
        let customer =
            usize::try_from(message["customer"].as_u64().expect("a customer")).expect("small");
        assert!(
            last[customer] < id,
            "customer {customer}: {id} after {}",
            last[customer]
        );
        last[customer] = id;
    }
    assert_eq!(last.iter().filter(|last| **last >= 55).count(), customers);
}

#[test]
fn a_retried_message_keeps_its_place_before_its_successors() {
    let config = "[store]\nurl = \"embedded:data\"\n[pipelines.p]\nsource = { kind = \"file\", path = \"in\" }\n\
                  key = \"json:/id\"\norder = \"json:/customer\"\nconcurrency = 8\n\
                  retry = { attempts = 5, backoff = \"30ms\" }\n\
                  effect = { kind = \"exec\", command = [\"sh\", \"handler.sh\"] }\n";
    let handler = "test \"$SEMEL_KEY\" = json:1 && test \"$SEMEL_ATTEMPT\" -lt 3 && exit 75\n\
                   echo \"$SEMEL_KEY\" >> calls.log\n";
    let lines: String = lines(1..6, |id| format!("{{\"id\":{id},\"customer\":7}}"));
    let site = Site::with(&[
        ("semel.toml", config),
        ("in", &lines),
        ("handler.sh", handler),
    ]);
    site.run().is(&[("applied", 5)]);
    assert_eq!(
        site.text("calls.log"),
        "json:1\njson:2\njson:3\njson:4\njson:5\n"
    );
}
