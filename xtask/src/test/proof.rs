//! The step `proof`: the tiers that every merge runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::background::Background;
use crate::builds::Profile;
use crate::failure::Result;
use crate::prove;
use crate::prove::page::Kept;
use crate::services::Borrowed;
use crate::test_results::{Failed, Tail};
use crate::workspace::Workspace;

use super::{Report, Verdict};

/// The tiers to run: T5 is in the tests of every store, and T8 has a step of its own, `torture`.
const PROVEN: &[&str] = &["T1", "T2", "T4", "T6", "T7", "T9", "T10", "T14"];

/// Begins those of them that are listed, beside whatever follows.
pub(super) fn begin(workspace: &Workspace, servers: &Borrowed) -> Result<Background> {
    let command = prove::proof(workspace, Profile::Dev, servers, PROVEN)?;
    Background::start(&command, workspace.scratch().join("proof.log"))
}

/// Waits for what has begun.
pub(super) fn end(workspace: &Workspace, proof: Result<Background>) -> Report {
    let tiers = PROVEN.iter().map(|tier| (*tier).to_owned()).collect();
    proven(proof, tiers, || prove::reports(workspace))
}

/// The result of the proof: its tries are checks, and each of `tiers` must have tried something.
fn proven(
    proof: Result<Background>,
    tiers: BTreeSet<String>,
    reports: impl FnOnce() -> Result<Vec<PathBuf>>,
) -> Report {
    let (status, text) = match proof.and_then(Background::wait) {
        Ok(ended) => ended,
        Err(failure) => return Report::failed(failure.to_string()),
    };
    print!("{text}");
    let mut said = Tail::default();
    text.lines().for_each(|line| said.push(line));
    let mut passed = 0;
    let mut faults = Vec::new();
    let mut missing = tiers.clone();
    for path in reports().unwrap_or_default() {
        match std::fs::read_to_string(&path).map(|text| Kept::read(&text)) {
            Ok(Ok(report)) => {
                let (stand, against) = report.counted();
                passed += stand;
                faults.extend(against);
                missing.remove(&report.tier);
            }
            Ok(Err(why)) => faults.push(why),
            Err(error) => faults.push(error.to_string()),
        }
    }
    faults.extend(missing.iter().map(|tier| format!("{tier} was not tried")));
    if faults.is_empty() && passed == 0 {
        faults.push("nothing was tried".to_owned());
    }
    if faults.is_empty() && !status.success() {
        faults.push(status.to_string());
    }
    let Some(first) = faults.first() else {
        let tiers: Vec<String> = tiers.into_iter().collect();
        return Report::passed(passed, format!("{passed} rows of {}", tiers.join(", ")));
    };
    Report {
        passed,
        failed: faults.len(),
        verdict: Verdict::Failed(first.clone()),
        failures: vec![Failed {
            name: faults.join("; "),
            said,
        }],
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::prove::page;

    use super::*;

    #[test]
    fn what_the_proof_tried_is_counted_and_a_tier_that_is_missing_is_a_failure() {
        let folder = std::env::temp_dir().join(format!("xtask-proven-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("T1.json");
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Background::start(&command, folder.join("log"))
        };
        let proven = |figure: &str, tiers: &[&str], code: u8| {
            std::fs::write(&path, page::tests::report(figure)).expect("a report");
            let tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
            let report = proven(sh(&format!("echo T1; exit {code}")), tiers, || {
                Ok(vec![path.clone()])
            });
            (report.passed, report.failed, report.verdict)
        };
        let failed = |passed, words: &str| (passed, 1, Verdict::Failed(words.to_owned()));
        let rows = Verdict::Passed("1 rows of T1".to_owned());
        assert_eq!(proven(r#""lost": 0"#, &["T1"], 0), (1, 0, rows));
        assert_eq!(
            proven(r#""lost": 3"#, &["T1"], 1),
            failed(0, "park: 3 lost")
        );
        let missing = failed(1, "T2 was not tried");
        assert_eq!(proven(r#""lost": 0"#, &["T1", "T2"], 0), missing);
        let exit = failed(1, "exit status: 1");
        assert_eq!(proven(r#""lost": 0"#, &["T1"], 1), exit);
        let nothing = super::proven(sh("true"), BTreeSet::new(), || Ok(Vec::new()));
        assert_eq!(nothing.failed, 1);
        std::fs::remove_dir_all(&folder).expect("the folder of the test");
    }
}
