//! The picture of `examples/observability`: what some panels showed of a real run, which `./run --record` wrote down.

use std::fmt::Write;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// The path of the picture.
pub(crate) const FILE: &str = "examples/observability/picture.svg";

/// Draws the picture from the figures that were recorded.
pub(crate) fn drawn(workspace: &Workspace) -> Result<String> {
    let text = std::fs::read_to_string(workspace.root.join(RECORDED))?;
    picture(&text)
        .ok_or_else(|| Failure::no(format!("{RECORDED} is not what `./run --record` writes")))
}

/// The picture of these figures as SVG.
fn picture(recorded: &str) -> Option<String> {
    let charts: Vec<Value> = serde_json::from_str(recorded).ok()?;
    let charts: Vec<_> = charts.iter().map(Chart::read).collect::<Option<_>>()?;
    let height = f64::from(u32::try_from(charts.len().div_ceil(2)).ok()?) * HEIGHT;
    let mut drawn = String::new();
    let places = [0.0, HEIGHT]
        .into_iter()
        .flat_map(|top| [(0.0, top), (WIDTH, top)]);
    for (chart, (left, top)) in charts.iter().zip(places) {
        chart.draw(&mut drawn, left, top);
    }
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {height}\" width=\"{0}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{LABEL}\">\n{STYLE}{drawn}</svg>\n",
        2.0 * WIDTH
    ))
}

/// One panel.
struct Chart<'a> {
    title: &'a str,
    unit: &'a str,
    series: Vec<(&'a str, Vec<[f64; 2]>)>,
}

impl<'a> Chart<'a> {
    fn read(value: &'a Value) -> Option<Self> {
        let series = value["series"].as_object()?.iter().map(|(name, points)| {
            let points: Vec<[f64; 2]> = serde_json::from_value(points.clone()).ok()?;
            Some((name.as_str(), points))
        });
        Some(Self {
            title: value["title"].as_str()?,
            unit: value["unit"].as_str()?,
            series: series.collect::<Option<_>>()?,
        })
    }

    /// The largest time or value.
    fn largest(&self, which: usize) -> f64 {
        let points = self.series.iter().flat_map(|(_, points)| points);
        points.map(|point| point[which]).fold(0.0, f64::max)
    }

    fn draw(&self, into: &mut String, left: f64, top: f64) {
        let (right, bottom) = (left + WIDTH - 20.0, top + HEIGHT - 62.0);
        let (left, high) = (left + 62.0, top + 44.0);
        let (last, most) = (self.largest(0).max(1.0), round_up(self.largest(1)));
        let x = |at: f64| left + (right - left) * at / last;
        let y = |value: f64| bottom - (bottom - high) * value / most;
        words(into, "title", left, top + 24.0, self.title);
        for part in [0.0, 0.5, 1.0] {
            let at = y(most * part);
            line(
                into,
                &format!(
                    "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
                ),
            );
            words(
                into,
                "value",
                left - 8.0,
                at + 4.0,
                &self.shown(most * part),
            );
        }
        let minutes = [(0.0, "0"), (60.0, "1 min"), (120.0, "2 min")];
        for (at, name) in minutes.into_iter().filter(|(at, _)| *at <= last) {
            words(into, "time", x(at), bottom + 18.0, name);
        }
        let mut beside = left;
        for (number, (name, points)) in self.series.iter().enumerate() {
            let class = format!("s{}", number % COLOURS);
            let mut drawn = String::new();
            for point in points {
                // Writing to a string cannot fail.
                let _ = write!(drawn, "{:.1},{:.1} ", x(point[0]), y(point[1]));
            }
            line(
                into,
                &format!(
                    "<polyline class=\"{class}\" points=\"{}\"/>",
                    drawn.trim_end()
                ),
            );
            words(into, &format!("name {class}"), beside, bottom + 42.0, name);
            beside += 7.0 * f64::from(u32::try_from(name.len()).unwrap_or(0)) + 18.0;
        }
    }

