//! Every operating verb over a store on a server.

use super::Schema;
use crate::operator::{fresh, items, member, object, worked, worker};
use crate::production::{line, list, tells_what_was_left};
use crate::site::{Site, wait_for};
use crate::transfer::holdings;

#[test]
fn keys_are_shown_explained_listed_held_released_and_forgotten() {
    let schema = Schema::new();
    let site = worked(&schema.url());
    let shown = site.semel(&["keys", "show", "done-1", "--output", "json"]);
    assert_eq!(object(&shown.done())["state"], "completed");
    let outcome = site.semel(&["keys", "show", "done-1", "--outcome"]);
    assert_eq!(outcome.done().stdout, "charged done-1");
    let story = site.semel(&["keys", "explain", "doubt-1"]).done().stdout;
    assert!(story.contains("in doubt"), "{story}");
    let listed = items(&site.semel(&["keys", "list", "--output", "json"]).done());
    assert_eq!(
        member(&listed, "key"),
        ["dead-1", "done-1", "doubt-1", "doubt-2", "json:7"]
    );
    let dead = site.semel(&["keys", "list", "--state", "dead", "--output", "json"]);
    assert_eq!(member(&items(&dead.done()), "key"), ["dead-1"]);
    site.semel(&["keys", "hold", "done-1", "--by", "ada", "--yes"])
        .done();
    site.semel(&["keys", "release", "dead-1", "--by", "ada", "--yes"])
        .done();
    site.semel(&[
        "keys", "forget", "json:7", "--by", "ada", "--reason", "wrong", "--yes",
    ])
    .done();
    assert_eq!(site.state("json:7"), None);
    assert_eq!(site.state("dead-1").as_deref(), Some("released"));
    site.semel(&["keys", "show", "nobody"]).code(1);
    let said: Vec<_> = site
        .trail()
        .into_iter()
        .map(|[by, action, ..]| by + " " + &action)
        .collect();
    assert_eq!(said, ["ada hold", "ada requeue", "ada forget"]);
}

#[test]
fn the_list_before_production_counts_what_was_set_aside() {
    let schema = Schema::new();
    let site = fresh(&schema.url());
    let before = list(&site, &[], 1);
    assert_eq!(line(&before, "store")["verdict"], "unknown", "{before}");
    assert_eq!(line(&before, "set-aside")["verdict"], "pass", "{before}");
    tells_what_was_left(&worked(&schema.url()));
}

#[test]
fn a_plan_changes_nothing() {
    let schema = Schema::new();
    let site = worked(&schema.url());
    let before = holdings(&site, &schema.url());
    for arguments in [
        &["keys", "forget", "done-1"][..],
        &["keys", "hold", "done-1"],
        &[
            "in-doubt",
            "resolve",
            "doubt-1",
            "--applied",
            "--reason",
            "seen",
        ],
        &["dead-letters", "replay", "--all"],
        &["dead-letters", "drop", "--all"],
        &["quarantine", "drop", "--all"],
    ] {
        site.semel(arguments).code(1).says("nothing was changed");
    }
    assert_eq!(holdings(&site, &schema.url()), before);
}

#[test]
fn doubts_are_listed_shown_and_resolved() {
    let schema = Schema::new();
    let site = worked(&schema.url());
    let listed = items(&site.semel(&["in-doubt", "list", "--output", "json"]).done());
    assert_eq!(member(&listed, "key"), ["doubt-1", "doubt-2"]);
    let shown = site.semel(&["in-doubt", "show", "doubt-1"]).done();
    assert!(shown.stdout.contains("doubt-1"), "{shown:?}");
    let resolve = [
        "in-doubt",
        "resolve",
        "doubt-1",
        "--applied",
        "--outcome",
        "\"ch_1\"",
        "--reason",
        "seen at the provider",
        "--yes",
    ];
    site.semel(&resolve).done();
    site.semel(&[
        "in-doubt",
        "resolve",
        "doubt-2",
        "--abandon",
        "--reason",
        "refunded",
        "--yes",
    ])
    .done();
    assert_eq!(site.state("doubt-1").as_deref(), Some("completed"));
    assert_eq!(site.state("doubt-2").as_deref(), Some("dead"));
    let reasons = schema.rows(&format!("select reason from {}.orders", schema.name));
    assert!(
        ["seen at the provider", "refunded"]
            .iter()
            .all(|why| reasons.iter().any(|known| known == why)),
        "{reasons:?}"
    );
}

#[test]
fn dead_letters_are_listed_shown_run_again_and_dropped() {
    let schema = Schema::new();
    let site = worked(&schema.url());
    let listed = items(
        &site
            .semel(&["dead-letters", "list", "--output", "json"])
            .done(),
    );
    assert_eq!(member(&listed, "key"), ["dead-1"]);
    let payload = site
        .semel(&["dead-letters", "show", "dead-1", "--payload"])
        .done();
    assert_eq!(payload.stdout.trim_end(), "{\"id\":\"dead-1\"}");
    let handler = site.text("handler.sh").replace("exit 3", "exit 0");
    site.write("handler.sh", handler);
    let replay = [
        "dead-letters",
        "replay",
        "dead-1",
        "--yes",
        "--output",
        "json",
    ];
    assert_eq!(object(&site.semel(&replay).done())["applied"], 1);
    assert_eq!(site.state("dead-1").as_deref(), Some("completed"));
    site.semel(&["dead-letters", "list"]).done().says("");
    let conflict = items(
        &site
            .semel(&["quarantine", "list", "--output", "json"])
            .done(),
    );
    let id = conflict[0]["id"].as_str().expect("an id");
    site.semel(&["quarantine", "show", id]).done();
    site.semel(&["quarantine", "release", id, "--yes"]).code(0);
    site.semel(&["quarantine", "drop", "--all", "--yes"]).done();
    assert_eq!(schema.count("parked"), 2, "the messages in doubt");
}

