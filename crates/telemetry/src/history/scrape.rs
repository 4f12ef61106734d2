//! The text of a scrape, read back.

use std::time::Duration;

/// A line of a scrape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    /// The name with its labels, by which a series is known. That of a histogram has neither the ending nor the bound.
    pub(super) series: &'t str,
    /// The text of the labels.
    pub(super) labels: &'t str,
    pub(super) value: f64,
    /// The upper bound of a bucket.
    bound: Option<f64>,
}

/// A count, or the counts of a histogram, since the beginning.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    /// The upper bound of each bucket, and how many are up to it.
    buckets: Vec<(f64, f64)>,
}

impl Counted {
    /// A count without buckets.
    pub(super) fn sum(count: f64) -> Self {
        Self {
            buckets: vec![(f64::INFINITY, count)],
        }
    }

    /// Returns what was counted since `before`; none if that was more.
    pub(super) fn since(&self, before: &Self) -> Option<Self> {
        if self.buckets.len() != before.buckets.len() {
            return None;
        }
        let pairs = self.buckets.iter().zip(&before.buckets);
        let grown = pairs.map(|((bound, now), (_, then))| (*bound, now - then));
        let buckets: Vec<_> = grown.collect();
        let is_grown = buckets.iter().all(|(_, count)| *count >= 0.0);
        is_grown.then_some(Self { buckets })
    }

    /// Returns how many a second these are.
    pub(super) fn rate(&self, time: Option<Duration>) -> f64 {
        let count = self.buckets.last().map_or(0.0, |(_, count)| *count);
        let secs = time.unwrap_or_default().as_secs_f64();
        if secs > 0.0 { count / secs } else { f64::NAN }
    }

    /// Returns the value that this share is not above, as Prometheus computes it: evenly spread within a bucket, and
    /// never above the highest bound.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let (_, all) = *self.buckets.last()?;
        if all <= 0.0 {
            return None;
        }
        let rank = share * all;
        let at = self.buckets.iter().position(|(_, count)| *count >= rank)?;
        let (bound, count) = self.buckets[at];
        let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |it| self.buckets[it]);
        if bound.is_infinite() {
            return Some(lower);
        }
        Some(lower + (bound - lower) * (rank - below) / (count - below))
    }
}

/// Reads the families that are plotted: each name, kind, and its lines.
pub(super) fn families(text: &str) -> Vec<(&str, &str, Vec<Line<'_>>)> {
    let mut all: Vec<(&str, &str, Vec<Line<'_>>)> = Vec::new();
    let mut is_plotted = false;
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').unwrap_or((declared, ""));
            is_plotted = PLOTTED.contains(&name);
            if is_plotted {
                all.push((name, kind, Vec::new()));
            }
        } else if is_plotted
            && !line.starts_with('#')
            && let Some((name, _, lines)) = all.last_mut()
            && let Some(line) = read(line, name)
        {
            lines.push(line);
        }
    }
    all
}

/// Reads a line of a family of this name; none if it is one of a histogram that adds nothing to its buckets.
fn read<'t>(line: &'t str, family: &str) -> Option<Line<'t>> {
    let (series, value) = line.rsplit_once(' ')?;
    let value: f64 = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().ok()?,
    };
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    if name == family {
        return Some(Line {
            series,
            labels,
            value,
            bound: None,
        });
    }
    if !name.ends_with("_bucket") {
        return None;
    }
    // The bound comes last.
    let at = labels.rfind("le=\"")?;
    let bound = labels[at..].strip_prefix("le=\"")?.strip_suffix('"')?;
    let bound = match bound {
        "+Inf" => f64::INFINITY,
        bound => bound.parse().ok()?,
    };
    let labels = labels[..at].strip_suffix(',').unwrap_or(&labels[..at]);
    let end = name.len() + 1 + labels.len();
    Some(Line {
        series: &series[..end],
        labels,
        value,
        bound: Some(bound),
    })
}

/// Gathers the buckets of each histogram.
pub(super) fn histograms<'t>(lines: &[Line<'t>]) -> Vec<(Line<'t>, Counted)> {
    let mut all: Vec<(Line<'t>, Counted)> = Vec::new();
    for line in lines {
        let Some(bound) = line.bound else {
            continue;
        };
        let bucket = (bound, line.value);
        match all.last_mut() {
            Some((of, counted)) if of.series == line.series => counted.buckets.push(bucket),
            _ => {
                let buckets = vec![bucket];
                all.push((*line, Counted { buckets }));
            }
        }
    }
    all
}

/// Reads labels, whose values have escapes.
pub(super) fn labels(text: &str) -> Vec<(Box<str>, Box<str>)> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let (mut value, mut end) = (String::new(), quoted.len());
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => value.extend(
                    letters
                        .next()
                        .map(|(_, it)| if it == 'n' { '\n' } else { it }),
                ),
                letter => value.push(letter),
            }
        }
        all.push((name.trim_start_matches(',').into(), value.into()));
        rest = &quoted[end..];
    }
    all
}

/// The families that are plotted: what happens to messages, what that takes, and what there is. Not those of tenants and of
/// the process, which are Prometheus's.
pub(super) const PLOTTED: [&str; 32] = [
    "semel_breaker_open",
    "semel_cache_lookups_total",
    "semel_decisions_total",
    "semel_deliveries_total",
    "semel_duplicates_total",
    "semel_effect_seconds",
    "semel_effects_total",
    "semel_expired_again_total",
    "semel_false_duplicates_total",
    "semel_fenced_total",
    "semel_held",
    "semel_in_flight",
    "semel_key_churn",
    "semel_outcome_differs_total",
    "semel_overhead_seconds",
    "semel_quarantined_total",
    "semel_records",
    "semel_renewals_total",
    "semel_replays_total",
    "semel_set_aside",
    "semel_source_connected",
    "semel_source_lag",
    "semel_store_bytes",
    "semel_store_call_seconds",
    "semel_store_errors_total",
    "semel_storm",
    "semel_swept_total",
    "semel_takeovers_total",
    "semel_unprotected_total",
    "semel_waits_total",
    "semel_window_needed_seconds",
    "semel_window_seconds",
];
