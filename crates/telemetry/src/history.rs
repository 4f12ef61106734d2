//! The last hour of what a scrape would have got, in memory: a point each [`STEP`], for whoever has no Prometheus.
//!
//! Points are taken of the text of a scrape, so they are what Prometheus would have: of a counter its rate, of a histogram
//! two quantiles, of a gauge its value. Not for anything older, nor for what ends with the process: that is a database's.

mod ring;
mod scrape;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::Timestamp;

use self::ring::{Ring, Rings};
use self::scrape::{Counted, Line, families};

/// The last hour of the families that are plotted.
#[derive(Debug, Default)]
pub struct History(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    rings: Rings,
    /// The counts up to the last point, by the series.
    counted: BTreeMap<Box<str>, Counted>,
    /// Monotonic time of the last point.
    last: Option<Duration>,
    /// The time of the last point on the clock.
    until: Option<Timestamp>,
}

/// The last hour of some series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    /// The time of the last point; none while there is none.
    pub until: Option<Timestamp>,
    /// The number of points that each of the series has.
    pub points: usize,
    /// The number of series that are not kept, because there are too many.
    pub left_out: usize,
    /// The series, in the order of their families' names.
    pub series: Vec<RecentSeries>,
}

/// The last hour of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentSeries {
    /// The name of its family, as a scrape has it.
    pub family: Box<str>,
    /// Its labels.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The meaning of its values.
    pub kind: SeriesKind,
    /// Its values, the oldest first; not a number where nothing is known.
    pub values: Vec<f32>,
}

/// The meaning of the values of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeriesKind {
    /// The value of a gauge.
    Value,
    /// The rate of a counter, in a second.
    Rate,
    /// The median of what was observed since the point before.
    Median,
    /// The 99th percentile of what was observed since the point before.
    P99,
}

impl SeriesKind {
    /// Its name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Rate => "rate",
            Self::Median => "p50",
            Self::P99 => "p99",
        }
    }
}

impl History {
    /// Takes a point of each series: `text` is that of a scrape in Prometheus's own format, `now` monotonic time, and `at`
    /// the time of the clock. To be called each [`STEP`]; where it was not, there are points without a value.
    pub fn take(&self, text: &str, now: Duration, at: Timestamp) {
        let mut past = self.lock();
        let since = past.last.map(|last| now.saturating_sub(last));
        let missed = since.map_or(0, |since| steps(since).saturating_sub(1));
        past.rings.skip(missed);
        past.rings.begin();
        for (family, kind, lines) in families(text) {
            past.family(family, kind, &lines, since);
        }
        past.rings.end();
        let Past { rings, counted, .. } = &mut *past;
        counted.retain(|name, _| rings.is_kept(name));
        (past.last, past.until) = (Some(now), Some(at));
    }

    /// Returns the series of `family` and of `pipeline`, or of all where none is named.
    pub fn recent(&self, family: Option<&str>, pipeline: Option<&str>) -> Recent {
        let past = self.lock();
        let is_wanted = |ring: &&Ring| {
            let is_of = |name| ring.label("pipeline") == Some(name);
            family.is_none_or(|name| *ring.family == *name) && pipeline.is_none_or(is_of)
        };
        let series = past.rings.iter().filter(is_wanted);
        let series = series.map(|ring| RecentSeries {
            family: ring.family.clone(),
            labels: ring.labels.clone(),
            kind: ring.kind,
            values: past.rings.values(ring),
        });
        Recent {
            until: past.until,
            points: past.rings.points(),
            left_out: past.rings.left_out(),
            series: series.collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Past {
    /// Takes a point of each series of a family.
    fn family(&mut self, family: &str, kind: &str, lines: &[Line<'_>], since: Option<Duration>) {
        match kind {
            "counter" => {
                for line in lines {
                    let counted = Counted::sum(line.value);
                    let grown = self.grown(line.series, counted, since);
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "a plot needs no more digits"
                    )]
                    let rate = grown.map_or(f32::NAN, |it| it.rate(since) as f32);
                    self.rings.push(family, line, SeriesKind::Rate, rate);
                }
            }
            "histogram" => {
                for (line, counted) in scrape::histograms(lines) {
                    let grown = self.grown(line.series, counted, since);
                    for (kind, share) in QUANTILES {
                        let value = grown.as_ref().and_then(|it| it.quantile(share));
                        #[expect(
                            clippy::cast_possible_truncation,
                            reason = "a plot needs no more digits"
                        )]
                        let value = value.map_or(f32::NAN, |it| it as f32);
                        self.rings.push(family, &line, kind, value);
                    }
                }
            }
            _ => {
                for line in lines {
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "a plot needs no more digits"
                    )]
                    let value = line.value as f32;
                    self.rings.push(family, line, SeriesKind::Value, value);
                }
            }
        }
    }

    /// Returns what was counted since the last point: nothing at the first one, and all of a series that came later, if it is
    /// certain that it is new.
    fn grown(&mut self, series: &str, now: Counted, since: Option<Duration>) -> Option<Counted> {
        if let Some(before) = self.counted.get_mut(series) {
            let grown = now.since(before);
            *before = now;
            return grown;
        }
        self.counted.insert(series.into(), now.clone());
        // At the first point nobody knows since when, and of a series that was left out neither.
        since.filter(|_| !self.rings.has_lost()).map(|_| now)
    }
}

/// The number of steps in a time, to the nearest.
fn steps(time: Duration) -> usize {
    let half = STEP / 2;
    let steps = (time + half).as_millis() / STEP.as_millis();
    usize::try_from(steps).unwrap_or(usize::MAX)
}

const QUANTILES: [(SeriesKind, f64); 2] = [(SeriesKind::Median, 0.5), (SeriesKind::P99, 0.99)];
/// The time between two points.
pub const STEP: Duration = Duration::from_secs(15);
/// The points of a series: an hour of them.
pub const POINTS: usize = 240;
/// The most series. One takes 3 KB with its names and what it had counted, measured over 704 of them: 4 bytes a point, and
/// the buckets of a histogram.
pub const MOST_SERIES: usize = 1_000;

#[cfg(test)]
mod tests;