#[test]
fn the_store_as_a_whole_is_counted_swept_and_audited_beside_a_worker() {
    let schema = Schema::new();
    let url = schema.url();
    let site = worked(&url);
    let (mut child, stdin) = worker(&site);
    let stats = object(&site.semel(&["store", "stats", "--output", "json"]).done());
    assert_eq!(
        (&stats["url"], &stats["kind"]),
        (&url.into(), &"postgres".into())
    );
    assert_eq!(
        (&stats["durability"], &stats["shared"]),
        (&"power_cut".into(), &true.into())
    );
    assert!(
        stats["disk_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
        "{stats}"
    );
    assert_eq!(stats["records"]["in_doubt"], 2);
    let swept = object(
        &site
            .semel(&["store", "sweep", "--yes", "--output", "json"])
            .done(),
    );
    assert_eq!(swept["removed"], 0);
    assert_eq!(site.trail().len(), 1, "the sweep");
    site.semel(&["keys", "hold", "done-1", "--yes"]).done();
    assert_eq!(site.trail().len(), 2);
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_sweep_removes_what_has_passed_its_window() {
    let schema = Schema::new();
    let site = fresh(&schema.url());
    let config = site.text("semel.toml") + "[window]\nduration = \"200ms\"\n";
    site.write(
        "semel.toml",
        config.replace("retry =", "lease = \"100ms\"\nretry ="),
    );
    site.write("in", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    site.run().is(&[("applied", 2)]);
    wait_for("the end of the window", || site.state("a").is_none());
    site.semel(&["store", "sweep", "--yes"]).done();
    assert_eq!(schema.count("records"), 0);
}

#[test]
fn a_store_is_made_with_yes_and_brought_forward_no_further() {
    let schema = Schema::new();
    let url = schema.url();
    let site = Site::new();
    let migrate =
        |rest: &[&str]| site.semel(&[&["store", "migrate", "--store", &url], rest].concat());
    migrate(&[])
        .code(1)
        .says("plan: make 1 store\n")
        .says(&format!("  {url}, with format 2\n"))
        .says("nothing was changed");
    assert!(!schema.is_there());
    let made = object(&migrate(&["--yes", "--output", "json"]).done());
    assert_eq!(
        (&made["from"], &made["to"]),
        (&serde_json::Value::Null, &2.into())
    );
    assert_eq!(made["migrated"], true);
    for rest in [&[][..], &["--yes"]] {
        let again = migrate(rest).done();
        assert_eq!(again.stdout, "nothing to do: the store has format 2\n");
    }
}

#[test]
fn a_check_looks_and_makes_nothing() {
    let schema = Schema::new();
    let site = worked("sqlite:s.db");
    let check = || {
        let arguments = ["check", "--output", "json", "--store", &schema.url()];
        object(&site.semel(&arguments).done())
    };
    let report = check();
    let store = &report["store"];
    assert_eq!(
        (&store["is_there"], &store["survives"]),
        (&false.into(), &"power-cut".into())
    );
    assert!(!schema.is_there());
    site.semel(&["run", "--store", &schema.url()]).done();
    assert_eq!(check()["store"]["is_there"], true);
    let table = site
        .semel(&["check", "--store", &schema.url()])
        .done()
        .stdout;
    assert!(
        table.contains(", survives a power cut, for any number of workers\n"),
        "{table}"
    );
    let findings = check()["findings"].to_string();
    assert!(!findings.contains("output-of-one-machine"), "{findings}");
}

/// A variable replaces the option, so that no list of processes shows a password.
#[test]
fn the_store_may_be_named_by_a_variable_or_a_file() {
    let schema = Schema::new();
    let url = schema.url();
    worked(&url);
    let site = Site::with(&[("secret", &(url.clone() + "\n"))]);
    site.semel(&["keys", "list"])
        .code(2)
        .says("SEMEL__STORE__URL");
    for (variable, value) in [
        ("SEMEL__STORE__URL", &*url),
        ("SEMEL__STORE__URL_FILE", "secret"),
    ] {
        let mut command = site.command();
        command
            .args(["keys", "list", "--output", "json"])
            .env(variable, value);
        let listed = crate::site::Running::start(&mut command).wait().done();
        assert_eq!(items(&listed).len(), 5, "{variable}");
    }
    // The variable overrides the configuration file, whichever way the file names its store.
    let config = "[store]\nurl_file = \"nowhere\"\n[pipelines.pay]\nsource = { kind = \"stdin\" }\n\
                  key = \"line\"\neffect = { kind = \"stdout\" }\n";
    site.write("semel.toml", config);
    let mut command = site.command();
    command
        .args(["store", "stats", "--output", "json"])
        .env("SEMEL__STORE__URL", &url);
    let stats = crate::site::Running::start(&mut command).wait().done();
    assert_eq!(object(&stats)["records"]["total"], 5);
}
