use super::*;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn horizons(topic: &[(&str, &str)], broker: &[(&str, &str)]) -> HorizonReport {
    let options = Options::new("localhost:9092", "payments", "billing");
    of_settings(Ok(&settings(topic)), Ok(&settings(broker)), &options)
}

const WEEK: (&str, &str) = ("retention.ms", "604800000");
const SEGMENT: (&str, &str) = ("segment.ms", "86400000");
const HOUR_AHEAD: (&str, &str) = ("message.timestamp.after.max.ms", "3600000");
const APPENDED: (&str, &str) = ("message.timestamp.type", "LogAppendTime");

const fn minutes(minutes: u64) -> Horizon {
    Horizon::Within(Duration::from_secs(minutes * 60))
}

#[test]
fn a_record_stays_its_retention_its_segment_and_until_somebody_looks() {
    let check = ("log.retention.check.interval.ms", "60000");
    let (day, week) = (24 * 60, 7 * 24 * 60);
    for (topic, broker, expected) in [
        (&[WEEK, APPENDED][..], &[check][..], minutes(week + 1)),
        (&[WEEK, APPENDED], &[], minutes(week + 5)),
        (
            &[WEEK, SEGMENT, APPENDED],
            &[check],
            minutes(week + day + 1),
        ),
        (
            &[WEEK, SEGMENT, HOUR_AHEAD, APPENDED],
            &[check],
            minutes(week + day + 1),
        ),
        (
            &[WEEK, SEGMENT, HOUR_AHEAD],
            &[check],
            minutes(week + day + 60 + 1),
        ),
        (
            &[
                WEEK,
                ("message.timestamp.after.max.ms", "9223372036854775807"),
            ],
            &[check],
            minutes(week + 1),
        ),
    ] {
        let found = horizons(topic, broker);
        assert_eq!(found.redelivery, expected, "{topic:?}");
        assert_eq!(found.replay, expected, "{topic:?}");
    }
}

#[test]
fn what_no_age_ends_has_no_end_or_a_size() {
    for (topic, expected) in [
        (&[("retention.ms", "-1")][..], Horizon::Endless),
        (
            &[("retention.ms", "-1"), ("retention.bytes", "-1")],
            Horizon::Endless,
        ),
        (
            &[("retention.ms", "-1"), ("retention.bytes", "1000")],
            Horizon::Unknown,
        ),
        (&[WEEK, ("cleanup.policy", "compact")], Horizon::Endless),
        (
            &[WEEK, ("cleanup.policy", "compact,delete")],
            Horizon::Endless,
        ),
        (&[("retention.ms", "9223372036854775807")], Horizon::Endless),
        (&[("cleanup.policy", "delete")], Horizon::Unknown),
    ] {
        assert_eq!(horizons(topic, &[]).redelivery, expected, "{topic:?}");
    }
}

#[test]
fn what_may_not_be_read_is_told() {
    let options = Options::new("localhost:9092", "payments", "billing");
    let why = "the user may not".to_owned();
    let found = of_settings(Err(&why), Err(&why), &options);
    assert_eq!(found.redelivery, Horizon::Unknown);
    let unread: Vec<_> = found.unread.iter().map(|it| &*it.name).collect();
    assert_eq!(
        unread,
        [
            "offsets.retention.minutes",
            "log.retention.check.interval.ms",
            "retention.ms",
            "segment.ms",
            "cleanup.policy"
        ]
    );
    let topic = settings(&[WEEK]);
    let found = of_settings(Ok(&topic), Err(&why), &options);
    assert_eq!(found.redelivery, minutes(7 * 24 * 60 + 5), "a usual check");
}

#[test]
fn the_age_of_a_record_is_the_brokers_word_alone() {
    assert!(horizons(&[WEEK, APPENDED], &[]).is_stamped);
    assert!(!horizons(&[WEEK, ("message.timestamp.type", "CreateTime")], &[]).is_stamped);
    assert!(!horizons(&[WEEK], &[]).is_stamped);
}

#[test]
fn what_skips_records_or_hands_over_too_many_is_told() {
    let mut options = Options::new("localhost:9092", "payments", "billing");
    assert_eq!(of_client(&options).len(), 0);
    options.properties = vec![("isolation.level".into(), "read_uncommitted".into())];
    assert_eq!(of_client(&options).len(), 1);
    for (reset, count) in [
        ("earliest", 0),
        ("smallest", 0),
        ("latest", 1),
        ("error", 1),
    ] {
        options.properties = vec![("auto.offset.reset".into(), reset.into())];
        assert_eq!(of_client(&options).len(), count, "{reset}");
    }
    let unclean = ("unclean.leader.election.enable", "true");
    assert_eq!(horizons(&[WEEK, unclean], &[]).warnings.len(), 1);
    assert_eq!(horizons(&[WEEK], &[]).warnings.len(), 0);
}
