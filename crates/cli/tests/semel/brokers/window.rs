//! The window check against real brokers: the horizons that `semel check` computes from their live settings,
//! and the windows that `semel run` refuses.

use rustix::process::Signal;
use serde_json::Value;

use super::Place;
use crate::production::{line, list};
use crate::site::{Site, wait_for};

/// A site with one pipeline; `more` are its settings.
fn site(place: &impl Place, address: &str, more: &str, of_source: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n[pipelines.payments]\nkey = \"json:/id\"\n{more}\n\
         effect = {{ kind = \"file\", path = \"out\" }}\n[pipelines.payments.source]\n{of_source}\n{}",
        place.source(address)
    );
    Site::with(&[("semel.toml", &config)])
}

/// The one report of `semel check`, which ends with `code`.
fn report(site: &Site, code: i32) -> Value {
    let ended = site.semel(&["check", "--output", "json"]).code(code);
    serde_json::from_str(&ended.stdout).expect("one report")
}

/// A finding of the report: its severity, the fact, and the advice.
fn finding<'a>(report: &'a Value, code: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut findings = report["findings"].as_array().expect("a list").iter();
    let found = findings.find(|finding| finding["code"] == code)?;
    let text = |member: &str| found[member].as_str().expect("text");
    Some((text("severity"), text("message"), text("advice")))
}

fn fact<'a>(report: &'a Value, setting: &str) -> &'a str {
    let mut facts = report["reach"]["facts"].as_array().expect("facts").iter();
    let fact = facts.find(|fact| fact["setting"] == setting);
    let fact = fact.unwrap_or_else(|| panic!("no {setting}: {report}"));
    fact["value"].as_str().expect("text")
}

/// Runs until the banner appears, and stops.
fn run(site: &Site) -> crate::site::Ended {
    let mut running = site.start(&["run", "--output", "json"]);
    wait_for("the banner", || running.stderr().contains("age gate: "));
    running.signal(Signal::TERM);
    running.wait().done()
}

#[cfg(feature = "kafka")]
mod kafka {
    use super::super::kafka::Topic;
    use super::*;

    const WEEK: &[&str] = &["retention.ms=604800000", "segment.ms=86400000"];

    fn at(topic: &Topic, more: &str) -> Site {
        site(topic, &Topic::address(), more, "")
    }

    #[test]
    fn a_window_that_the_topic_outlives_is_refused_and_may_be_accepted() {
        let topic = Topic::with(WEEK);
        let short = at(&topic, "");
        let report = report(&short, 1);
        let reach = &report["reach"];
        assert_eq!(reach["verdict"], "repeats", "{reach}");
        assert_eq!(reach["age_gate"], "off");
        assert_eq!(reach["set"], "7d");
        assert_eq!(report["coverage"]["protection"], "partial");
        assert_eq!(reach["redelivery"], reach["replay"]);
        assert_eq!(fact(&report, "retention.ms"), "7d");
        assert_eq!(fact(&report, "segment.ms"), "1d");
        let (severity, message, advice) = finding(&report, "window-too-short").expect("a finding");
        assert_eq!(severity, "fail");
        assert!(message.contains(" for 8d "), "{message}");
        assert!(message.contains("the window is 7d"), "{message}");
        assert!(advice.contains("window = \"9d\""), "{advice}");
        assert!(advice.contains("header:kafka-create-time"), "{advice}");
        assert!(
            advice.contains("accept = [\"window-too-short\"]"),
            "{advice}"
        );
        assert_eq!(finding(&report, "age-gate-off"), None, "it is told already");
        let before = list(&short, &[], 1);
        for name in ["window", "class"] {
            assert_eq!(line(&before, name)["verdict"], "fail", "{before}");
        }

        let table = short.semel(&["check"]).code(1).stdout;
        let heading = table.lines().find(|line| line.starts_with("PIPELINE"));
        let heading: Vec<_> = heading.expect("a table").split_whitespace().collect();
        assert_eq!(
            heading,
            [
                "PIPELINE",
                "CLASS",
                "REDELIVERY",
                "REPLAY",
                "NEEDED",
                "SET",
                "VERDICT",
                "NOT",
                "READ"
            ]
        );
        let row = table.lines().find(|line| line.starts_with("payments  "));
        let row = row.expect("a row");
        assert!(row.contains("repeats"), "{row}");

        let refused = short.semel(&["run"]).code(2);
        let refused = refused.says("the window is 7d").says("[invalid-config]");
        assert!(refused.stderr.contains("window-too-short"), "{refused:?}");
        assert_eq!(refused.stdout, "");
        assert!(!short.path("out").exists(), "nothing has begun");

        let accepted = at(&topic, "accept = [\"window-too-short\"]");
        let report = super::report(&accepted, 0);
        let (severity, message, _) = finding(&report, "window-too-short").expect("a finding");
        assert_eq!(severity, "warn");
        assert!(message.starts_with("accepted by `accept`: "), "{message}");
        assert_eq!(report["reach"]["accepted"][0], "window-too-short");
        let before = list(&accepted, &[], 1);
        for name in ["window", "class"] {
            assert_eq!(line(&before, name)["verdict"], "pass", "{before}");
        }
        let config = accepted.semel(&["config", "check"]).done().stdout;
        let expected = ", accepted by payments: window-too-short\n";
        assert!(config.ends_with(expected), "{config}");
        let ended = run(&accepted)
            .says("warning: payments: accepted by `accept`: ")
            .says("; accepted: window-too-short\n");
        let expected = ",\"accepted\":[\"window-too-short\"]}\n";
        assert!(ended.stdout.ends_with(expected), "{ended:?}");
    }

