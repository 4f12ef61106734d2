//! Effects that end after their claims were lost, some of them with another outcome than the one on record.

use std::io::{PipeWriter, Write};

use super::Schema;
use super::outage::through_proxy;
use crate::ready::Admin;
use crate::site::{Running, Site, lines};

/// Waits for a file, and then answers `other-…` with a word, and all other messages alike.
const HANDLER: &str = r#"
until [ -e "$1" ]; do sleep 0.02; done
case "$SEMEL_KEY" in other-*) echo "$2";; *) echo paid;; esac
"#;

/// Starts a worker that waits for this file, and has this word.
fn worker(site: &Site, admin: &Admin, url: &str, file: &str, word: &str) -> (Running, PipeWriter) {
    let name = format!("{word}.toml");
    let config = format!(
        "[store]\nurl = \"{url}\"\n{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n\
         lease = \"2s\"\nconcurrency = 16\nfail = \"open\"\n[pipelines.pay.effect]\nkind = \"exec\"\nclass = \"unkeyed\"\n\
         on_doubt = \"repeat\"\ntimeout = \"5m\"\ncommand = [\"sh\", \"handler.sh\", \"{file}\", \"{word}\"]\n",
        admin.table()
    );
    site.write(&name, config);
    let (input, messages) = std::io::pipe().expect("a pipe");
    let mut command = site.command();
    command.args(["run", &name, "--output", "json"]);
    let running = Running::start(command.stdin(input));
    // The command holds the reading end.
    drop(command);
    (running, messages)
}

#[test]
fn outcomes_that_differ_from_those_on_record_are_counted() {
    let schema = Schema::new();
    let site = Site::with(&[("handler.sh", HANDLER)]);
    let (proxy, url) = through_proxy(&schema);
    let [first, second] = [Admin::new(), Admin::new()];
    let fed = lines(0..5, |id| format!("{{\"id\":\"other-{id}\"}}"))
        + &lines(0..3, |id| format!("{{\"id\":\"same-{id}\"}}"));
    let series = |name: &str, labels: &str| format!("semel_{name}{{pipeline=\"pay\"{labels}}}");
    let (slow, mut held) = worker(&site, &first, &url, "go", "first");
    held.write_all(fed.as_bytes()).expect("messages");
    first.tells(&series("decisions_total", ",decision=\"granted\""), 8);
    first.tells(&series("in_flight", ""), 8);

    // The store is away for the first worker alone, and so its leases end; its effects do not. It fails open, so that it
    // says when they have ended.
    proxy.refuse(true);
    proxy.cut_now();
    let (heir, mut messages) = worker(&site, &second, &schema.url(), "handler.sh", "second");
    messages.write_all(fed.as_bytes()).expect("messages");
    second.tells(&series("takeovers_total", ""), 8);
    second.tells(&series("deliveries_total", ",fate=\"applied\""), 8);
    site.write("go", "");
    let applied = series("effects_total", ",effect=\"exec\",verdict=\"applied\"");
    first.tells(&applied, 8);
    first.tells(&series("outcome_differs_total", ""), 0);
    proxy.heal();
    first.tells(&series("deliveries_total", ",fate=\"replayed\""), 8);
    for (admin, differs, fenced) in [(&first, 5, 8), (&second, 0, 0)] {
        admin.tells(&series("outcome_differs_total", ""), differs);
        admin.tells(&series("fenced_total", ""), fenced);
        // None was renewed after it was lost.
        admin.tells(&series("renewals_total", ",result=\"lost\""), 0);
        admin.tells(&series("decisions_total", ",decision=\"granted\""), 8);
    }
    drop((held, messages));
    slow.wait().done().summary().is(&[("replayed", 8)]);
    let heir = heir.wait().done().summary();
    heir.is(&[("applied", 8), ("takeovers", 8)]);
    assert_eq!(schema.count("records"), 8);
}
