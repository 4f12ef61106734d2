use super::scrape::PLOTTED;
use super::*;
use crate::{Build, Format, Metrics};

fn at(point: u64) -> (Duration, Timestamp) {
    let time = STEP * u32::try_from(point).expect("few points");
    let millis = u64::try_from(time.as_millis()).expect("a time");
    (time, Timestamp::from_millis(millis))
}

fn taken(texts: &[(u64, String)]) -> History {
    let history = History::default();
    for (point, text) in texts {
        let (now, time) = at(*point);
        history.take(text, now, time);
    }
    history
}

fn values(history: &History, family: &str) -> Vec<Vec<f32>> {
    let recent = history.recent(Some(family), None);
    recent.series.into_iter().map(|it| it.values).collect()
}

/// The same numbers, and none where there is none.
fn are(values: &[f32], expected: &[Option<f32>]) -> bool {
    let same = |(value, expected): (&f32, &Option<f32>)| match expected {
        Some(expected) => (value - expected).abs() < 1e-6,
        None => value.is_nan(),
    };
    values.len() == expected.len() && values.iter().zip(expected).all(same)
}

fn counter(count: u64) -> String {
    format!(
        "# HELP semel_decisions_total Answers.\n# TYPE semel_decisions_total counter\n\
         semel_decisions_total{{pipeline=\"pay\",decision=\"granted\"}} {count}\n"
    )
}

#[test]
fn a_counter_is_a_rate_and_begins_with_nothing_known() {
    let texts = [(0, counter(100)), (1, counter(130)), (2, counter(130))];
    let history = taken(&texts);
    let rates = values(&history, "semel_decisions_total");
    assert!(are(&rates[0], &[None, Some(2.0), Some(0.0)]), "{rates:?}");
    let recent = history.recent(None, Some("pay"));
    let series = &recent.series[0];
    assert_eq!(series.kind, SeriesKind::Rate);
    assert_eq!(*series.labels[1].0, *"decision");
    assert_eq!((recent.points, recent.until), (3, Some(at(2).1)));
    assert!(history.recent(None, Some("mail")).series.is_empty());
}

#[test]
fn a_counter_that_comes_later_began_with_zero() {
    let history = taken(&[(0, String::new()), (1, counter(30))]);
    let rates = values(&history, "semel_decisions_total");
    assert!(are(&rates[0], &[None, Some(2.0)]), "{rates:?}");
}

#[test]
fn points_that_were_missed_have_no_value_and_the_next_rate_is_of_the_whole_time() {
    let history = taken(&[(0, counter(0)), (3, counter(90))]);
    let rates = values(&history, "semel_decisions_total");
    assert!(are(&rates[0], &[None, None, None, Some(2.0)]), "{rates:?}");
    let history = taken(&[(0, counter(0)), (1_000_000, counter(90))]);
    assert_eq!(history.recent(None, None).points, POINTS);
}

#[test]
fn a_gauge_has_its_values_and_none_while_it_is_not_there() {
    let gauge = |value: &str| {
        format!(
            "# TYPE semel_window_needed_seconds gauge\nsemel_window_needed_seconds{{pipeline=\"a \\\"\\\\b\"}} {value}\n"
        )
    };
    let texts = [
        (0, gauge("2.5")),
        (1, gauge("+Inf")),
        (2, String::new()),
        (3, gauge("4")),
    ];
    let history = taken(&texts);
    let all = values(&history, "semel_window_needed_seconds");
    assert!(are(&all[0], &[Some(2.5), None, None, Some(4.0)]), "{all:?}");
    let recent = history.recent(None, Some("a \"\\b"));
    assert_eq!(recent.series.len(), 1, "{recent:?}");
}