    #[test]
    fn a_window_that_is_long_enough_runs() {
        let topic = Topic::with(WEEK);
        let site = at(&topic, "window = \"9d\"");
        let report = report(&site, 0);
        assert_eq!(report["reach"]["verdict"], "enough");
        assert_eq!(finding(&report, "window-too-short"), None);
        assert!(finding(&report, "age-gate-off").is_some());
        let ended = run(&site);
        assert!(!ended.stderr.contains("warning"), "{ended:?}");
    }

    #[test]
    fn with_the_age_gate_on_what_is_too_old_is_set_aside() {
        let stamped = [WEEK, &["message.timestamp.type=LogAppendTime"]].concat();
        let born = "birth = \"header:kafka-create-time\"";
        for (settings, more, gate) in [
            (WEEK, born, "birth"),
            (&*stamped, "", "appended"),
            (&["cleanup.policy=compact"], born, "birth"),
        ] {
            let topic = Topic::with(settings);
            let site = at(&topic, more);
            let report = report(&site, 0);
            assert_eq!(report["reach"]["verdict"], "sets-aside", "{report}");
            assert_eq!(report["reach"]["age_gate"], gate);
            let (severity, message, _) = finding(&report, "window-sets-aside").expect("a finding");
            assert_eq!(severity, "warn");
            assert!(message.contains("too-old"), "{message}");
            assert_eq!(finding(&report, "age-gate-off"), None);
            run(&site).says("age gate: on");
        }
    }

    #[test]
    fn no_window_outlasts_a_topic_without_end() {
        for settings in [&["retention.ms=-1"][..], &["cleanup.policy=compact"]] {
            let topic = Topic::with(settings);
            let site = at(&topic, "window = \"36500d\"");
            let report = report(&site, 1);
            assert_eq!(report["reach"]["needed"], "endless", "{report}");
            let (_, message, advice) = finding(&report, "window-too-short").expect("a finding");
            assert!(message.contains("without end"), "{message}");
            assert!(advice.contains("retention.ms"), "{advice}");
            site.semel(&["run"]).code(2).says("without end");
        }
    }

