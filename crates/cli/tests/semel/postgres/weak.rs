//! A server that gives less than a class needs: refused, unless that is accepted by name, and then shown in
//! every report.

use super::{Schema, site};
use crate::operator::object;
use crate::production::{line, list};
use crate::site::Site;

/// A store whose records a crash of the server empties, with an effect of a class that needs more.
fn weak(schema: &Schema, effect: &str) -> Site {
    let site = site(
        &schema.url(),
        "retry = { attempts = 1 }",
        effect,
        "{\"id\":\"a\"}\n",
    );
    site.semel(&["store", "migrate", "--yes"]).done();
    schema.execute(&format!("alter table {}.records set unlogged", schema.name));
    site
}

const FILE: &str = "kind = \"file\"\npath = \"out\"";

fn accept(site: &Site) {
    let config = site.text("semel.toml");
    site.write(
        "semel.toml",
        config.replacen("[store]\n", "[store]\naccept = [\"durability\"]\n", 1),
    );
}

#[test]
fn what_a_class_needs_is_demanded_before_anything_runs() {
    let exec = |class: &str| format!("kind = \"exec\"\ncommand = [\"touch\", \"ran\"]\n{class}");
    for effect in [
        FILE.to_owned(),
        exec("class = \"keyed\"\nprovider_window = \"1d\""),
        exec("on_doubt = \"park\""),
    ] {
        let schema = Schema::new();
        let site = weak(&schema, &effect);
        let run = site.semel(&["run"]).code(2);
        let run = run
            .says("the table of records is unlogged")
            .says("error: p: the store gives less than the class of this effect needs: ")
            .says("`accept = [\"durability\"]` under `[store]`")
            .says("[unsupported]");
        assert_eq!(run.stdout, "");
        assert!(!site.path("ran").exists() && !site.path("out").exists());
        assert_eq!(schema.count("records"), 0);
        let check = site.semel(&["check", "--output", "json"]).code(1);
        let report = object(&check);
        assert_eq!(report["verdict"], "fail");
        assert_eq!(report["store"]["survives"], "nothing");
        let findings = report["findings"].to_string();
        assert!(
            findings.contains("store-volatile") && findings.contains("store-weak"),
            "{findings}"
        );
    }
}

#[test]
fn a_check_tells_of_a_server_that_takes_no_writes() {
    let schema = Schema::new();
    let site = site(
        &schema.url(),
        "",
        "kind = \"stdout\"\non_doubt = \"repeat\"",
        "{\"id\":\"a\"}\n",
    );
    site.semel(&["store", "migrate", "--yes"]).done();
    site.semel(&["check"]).done();
    let config = site.text("semel.toml");
    let read_only = format!(
        "{}&options=-c%20default_transaction_read_only%3Don",
        schema.url()
    );
    site.write("semel.toml", config.replace(&schema.url(), &read_only));
    let check = site.semel(&["check", "--output", "json"]).code(1);
    let findings = object(&check)["findings"].to_string();
    assert!(
        findings.contains("\"store-read-only\"") && findings.contains("takes no writes"),
        "{findings}"
    );
    let before = list(&site, &[], 1);
    assert_eq!(line(&before, "store")["verdict"], "fail", "{before}");
    let aside = line(&before, "set-aside");
    assert_eq!(aside["verdict"], "unknown", "{before}");
    let why = aside["why"].as_str().expect("text");
    assert!(why.contains("takes no writes"), "{why}");
    site.semel(&["keys", "list"])
        .code(3)
        .says("takes no writes");
}

#[test]
fn what_may_be_repeated_is_only_warned_of() {
    let schema = Schema::new();
    let site = weak(&schema, "kind = \"stdout\"\non_doubt = \"repeat\"");
    site.semel(&["run"])
        .done()
        .says("warning: p: what the store loses");
    let check = site.semel(&["check", "--output", "json"]).done();
    assert_eq!(object(&check)["verdict"], "warn");
}

