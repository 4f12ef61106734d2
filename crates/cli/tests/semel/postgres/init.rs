//! `semel init --store postgres`: its files run as they are, once the url leads to a server.

use super::{Schema, server};
use crate::operator::object;
use crate::site::{Ended, Running, Site};

/// Runs `semel` in the folder that `semel init` made, with its store on the server of the tests.
fn semel(site: &Site, schema: &Schema, arguments: &[&str]) -> Ended {
    let mut command = site.command();
    // The tables of the business are in the schema of the store.
    let url = format!("{}&options=-csearch_path%3D{}", schema.url(), schema.name);
    command
        .current_dir(site.path("shop"))
        .args(arguments)
        .env("SEMEL__STORE__URL", url);
    Running::start(&mut command).wait()
}

#[test]
fn what_init_writes_for_a_server_is_checked_and_runs() {
    for effect in ["sql", "file", "exec"] {
        for level in ["beginner", "intermediate", "advanced"] {
            let site = Site::new();
            let init = [
                "init", "shop", "--store", "postgres", "--effect", effect, "--level", level,
            ];
            let said = site.semel(&init).done().stdout;
            if effect == "sql" {
                assert!(
                    said.contains("  psql postgres://semel@127.0.0.1:5432/semel -f setup.sql\n"),
                    "{said}"
                );
            }
            let config = site.text("shop/semel.toml");
            assert!(
                config.contains("url = \"postgres://semel@127.0.0.1:5432/semel\"\n"),
                "{config}"
            );
            let mut alone = site.command();
            alone
                .current_dir(site.path("shop"))
                .args(["config", "check"]);
            Running::start(&mut alone).wait().done();
            let tables = if effect == "sql" {
                site.text("shop/setup.sql")
            } else {
                String::new()
            };
            let schema = Schema::with(&tables);
            semel(&site, &schema, &["check"]).done();
            let first = semel(&site, &schema, &["run", "--output", "json"])
                .done()
                .summary();
            first.is(&[
                ("applied", 5),
                ("replayed", 3),
                ("conflicts", 1),
                ("quarantined", 1),
            ]);
            let again = semel(&site, &schema, &["run", "--output", "json"])
                .done()
                .summary();
            again.is(&[("replayed", 8), ("conflicts", 1), ("quarantined", 1)]);
            if effect == "sql" {
                assert_eq!(schema.count("charges"), 5);
            }
            let report = object(&semel(&site, &schema, &["check", "--output", "json"]).done());
            assert_eq!(report["store"]["is_there"], true);
        }
    }
}

#[test]
fn a_url_may_stand_in_the_file_that_init_speaks_of() {
    let site = Site::new();
    site.semel(&["init", "shop", "--store", "postgres"]).done();
    let config = site.text("shop/semel.toml");
    let config = config
        .replace("url = \"postgres://", "# url = \"postgres://")
        .replace("# url_file = ", "url_file = ");
    site.write("shop/semel.toml", config);
    let schema = Schema::new();
    site.write("shop/store-url", schema.url() + "\n");
    let mut command = site.command();
    command
        .current_dir(site.path("shop"))
        .args(["run", "--output", "json"]);
    Running::start(&mut command).wait().done().summary().is(&[
        ("applied", 5),
        ("replayed", 3),
        ("conflicts", 1),
        ("quarantined", 1),
    ]);
    assert!(schema.is_there() && !server().is_empty());
}