    /// A value on the axis, with its unit.
    fn shown(&self, value: f64) -> String {
        match self.unit {
            "s" if value >= 1.0 => format!("{value} s"),
            "s" => format!("{} ms", (value * 1e6).round() / 1e3),
            "mps" | "cps" => format!("{value}/s"),
            _ => value.to_string(),
        }
    }
}

/// The next of 1, 2, 5, 10 and so on that is not smaller.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * decade);
    let fits = steps.into_iter().find(|step| *step >= value);
    fits.unwrap_or(10.0 * decade)
}

fn words(into: &mut String, class: &str, x: f64, y: f64, words: &str) {
    line(
        into,
        &format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"),
    );
}

fn line(into: &mut String, line: &str) {
    into.extend(["  ", line, "\n"]);
}

/// The figures of the picture.
const RECORDED: &str = "examples/observability/picture.json";
/// The size of a chart.
const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 240.0;
const COLOURS: usize = 6;
const LABEL: &str = "Four panels of the dashboard on call over two minutes: deliveries by fate with a peak of replayed ones in each \
                     minute, overhead, effects that did not apply while the provider was down, and what is set aside, which rises";
const STYLE: &str = "\
  <style>
    svg { background: #ffffff; }
    text { font: 12px system-ui, sans-serif; fill: #59636e; }
    .title { font-size: 15px; font-weight: 600; fill: #1f2328; }
    .value { text-anchor: end; }
    .time { text-anchor: middle; }
    .grid { stroke: #d1d9e0; }
    polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
    .s0 { stroke: #0969da; } .s1 { stroke: #bc4c00; } .s2 { stroke: #1a7f37; }
    .s3 { stroke: #8250df; } .s4 { stroke: #cf222e; } .s5 { stroke: #9a6700; }
    text.name { stroke: none; }
    text.s0 { fill: #0969da; } text.s1 { fill: #bc4c00; } text.s2 { fill: #1a7f37; }
    text.s3 { fill: #8250df; } text.s4 { fill: #cf222e; } text.s5 { fill: #9a6700; }
    @media (prefers-color-scheme: dark) {
      svg { background: #0d1117; }
      text { fill: #9198a1; }
      .title { fill: #f0f6fc; }
      .grid { stroke: #3d444d; }
      .s0 { stroke: #4493f8; } .s1 { stroke: #f0883e; } .s2 { stroke: #3fb950; }
      .s3 { stroke: #ab7df8; } .s4 { stroke: #f85149; } .s5 { stroke: #d29922; }
      text.s0 { fill: #4493f8; } text.s1 { fill: #f0883e; } text.s2 { fill: #3fb950; }
      text.s3 { fill: #ab7df8; } text.s4 { fill: #f85149; } text.s5 { fill: #d29922; }
    }
  </style>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_is_drawn() {
        let workspace = Workspace::find().expect("cargo runs");
        let there = std::fs::read_to_string(workspace.root.join(FILE)).expect("a picture");
        let drawn = drawn(&workspace).expect("the figures");
        assert!(there == drawn, "`cargo xtask picture` draws it anew");
    }

    #[test]
    fn a_value_stands_where_its_axis_has_it() {
        let chart =
            r#"[{"title": "T", "unit": "s", "series": {"a": [[0, 0], [60, 0.015], [120, 0.03]]}}]"#;
        let drawn = picture(chart).expect("a picture");
        // The axis ends at 50 ms.
        assert!(
            drawn.contains(">50 ms</text>") && drawn.contains(">0 ms</text>"),
            "{drawn}"
        );
        assert!(
            drawn.contains("points=\"62.0,178.0 236.0,137.8 410.0,97.6\""),
            "{drawn}"
        );
        assert!(picture("[{}]").is_none());
        let tops = [0.9, 1.0, 3.0, 60.0].map(|value| round_up(value).to_string());
        assert_eq!(tops, ["1", "1", "5", "100"]);
    }
}
