//! T6: the promises about any input, tested on inputs that a seeded mutator makes from a corpus.
//!
//! The promises are those of `proof/inputs`.

mod mutator;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use proof_inputs::{Fate, TARGETS, Target};

use crate::effort::Effort;
use crate::panics::quietly;
use crate::report::Row;
use crate::stopwatch::Stopwatch;
use mutator::Mutator;

pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let rows = TARGETS
        .iter()
        .map(|target| row(target, effort, CASES, TARGETS.len()));
    quietly(|| rows.collect())
}

/// Tests the corpus as it is, and then the mutator's inputs: this many cases, or for its share of the time.
fn row(target: &Target, effort: Effort, cases: u64, targets: usize) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(target.name, "inputs");
    let corpus = match corpus(target.name) {
        Ok(corpus) => corpus,
        Err(why) => {
            row.violations.push(why);
            return row;
        }
    };
    for fate in ["accepted", "refused"] {
        row.seen.insert(fate.to_owned(), 0);
    }
    let budget = effort.share(cases.max(corpus.len() as u64), targets);
    while budget.allows(row.tried) && row.violations.len() < MOST_VIOLATIONS {
        let seed = effort.seed.wrapping_add(row.tried);
        let as_it_is = usize::try_from(row.tried)
            .ok()
            .and_then(|at| corpus.get(at));
        let input = as_it_is.cloned().unwrap_or_else(|| {
            let mut mutator = Mutator::new(seed);
            mutator.input(&corpus, target.words, &mut row.faults)
        });
        row.tried += 1;
        let fate = match judged(target, &input) {
            Ok(Fate::Accepted) => "accepted",
            Ok(Fate::Refused) => "refused",
            Err(_) => {
                row.violations.push(violation(target, seed, input));
                continue;
            }
        };
        *row.seen.entry(fate.to_owned()).or_default() += 1;
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// The target's judgement of an input; a panic is an answer like any other.
fn judged(target: &Target, input: &[u8]) -> Result<Fate, String> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", said.unwrap_or("without a word")))
    })
}

/// The smallest input found that still breaks a promise, and the promise.
fn violation(target: &Target, seed: u64, mut input: Vec<u8>) -> String {
    let mut tries = 0;
    let mut piece = input.len() / 2;
    while piece > 0 && tries < MOST_SHRINKS {
        let mut at = 0;
        while at < input.len() && tries < MOST_SHRINKS {
            tries += 1;
            let mut smaller = input.clone();
            smaller.drain(at..input.len().min(at + piece));
            if judged(target, &smaller).is_err() {
                input = smaller;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    let why = judged(target, &input)
        .err()
        .unwrap_or_else(|| "not every time".to_owned());
    let mut told = format!("seed {seed}: {why}; input ");
    for byte in input {
        let _ = write!(told, "{byte:02x}");
    }
    told
}

/// The inputs in the folder of a target, by name.
fn corpus(name: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = Path::new(CORPUS).join(name);
    let broken = |why: std::io::Error| format!("no corpus in proof/corpus/{name}: {why}");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(broken)? {
        paths.push(entry.map_err(broken)?.path());
    }
    paths.sort();
    let inputs = paths.iter().map(std::fs::read);
    inputs.collect::<Result<_, _>>().map_err(broken)
}

/// The folder of the inputs that people thought of, or found.
pub(crate) const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
/// Inputs per target that every merge tries.
const CASES: u64 = 10_000;
/// The most violations to report: one bug fails many inputs, and a few of them show all.
const MOST_VIOLATIONS: usize = 5;
const MOST_SHRINKS: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::Size;

    const FEW: Effort = Effort {
        size: Size::Merge,
        seed: 1,
        only: None,
    };

    #[test]
    fn every_target_keeps_its_promises_over_its_corpus_and_a_little_more() {
        let rows = TARGETS
            .iter()
            .map(|target| row(target, FEW, 300, 1))
            .collect();
        let report = crate::report::Report {
            rows,
            ..crate::report::Report::default()
        };
        let found = report.faults_found();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn a_broken_promise_and_a_panic_are_told_with_the_least_input() {
        fn check(data: &[u8]) -> Result<Fate, String> {
            assert!(!data.contains(&b'{'), "a brace");
            if data.contains(&b'1') {
                return Err("a one".to_owned());
            }
            Ok(Fate::Accepted)
        }
        let target = Target {
            name: "json",
            check,
            words: &[],
        };
        let found = row(&target, FEW, 300, 1).faults_found().concat();
        assert!(found.contains("a one; input 31"), "{found}");
        assert!(found.contains("panicked: a brace; input 7b"), "{found}");
        assert!(found.contains("never seen, so never tried: refused"));
    }

    #[test]
    fn a_seed_makes_the_same_inputs_again() {
        let corpus = corpus("json").expect("a corpus");
        let input = |seed| {
            let mut faults = std::collections::BTreeMap::new();
            Mutator::new(seed).input(&corpus, &[b"{", b"1"], &mut faults)
        };
        assert_eq!(input(7), input(7));
        assert!((0..100).any(|seed| input(seed) != input(seed + 1)));
    }
}
