//! Replays a topic: everything that it has, beside the group that reads it.

use rustix::process::Signal;

use super::Topic;
use crate::brokers::{Place, each_is_there_once, payments, site, until};
use crate::site::wait_for;

#[test]
fn a_topic_is_replayed_to_its_end_and_its_group_stays_where_it_is() {
    let topic = Topic::new();
    let site = site(&topic, &Topic::address());
    topic.publish(&payments(0..10));
    until(&site, 10, || {});
    topic.publish(&payments(5..15));
    // Its times are its producers', which prove nothing.
    let refused = site.semel(&["replay", "--id", "r"]).code(2);
    refused.says("--newer-than").says("--allow-expired");
    let newer = ["replay", "--id", "r", "--newer-than", "29d"];
    site.semel(&newer).code(1).says("kafka").says("as r");
    // The replay ends by itself.
    let all = ["replay", "--id", "r", "--allow-expired", "--yes"];
    let replayed = site.semel(&[&all[..], &["--output", "json"]].concat());
    let summary = replayed.done().summary();
    summary.is(&[
        ("deliveries", 20),
        ("applied", 5),
        ("replayed", 15),
        ("sent_again", 20),
    ]);
    each_is_there_once(&site, 15);
    let newer = [
        "replay",
        "--id",
        "r",
        "--newer-than",
        "1h",
        "--yes",
        "--output",
        "json",
    ];
    site.semel(&newer)
        .done()
        .summary()
        .is(&[("deliveries", 20), ("replayed", 20)]);
    let nothing = [
        "replay",
        "--id",
        "r",
        "--newer-than",
        "1ms",
        "--yes",
        "--output",
        "json",
    ];
    site.semel(&nothing)
        .done()
        .summary()
        .is(&[("deliveries", 0)]);
    // The replay committed nothing for the group: the group still gets the last messages.
    let decisions = ["run", "--log", "json", "--log-level", "decisions"];
    let mut running = site.start(&decisions);
    let mut said = String::new();
    wait_for("what the group still has", || {
        said.push_str(&running.stderr());
        said.matches("\"decision\":\"replayed\"").count() >= 10
    });
    running.signal(Signal::TERM);
    running.wait().done();
}
