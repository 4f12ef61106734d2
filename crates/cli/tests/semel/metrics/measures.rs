//! Measures of a worker that no plain stream of messages moves: what it adds, what has expired, what a filter errs in;
//! and what a scrape costs.

use std::io::Write;

use super::running;
use crate::metrics_over_time::{NOTHING, Played};
use crate::operator::object;
use crate::ready::Admin;
use crate::site::{Site, lines, wait_for};

/// Takes two seconds with `lead-…`, and wants another attempt at it.
const SLOW: &str = r#"
case "$SEMEL_KEY $SEMEL_ATTEMPT" in
    lead-*" 1") sleep 2; exit 75;;
    lead-*) sleep 2;;
esac
"#;

#[test]
fn neither_effects_nor_waits_are_part_of_what_semel_adds() {
    let admin = Admin::new();
    let config = format!(
        "{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\norder = \"json:/account\"\n\
         concurrency = 16\nretry = {{ attempts = 3, backoff = \"4s\" }}\n\
         effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"] }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("handler.sh", SLOW)]);
    let (running, mut messages) = running(&site);
    let fed = ["lead", "next"].map(|kind| {
        lines(0..4, |account| {
            format!("{{\"id\":\"{kind}-{account}\",\"account\":{account}}}")
        })
    });
    messages
        .write_all(fed.concat().as_bytes())
        .expect("messages");
    admin.tells("semel_overhead_seconds_count{pipeline=\"pay\"}", 8);
    admin.tells("semel_waits_total{pipeline=\"pay\",why=\"backoff\"}", 4);
    admin.tells("semel_waits_total{pipeline=\"pay\",why=\"order\"}", 4);
    let effects = "pipeline=\"pay\",effect=\"exec\"";
    admin.tells(&format!("semel_effect_seconds_count{{{effects}}}"), 12);
    let sum = |series: String| admin.value::<f64>(&series).expect("a sum");
    let in_effects = sum(format!("semel_effect_seconds_sum{{{effects}}}"));
    assert!(in_effects >= 16.0, "eight of two seconds: {in_effects}");
    // Besides, four waited for four seconds, and four behind those for eight. How much of the rest is Semel's is up to the
    // machine; with the effects, or with either of the waits, it would be 16 seconds at least.
    let added = sum("semel_overhead_seconds_sum{pipeline=\"pay\"}".to_owned());
    assert!(added < 12.0, "{added}");
    drop(messages);
    running.wait().done();
}

