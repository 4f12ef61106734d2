//! `semel run` with a sequence gate before its source: what a producer has numbered runs once, though the source begins
//! anew each time, and the worker is killed.

use std::fmt::Write as _;

use crate::operator::{items, member};
use crate::site::Site;

/// A message of a producer, with a key of its own.
fn line(key: &str, epoch: u64, sequence: u64) -> String {
    format!("{{\"id\":\"{key}\",\"by\":\"till-7\",\"epoch\":{epoch},\"n\":{sequence}}}\n")
}

fn site(store: &str, source: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"{store}\"\n[pipelines.orders]\nkey = \"json:/id\"\nlease = \"1s\"\nconcurrency = 1\n\
         [pipelines.orders.source]\nkind = \"file\"\npath = \"in.ndjson\"\nproducer = \"json:/by\"\n\
         epoch = \"json:/epoch\"\nsequence = \"json:/n\"\n{source}\n\
         [pipelines.orders.effect]\nkind = \"exec\"\ncommand = [\"sh\", \"handler.sh\"]\nclass = \"keyed\"\n\
         provider_window = \"30d\"\n"
    );
    // The first message that is run has its worker killed, before anything happens.
    let handler = "cat > \"message-$$\"\ntest -e killed || { touch killed; kill -9 $PPID; exit 1; }\n\
                   { cat \"message-$$\"; echo; } >> done\n";
    Site::with(&[("semel.toml", &config), ("handler.sh", handler)])
}

fn reasons(site: &Site) -> Vec<String> {
    let listed = site.semel(&["quarantine", "list", "--output", "json"]);
    member(&items(&listed.done()), "reason")
}

/// Three messages run once, although their worker is killed with them in the store, and each run reads them again.
fn what_is_numbered_runs_once(store: &str) {
    let site = site(store, "");
    let first = (1..=3).map(|n| line(&format!("o-{n}"), 1, n));
    let mut sent = first.collect::<String>();
    site.write("in.ndjson", &sent);
    let killed = site.start(&["run", "--output", "json"]).wait();
    assert_eq!(killed.status.code(), None, "{killed:#?}");
    assert!(!site.path("done").exists());

    let ended = site.run();
    assert_eq!((ended.count("applied"), ended.count("replayed")), (3, 3));
    assert_eq!(site.sorted_lines("done").len(), 3);

    // Under other keys, which no record knows: only their numbers do. The next one runs; one behind a gap does not, nor does
    // one of an opening that is over.
    for (key, epoch, n) in [("x-2", 1, 2), ("o-4", 2, 4), ("o-6", 2, 6), ("o-5", 1, 5)] {
        let _ = write!(sent, "{}", line(key, epoch, n));
    }
    site.write("in.ndjson", &sent);
    let ended = site.run();
    let counts = ["applied", "replayed", "quarantined"].map(|it| ended.count(it));
    let done = site.sorted_lines("done");
    assert_eq!(
        done.len(),
        3 + usize::try_from(ended.count("applied")).expect("few")
    );
    assert!(done.iter().all(|it| !it.contains("x-2")), "{done:?}");
    let mut set_aside = reasons(&site);
    set_aside.sort_unstable();
    // The older opening is asked about first, and its message is behind a gap until the other one is taken.
    assert_eq!(counts, [1, 4, 2], "{done:?} {set_aside:?}");
    assert_eq!(set_aside, ["producer-fenced", "sequence-gap"]);
}

#[test]
fn what_is_numbered_runs_once_whatever_store_has_the_gate() {
    for store in ["embedded:data", "sqlite:semel.db"] {
        what_is_numbered_runs_once(store);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn what_is_numbered_runs_once_with_the_gate_on_postgres() {
    let schema = crate::postgres::Schema::new();
    what_is_numbered_runs_once(&schema.url());
}

#[cfg(feature = "mysql")]
#[test]
fn what_is_numbered_runs_once_with_the_gate_on_mysql() {
    let database = crate::mysql::Database::new();
    what_is_numbered_runs_once(&database.url());
}

#[test]
fn a_gap_ends_the_pipeline_where_that_is_wanted_and_what_is_missing_lets_it_go_on() {
    let site = site("embedded:data", "on_gap = \"stop\"");
    site.write("killed", "");
    let (one, two, three) = (line("o-1", 1, 1), line("o-2", 1, 2), line("o-3", 1, 3));
    site.write("in.ndjson", format!("{one}{three}"));
    let stopped = site.semel(&["run", "--output", "json"]);
    assert!(!stopped.status.success(), "{stopped:#?}");
    stopped.says("sequence-gap");
    assert_eq!(reasons(&site), Vec::<String>::new());
    site.write("in.ndjson", format!("{one}{two}{three}"));
    let ended = site.run();
    assert_eq!(ended.count("quarantined"), 0);
    assert_eq!(site.sorted_lines("done").len(), 3);
}

#[test]
fn a_gate_is_refused_where_the_store_has_none() {
    let site = site("redis://127.0.0.1:1", "");
    site.semel(&["run"]).code(2).says("Redis does not");
}
