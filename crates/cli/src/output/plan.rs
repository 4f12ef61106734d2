//! Shows what a verb is about to change, and whether the operator consented.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use semel_config::masked;

use super::{note, text};
use crate::Exit;
use crate::args::Confirm;
use crate::shell::{self, quoted};

/// The plan of a verb that changes something: its verb, the count, and the first few things.
///
/// ```text
/// plan: forget 7 records
///   payments  pay-1  completed 2026-11-21T10:33:00.000Z
///   … and 6 more
/// nothing was changed; to carry it out:
///   semel keys forget pay-1 … --yes
/// ```
///
/// # Cost   holds the first few things only, however many are added
#[derive(Debug)]
pub(crate) struct Plan {
    verb: &'static str,
    one: &'static str,
    many: &'static str,
    count: u64,
    first: Vec<String>,
    notes: Vec<String>,
}

impl Plan {
    /// Makes an empty plan: `Plan::new("forget", "record", "records")`.
    pub(crate) const fn new(verb: &'static str, one: &'static str, many: &'static str) -> Self {
        Self {
            verb,
            one,
            many,
            count: 0,
            first: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds one more thing to change.
    pub(crate) fn add(&mut self, thing: impl Display) {
        self.count += 1;
        if self.first.len() < FEW {
            self.first
                .push(text::escaped(&thing.to_string()).into_owned());
        }
    }

    /// Adds a fact that the operator should know before saying yes.
    pub(crate) fn remark(&mut self, text: impl Display) {
        self.notes.push(text.to_string());
    }

    /// The number of things to change.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Prints the plan on standard error, and returns whether to carry it out.
    ///
    /// # Shape   `Continue`: do it; `Break`: end with this, because there is nothing to do or no `--yes`
    pub(crate) fn confirmed(&self, confirm: Confirm) -> ControlFlow<Exit> {
        for line in self.lines() {
            note(line);
        }
        if self.count == 0 {
            return ControlFlow::Break(Exit::Done);
        }
        if confirm.yes {
            return ControlFlow::Continue(());
        }
        note("nothing was changed; to carry it out:");
        note(format_args!("  {}", with_yes(std::env::args_os())));
        ControlFlow::Break(Exit::No)
    }

    fn lines(&self) -> Vec<String> {
        let Self {
            verb,
            one,
            many,
            count,
            first,
            notes,
        } = self;
        if *count == 0 {
            return vec![format!("nothing to {verb}: no {many}")];
        }
        let noun = if *count == 1 { one } else { many };
        let mut lines = vec![format!("plan: {verb} {count} {noun}")];
        lines.extend(first.iter().map(|thing| format!("  {thing}")));
        let rest = count - first.len() as u64;
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
        lines.extend(notes.iter().map(|note| format!("  {note}")));
        lines
    }
}

/// Returns the command that was typed, with `--yes`, for a shell. Secrets in URLs are `***`.
fn with_yes(typed: impl Iterator<Item = impl AsRef<OsStr>>) -> String {
    let mut words: Vec<_> = typed
        .map(|word| match word.as_ref().to_str() {
            Some(word) => quoted(&masked(word)),
            None => shell::escaped(word.as_ref().as_bytes()),
        })
        .collect();
    // Words after `--` are no options.
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    words.insert(end, "--yes".to_owned());
    words.join(" ")
}

/// The number of things that a plan shows.
const FEW: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shows_the_first_few_and_counts_the_rest() {
        let mut plan = Plan::new("forget", "record", "records");
        assert_eq!(plan.lines(), ["nothing to forget: no records"]);
        plan.add("pay-1\u{1b}");
        assert_eq!(plan.lines(), ["plan: forget 1 record", "  pay-1\\u{1b}"]);
        for id in 2..=1_000 {
            plan.add(format_args!("pay-{id}"));
        }
        plan.remark("their duplicates will run again");
        assert_eq!(
            plan.lines(),
            [
                "plan: forget 1000 records",
                "  pay-1\\u{1b}",
                "  pay-2",
                "  pay-3",
                "  pay-4",
                "  pay-5",
                "  … and 995 more",
                "  their duplicates will run again",
            ]
        );
        assert_eq!((plan.count(), plan.first.len()), (1_000, FEW));
    }

    #[test]
    fn the_command_to_confirm_can_be_pasted_into_a_shell() {
        for (typed, pasted) in [
            (
                &["semel", "keys", "forget", "pay-1"][..],
                "semel keys forget pay-1 --yes",
            ),
            (
                &["semel", "a b", "it's", ""],
                r"semel 'a b' 'it'\''s' '' --yes",
            ),
            (
                &["semel", "keys", "forget", "--", "-k"],
                "semel keys forget --yes -- -k",
            ),
            (
                &["semel", "$HOME", "json:[\"a\",1]"],
                r#"semel '$HOME' 'json:["a",1]' --yes"#,
            ),
        ] {
            assert_eq!(with_yes(typed.iter()), pasted);
        }
    }

    #[test]
    fn what_a_terminal_would_hide_or_no_text_can_hold_is_escaped_for_the_shell() {
        let typed = [
            OsStr::new("semel"),
            OsStr::new("it's a\ttab \u{200b}\\ é"),
            OsStr::from_bytes(b"\xff\xc3("),
        ];
        assert_eq!(
            with_yes(typed.iter()),
            r"semel $'it\'s a\x09tab \xe2\x80\x8b\\ é' $'\xff\xc3(' --yes"
        );
    }

    #[test]
    fn the_command_to_confirm_shows_no_secret() {
        let typed = [
            "semel",
            "--store",
            "postgres://me:secret@db:5432/x?password=secret&a",
        ];
        assert_eq!(
            with_yes(typed.iter()),
            "semel --store 'postgres://me:***@db:5432/x?password=***&***' --yes"
        );
    }
}
