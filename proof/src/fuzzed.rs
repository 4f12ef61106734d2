//! T11: the inputs of T6, made by a fuzzer that watches which code they reach. It is built apart, in `proof/fuzz`,
//! with a nightly compiler; both are fetched when they are missing.
//!
//! The inputs that it learned for a target stay in `target/fuzz`, where the next run continues from them. Nothing
//! is put into the corpus of the proof: a find is reported with the command that keeps it.

mod run_output;
mod tools;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proof_inputs::TARGETS;

use self::run_output::RunOutput;
use self::tools::Tools;
use crate::effort::{Effort, Size};
use crate::inputs::CORPUS;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Builds the fuzzer and runs it on one target after the other, each for its share of the time.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let tools = match Tools::ready() {
        Ok(tools) => tools,
        Err(why) => {
            let mut row = Row::new("the fuzzer", "inputs");
            row.violations.push(why);
            return vec![row];
        }
    };
    let mut rows = vec![control(&tools, effort)];
    for target in TARGETS {
        let work = Work::of(&tools, target.name);
        let limit = match effort.size {
            Size::Merge | Size::Seeds(_) => Limit::Inputs(effort.budget(MERGE).most()),
            Size::Minutes(_) => {
                let share = effort.share(MERGE, TARGETS.len()).left();
                Limit::Time(share.unwrap_or_default())
            }
        };
        rows.push(row(&work, target.words, limit, effort.seed));
    }
    rows
}

/// The control: a fuzzer that does not find a planted bug proves nothing about the rest.
fn control(tools: &Tools, effort: Effort) -> Row {
    let work = Work::of(tools, CONTROL);
    let mut row = row(&work, &[], Limit::Inputs(CONTROL_INPUTS), effort.seed);
    let is_it = |why: &String| why.contains(PLANTED);
    let found = row.violations.iter().filter(|why| is_it(why)).count();
    row.violations.retain(|why| !is_it(why));
    row.seen = [("a planted panic, found".to_owned(), found as u64)].into();
    row
}

/// The limit after which a target has been tried enough.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Inputs(u64),
    Time(Duration),
}

/// The folders of one target.
struct Work {
    name: &'static str,
    program: PathBuf,
    /// Inputs that were learned so far.
    learned: PathBuf,
    /// Inputs that broke a promise.
    finds: PathBuf,
    dictionary: PathBuf,
    log: PathBuf,
}

impl Work {
    fn of(tools: &Tools, name: &'static str) -> Self {
        let folder = tools.folder.join(name);
        Self {
            name,
            program: tools.program(name),
            learned: folder.join("learned"),
            finds: folder.join("finds"),
            dictionary: folder.join("words"),
            log: folder.join("log"),
        }
    }

    /// Runs the fuzzer to its end, and reads its output.
    fn ended(&self, words: &[&[u8]], limit: Limit, seed: u64) -> io::Result<RunOutput> {
        if self.name == CONTROL && self.learned.exists() {
            // The bug is to be found anew each time.
            fs::remove_dir_all(&self.learned)?;
        }
        fs::create_dir_all(&self.learned)?;
        fs::create_dir_all(&self.finds)?;
        let mut command = Command::new(&self.program);
        command
            .arg(format!("-artifact_prefix={}/", self.finds.display()))
            // It takes 0 for a request for a random seed.
            .arg(format!("-seed={}", seed % u64::from(u32::MAX) + 1))
            .args(["-print_final_stats=1", "-report_slow_units=3600"])
            .args(["-timeout=30", "-rss_limit_mb=2048"]);
        if !words.is_empty() {
            fs::write(&self.dictionary, dictionary(words))?;
            command.arg(format!("-dict={}", self.dictionary.display()));
        }
        match limit {
            Limit::Inputs(most) => command.arg(format!("-runs={most}")),
            Limit::Time(time) => command.arg(format!("-max_total_time={}", time.as_secs().max(1))),
        };
        command.arg(&self.learned);
        let corpus = Path::new(CORPUS).join(self.name);
        if corpus.exists() {
            command.arg(corpus);
        }
        let log = File::create(&self.log)?;
        let status = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()?;
        let text = fs::read(&self.log)?;
        Ok(RunOutput::read(&String::from_utf8_lossy(&text), status))
    }
}

fn row(work: &Work, words: &[&[u8]], limit: Limit, seed: u64) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(work.name, "inputs");
    match work.ended(words, limit, seed) {
        Ok(said) => {
            row.tried = said.inputs;
            row.seen
                .insert("edges of code reached".to_owned(), said.edges);
            row.violations
                .extend(said.wrong.map(|why| violation(work, &why, said.find)));
        }
        Err(error) => row.violations.push(format!("cannot be fuzzed: {error}")),
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// The find, and the command that keeps it.
fn violation(work: &Work, why: &str, find: Option<PathBuf>) -> String {
    match find {
        Some(find) => format!(
            "{why}; `cp {} proof/corpus/{}/NAME`, with a name that says what it is, keeps it: T6 and the tests are \
             red until it is mended",
            find.display(),
            work.name
        ),
        None => format!("{why}; all that it said is in {}", work.log.display()),
    }
}

/// The words in the form that libFuzzer reads.
fn dictionary(words: &[&[u8]]) -> String {
    let escaped = |byte: &u8| format!("\\x{byte:02x}");
    let line = |word: &&[u8]| format!("\"{}\"\n", word.iter().map(escaped).collect::<String>());
    words.iter().filter(|it| !it.is_empty()).map(line).collect()
}

/// Inputs per target if nothing else was asked for.
const MERGE: u64 = 20_000;
/// The target with a bug in it, and the message of the bug.
const CONTROL: &str = "control";
const PLANTED: &str = "the planted bug";
/// A hundred times the inputs that it took.
const CONTROL_INPUTS: u64 = 5_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_of_the_proof_is_a_target_of_the_fuzzer() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("its manifest");
        for target in TARGETS {
            let name = target.name;
            let listed = format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"");
            assert!(manifest.contains(&listed), "{name} is not in proof/fuzz");
            let source = fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs")));
            let calls = format!("must_stand(\"{name}\", input)");
            assert!(source.is_ok_and(|source| source.contains(&calls)), "{name}");
        }
    }

    #[test]
    fn words_are_written_byte_by_byte() {
        assert_eq!(dictionary(&[b"a\"\xff", b""]), "\"\\x61\\x22\\xff\"\n");
    }
}
