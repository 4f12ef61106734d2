use clap::error::ErrorKind;
use clap::{Command, CommandFactory};

use super::*;

/// Every command with the words that lead to it, our own `help` left out.
fn commands() -> Vec<(Vec<String>, Command)> {
    fn walk(path: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
        all.push((path.to_vec(), command.clone()));
        for subcommand in command.get_subcommands() {
            let mut path = path.to_vec();
            path.push(subcommand.get_name().to_owned());
            walk(&path, subcommand, all);
        }
    }
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut all = Vec::new();
    walk(&["semel".to_owned()], &command, &mut all);
    all
}

fn leaves() -> impl Iterator<Item = (Vec<String>, Command)> {
    commands()
        .into_iter()
        .filter(|(_, command)| !command.has_subcommands())
}

#[test]
fn the_tree_of_commands_is_one_that_clap_accepts() {
    Arguments::command().debug_assert();
    assert!(leaves().count() >= 5);
}

#[test]
fn every_command_and_every_argument_says_what_it_is_for() {
    for (path, command) in commands() {
        let path = path.join(" ");
        let about = command.get_about().map(ToString::to_string);
        assert!(about.is_some_and(|about| !about.is_empty()), "{path}");
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(!help.is_empty(), "{path} {argument}");
            assert!(!help.ends_with('.'), "{path} {argument}: {help}");
        }
    }
}

#[test]
fn every_command_has_an_example_and_the_example_is_understood() {
    for (path, command) in leaves() {
        let after = command.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_default();
        let typed: Vec<_> = after
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .collect();
        assert!(
            after.starts_with("Example") && !typed.is_empty(),
            "{path:?} has no example: {after}"
        );
        for line in typed {
            let words = words(line);
            let from = words.iter().position(|word| *word == path[0]);
            let words = &words[from.unwrap_or(0)..];
            assert_eq!(words[..path.len()], path[..], "{line}");
            if let Err(error) = Arguments::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}

#[test]
fn help_is_done_and_a_wrong_argument_is_a_usage_error() {
    for (path, _) in commands() {
        let with = |argument: &str| {
            let words = path.iter().cloned().chain([argument.to_owned()]);
            Arguments::try_parse_from(words).map(drop)
        };
        let help = with("--help").expect_err("help is no command");
        assert_eq!(
            (help.kind(), help.exit_code()),
            (ErrorKind::DisplayHelp, 0),
            "{path:?}"
        );
        let wrong = with("--no-such-option").expect_err("there is none");
        assert_eq!(
            (wrong.kind(), wrong.exit_code()),
            (ErrorKind::UnknownArgument, 2),
            "{path:?}"
        );
    }
}

#[test]
fn what_many_verbs_take_is_the_same_everywhere() {
    // The argument of `init` is a kind of store, not a place.
    for (path, command) in leaves().filter(|(path, _)| path[1] != "init") {
        for argument in command.get_arguments() {
            let ours = argument.get_long().and_then(|name| {
                let (_, value) = SHARED.iter().find(|(known, _)| *known == name)?;
                Some(*value)
            });
            let names = argument.get_value_names().unwrap_or_default();
            if let Some(value) = ours {
                assert_eq!(
                    names.first().map_or("", |name| name.as_str()),
                    value,
                    "{path:?} {argument}"
                );
            }
        }
    }
}

/// Splits a line into words as a shell reads it, up to a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            '|' | '>' if !is_quoted && words.last().is_some_and(String::is_empty) => {
                // The words before a pipe were another program's unless they were ours.
                if words.first().is_some_and(|word| word == "semel") || c == '>' {
                    break;
                }
                words.clear();
                words.push(String::new());
            }
            c => words.last_mut().expect("a word").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Options that many verbs take, and what their values are called.
const SHARED: [(&str, &str); 8] = [
    ("config", "FILE"),
    ("store", "URL"),
    ("pipeline", "NAME"),
    ("output", "FORMAT"),
    ("limit", "COUNT"),
    ("reason", "TEXT"),
    ("by", "NAME"),
    ("color", "WHEN"),
];
