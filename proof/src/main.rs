//! The tiers of proof, behind one command: `cargo xtask prove`. The book's page `proof.md` has what each
//! has found.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal: what it prints is its result"
)]

mod cargo;
mod crash_table;
mod effort;
mod fuzzed;
mod histories;
mod inputs;
mod model;
mod panics;
mod planted;
mod power;
mod report;
#[cfg_attr(not(feature = "scheduled"), path = "unscheduled.rs")]
mod schedules;
mod simulation;
mod stopwatch;
mod torture_tests;

use std::process::{Command, ExitCode};

use crate::effort::{Effort, Size};
use crate::report::{Report, Row};
use crate::stopwatch::Stopwatch;

/// One kind of proof.
struct Tier {
    /// `T1`.
    id: &'static str,
    /// Its work, in a few words.
    what: &'static str,
    run: fn(Effort) -> Vec<Row>,
}

const TIERS: &[Tier] = &[
    Tier {
        id: "T1",
        what: "the protocol as a model, every interleaving within bounds",
        run: model::run,
    },
    Tier {
        id: "T2",
        what: "stories of the engine in a seeded world, with faults and then without",
        run: simulation::run,
    },
    Tier {
        id: "T4",
        what: "threads of one process, under a scheduler that chooses every order",
        run: schedules::run,
    },
    Tier {
        id: "T5",
        what: "random histories against every store, each explained by the decisions",
        run: histories::run,
    },
    Tier {
        id: "T6",
        what: "properties of any input",
        run: inputs::run,
    },
    Tier {
        id: "T7",
        what: "every cell of the crash table, and pairs of faults",
        run: crash_table::run,
    },
    Tier {
        id: "T8",
        what: "real processes and servers, killed, stopped and cut off",
        run: torture_tests::run,
    },
    Tier {
        id: "T9",
        what: "power cuts, and disks that fail, fill up or turn read-only",
        run: power::run,
    },
    Tier {
        id: "T10",
        what: "the same stories with clocks that are hours off, jump and stand still",
        run: simulation::with_wild_clocks,
    },
    Tier {
        id: "T11",
        what: "the same properties, under a fuzzer that watches the code",
        run: fuzzed::run,
    },
    Tier {
        id: "T14",
        what: "bugs that are known, each built in and seen by the tests",
        run: planted::run,
    },
];

const USAGE: &str = "\
usage: proof [TIER…] [--seeds N | --minutes M] [--seed S] [--only PART] [--json FOLDER]

  TIER           as T1; all that are there if none is named
  --seeds N      as many of whatever the tier counts in
  --minutes M    as many as fit
  --seed S       the first seed, 1 if it is not given
  --only PART    of T5 and T7 a store, as postgres; of T5 also its races or sequences, as postgres-races;
                 of T8 a store or a broker, as kafka, or a broker with one store, as kafka-postgres;
                 of T14 bugs, as M07,K01
  --json FOLDER  where to write what was found, a file a tier";

/// The request of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    tiers: Vec<String>,
    effort: Effort,
    json: Option<String>,
}

fn main() -> ExitCode {
    if let Some(code) = planted::stand_in() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word] = &words[..]
        && word == power::DISK
    {
        return power::disk();
    }
    match asked(&words).and_then(|asked| run(&asked, &words)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("proof: {wrong}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        tiers: Vec::new(),
        effort: Effort {
            size: Size::Merge,
            seed: 1,
            only: None,
        },
        json: None,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        let number = |text: &String| {
            let wrong = |_| format!("`{text}` is not a whole number");
            text.parse::<u64>().map_err(wrong)
        };
        match word.as_str() {
            "--seeds" | "--minutes" if asked.effort.size != Size::Merge => {
                return Err("--seeds and --minutes do not go together".to_owned());
            }
            "--seeds" => asked.effort.size = Size::Seeds(number(value()?)?),
            "--minutes" => asked.effort.size = Size::Minutes(number(value()?)?),
            "--seed" => asked.effort.seed = number(value()?)?,
            // It lasts as long as the program, and is leaked once.
            "--only" => asked.effort.only = Some(value()?.clone().leak()),
            "--json" => asked.json = Some(value()?.clone()),
            tier if TIERS.iter().any(|known| known.id == tier) => {
                asked.tiers.push(tier.to_owned());
            }
            unknown => {
                let known: Vec<&str> = TIERS.iter().map(|tier| tier.id).collect();
                return Err(format!(
                    "`{unknown}` is no tier; there are {}",
                    known.join(", ")
                ));
            }
        }
    }
    let is_whole = |tier: &String| !PARTED.contains(&tier.as_str());
    if asked.effort.only.is_some() && (asked.tiers.is_empty() || asked.tiers.iter().any(is_whole)) {
        return Err(format!("--only goes with {}", PARTED.join(", ")));
    }
    if let Some(list) = asked.effort.only
        && asked.tiers.iter().any(|tier| tier == "T14")
        && !planted::are_known(list)
    {
        return Err(format!("`{list}` is no list of bugs that can be planted"));
    }
    Ok(asked)
}