#[test]
fn a_histogram_is_two_quantiles_of_what_came_since() {
    let histogram = |counts: [u64; 3]| {
        let [one, two, all] = counts;
        let of = |bound: &str, count| {
            format!("semel_overhead_seconds_bucket{{pipeline=\"pay\",le=\"{bound}\"}} {count}\n")
        };
        format!(
            "# TYPE semel_overhead_seconds histogram\nsemel_overhead_seconds_sum{{pipeline=\"pay\"}} 7\n\
             semel_overhead_seconds_count{{pipeline=\"pay\"}} {all}\n{}{}{}",
            of("1.0", one),
            of("2.0", two),
            of("+Inf", all)
        )
    };
    let texts = [
        (0, histogram([5, 5, 5])),
        (1, histogram([5, 105, 105])),
        (2, histogram([5, 105, 105])),
        (3, histogram([6, 106, 115])),
    ];
    let history = taken(&texts);
    let recent = history.recent(None, None);
    let [median, p99] = &recent.series[..] else {
        panic!("{recent:?}");
    };
    assert_eq!(
        (median.kind, p99.kind),
        (SeriesKind::Median, SeriesKind::P99)
    );
    assert_eq!(median.labels, [("pipeline".into(), "pay".into())]);
    // Evenly between the bounds 1 and 2; nothing came; above the highest bound it is that bound.
    assert!(
        are(&median.values, &[None, Some(1.5), None, Some(2.0)]),
        "{median:?}"
    );
    assert!(
        are(&p99.values, &[None, Some(1.99), None, Some(2.0)]),
        "{p99:?}"
    );
}

#[test]
fn an_hour_is_kept_and_a_series_that_is_gone_for_that_long_is_not() {
    let texts: Vec<_> = (0..=POINTS as u64)
        .map(|point| (point, counter(point * 15)))
        .collect();
    let history = taken(&texts);
    let rates = values(&history, "semel_decisions_total");
    assert_eq!(rates[0].len(), POINTS);
    assert!(
        rates[0].iter().all(|it| (it - 1.0).abs() < 1e-6),
        "{rates:?}"
    );
    for point in 1..=POINTS as u64 {
        assert_eq!(history.recent(None, None).series.len(), 1, "{point}");
        let (now, time) = at(POINTS as u64 + point);
        history.take("", now, time);
    }
    assert!(history.recent(None, None).series.is_empty());
    assert!(history.lock().counted.is_empty());
}

#[test]
fn the_number_of_series_is_bounded_and_what_is_beyond_is_told() {
    let lines = (0..MOST_SERIES + 7).map(|at| format!("semel_waits_total{{pipeline=\"{at}\"}} 1"));
    let mut text = vec!["# TYPE semel_waits_total counter".to_owned()];
    text.extend(lines);
    let text = text.join("\n");
    let history = taken(&[(0, text.clone()), (1, text)]);
    let recent = history.recent(None, None);
    assert_eq!((recent.series.len(), recent.left_out), (MOST_SERIES, 7));
    assert!(history.lock().counted.len() <= MOST_SERIES);
}

#[test]
fn a_series_that_is_let_in_late_has_not_counted_its_past_just_now() {
    let lines = |first: usize| {
        let lines = (first..first + MOST_SERIES)
            .map(|at| format!("semel_waits_total{{pipeline=\"{at:04}\"}} 1"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let type_of = "# TYPE semel_waits_total counter\n";
    let late = "semel_waits_total{pipeline=\"late\"}";
    // There is no room for one at first, and then some are gone for an hour.
    let mut texts = vec![(0, format!("{type_of}{}\n{late} 500", lines(0)))];
    for point in 1..=POINTS as u64 + 4 {
        texts.push((point, format!("{type_of}{late} {}", 500 + point * 15)));
    }
    let history = taken(&texts);
    let recent = history.recent(None, Some("late"));
    let known = recent.series[0].values.iter().filter(|it| it.is_finite());
    let known: Vec<_> = known.collect();
    assert!(!known.is_empty(), "{recent:?}");
    assert!(
        known.iter().all(|it| (**it - 1.0).abs() < 1e-6),
        "{known:?}"
    );
}

#[test]
fn a_real_scrape_is_read_whole() {
    let metrics = Metrics::new(Build {
        version: "1",
        commit: "unknown",
    });
    let _pay = metrics.pipeline("pay", "http");
    let text = metrics.text(Format::Prometheus);
    let history = taken(&[(0, text.clone()), (1, text.clone())]);
    let recent = history.recent(None, None);
    let lines = text.lines().filter(|line| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        PLOTTED.contains(&name)
    });
    let of_lines = recent
        .series
        .iter()
        .filter(|it| it.kind <= SeriesKind::Rate)
        .count();
    assert_eq!(of_lines, lines.count(), "{text}");
    let of_histograms = recent.series.len() - of_lines;
    assert_eq!(
        of_histograms, 4,
        "those of the effect, and of the overhead: {recent:?}"
    );
}