    #[test]
    fn what_kafkas_own_settings_do_not_do_is_told() {
        let topic = Topic::with(WEEK);
        let source = |property: &str| {
            let more = format!("[pipelines.payments.source.properties]\n{property}");
            let config = format!(
                "[store]\nurl = \"embedded:./store\"\n[pipelines.payments]\nkey = \"json:/id\"\nwindow = \"9d\"\n\
                 effect = {{ kind = \"file\", path = \"out\" }}\n[pipelines.payments.source]\n{}",
                topic.source(&Topic::address())
            );
            let table = "[pipelines.payments.source.properties]";
            Site::with(&[("semel.toml", &config.replace(table, &more))])
        };
        let site = source("\"isolation.level\" = \"read_committed\"");
        let report = report(&site, 0);
        let found = finding(&report, "kafka-transactions-end-here");
        assert!(found.expect("a finding").1.contains("`isolation.level`"));
        let site = source("\"isolation.level\" = \"read_uncommitted\"");
        let report = super::report(&site, 0);
        assert_eq!(finding(&report, "kafka-transactions-end-here"), None);
        let found = finding(&report, "source-weak").expect("a finding");
        assert!(found.1.contains("isolation.level"), "{found:?}");
        // Commits outside Semel fail the check, and the run, too.
        let site = source("\"enable.auto.commit\" = \"true\"");
        let report = super::report(&site, 1);
        let found = finding(&report, "invalid-config").expect("a finding");
        assert!(found.1.contains("enable.auto.commit"), "{found:?}");
        assert_eq!(report["reach"], Value::Null);
        site.semel(&["run"]).code(2).says("enable.auto.commit");
    }
}

#[cfg(feature = "nats")]
mod nats {
    use std::time::Duration;

    use super::super::nats::Stream;
    use super::super::runtime;
    use super::*;

    fn at(stream: &Stream, more: &str) -> Site {
        site(stream, &Stream::address(), more, "")
    }

    #[test]
    fn the_age_of_a_stream_is_compared_with_the_window() {
        let stream = Stream::aged(Duration::from_secs(3_600));
        let report = report(&at(&stream, ""), 0);
        assert_eq!(report["reach"]["verdict"], "enough", "{report}");
        assert_eq!(report["reach"]["redelivery"], "1h");
        assert_eq!(report["reach"]["age_gate"], "appended");
        assert_eq!(fact(&report, "max_age"), "1h");
        assert_eq!(fact(&report, "duplicate_window"), "2m");
        assert_eq!(fact(&report, "consumer"), "not there yet");
        assert_eq!(report["findings"], Value::Array(Vec::new()));
        let before = list(&at(&stream, ""), &[], 1);
        for (name, verdict) in [
            ("window", "pass"),
            ("source", "pass"),
            ("producers", "unknown"),
        ] {
            assert_eq!(line(&before, name)["verdict"], verdict, "{before}");
        }
        let short = at(&stream, "window = \"30m\"");
        let report = super::report(&short, 0);
        assert_eq!(report["reach"]["verdict"], "sets-aside", "{report}");
        let before = list(&short, &[], 1);
        assert_eq!(line(&before, "window")["verdict"], "unknown", "{before}");
        run(&short)
            .says("warning: payments: a message can come again for 1h")
            .says("age gate: on, by the broker's time");
    }

    #[test]
    fn a_stream_without_an_age_sets_aside_what_no_window_outlasts() {
        let stream = Stream::new();
        let site = at(&stream, "");
        let report = report(&site, 0);
        assert_eq!(report["reach"]["needed"], "endless", "{report}");
        let (severity, _, advice) = finding(&report, "window-sets-aside").expect("a finding");
        assert_eq!(severity, "warn");
        assert!(advice.contains("max_age"), "{advice}");
        run(&site).says("warning: payments: the broker keeps messages without end");
    }

    #[test]
    fn a_consumer_that_gives_up_too_soon_is_told() {
        let stream = Stream::aged(Duration::from_secs(3_600));
        runtime().block_on(async {
            let client = async_nats::connect(&Stream::address()).await;
            let context = async_nats::jetstream::new(client.expect("a server"));
            let found = context.get_stream(&stream.0).await.expect("a stream");
            let config = async_nats::jetstream::consumer::pull::Config {
                durable_name: Some("payments".to_owned()),
                max_deliver: 3,
                ..Default::default()
            };
            let _ = found.create_consumer(config).await.expect("a consumer");
        });
        let report = report(&at(&stream, ""), 0);
        assert_eq!(fact(&report, "max_deliver"), "3");
        let (_, message, _) = finding(&report, "delivery-limit-short").expect("a finding");
        assert!(message.contains("after 3 deliveries"), "{message}");
        let (_, message, _) = finding(&report, "source-weak").expect("a finding");
        assert!(message.contains("max_deliver is 3"), "{message}");
        let site = at(&stream, "retry = { crashes = 2 }");
        assert_eq!(
            finding(&super::report(&site, 0), "delivery-limit-short"),
            None
        );
    }

