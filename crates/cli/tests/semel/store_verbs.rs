//! `semel store`: the store as a whole.

use crate::operator::{STORES, fresh, items, member, object, worked, worker};
use crate::site::Site;

const VERBS: [&[&str]; 4] = [
    &["store", "stats"],
    &["store", "audit"],
    &["store", "sweep"],
    &["store", "migrate"],
];

#[test]
fn every_verb_has_help_with_an_example_and_refuses_what_it_does_not_know() {
    let site = Site::new();
    for verb in VERBS {
        let help = site.semel(&[verb[0], verb[1], "--help"]).done();
        assert!(help.stdout.contains("Example"), "{help:#?}");
        let arguments = [verb, &["--no-such-option"]].concat();
        assert_eq!(site.semel(&arguments).code(2).stdout, "");
        let elsewhere = [verb, &["--store", "nosql:x"]].concat();
        site.semel(&elsewhere).code(2).says("--store: ");
    }
}

#[test]
fn a_store_that_is_not_there_is_told_and_not_made() {
    for store in STORES {
        let site = fresh(store);
        for verb in VERBS {
            let ended = site.semel(verb).code(3).says("there is no store at");
            assert_eq!(ended.stdout, "");
            assert!(!site.path("data").exists() && !site.path("s.db").exists());
        }
    }
}

