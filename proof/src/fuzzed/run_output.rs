//! The output of a run of libFuzzer.

use std::path::PathBuf;
use std::process::ExitStatus;

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunOutput {
    /// The number of inputs that it ran.
    pub(super) inputs: u64,
    /// The number of edges of code that they reached.
    pub(super) edges: u64,
    /// The failure, if there was one.
    pub(super) wrong: Option<String>,
    /// The file with the input that caused it.
    pub(super) find: Option<PathBuf>,
}

impl RunOutput {
    pub(super) fn read(text: &str, status: ExitStatus) -> Self {
        let wrong = (!status.success()).then(|| match why(text) {
            Some(why) => why,
            None => format!("ended with {status}"),
        });
        let find = last(text, "Test unit written to ").map(PathBuf::from);
        Self {
            inputs: inputs(text),
            edges: edges(text),
            find: find.filter(|_| wrong.is_some()),
            wrong,
        }
    }
}

/// The number in the sum at the end; after a crash, in the last line about its progress.
fn inputs(text: &str) -> u64 {
    let sum = last(text, "stat::number_of_executed_units:").and_then(|it| it.parse().ok());
    sum.or_else(|| progress(text).filter_map(|(inputs, _)| inputs).last())
        .unwrap_or_default()
}

fn edges(text: &str) -> u64 {
    progress(text)
        .filter_map(|(_, edges)| edges)
        .max()
        .unwrap_or_default()
}

/// `#4096\tpulse  cov: 215 ft: 300 corp: 12/1Kb …`
fn progress(text: &str) -> impl Iterator<Item = (Option<u64>, Option<u64>)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    lines.map(|line| {
        let mut words = line.split_whitespace();
        let inputs = words.next().and_then(|it| it.parse().ok());
        let edges = words.skip_while(|it| *it != "cov:").nth(1);
        (inputs, edges.and_then(|it| it.parse().ok()))
    })
}

/// The words of a panic, or else libFuzzer's own.
fn why(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let panicked = lines.find(|line| line.starts_with("thread ") && line.contains(" panicked at "));
    if panicked.is_some() {
        let said = lines.next().filter(|line| !line.is_empty());
        return said.map(|said| format!("panicked: {said}"));
    }
    let (_, rest) = text.split_once("ERROR: ")?;
    rest.lines().next().map(str::to_owned)
}

/// The text that follows `after` in the last line that has it.
fn last<'t>(text: &'t str, after: &str) -> Option<&'t str> {
    let lines = text.lines().rev();
    let mut rest = lines.filter_map(|line| line.split_once(after));
    rest.next().map(|(_, rest)| rest.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const PROGRESS: &str = "\
INFO: Seed: 2
#15\tINITED cov: 100 ft: 210 corp: 12/310b exec/s: 0 rss: 40Mb
#4096\tpulse  cov: 215 ft: 300 corp: 12/1Kb lim: 40 exec/s: 2048 rss: 60Mb
";

    #[test]
    fn a_run_that_found_nothing_says_how_much_it_tried() {
        let sum = "stat::number_of_executed_units: 20015\nstat::peak_rss_mb: 90\n";
        let said = RunOutput::read(&format!("{PROGRESS}{sum}"), ExitStatus::from_raw(0));
        assert_eq!((said.inputs, said.edges), (20_015, 215));
        assert_eq!((said.wrong, said.find), (None, None));
    }

    #[test]
    fn a_find_is_told_in_its_own_words_and_with_its_file() {
        let found = "\nthread '<unnamed>' (7) panicked at src/lib.rs:9:9:\n1.0 is not 1\nnote: run with\n\
                     ==7== ERROR: libFuzzer: deadly signal\nartifact_prefix='/f/'; Test unit written to /f/crash-1\n";
        let said = RunOutput::read(&format!("{PROGRESS}{found}"), ExitStatus::from_raw(77 << 8));
        assert_eq!(said.inputs, 4_096);
        assert_eq!(said.wrong.as_deref(), Some("panicked: 1.0 is not 1"));
        assert_eq!(said.find, Some("/f/crash-1".into()));
    }

    #[test]
    fn a_hang_and_a_death_without_a_word_are_finds_too() {
        let hung =
            "==7== ERROR: libFuzzer: timeout after 30 seconds\nTest unit written to /f/timeout-1\n";
        let said = RunOutput::read(hung, ExitStatus::from_raw(70 << 8));
        let why = "libFuzzer: timeout after 30 seconds";
        assert_eq!(said.wrong.as_deref(), Some(why));
        let said = RunOutput::read("", ExitStatus::from_raw(9));
        assert!(said.wrong.is_some_and(|why| why.contains("signal: 9")));
        assert_eq!((said.inputs, said.edges), (0, 0));
    }
}