    #[test]
    fn a_stream_that_is_missing_fails_the_check() {
        let stream = Stream("no-such-stream".to_owned());
        let site = at(&stream, "");
        let report = report(&site, 1);
        assert!(finding(&report, "invalid-config").is_some(), "{report}");
        site.semel(&["run"]).code(2).says("no-such-stream");
    }
}

#[cfg(feature = "amqp")]
mod amqp {
    use semel_conformance::proxy::Proxy;

    use super::super::amqp::Queue;
    use super::super::runtime;
    use super::*;

    fn at(queue: &Queue, more: &str, of_source: &str) -> Site {
        site(queue, &Queue::address(), more, of_source)
    }

    #[test]
    fn what_amqp_does_not_tell_is_told_and_may_be_declared() {
        let queue = Queue::new();
        let site = at(&queue, "", "");
        let report = report(&site, 0);
        assert_eq!(report["reach"]["verdict"], "unknown", "{report}");
        let unread = report["reach"]["unread"].to_string();
        assert!(unread.contains("x-message-ttl"), "{unread}");
        let (severity, _, advice) = finding(&report, "window-unknown").expect("a finding");
        assert_eq!(severity, "warn");
        assert!(advice.contains("retention = "), "{advice}");
        run(&site).says("warning: payments: how long a message can come again could not be read");

        let enough = super::report(&at(&queue, "", "retention = \"6d\""), 0);
        assert_eq!(enough["reach"]["verdict"], "enough", "{enough}");
        assert_eq!(fact(&enough, "source.retention"), "6d");

        let site = at(&queue, "", "retention = \"30d\"");
        let report = super::report(&site, 1);
        assert_eq!(report["reach"]["verdict"], "repeats", "{report}");
        site.semel(&["run"]).code(2).says(" for 30d ");
        let site = at(&queue, "birth = \"json:/at\"", "retention = \"30d\"");
        assert_eq!(super::report(&site, 0)["reach"]["verdict"], "sets-aside");
    }

    #[test]
    fn attempts_that_last_longer_than_the_broker_waits_are_told() {
        let queue = Queue::new();
        let retry = "retry = { attempts = 5, backoff = \"15m\" }";
        let report = report(&at(&queue, retry, ""), 0);
        let (severity, message, _) = finding(&report, "consumer-timeout-short").expect("a finding");
        assert_eq!(severity, "warn");
        assert!(message.contains("may last 1h"), "{message}");
        assert!(message.contains("after 30m"), "{message}");
    }

    #[test]
    fn a_broker_that_comes_later_is_checked_before_anything_is_taken_in_hand() {
        let queue = Queue::new();
        queue.publish(&super::super::payments(0..3));
        let runtime = runtime();
        let _entered = runtime.enter();
        let url = Queue::address();
        let (_, rest) = url.split_once('@').expect("a login");
        let (address, _) = rest.split_once('/').expect("a virtual host");
        let proxy = Proxy::start(address.parse().expect("an address"));
        proxy.refuse(true);
        let by_way = url.replace(address, &proxy.address().to_string());
        let site = site(&queue, &by_way, "", "retention = \"30d\"");
        let mut running = site.start(&["run"]);
        wait_for("a word about it", || {
            running.stderr().contains("trying again")
        });
        assert!(running.is_running(), "it waits");
        proxy.refuse(false);
        let refused = running.wait().code(2).says("the window is 7d");
        assert!(refused.stderr.contains("window-too-short"), "{refused:?}");
        assert_eq!(site.text("out"), "", "nothing was taken in hand");
    }
}

#[cfg(feature = "nats")]
#[test]
fn a_broker_that_is_away_is_unavailable_to_the_check() {
    use super::nats::Stream;

    let nobody = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    let site = site(&Stream("nothing".to_owned()), &nobody, "", "");
    let report = report(&site, 3);
    assert_eq!(report["reach"], Value::Null);
    assert_eq!(report["verdict"], "fail");
    assert!(finding(&report, "source-unavailable").is_some(), "{report}");
    // A stream knows the age of its messages; it needs no setting.
    assert_eq!(finding(&report, "age-gate-off"), None);
    let table = site.semel(&["check"]).code(3).stdout;
    assert!(table.contains("source-unavailable\n"), "{table}");
}