#[test]
fn what_is_accepted_runs_and_shows_in_every_status() {
    let schema = Schema::new();
    let site = weak(&schema, FILE);
    accept(&site);
    let check = site.semel(&["config", "check"]).done();
    assert!(
        check.stdout.ends_with(", accepted: durability\n"),
        "{check:?}"
    );
    let shown = site.semel(&["config", "show"]).done();
    assert!(
        shown.stdout.contains("accept = [\"durability\"]\n"),
        "{shown:?}"
    );
    let report = object(&site.semel(&["check", "--output", "json"]).done());
    assert_eq!(report["verdict"], "warn");
    assert_eq!(
        report["store"]["accepted"],
        serde_json::json!(["durability"])
    );
    let table = site.semel(&["check"]).done().stdout;
    assert!(table.contains("; accepted: durability\n"), "{table}");
    assert!(
        table.contains("store-volatile: accepted by `store.accept`: "),
        "{table}"
    );
    let run = site.semel(&["run"]).done();
    let run = run
        .says("warning: p: accepted by `store.accept`: ")
        .says("; accepted: durability\n");
    assert!(
        run.stdout
            .contains("accepted   durability  by `store.accept`"),
        "{run:?}"
    );
    let json = site.semel(&["run", "--output", "json"]).done();
    assert!(
        json.stdout.ends_with(",\"accepted\":[\"durability\"]}\n"),
        "{json:?}"
    );
    let stats = object(&site.semel(&["store", "stats", "--output", "json"]).done());
    assert_eq!(stats["accepted"], serde_json::json!(["durability"]));
    let stats = site.semel(&["store", "stats"]).done().stdout;
    let is_told = |line: &str| line.split_whitespace().eq(["accepted:", "durability"]);
    assert!(stats.lines().any(is_told), "{stats}");
}

#[test]
fn dedup_demands_the_same() {
    let schema = Schema::new();
    let site = weak(&schema, FILE);
    let url = schema.url();
    let dedup = |rest: &[&str]| site.semel(&[&["dedup", "--store", &url, "in"], rest].concat());
    dedup(&["--to", "lines"]).code(2).says("[unsupported]");
    dedup(&["--on-doubt", "park"]).code(2).says("[unsupported]");
    assert!(!site.path("lines").exists());
    dedup(&["--to", "lines", "--accept", "everything"])
        .code(2)
        .says("--accept");
    dedup(&["--to", "lines", "--accept", "durability"]).done();
    assert_eq!(site.text("lines"), "{\"id\":\"a\"}\n");
    accept(&site);
    let arguments = [
        "dedup",
        "--config",
        "semel.toml",
        "in",
        "--on-doubt",
        "park",
    ];
    site.semel(&arguments).done();
}

#[test]
fn messages_that_are_run_again_demand_the_same() {
    let schema = Schema::new();
    let effect = "kind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]";
    let site = site(
        &schema.url(),
        "retry = { attempts = 1 }",
        effect,
        "{\"id\":\"a\"}\n",
    );
    site.write("handler.sh", "exit 3");
    site.run().is(&[("dead", 1)]);
    schema.execute(&format!("alter table {}.records set unlogged", schema.name));
    site.write("handler.sh", "exit 0");
    let replay = ["dead-letters", "replay", "--all", "--yes"];
    site.semel(&replay).code(2).says("[unsupported]");
    accept(&site);
    let replayed = site.semel(&replay).done();
    assert!(
        replayed.stdout.contains("accepted   durability"),
        "{replayed:?}"
    );
}

#[test]
fn a_word_that_cannot_be_accepted_is_a_fault() {
    let schema = Schema::new();
    let site = site(&schema.url(), "", FILE, "");
    accept(&site);
    let config = site.text("semel.toml").replace("durability", "durabilty");
    site.write("semel.toml", config);
    let check = site.semel(&["config", "check"]).code(1);
    assert_eq!(
        check.stdout,
        "semel.toml:2: store.accept: `durabilty` is unknown; did you mean `durability`? [invalid-config]\n"
    );
}