#[test]
fn a_store_in_use_can_be_looked_at() {
    let site = worked("embedded:data");
    let (mut child, stdin) = worker(&site);
    site.semel(VERBS[0]).done();
    site.semel(VERBS[1]).done();
    site.semel(VERBS[2])
        .code(1)
        .says("plan: sweep 1 store\n  embedded:data\n")
        .says("nothing was changed");
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_foreign_file_is_told_and_left_alone() {
    let site = Site::with(&[("data/letter", "")].map(|_| ("letter", "dear")));
    for store in ["sqlite:letter", "embedded:."] {
        for verb in VERBS {
            let arguments = [verb, &["--store", store]].concat();
            site.semel(&arguments).code(3).says("[store-");
        }
    }
    assert_eq!(site.text("letter"), "dear");
}

#[test]
fn stats_count_what_the_store_holds() {
    for store in STORES {
        let site = worked(store);
        site.semel(&["keys", "hold", "done-1", "--yes"]).done();
        let stats = site.semel(&["store", "stats", "--output", "json"]).done();
        let members = [
            "url",
            "kind",
            "durability",
            "shared",
            "accepted",
            "warnings",
            "records",
            "parked",
            "audit_entries",
            "disk_bytes",
            "entities",
            "remembered",
        ];
        let places = members.map(|name| stats.stdout.find(&format!(",\"{name}\":")));
        assert!(
            places.is_sorted() && places[1..].iter().all(Option::is_some),
            "they keep their places, new ones come behind: {}",
            stats.stdout
        );
        let stats = object(&stats);
        assert_eq!(
            stats.as_object().map(serde_json::Map::len),
            Some(members.len())
        );
        assert_eq!(stats["url"], store);
        assert_eq!(stats["durability"], "power_cut");
        let counts = [
            "total",
            "claimed",
            "started",
            "released",
            "completed",
            "dead",
            "in_doubt",
        ]
        .map(|name| stats["records"][name].as_u64().expect("a count"));
        assert_eq!(counts, [5, 0, 0, 0, 2, 1, 2]);
        assert_eq!(
            stats["parked"],
            serde_json::json!({"dead": 1, "fingerprint-conflict": 1, "in-doubt": 2})
        );
        assert_eq!(stats["audit_entries"], 1);
        assert!(
            stats["disk_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
            "{stats}"
        );
        let table = site.semel(&["store", "stats"]).done();
        assert!(
            table.stdout.contains("survives:             power cut"),
            "{}",
            table.stdout
        );
    }
}

#[test]
fn a_sweep_removes_what_has_passed_its_window_and_says_how_much() {
    for store in STORES {
        let site = fresh(store);
        let config = site.text("semel.toml") + "[window]\nduration = \"1s\"\n";
        site.write(
            "semel.toml",
            config.replace("retry =", "lease = \"100ms\"\nretry ="),
        );
        site.write("in", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
        site.run().is(&[("applied", 2)]);
        // The records are forgotten at most a second after their window.
        let are_over = || ["a", "b"].iter().all(|key| site.state(key).is_none());
        crate::site::wait_for("the end of the window", are_over);
        site.semel(&["store", "sweep"])
            .code(1)
            .says("plan: sweep 1 store")
            .says("nothing was changed; to carry it out:\n  ");
        assert!(site.trail().is_empty(), "nothing was done");
        let swept = site
            .semel(&["store", "sweep", "--yes", "--output", "json"])
            .done();
        let swept = object(&swept);
        let counts = ["removed", "doubted", "abandoned"].map(|name| swept[name].as_u64());
        assert_eq!(counts, [Some(2), Some(0), Some(0)], "{store}");
        let again = site
            .semel(&["store", "sweep", "--yes", "--output", "json"])
            .done();
        assert_eq!(object(&again)["removed"], 0);
        let trail = site.trail();
        assert_eq!((trail.len(), trail[0][1].as_str()), (2, "sweep"));
        assert_eq!(trail[0][3], "2 removed, 0 in doubt");
        let stats = site.semel(&["store", "stats", "--output", "json"]).done();
        assert_eq!(object(&stats)["records"]["total"], 0);
    }
}

#[test]
fn the_trail_lists_who_did_what_and_is_narrowed_by_key_and_time() {
    for store in STORES {
        let site = worked(store);
        let trail = |rest: &[&str]| {
            let ended = site.semel(&[&["store", "audit", "--output", "json"], rest].concat());
            items(&ended.done())
        };
        assert!(trail(&[]).is_empty());
        site.semel(&["keys", "hold", "done-1", "json:7", "--yes", "--by", "ada"])
            .done();
        site.semel(&[
            "keys", "forget", "json:7", "--yes", "--by", "bob", "--reason", "a\nb",
        ])
        .done();
        let all = trail(&[]);
        assert_eq!(member(&all, "action"), ["forget", "hold", "hold"]);
        assert_eq!(all[2]["by"], "bob");
        assert_eq!(all[2]["reason"], "a b", "one line");
        assert_eq!(all[2]["pipeline"], "pay");
        assert!(all[2]["operation_id"].is_string() && all[2]["at"].is_string());
        assert_eq!(trail(&["--key", "json:7"]).len(), 2);
        assert_eq!(trail(&["--since", "1h"]).len(), 3);
        assert_eq!(trail(&["--since", "0s"]).len(), 0);
        assert_eq!(trail(&["--limit", "1"]).len(), 1);
        assert_eq!(trail(&["--pipeline", "mail"]).len(), 0);
    }
}

#[test]
fn the_trail_is_for_people_in_the_words_of_every_table() {
    let site = worked("sqlite:s.db");
    let resolve = ["in-doubt", "resolve", "doubt-1", "--applied", "--yes"];
    site.semel(&resolve).done();
    let table = site.semel(&["store", "audit"]).done().stdout;
    let resolved = table.lines().nth(1).expect("an entry");
    assert!(resolved.contains("  in doubt  "), "{table}");
    assert!(resolved.ends_with("  -"), "no reason was given: {table}");
}

#[test]
fn a_verb_about_the_whole_store_takes_no_pipeline() {
    let site = worked("sqlite:s.db");
    for verb in ["stats", "sweep", "migrate"] {
        site.semel(&["store", verb, "--pipeline", "pay"])
            .code(2)
            .says("unexpected argument '--pipeline'");
    }
}

#[test]
fn a_store_that_cannot_be_read_is_not_taken_for_absent() {
    let site = fresh("embedded:data");
    std::fs::create_dir_all(site.path("data/superblock")).expect("a folder");
    for arguments in [&["keys", "list"][..], &["store", "stats"], &["check"]] {
        let ended = site.semel(arguments).code(3);
        assert!(!ended.stderr.contains("there is no store"), "{ended:#?}");
        ended
            .says("error: embedded:data: ")
            .says("caused by: Is a directory");
    }
}

#[test]
fn an_error_of_a_store_says_which_store() {
    let site = worked("embedded:data");
    std::fs::remove_file(site.path("data/superblock")).expect("a file");
    for arguments in [
        &["keys", "list"][..],
        &["store", "stats"],
        &["store", "sweep"],
        &["run"],
        &["check"],
    ] {
        site.semel(arguments)
            .code(3)
            .says("error: embedded:data: superblock is damaged")
            .says("[record-corrupt]");
    }
    site.semel(&["keys", "list", "--store", "embedded:in"])
        .code(3)
        .says("error: there is no store at embedded:in; check the path");
}

#[test]
fn who_is_the_variable_else_the_user_on_this_host() {
    let site = worked("sqlite:s.db");
    let hold = |site: &Site, off: bool| {
        let mut command = site.command();
        command.args(["keys", "hold", "done-1", "--yes"]);
        if off {
            command.arg("--off").env("SEMEL_OPERATOR", "pager");
        } else {
            command.env("USER", "grace");
        }
        crate::site::Running::start(&mut command).wait().done();
    };
    hold(&site, false);
    hold(&site, true);
    let trail = site.trail();
    assert!(trail[0][0].starts_with("grace@"), "{trail:?}");
    assert_eq!(trail[1][0], "pager");
}

/// A store that the first version wrote.
fn of_version_1(store: &str) -> Site {
    let site = Site::new();
    let stores = concat!(env!("CARGO_MANIFEST_DIR"), "/../stores");
    let copy = |from: &str, to: &str| {
        std::fs::copy(format!("{stores}/{from}"), site.path(to)).expect("a golden file");
    };
    if store.starts_with("sqlite") {
        copy("sqlite/tests/golden/v1.db", "s.db");
    } else {
        std::fs::create_dir(site.path("data")).expect("a folder");
        for name in [
            "superblock",
            "records-0000000001.log",
            "parked-0000000001.log",
        ] {
            copy(
                &format!("embedded/tests/golden/v1/{name}"),
                &format!("data/{name}"),
            );
        }
    }
    site
}

#[test]
fn a_store_of_an_older_version_is_brought_forward_once() {
    for store in STORES {
        let site = of_version_1(store);
        let migrate = || {
            let arguments = ["store", "migrate", "--store", store, "--output", "json"];
            object(&site.semel(&arguments).done())
        };
        let first = migrate();
        assert_eq!(
            (&first["from"], &first["migrated"]),
            (&1.into(), &true.into())
        );
        assert_eq!(first["to"], first["newest"]);
        let second = migrate();
        assert_eq!(
            (&second["from"], &second["migrated"]),
            (&first["to"], &false.into())
        );
        let said = site.semel(&["store", "migrate", "--store", store]).done();
        assert!(
            said.stdout
                .starts_with("nothing to do: the store has format"),
            "{said:#?}"
        );
        let stats = site.semel(&["store", "stats", "--store", store, "--output", "json"]);
        assert!(object(&stats.done())["records"]["total"].as_u64().is_some());
    }
}

#[test]
fn whoever_brings_a_store_forward_without_being_asked_says_so() {
    let told = "was brought forward from format 1 to format 3; versions of semel that write format 1 \
                cannot open it any more";
    for store in STORES {
        let site = of_version_1(store);
        let list = ["keys", "list", "--store", store];
        let listed = site.semel(&list).done();
        // Files that are only read stay as they are.
        let is_forward = listed.stderr.contains(told);
        assert_eq!(is_forward, store.starts_with("sqlite"), "{listed:#?}");
        assert!(!site.semel(&list).done().stderr.contains("forward"));
        let hold = ["keys", "hold", "held", "--pipeline", "charges", "--yes"];
        let hold = site.semel(&[&hold[..], &["--store", store]].concat());
        assert_eq!(hold.stderr.contains(told), !is_forward, "{hold:#?}");
        let older = of_version_1(store);
        let pipeline = "[pipelines.p]\nsource = { kind = \"stdin\" }\nkey = \"line\"\n\
                        effect = { kind = \"stdout\" }\n";
        older.write("semel.toml", pipeline);
        older.semel(&["run", "--store", store]).done().says(told);
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    for store in STORES {
        let site = worked(store);
        if store.starts_with("sqlite") {
            site.database("s.db")
                .execute_batch("update semel_meta set value = 99 where name = 'format'")
                .expect("a newer format");
        } else {
            let mut bytes = std::fs::read(site.path("data/superblock")).expect("a superblock");
            bytes[8] = 99;
            site.write("data/superblock", bytes);
        }
        for verb in VERBS {
            let ended = site.semel(verb).code(3).says("[store-newer]");
            assert_eq!(ended.stdout, "", "{verb:?}");
        }
    }
}
