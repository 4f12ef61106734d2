//! Plots of the last hour, drawn here: an image for who sees, and a list of numbers for everybody.

use std::fmt::Write;

use maud::{Markup, html};
use serde_json::Value;

use crate::text::{foreign, grouped, list, text, words};

/// A line of a plot: its name, and its values, the oldest first.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// The unit of the values of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    PerSecond,
    Seconds,
    Bytes,
}

/// The series of a report that belong into one plot.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'s> {
    /// The name of their family.
    pub(crate) family: &'s str,
    /// The pipeline that they are of; empty if of none.
    pub(crate) pipeline: &'s str,
    /// The label that tells them apart; empty where the kind of their values does.
    pub(crate) label: &'s str,
}

/// Takes the lines of a plot out of a report, in the order of their labels, so that each keeps its colour; of those that
/// never differ from zero none. Of histograms that a label tells apart, the 99th percentile alone.
pub(crate) fn lines(series: &Value, selection: Selection<'_>) -> Vec<Line> {
    let Selection {
        family,
        pipeline,
        label,
    } = selection;
    let is_meant = |it: &&Value| {
        text(it, "family") == family
            && (pipeline.is_empty() || text(&it["labels"], "pipeline") == pipeline)
    };
    let items = list(series, "items").iter().filter(is_meant);
    let mut lines: Vec<Line> = Vec::new();
    for item in items {
        let values = list(item, "values").iter().map(Value::as_f64);
        let kind = text(item, "kind");
        let name = match (label, kind) {
            ("", kind) => kind.to_owned(),
            // The one label whose values are no words.
            ("store", "value" | "rate") => text(&item["labels"], "store").to_owned(),
            (label, "value" | "rate") => words(text(&item["labels"], label)),
            (label, "p99") => format!("{} p99", text(&item["labels"], label)),
            _ => continue,
        };
        lines.push(Line {
            name,
            values: values.collect(),
        });
    }
    lines.retain(|it| it.values.iter().flatten().any(|value| *value != 0.0));
    lines.truncate(MOST_LINES);
    lines
}

/// The last value of all lines together; none if there is none.
pub(crate) fn last_sum(lines: &[Line]) -> Option<f64> {
    let last = lines.iter().filter_map(Line::last);
    let (sum, count) = last.fold((0.0, 0), |(sum, count), it| (sum + it, count + 1));
    (count > 0).then_some(sum)
}

/// Draws a plot.
pub(crate) fn plot(title: &str, unit: Unit, lines: &[Line]) -> Markup {
    let values = lines.iter().flat_map(|it| it.values.iter().flatten());
    let most = values.copied().fold(0.0, f64::max);
    let top = ceiling(most);
    html! {
        figure.plot {
            figcaption { (title) }
            @if lines.is_empty() {
                p.empty { "Nothing in the last hour." }
            } @else {
                div.drawing {
                    span.top aria-hidden="true" { (amount(top, unit)) }
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                        aria-label={ (title) ", the last hour" } {
                        @for share in 1..4 {
                            line.grid x1="0" x2=(WIDTH) y1=(HEIGHT * f64::from(share) / 4.0)
                                y2=(HEIGHT * f64::from(share) / 4.0) {}
                        }
                        @for (at, line) in lines.iter().enumerate() {
                            path class={ "line c" (at) } d=(path(&line.values, top)) {}
                        }
                    }
                    div.hours aria-hidden="true" { span { "60 min ago" } span { "now" } }
                }
                ul.legend {
                    @for (at, line) in lines.iter().enumerate() {
                        li {
                            svg.swatch viewBox="0 0 28 4" aria-hidden="true" {
                                line class={ "line c" (at) } x1="0" x2="28" y1="2" y2="2" {}
                            }
                            (foreign(&line.name)) " "
                            b { (line.last().map_or("–".to_owned(), |it| amount(it, unit))) }
                            span.peak { " at most " (amount(line.most(), unit)) }
                        }
                    }
                }
            }
        }
    }
}

impl Line {
    fn last(&self) -> Option<f64> {
        *self.values.last()?
    }

