//! Every automation of the Semel workspace: the same on a laptop and in CI, and tested like the
//! rest of the code.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal: what it prints is its result"
)]

mod background;
mod bench;
mod builds;
mod ci;
mod clients;
mod examples;
mod failure;
mod lanes;
mod openapi;
mod packages;
mod picture;
mod process;
mod promtool;
mod prove;
mod readme;
mod rust;
mod scratch;
mod services;
mod suites;
mod test;
mod test_results;
mod tidy;
mod tree;
mod utilization;
mod workspace;

use std::process::ExitCode;

use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask VERB

  test [--quick | --loaded]        everything that must hold: format, lints, tidy, tests, torture, README;
                                   --loaded: the tests and the torture, with six busy loops beside them
  ci                               install what the tests need, then `test`
  tidy [--shrink]                  the rules of the house that no compiler knows; take from their lists of exceptions
                                   what is none any more
  clients                          run the tests of the clients in Python, Node, Go and Java
  rules                            check and play the rules and alerts of Prometheus in deploy/
  prove [TIER…] [--seeds N | --minutes M] [--seed S] [--only PART] [--keep]
                                   try to break the promise, tier by tier; keep the results for the book
  prove --page                     write the book's page of the results that are kept
  readme                           run the checked examples of the README and the book
  picture                          draw the pictures of the README, of examples/observability and of the console
  openapi [--requests N]           ask target/debug/semel what its description of the claim API allows, by chance
  examples                         fetch the public webhook examples into target/
  bench [ARGS…]                    build the benchmarks in release mode and run them
  services up|down|status [NAME…]  real servers for tests, private to this checkout";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            failure.exit_code()
        }
    }
}

fn dispatch(args: &[String]) -> Result {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    // Checked here, before a verb builds for minutes and then rejects the word.
    let is_asked = |word: &&str| matches!(*word, "--help" | "-h");
    if words == ["help"] || words.iter().any(is_asked) {
        println!("{USAGE}");
        return Ok(());
    }
    match words.as_slice() {
        ["test"] => test::run(&Workspace::find()?, test::Extent::Whole),
        ["test", "--quick"] => test::run(&Workspace::find()?, test::Extent::Quick),
        ["test", "--loaded"] => test::run(&Workspace::find()?, test::Extent::Loaded),
        ["ci"] => ci::run(&Workspace::find()?),
        ["tidy"] => tidy::run(&Workspace::find()?).map(drop),
        ["tidy", "--shrink"] => tidy::shrink(&Workspace::find()?),
        ["clients"] => ci::clients(&Workspace::find()?),
        ["rules"] => promtool::run(&Workspace::find()?).map(|summary| println!("rules: {summary}")),
        ["prove", words @ ..] => prove::run(&Workspace::find()?, words),
        ["readme"] => {
            let workspace = Workspace::find()?;
            let blocks = |servers: &Borrowed| readme::run(&workspace, servers);
            Borrowed::beside(&workspace, &[], blocks)
        }
        ["picture"] => picture::run(&Workspace::find()?),
        ["openapi", words @ ..] => {
            let (workspace, count) = (Workspace::find()?, openapi::count(words)?);
            let semel = workspace.target.join("debug/semel");
            let asked = openapi::run(&workspace, &semel, count);
            asked.map(|summary| println!("openapi: {summary}"))
        }
        ["examples"] => examples::run(&Workspace::find()?),
        ["bench", rest @ ..] => bench::run(&Workspace::find()?, rest),
        ["services", verb, names @ ..] => services::run(&Workspace::find()?, verb, names),
        [] => Err(Failure::usage(USAGE)),
        _ => Err(Failure::usage(format!(
            "`{}` is no verb\n\n{USAGE}",
            words.join(" ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_a_verb_for_help_gets_it_and_nothing_is_run() {
        for words in [["prove", "--help"], ["no-verb", "-h"]] {
            dispatch(&words.map(str::to_owned)).expect("the usage");
        }
    }

    #[test]
    fn an_unknown_verb_is_a_usage_failure() {
        let failure = dispatch(&["tset".to_owned()]).expect_err("no such verb");
        assert!(failure.to_string().contains("`tset` is no verb"));
        assert_eq!(failure.exit_code(), ExitCode::from(2));
        assert!(dispatch(&["test".to_owned(), "--fast".to_owned()]).is_err());
    }
}
