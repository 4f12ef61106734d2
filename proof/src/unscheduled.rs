//! T4 in a build without the scheduler: it tries nothing, and fails.

use crate::effort::Effort;
use crate::report::Row;

/// Says how to build what T4 tries.
pub(crate) fn run(_: Effort) -> Vec<Row> {
    let mut row = Row::new("none", "schedules of threads");
    row.violations.push(MISSING.to_owned());
    vec![row]
}

const MISSING: &str = "this build has no scheduler; build it with `--features proof/scheduled`, or run `cargo xtask prove T4`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::Size;
    use crate::report::Report;

    #[test]
    fn without_the_scheduler_t4_fails_and_says_what_is_missing() {
        let report = Report {
            rows: run(Effort {
                size: Size::Merge,
                seed: 1,
                only: None,
            }),
            ..Report::default()
        };
        let faults = report.faults_found();
        assert!(
            faults
                .iter()
                .any(|it| it.contains("--features proof/scheduled")),
            "{faults:?}"
        );
    }
}