    fn most(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// The path of a line: the newest value at the right edge, and a gap where nothing is known.
fn path(values: &[Option<f64>], top: f64) -> String {
    let mut path = String::new();
    let values = &values[values.len().saturating_sub(POINTS)..];
    let mut is_drawn = false;
    for (x, value) in (POINTS - values.len()..).zip(values) {
        let Some(value) = value else {
            is_drawn = false;
            continue;
        };
        let y = HEIGHT - value / top * (HEIGHT - 2.0) - 1.0;
        // A point of its own is a line of no length, which a round end makes visible.
        let verb = if is_drawn { "L" } else { "M" };
        // Writing to a string cannot fail.
        let _ = write!(path, "{verb}{x} {y:.2}");
        if !is_drawn {
            path.push_str("h.01");
        }
        is_drawn = true;
    }
    path
}

/// The next round number.
fn ceiling(most: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 1.0;
    }
    let size = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let mut steps = steps.into_iter().map(|step| step * size);
    steps.find(|it| *it >= most).unwrap_or(most)
}

/// A value in its unit.
pub(crate) fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => digits(value),
        Unit::PerSecond => format!("{}/s", digits(value)),
        Unit::Seconds if value == 0.0 => "0 s".to_owned(),
        Unit::Seconds if value < 0.001 => format!("{} µs", digits(value * 1e6)),
        Unit::Seconds if value < 1.0 => format!("{} ms", digits(value * 1e3)),
        Unit::Seconds => format!("{} s", digits(value)),
        Unit::Bytes if value >= GIB => format!("{} GiB", digits(value / GIB)),
        Unit::Bytes if value >= MIB => format!("{} MiB", digits(value / MIB)),
        Unit::Bytes => format!("{} KiB", digits(value / 1_024.0)),
    }
}

/// Three digits that count.
fn digits(value: f64) -> String {
    let text = match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    grouped(&text)
}

const WIDTH: u32 = 240;
const POINTS: usize = 240;
const HEIGHT: f64 = 60.0;
const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;
/// The most lines of a plot: so many colours are told apart.
const MOST_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_right_edge_and_has_gaps() {
        let values = [Some(0.0), None, Some(2.0), Some(1.0)];
        assert_eq!(path(&values, 2.0), "M236 59.00h.01M238 1.00h.01L239 30.00");
        let long = vec![Some(1.0); 500];
        assert!(path(&long, 1.0).starts_with("M0 1.00"));
    }

    #[test]
    fn a_line_has_the_words_of_its_label_or_the_path_of_its_store() {
        let series = |label: &str, value: &str| {
            let labels = serde_json::json!({ label: value });
            let item = serde_json::json!({ "family": "f", "kind": "value", "labels": labels, "values": [1.0] });
            serde_json::json!({ "items": [item] })
        };
        for (label, value, name) in [
            ("state", "in_doubt", "in doubt"),
            ("store", "sqlite:my_store-1.db", "sqlite:my_store-1.db"),
        ] {
            let selection = Selection {
                family: "f",
                pipeline: "",
                label,
            };
            let lines = lines(&series(label, value), selection);
            assert_eq!(lines[0].name, name);
        }
    }

    #[test]
    fn the_top_is_a_round_number_above_all() {
        for (most, top) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (3.0, 5.0),
            (5.0, 5.0),
            (0.012, 0.02),
            (1_234.0, 2_000.0),
        ] {
            assert!((ceiling(most) - top).abs() < top / 1e9, "{most}");
        }
    }

    #[test]
    fn amounts_are_short() {
        for (value, unit, text) in [
            (0.000_25, Unit::Seconds, "250 µs"),
            (0.0012, Unit::Seconds, "1.20 ms"),
            (2.5, Unit::Seconds, "2.50 s"),
            (20_123.4, Unit::PerSecond, "20\u{202f}123/s"),
            (7.0, Unit::Count, "7"),
            (1_572_864.0, Unit::Bytes, "1.50 MiB"),
        ] {
            assert_eq!(amount(value, unit), text);
        }
    }
}
