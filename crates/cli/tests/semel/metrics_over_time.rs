//! Metrics that are judged or sampled over time, compared with traffic of which the truth is known.

use std::io::{PipeWriter, Write};
use std::thread::sleep;
use std::time::Duration;

use crate::metrics::{message, running};
use crate::ready::Admin;
use crate::site::{Running, Site, lines, wait_for};

/// A worker that reads messages from a pipe, and its metrics.
pub(crate) struct Played {
    pub(crate) site: Site,
    pub(crate) admin: Admin,
    running: Running,
    pub(crate) messages: PipeWriter,
}

/// The effect that changes nothing, in a process per message.
pub(crate) const NOTHING: &str =
    "kind = \"exec\", command = [\"true\"], class = \"unkeyed\", on_doubt = \"repeat\"";

impl Played {
    /// Starts a pipeline `pay`, with more settings of the file and of the pipeline.
    pub(crate) fn new(of_file: &str, of_pipeline: &str, effect: &str) -> Self {
        let admin = Admin::new();
        let config = format!(
            "{of_file}{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\n{of_pipeline}\
             effect = {{ {effect} }}\n",
            admin.table()
        );
        let site = Site::with(&[("semel.toml", &config)]);
        if of_file.contains("sqlite") {
            let made = site
                .database("s.db")
                .execute_batch("create table t (id text)");
            made.expect("a table");
        }
        let (running, messages) = running(&site);
        Self {
            site,
            admin,
            running,
            messages,
        }
    }

    /// Feeds messages with these numbers, and waits until so many deliveries in all met a fate.
    pub(crate) fn feed(&mut self, ids: std::ops::Range<u32>, fate: &str, in_all: u32) {
        let fed = lines(ids, |id| message(&format!("pay-{id}"), id));
        self.messages.write_all(fed.as_bytes()).expect("messages");
        self.shows(&format!(
            "semel_deliveries_total{{pipeline=\"pay\",fate=\"{fate}\"}} {in_all}"
        ));
    }

    /// Waits until the metrics have this line.
    pub(crate) fn shows(&self, line: &str) {
        wait_for(line, || self.admin.shows(line));
    }

    /// The label of the store.
    pub(crate) fn store(&self, url: &str) -> String {
        match url.split_once(':') {
            Some((kind, path)) => format!("{kind}:{}", self.site.path(path).display()),
            None => url.to_owned(),
        }
    }

    pub(crate) fn end(self) {
        drop(self.messages);
        self.running.wait().done();
    }
}

#[test]
fn a_key_that_comes_again_after_its_record_was_swept_is_likely_expired() {
    let window = "[window]\nduration = \"2s\"\nmargin = \"100ms\"\n";
    let sqlite = format!("[store]\nurl = \"sqlite:s.db\"\n{window}");
    let sql = "kind = \"sql\", statement = \"insert into t values (:id)\"";
    for (of_file, effect, url) in [
        (window, NOTHING, "embedded:semel-data"),
        (&sqlite, sql, "sqlite:s.db"),
    ] {
        let mut played = Played::new(of_file, "", effect);
        played.feed(0..20, "applied", 20);
        let store = played.store(url);
        played.shows(&format!(
            "semel_swept_total{{store=\"{store}\",what=\"removed\"}} 20"
        ));
        // Twelve of them again, and three others.
        played.feed(8..23, "applied", 35);
        for (certainty, count) in [("likely", 12), ("exact", 0)] {
            played.shows(&format!(
                "semel_expired_again_total{{pipeline=\"pay\",certainty=\"{certainty}\"}} {count}"
            ));
        }
        played.shows("semel_window_seconds{pipeline=\"pay\"} 2.0");
        played.end();
    }
}

#[test]
fn a_storm_of_duplicates_is_told_and_each_of_them_is_a_replay() {
    let mut played = Played::new("", "", NOTHING);
    played.feed(0..30, "applied", 30);
    played.shows("semel_storm{pipeline=\"pay\"} 0");
    played.shows("semel_replays_total{pipeline=\"pay\"} 0");
    // What a restart may send again is none, what goes on is one.
    let storm = "semel_storm{pipeline=\"pay\"} 1";
    let mut again = 0;
    while !played.admin.shows(storm) {
        assert!(again < 60 * 30, "none within a minute");
        again += 30;
        played.feed(0..30, "replayed", again);
        sleep(Duration::from_secs(1));
    }
    // Fewer where a busy machine makes each of them take longer.
    assert!(again > 3 * 30, "{again}");
    played.shows(&format!("semel_replays_total{{pipeline=\"pay\"}} {again}"));
    played.feed(0..5, "replayed", again + 5);
    played.shows(&format!(
        "semel_replays_total{{pipeline=\"pay\"}} {}",
        again + 5
    ));
    played.end();
}

#[test]
fn what_a_store_holds_is_sampled() {
    let mut played = Played::new("", "", NOTHING);
    played.feed(0..40, "applied", 40);
    let store = played.store("embedded:semel-data");
    for (state, count) in [
        ("completed", 40),
        ("claimed", 0),
        ("dead", 0),
        ("in_doubt", 0),
        ("entity", 0),
        ("parked", 0),
        ("audit", 0),
        ("remembered", 0),
    ] {
        played.shows(&format!(
            "semel_records{{store=\"{store}\",state=\"{state}\"}} {count}"
        ));
    }
    let bytes = format!("semel_store_bytes{{store=\"{store}\"}} ");
    let text = played.admin.metrics();
    let told = text.lines().find_map(|line| line.strip_prefix(&*bytes));
    let told: u64 = told.and_then(|it| it.parse().ok()).expect("bytes");
    assert!(told > 40 * 10, "{told}");
    played.shows("semel_source_connected{pipeline=\"pay\"} 1");
    assert!(!text.contains("semel_window_needed_seconds{"), "no broker");
    assert!(!text.contains("semel_cache_lookups_total{"), "no layer");
    played.end();
}

#[test]
fn a_cache_and_a_filter_tell_what_they_answered() {
    let hits = |layer, result, count| {
        format!(
            "semel_cache_lookups_total{{pipeline=\"pay\",result=\"{result}\",layer=\"{layer}\"}} {count}"
        )
    };
    let filter = "approximate = { keys = 10000, error_rate = \"0.001%\" }\n";
    let mut played = Played::new("", filter, NOTHING);
    played.feed(0..30, "applied", 30);
    played.feed(10..30, "replayed", 20);
    played.shows(&hits("filter", "hit", 20));
    played.shows(&hits("filter", "miss", 30));
    played.shows("semel_false_duplicates_total{pipeline=\"pay\"} 0");
    played.end();

    // A duplicate is read the first time, and answered here from then on.
    let mut played = Played::new("", "cache = { size = \"8MiB\" }\n", NOTHING);
    played.feed(0..30, "applied", 30);
    played.feed(0..30, "replayed", 30);
    played.feed(0..30, "replayed", 60);
    played.shows(&hits("cache", "hit", 30));
    played.shows(&hits("cache", "miss", 60));
    played.end();
}