#[test]
fn a_record_past_its_window_that_no_sweep_has_removed_is_exactly_expired() {
    let admin = Admin::new();
    // An embedded store removes its oldest segment first, and that one has a record that stays.
    let config = format!(
        "[window]\nduration = \"1s\"\nmargin = \"100ms\"\n{}[pipelines.lasts]\nkey = \"line\"\nwindow = \"30d\"\n\
         source = {{ kind = \"file\", path = \"in\", format = \"lines\" }}\neffect = {{ {NOTHING} }}\n\
         [pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\neffect = {{ {NOTHING} }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("in", "one\n")]);
    let (running, mut messages) = running(&site);
    let applied = |pipeline: &str| {
        format!("semel_deliveries_total{{pipeline=\"{pipeline}\",fate=\"applied\"}}")
    };
    admin.tells(&applied("lasts"), 1);
    let mut feed = |ids: std::ops::Range<u32>| {
        let fed = lines(ids, |id| super::message(&format!("pay-{id}"), id));
        messages.write_all(fed.as_bytes()).expect("messages");
    };
    feed(0..7);
    admin.tells(&applied("pay"), 7);
    let store = format!("embedded:{}", site.path("semel-data").display());
    let records = |state: &str| format!("semel_records{{store=\"{store}\",state=\"{state}\"}}");
    admin.tells(&records("remembered"), 7);
    admin.tells(&records("completed"), 1);
    // These again, and three others.
    feed(0..10);
    admin.tells(&applied("pay"), 17);
    let expired = |certainty: &str| {
        format!("semel_expired_again_total{{pipeline=\"pay\",certainty=\"{certainty}\"}}")
    };
    admin.tells(&expired("exact"), 7);
    admin.tells(&expired("likely"), 0);
    drop(messages);
    running.wait().done();
}

#[test]
fn a_filter_says_how_many_new_messages_it_takes_for_known() {
    const FED: u32 = 20_000;
    let filter = format!("approximate = {{ keys = {FED}, error_rate = \"10%\" }}\n");
    let stdout = "kind = \"stdout\", class = \"unkeyed\", on_doubt = \"repeat\"";
    let mut played = Played::new("", &filter, stdout);
    let fed = lines(0..FED, |id| super::message(&format!("pay-{id}"), id));
    played.messages.write_all(fed.as_bytes()).expect("messages");
    let count = |series: &str| played.admin.value::<u32>(series).unwrap_or(0);
    let fate = |fate: &str| {
        count(&format!(
            "semel_deliveries_total{{pipeline=\"pay\",fate=\"{fate}\"}}"
        ))
    };
    wait_for("every message", || {
        fate("applied") + fate("replayed") == FED
    });
    // No key came twice, so whatever was taken for a duplicate was none.
    let lost = fate("replayed");
    let lookups = |result: &str| {
        format!(
            "semel_cache_lookups_total{{pipeline=\"pay\",result=\"{result}\",layer=\"filter\"}}"
        )
    };
    assert_eq!(count(&lookups("hit")), lost);
    assert_eq!(count(&lookups("miss")), FED - lost);
    assert!((30..FED / 10).contains(&lost), "{lost}");
    // Measured with as many keys of its own: two counts of the same chance differ by more than five deviations once in a
    // million.
    let told = count("semel_false_duplicates_total{pipeline=\"pay\"}");
    let five = 5.0 * f64::from(told + lost).sqrt();
    assert!(f64::from(told.abs_diff(lost)) < five, "{told} of {lost}");
    played.end();
}

#[test]
fn conflicts_that_a_person_releases_under_other_keys_are_false_duplicates() {
    let mut played = Played::new("", "", NOTHING);
    // Of each key a first message, and another request.
    played.feed(0..4, "applied", 4);
    let others = lines(0..4, |id| super::message(&format!("pay-{id}"), id + 10));
    let told = |count: u32| format!("semel_false_duplicates_total{{pipeline=\"pay\"}} {count}");
    played.shows(&told(0));
    played
        .messages
        .write_all(others.as_bytes())
        .expect("messages");
    played.shows("semel_set_aside{pipeline=\"pay\",why=\"quarantined\"} 4");
    let release = |name: &str, key: &str| {
        let words = ["quarantine", "release", name, "--key", key, "--yes"];
        played.site.semel(&words).done();
    };
    for id in 0..3 {
        release(&format!("pay-{id}"), &format!("pay-{id}b"));
    }
    // Under its own key it is in conflict still, and what is dropped was one.
    release("pay-3", "pay-3");
    played.shows(&told(3));
    let drop = ["quarantine", "drop", "--all", "--yes"];
    played.site.semel(&drop).done();
    played.shows("semel_set_aside{pipeline=\"pay\",why=\"quarantined\"} 0");
    assert!(played.admin.shows(&told(3)));
    for id in 0..3 {
        let key = format!("pay-{id}b");
        let ended = played
            .site
            .semel(&["keys", "show", &key, "--output", "json"]);
        assert_eq!(object(&ended.done())["state"], "completed");
    }
    played.end();
}

#[test]
fn a_scrape_calls_no_store() {
    const SCRAPES: u32 = 400;
    let mut played = Played::new("", "", NOTHING);
    played.feed(0..3, "applied", 3);
    let store = played.store("embedded:semel-data");
    let calls = |call: &str| {
        let series = format!("semel_store_call_seconds_count{{store=\"{store}\",call=\"{call}\"}}");
        played.admin.value::<u32>(&series).expect("a count")
    };
    let work = ["claim", "settle", "renew", "park", "operate"].map(|call| (call, calls(call)));
    let looks = || calls("read") + calls("list");
    let before = looks();
    for _ in 0..SCRAPES {
        assert!(played.admin.metrics().contains("semel_records"));
    }
    // The worker's own counts go on meanwhile: some calls every four seconds.
    let more = looks() - before;
    assert!(more < SCRAPES / 2, "{more}");
    for (call, before) in work {
        assert_eq!(calls(call), before, "{call}");
    }
    played.end();
}