/// The tiers that have parts.
const PARTED: &[&str] = &["T5", "T7", "T8", "T14"];

/// Runs the tiers and prints what they found. Returns whether all of it stands.
fn run(asked: &Asked, words: &[String]) -> Result<bool, String> {
    let mut stands = true;
    // The commit at the beginning: changes during hours of proof were not tried.
    let commit = commit();
    for tier in TIERS {
        if !asked.tiers.is_empty() && !asked.tiers.iter().any(|id| id == tier.id) {
            continue;
        }
        println!("{}: {}", tier.id, tier.what);
        let since = Stopwatch::start();
        let rows = (tier.run)(asked.effort);
        let report = Report {
            // A part has results of its own.
            tier: match asked.effort.only {
                Some(part) => format!("{}-{part}", tier.id),
                None => tier.id.to_owned(),
            },
            commit: commit.clone(),
            command: command(tier.id, words),
            rows,
            seconds: since.elapsed().as_secs_f64(),
        };
        println!("{}", report.table());
        let faults = report.faults_found();
        for fault in &faults {
            println!("{} FAILED: {fault}", tier.id);
        }
        stands &= faults.is_empty();
        if let Some(folder) = &asked.json {
            write(folder, &report)?;
        }
    }
    Ok(stands)
}

fn write(folder: &str, report: &Report) -> Result<(), String> {
    let path = std::path::Path::new(folder).join(format!("{}.json", report.tier));
    let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The command that runs one tier of this run again.
fn command(tier: &str, words: &[String]) -> String {
    let mut typed = vec!["cargo xtask prove", tier];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let "--seeds" | "--minutes" | "--seed" | "--only" = word {
            typed.push(word);
            typed.extend(words.next());
        } else if word == "--json" {
            words.next();
        }
    }
    typed.join(" ")
}

/// The commit, with `-dirty` if something else is tried. The kept results of earlier runs do not count.
fn commit() -> String {
    let changed = [
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":/",
        ":(top,exclude)proof/results",
        ":(top,exclude)docs/book/src/proof.md",
    ];
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&changed)) {
        (Some(commit), Some(changed)) if changed.is_empty() => commit,
        (Some(commit), _) => commit + "-dirty",
        (None, _) => "unknown".to_owned(),
    }
}

fn git(args: &[&str]) -> Option<String> {
    let said = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    said.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_wrong_on_the_command_line_is_said() {
        let wrong = |line| asked(&words(line)).expect_err(line);
        assert!(wrong("T99").contains("`T99` is no tier"));
        assert!(wrong("T14 --only M07,M99").contains("is no list of bugs"));
        assert!(wrong("--seeds").contains("needs a value"));
        assert!(wrong("--seeds many").contains("`many` is not a whole number"));
        assert!(wrong("--seeds 1 --minutes 1").contains("do not go together"));
        assert!(wrong("--only redis").contains("goes with T5, T7, T8, T14"));
        assert!(wrong("T5 T1 --only redis").contains("goes with T5, T7, T8, T14"));
        assert!(asked(&words("T5 --only redis")).is_ok_and(|it| it.effort.has("redis")));
    }

    #[test]
    fn the_command_of_one_tier_is_told_without_where_it_was_written() {
        let all = words("T1 T2 --seeds 9 --json there --seed 4");
        assert_eq!(
            command("T2", &all),
            "cargo xtask prove T2 --seeds 9 --seed 4"
        );
    }
}
