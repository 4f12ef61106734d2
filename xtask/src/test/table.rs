//! The result of a run: the steps in a table, and what failed once more before it.

use crate::failure::{Failure, Result};

use super::{Extent, Step, Verdict};

/// The last words of every failure; nothing if all is well.
pub(super) fn last_words(steps: &[Step]) -> String {
    let mut lines = Vec::new();
    for step in steps {
        for failed in &step.failures {
            lines.push(format!("\n── failed: {}: {} ──", step.name, failed.name));
            lines.extend(failed.said.lines().map(str::to_owned));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The steps, and as the last line `N passed, N failed`: tests and checked blocks that passed; those that failed,
/// where a step that failed otherwise counts as one.
pub(super) fn text(steps: &[Step]) -> String {
    let mut lines = vec![format!("{:<10}{:>9}{:>7}  result", "step", "time", "busy")];
    for step in steps {
        let (mark, words) = match &step.verdict {
            Verdict::Passed(words) => ("passed", words.as_str()),
            Verdict::Failed(words) => ("FAILED", words.as_str()),
            Verdict::NotRun(reason) => ("NOT RUN", *reason),
        };
        let seconds = step.time.as_secs_f64();
        let busy = step.busy.map(|percent| format!("{percent} %"));
        let busy = busy.unwrap_or_default();
        let words = words.lines().next().unwrap_or_default();
        lines.push(format!(
            "{:<10}{seconds:>7.1} s{busy:>7}  {mark}: {words}",
            step.name
        ));
    }
    let passed: usize = steps.iter().map(|step| step.passed).sum();
    let failed: usize = steps.iter().map(|step| step.failed).sum();
    lines.push(String::new());
    lines.push(format!("{passed} passed, {failed} failed\n"));
    lines.join("\n")
}

/// Only `--quick` may leave a step out.
pub(super) fn verdict(steps: &[Step], extent: Extent) -> Result {
    let bad: Vec<&str> = steps
        .iter()
        .filter(|step| match step.verdict {
            Verdict::Passed(_) => false,
            Verdict::Failed(_) => true,
            Verdict::NotRun(_) => extent != Extent::Quick,
        })
        .map(|step| step.name)
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::no(format!("not green: {}", bad.join(", "))))
}
