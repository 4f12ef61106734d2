//! Messages that wait or are refused, in known numbers.

use std::io::Write;

use rustix::process::Signal;

use super::running;
use crate::ready::Admin;
use crate::site::{Site, lines};

/// Fails the first attempt at `again-…`, gives `dead-…` up, and is done with `lead-…` once there is a file `go`.
const HANDLER: &str = r#"
case "$SEMEL_KEY $SEMEL_ATTEMPT" in
    again-*" 1") exit 75;;
    dead-*) exit 1;;
    lead-*) until [ -e go ]; do sleep 0.02; done;;
esac
"#;

#[test]
fn what_waits_for_its_order_or_for_a_time_is_held_and_counted_once() {
    let admin = Admin::new();
    let config = format!(
        "{}[pipelines.pay]\nsource = {{ kind = \"stdin\" }}\nkey = \"json:/id\"\norder = \"json:/account\"\n\
         concurrency = 16\nretry = {{ attempts = 3, backoff = \"1h\" }}\n\
         effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"], timeout = \"5m\" }}\n",
        admin.table()
    );
    let site = Site::with(&[("semel.toml", &config), ("handler.sh", HANDLER)]);
    let (running, mut messages) = running(&site);
    let fed = [
        ("lead-1", "a"),
        ("a-1", "a"),
        ("a-2", "a"),
        ("a-3", "a"),
        ("lead-2", "b"),
        ("b-1", "b"),
        ("again-1", "c"),
        ("again-2", "d"),
        // Behind one that waits for its time.
        ("d-1", "d"),
        ("e-1", "e"),
    ];
    let fed = lines(fed, |(id, account)| {
        format!("{{\"id\":\"{id}\",\"account\":\"{account}\"}}")
    });
    messages.write_all(fed.as_bytes()).expect("messages");
    let waits = |why: &str| format!("semel_waits_total{{pipeline=\"pay\",why=\"{why}\"}}");
    let applied = "semel_deliveries_total{pipeline=\"pay\",fate=\"applied\"}";
    admin.tells(applied, 1);
    admin.tells(&waits("backoff"), 2);
    // Four behind the leads, two that were released, and one behind those.
    admin.tells("semel_held{pipeline=\"pay\"}", 7);
    admin.tells("semel_in_flight{pipeline=\"pay\"}", 2);
    admin.tells(&waits("order"), 5);
    site.write("go", "");
    admin.tells(applied, 7);
    admin.tells("semel_held{pipeline=\"pay\"}", 3);
    admin.tells("semel_in_flight{pipeline=\"pay\"}", 0);
    for (why, count) in [
        ("order", 5),
        ("backoff", 2),
        ("busy", 0),
        ("store", 0),
        ("dead_letter", 0),
    ] {
        admin.tells(&waits(why), count);
    }
    running.signal(Signal::TERM);
    let ended = running.wait().done();
    ended.summary().is(&[("applied", 7), ("released", 3)]);
}

#[test]
fn what_is_stale_too_old_or_was_given_up_is_counted_as_that() {
    const GATED: &str =
        "entity = \"json:/account\"\nversion = \"json:/v\"\norder = \"json:/account\"\n";
    let admin = Admin::new();
    let pipeline = |name: &str, settings: &str| {
        format!(
            "[pipelines.{name}]\nsource = {{ kind = \"file\", path = \"{name}.ndjson\" }}\nkey = \"json:/id\"\n\
             {settings}effect = {{ kind = \"exec\", command = [\"sh\", \"handler.sh\"] }}\n"
        )
    };
    let config = format!(
        "{}{}{}{}[pipelines.idle]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\neffect = {{ kind = \"stdout\" }}\n",
        admin.table(),
        pipeline("gated", GATED),
        pipeline("aged", "birth = \"json:/at\"\n"),
        pipeline("dead", ""),
    );
    // Of each of three accounts the third version comes first.
    let gated = lines(
        (0..3).flat_map(|it| [(it, 3), (it, 1), (it, 2)]),
        |(account, v)| format!("{{\"id\":\"{account}-{v}\",\"account\":\"{account}\",\"v\":{v}}}"),
    );
    let aged = lines(0..6, |id| {
        let year = if id < 4 { 2020 } else { 2100 };
        format!("{{\"id\":{id},\"at\":\"{year}-01-01T00:00:00Z\"}}")
    });
    let dead = lines((0..5).chain(0..5), |id| format!("{{\"id\":\"dead-{id}\"}}"));
    let site = Site::with(&[
        ("semel.toml", &config),
        ("handler.sh", HANDLER),
        ("gated.ndjson", &gated),
        ("aged.ndjson", &aged),
        ("dead.ndjson", &dead),
    ]);
    let (running, messages) = running(&site);
    for (name, label, pipeline, count) in [
        ("decisions", "decision=\"stale\"", "gated", 6),
        ("decisions", "decision=\"granted\"", "gated", 3),
        ("deliveries", "fate=\"stale\"", "gated", 6),
        ("decisions", "decision=\"too_old\"", "aged", 4),
        ("decisions", "decision=\"granted\"", "aged", 2),
        ("quarantined", "reason=\"too-old\"", "aged", 4),
        ("decisions", "decision=\"parked\"", "dead", 5),
        ("decisions", "decision=\"granted\"", "dead", 5),
        ("deliveries", "fate=\"dead\"", "dead", 10),
        // Each second one waits behind the first one of its key.
        ("waits", "why=\"order\"", "dead", 5),
    ] {
        let series = format!("semel_{name}_total{{pipeline=\"{pipeline}\",{label}}}");
        admin.tells(&series, count);
    }
    drop(messages);
    running.wait().done();
}
