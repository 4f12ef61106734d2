//! Servers that cannot be reached, refuse the login, or hold something else: the exit code, the code, what was
//! wrong and what to do.

use super::{Schema, server, site};
use crate::servers::{self, PASSWORD};
use crate::site::Site;

const VERBS: [&[&str]; 8] = [
    &["run"],
    &["check"],
    &["keys", "list"],
    &["store", "stats"],
    &["store", "sweep"],
    &["store", "export"],
    &["store", "migrate"],
    &["dedup", "in", "--config", "semel.toml"],
];
const STDOUT: &str = "kind = \"stdout\"\non_doubt = \"repeat\"";

fn on(url: &str) -> Site {
    site(url, "", STDOUT, "{\"id\":\"a\"}\n")
}

/// Checks the errors of a run, a look and a check on this store, none of which changes it.
#[track_caller]
fn refused(url: &str, code: i32, words: &[&str]) {
    all_refused(url, &VERBS, code, words);
}

#[track_caller]
fn all_refused(url: &str, verbs: &[&[&str]], code: i32, words: &[&str]) {
    let site = on(url);
    for &verb in verbs {
        let ended = site.semel(verb).code(code);
        for word in words {
            assert!(
                ended.stderr.contains(word),
                "no {word:?} in {verb:?}: {ended:#?}"
            );
        }
        assert!(verb == ["check"] || ended.stdout.is_empty(), "{ended:#?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_an_unavailable_environment() {
    // No process listens on port 1. A run waits until one does.
    all_refused(
        "postgres://me:c4n4ry@127.0.0.1:1/shop",
        &VERBS[1..],
        3,
        &[
            "error: postgres://me:***@127.0.0.1:1/shop: PostgreSQL cannot be reached at 127.0.0.1:1: connection refused; check host and port",
            "[store-unavailable]",
        ],
    );
}

#[test]
fn a_store_that_is_away_is_waited_for() {
    let schema = Schema::new();
    let url = schema.url();
    servers::a_store_that_is_away_is_waited_for(&url, &servers::place_of(&url));
}

#[test]
fn an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back() {
    let schema = Schema::new();
    let url = schema.url();
    let place = servers::place_of(&url);
    servers::an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back(&url, &place);
}

#[test]
fn a_wait_for_the_store_ends_when_asked_to() {
    let schema = Schema::new();
    let url = schema.url();
    servers::a_wait_for_the_store_ends_when_asked_to(&url, &servers::place_of(&url));
}

#[test]
fn a_wrong_password_is_a_mistake_of_the_configuration() {
    let schema = Schema::new();
    schema.let_in();
    let site = on(&schema.guarded(PASSWORD));
    site.semel(&["run"]).done();
    refused(
        &schema.guarded("wrong"),
        2,
        &[
            "PostgreSQL refuses the user of the store's url",
            "semel_guarded",
            "[store-unavailable]",
        ],
    );
    refused(
        &schema.guarded("").replace(":@", "@"),
        2,
        &["password missing", "[store-unavailable]"],
    );
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let url = server();
    let (place, _) = url.rsplit_once('/').expect("a database");
    refused(
        &format!("{place}/no_such_database?sslmode=disable"),
        2,
        &[
            "\"no_such_database\" does not exist; create the database",
            "[store-unavailable]",
        ],
    );
}

#[test]
fn a_server_without_tls_does_not_get_a_password_where_tls_is_asked_for() {
    let schema = Schema::new();
    refused(
        &schema.url().replace("sslmode=disable", "sslmode=require"),
        2,
        &[
            "no encrypted connection to PostgreSQL could be made",
            "[store-unavailable]",
        ],
    );
}

#[test]
fn a_user_without_rights_is_told_which_one_is_lacking() {
    let schema = Schema::new();
    schema.let_in();
    let name = &schema.name;
    schema.execute(&format!("alter schema {name} owner to current_user"));
    let site = on(&schema.guarded(PASSWORD));
    site.semel(&["run"])
        .code(2)
        .says("the user of the store's url lacks a right")
        .says("[store-unavailable]");
    assert_eq!(
        schema.rows(&format!(
            "select count(*) from pg_tables where schemaname = '{name}'"
        )),
        ["0"]
    );
}

#[test]
fn a_store_that_is_not_there_is_told_by_whoever_looks_and_made_by_a_run() {
    let schema = Schema::new();
    let site = on(&schema.url());
    let name = &schema.name;
    for verb in [
        &["keys", "list"][..],
        &["keys", "show", "a"],
        &["keys", "forget", "a", "--yes"],
        &["in-doubt", "list"],
        &["dead-letters", "list"],
        &["dead-letters", "replay", "--all", "--yes"],
        &["quarantine", "list"],
        &["store", "stats"],
        &["store", "sweep"],
        &["store", "audit"],
        &["store", "export"],
    ] {
        let ended = site
            .semel(verb)
            .code(3)
            .says(&format!(
                "there is no store in schema {name}; `semel store migrate --yes` makes one"
            ))
            .says("[store-unavailable]");
        assert_eq!(ended.stdout, "");
    }
    site.semel(&["check"]).done();
    assert!(!schema.is_there());
    site.semel(&["run"]).done();
    assert!(schema.is_there());
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    let schema = Schema::new();
    on(&schema.url()).semel(&["run"]).done();
    let name = &schema.name;
    schema.execute(&format!(
        "update {name}.meta set value = 99 where name = 'format'"
    ));
    refused(
        &schema.url(),
        3,
        &["format 99", "use a newer version", "[store-newer]"],
    );
    let check = on(&schema.url())
        .semel(&["check", "--output", "json"])
        .code(3);
    assert!(
        check.stdout.contains("\"code\":\"store-newer\""),
        "{check:?}"
    );
}

#[test]
fn tables_of_somebody_else_are_left_alone() {
    let schema = Schema::with("create table meta (letter text); insert into meta values ('dear')");
    refused(&schema.url(), 3, &["is not a store's", "[store-foreign]"]);
    assert_eq!(
        schema.rows(&format!("select letter from {}.meta", schema.name)),
        ["dear"]
    );
}

#[test]
fn a_server_that_takes_no_writes_is_told() {
    let schema = Schema::new();
    let url = schema.url() + "&options=-cdefault_transaction_read_only%3Don";
    let site = on(&url);
    site.semel(&["run"])
        .code(3)
        .says("takes no writes")
        .says("[store-read-only]");
    assert!(!schema.is_there());
}

#[test]
fn a_url_that_cannot_be_read_is_a_fault_of_the_configuration() {
    for (url, words) in [
        ("postgres://", "needs a host"),
        (
            "postgres://db/shop?schem=a",
            "a parameter `schem` that is not known",
        ),
        (
            "postgres://db/shop?schema=a-b",
            "`schema` in the store's url is",
        ),
        (
            "postgres://db/shop?connections=many",
            "`connections` in the store's url is",
        ),
        (
            "postgres://db/shop?sslmode=perhaps",
            "`sslmode` in the store's url is",
        ),
        ("postgres://me:c4n4ry@db:port/shop", "cannot be read"),
    ] {
        let site = on(url);
        let check = site.semel(&["config", "check"]).code(1);
        assert!(
            check.stdout.starts_with("semel.toml:2: store.url: "),
            "{check:?}"
        );
        assert!(check.stdout.contains(words), "{check:?}");
        site.semel(&["run"]).code(2).says(words);
        std::fs::remove_file(site.path("semel.toml")).expect("a file");
        for verb in [&["keys", "list"][..], &["dedup", "in"]] {
            let ended = site.semel(&[verb, &["--store", url]].concat()).code(2);
            assert!(
                ended.stderr.contains(words) && !ended.stderr.contains("c4n4ry"),
                "{ended:?}"
            );
        }
    }
}

#[test]
fn a_file_of_secrets_that_is_missing_empty_or_unreadable_is_told() {
    let pipeline = "[store]\nurl_file = \"secret\"\n[pipelines.p]\nsource = { kind = \"stdin\" }\n\
                    key = \"line\"\neffect = { kind = \"stdout\" }\n";
    let fault = |make: &dyn Fn(&Site)| {
        let site = Site::with(&[("semel.toml", pipeline)]);
        make(&site);
        let check = site.semel(&["config", "check"]).code(1);
        site.semel(&["run"]).code(2);
        check.stdout
    };
    let told = "semel.toml:2: store.url_file: ";
    assert_eq!(
        fault(&|_| {}),
        format!(
            "{told}cannot read `secret`: No such file or directory (os error 2) [invalid-config]\n"
        )
    );
    for empty in ["", "\n", " \r\n"] {
        assert_eq!(
            fault(&|site| site.write("secret", empty)),
            format!(
                "{told}`secret` is empty; it holds the url and nothing else [invalid-config]\n"
            )
        );
    }
    let folder = fault(&|site| std::fs::create_dir(site.path("secret")).expect("a folder"));
    assert!(
        folder.starts_with(&format!("{told}cannot read `secret`: Is a directory")),
        "{folder}"
    );
    let bytes = fault(&|site| site.write("secret", b"postgres://\xff"));
    assert!(
        bytes.starts_with(&format!("{told}cannot read `secret`: ")),
        "{bytes}"
    );
    let schema = Schema::new();
    let site = Site::with(&[("semel.toml", pipeline), ("secret", &(schema.url() + "\n"))]);
    site.semel(&["run"]).done();
    assert!(schema.is_there(), "the line feed is no part of it");
}
