//! The number of seeds that it takes to see a bug: several beginnings, and the median of them.

use std::process::ExitStatus;

use super::{Verdict, tier};
use crate::report::Report;

/// Runs a tier from each beginning, with the command line for it. Without a bug, which takes all seeds and has no
/// median, runs from the first beginning alone.
pub(super) fn tried(
    is_planted: bool,
    tried: impl Fn(&[String]) -> Result<(Report, ExitStatus), String>,
) -> Result<Verdict, String> {
    let mut firsts = Vec::new();
    let (mut all, mut red) = (0, 0);
    let starts = if is_planted {
        &STARTS[..]
    } else {
        &STARTS[..1]
    };
    for &start in starts {
        let words = ["--seeds", &SEEDS.to_string(), "--seed", &start.to_string()];
        let (report, status) = tried(&words.map(str::to_owned))?;
        let verdict = tier(&report, status)?;
        all += verdict.tried;
        red += verdict.red;
        firsts.push(first(&report, start));
    }
    Ok(match median(firsts) {
        None => Verdict {
            tried: all,
            unit: "stories".to_owned(),
            red,
        },
        Some((median, worst)) => Verdict {
            tried: median,
            unit: format!(
                "seeds until it is seen, of {} the median; at most {worst}",
                STARTS.len()
            ),
            red,
        },
    })
}

/// The number of seeds from `start` to the first that found something.
fn first(report: &Report, start: u64) -> Option<u64> {
    let violations = report.rows.iter().flat_map(|row| &row.violations);
    let seeds = violations.filter_map(|told| {
        let (seed, _) = told
            .strip_prefix("seed ")?
            .split_once(|it: char| !it.is_ascii_digit())?;
        seed.parse::<u64>().ok()
    });
    seeds.min().map(|seed| seed.saturating_sub(start) + 1)
}

/// The median and the worst; a run without a find counts as longer than all others. Nothing if most runs have no
/// find.
fn median(firsts: Vec<Option<u64>>) -> Option<(u64, String)> {
    let mut firsts: Vec<u64> = firsts
        .into_iter()
        .map(|it| it.unwrap_or(u64::MAX))
        .collect();
    firsts.sort_unstable();
    let median = *firsts.get(firsts.len() / 2)?;
    let worst = match firsts.last() {
        Some(&u64::MAX) | None => format!("more than {SEEDS}"),
        Some(worst) => worst.to_string(),
    };
    (median < u64::MAX).then_some((median, worst))
}

/// The first seeds of the beginnings.
const STARTS: [u64; 5] = [1, 100_001, 200_001, 300_001, 400_001];
/// The number of seeds of each kind of story from each of them.
const SEEDS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    #[test]
    fn the_first_seed_is_that_of_any_kind_of_story() {
        let row = |told: &[&str]| Row {
            violations: told.iter().map(|it| (*it).to_owned()).collect(),
            ..Row::default()
        };
        let rows = vec![
            row(&["seed 130: lost: again", "seed 117: lost: again"]),
            row(&[]),
            row(&["seed 109 tells another story each time"]),
        ];
        let report = Report {
            rows,
            ..Report::default()
        };
        assert_eq!(first(&report, 101), Some(9));
        assert_eq!(first(&Report::default(), 101), None);
    }

    #[test]
    fn whoever_found_nothing_took_longest() {
        let of = |firsts: [Option<u64>; 5]| median(firsts.to_vec());
        assert_eq!(
            of([Some(7), Some(1), Some(3), Some(9), Some(2)]),
            Some((3, "9".to_owned()))
        );
        assert_eq!(
            of([Some(7), None, Some(3), None, Some(2)]),
            Some((7, "more than 2000".to_owned()))
        );
        assert_eq!(of([Some(7), None, None, None, Some(2)]), None);
    }
}
