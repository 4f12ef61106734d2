//! Shows what a verb is about to change, and whether the operator consented.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use semel_config::masked;
use semel_core::Scope;
use semel_operate::shell::{self, quoted};

use super::{note, text};

/// The plan of a verb that changes something: its verb, the count, and the first few things.
///
/// ```text
/// plan: forget 7 records
///   payments  pay-1  completed 2026-11-21T10:33:00.000Z
///   … and 6 more
///   tenants: acme (4), other (3)
/// nothing was changed; to carry it out:
///   semel keys forget pay-1 … --yes
/// ```
///
/// # Cost   holds the first few things only, however many are added
#[derive(Clone, Debug)]
pub struct Plan {
    verb: &'static str,
    one: &'static str,
    many: &'static str,
    count: u64,
    first: Vec<String>,
    notes: Vec<String>,
    has_refused: bool,
    /// The tenants to which it is bound.
    tenants: BTreeSet<String>,
    /// The number of things of each tenant, of the first few that were met.
    shares: BTreeMap<String, u64>,
    /// The number of things of further tenants.
    of_others: u64,
    /// True if it is carried out for a reason alone, and none was given.
    lacks_reason: bool,
}

/// The reason why a plan is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconfirmed {
    /// There is nothing to do.
    Nothing,
    /// The operator did not say `--yes`.
    Unsaid,
}

impl Plan {
    /// Makes an empty plan: `Plan::new("forget", "record", "records")`.
    pub const fn new(verb: &'static str, one: &'static str, many: &'static str) -> Self {
        Self {
            verb,
            one,
            many,
            count: 0,
            first: Vec::new(),
            notes: Vec::new(),
            has_refused: false,
            tenants: BTreeSet::new(),
            shares: BTreeMap::new(),
            of_others: 0,
            lacks_reason: false,
        }
    }

    /// Binds it to the tenants whose keys it is about, although no tenant was named.
    pub fn bind(&mut self, tenants: BTreeSet<String>) {
        self.tenants = tenants;
    }

    /// Adds one more thing to change.
    pub fn add(&mut self, thing: impl Display) {
        self.count += 1;
        if self.first.len() < FEW {
            self.first
                .push(text::escaped(&thing.to_string()).into_owned());
        }
    }

    /// Adds one more thing to change, which belongs to the tenant of `scope`.
    pub fn add_of(&mut self, scope: &Scope, thing: impl Display) {
        self.share(scope.tenant());
        self.add(thing);
    }

    fn share(&mut self, tenant: &str) {
        if let Some(count) = self.shares.get_mut(tenant) {
            *count += 1;
        } else if self.shares.len() < TENANTS {
            self.shares.insert(tenant.to_owned(), 1);
        } else {
            self.of_others += 1;
        }
    }

    /// Returns the line that names the tenants; none where nothing belongs to one.
    fn tenants_line(&self) -> Option<String> {
        let mut tenants = self.shares.keys();
        tenants.find(|tenant| !tenant.is_empty())?;
        let shares = self.shares.iter();
        let shares = shares.map(|(tenant, count)| format!("{} ({count})", quoted(tenant)));
        let others = match self.of_others {
            0 => String::new(),
            count => format!(", … and {count} of others"),
        };
        let shares: Vec<_> = shares.collect();
        Some(format!("tenants: {}{others}", shares.join(", ")))
    }

    /// Adds a fact that the operator should know before saying yes.
    pub fn remark(&mut self, text: impl Display) {
        self.notes.push(text.to_string());
    }

    /// Notes that something stays as it is although it was asked for; why, was told already.
    pub const fn refuse(&mut self) {
        self.has_refused = true;
    }

    /// Notes that it is carried out for a reason alone, and that none was given.
    pub const fn ask_for_reason(&mut self) {
        self.lacks_reason = true;
    }

    /// Prints the plan on standard error.
    pub fn tell(&self) {
        for line in self.lines() {
            note(line);
        }
    }

    /// The number of things to change.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Prints the plan on standard error, and returns whether to carry it out: the operator said `--yes`, or did not. Then
    /// it prints the command that would: the words that were typed, and `--yes`.
    ///
    /// # Shape   `Continue`: do it; `Break`: end with this, because there is nothing to do or no `--yes`
    pub fn confirmed<E: From<Unconfirmed>>(
        &self,
        yes: impl Into<bool>,
        typed: impl Iterator<Item = impl AsRef<OsStr>>,
    ) -> ControlFlow<E> {
        self.tell();
        if self.count == 0 {
            return ControlFlow::Break(Unconfirmed::Nothing.into());
        }
        if yes.into() {
            return ControlFlow::Continue(());
        }
        let mut tenants = self.tenants.iter();
        match (tenants.next(), tenants.next()) {
            (Some(_), Some(_)) => {
                let tenants: Vec<_> = self.tenants.iter().map(|it| quoted(it)).collect();
                note(format_args!(
                    "nothing was changed; the keys are of several tenants ({}): to carry it out, name the keys of \
                     each, with --tenant NAME and --yes",
                    tenants.join(", ")
                ));
            }
            (tenant, _) => {
                let tenant = tenant.map(String::as_str);
                note("nothing was changed; to carry it out:");
                let reason = Some("--reason WHY").filter(|_| self.lacks_reason);
                let command = with_yes(typed, tenant, reason);
                note(format_args!("  {command}"));
            }
        }
        ControlFlow::Break(Unconfirmed::Unsaid.into())
    }

    fn lines(&self) -> Vec<String> {
        let Self {
            verb,
            one,
            many,
            count,
            first,
            notes,
            has_refused,
            tenants: _,
            shares: _,
            of_others: _,
            lacks_reason: _,
        } = self;
        if *count == 0 {
            let but = if *has_refused {
                " but those that stay as they are"
            } else {
                ""
            };
            return vec![format!("nothing to {verb}: no {many}{but}")];
        }
        let noun = if *count == 1 { one } else { many };
        let mut lines = vec![format!("plan: {verb} {count} {noun}")];
        lines.extend(first.iter().map(|thing| format!("  {thing}")));
        let rest = count - first.len() as u64;
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
        lines.extend(self.tenants_line().map(|line| format!("  {line}")));
        lines.extend(notes.iter().map(|note| format!("  {note}")));
        lines
    }
}

/// Returns the command that was typed, with `--yes` and the tenant that the plan found, for a shell. Secrets in URLs are
/// `***`.
fn with_yes(
    typed: impl Iterator<Item = impl AsRef<OsStr>>,
    tenant: Option<&str>,
    reason: Option<&str>,
) -> String {
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
    let tenant = tenant.map(|tenant| format!("--tenant {}", quoted(tenant)));
    let reason = reason.map(str::to_owned);
    let options = tenant.into_iter().chain(reason);
    let options = options.chain(["--yes".to_owned()]);
    words.splice(end..end, options);
    words.join(" ")
}

/// The number of things that a plan shows.
const FEW: usize = 5;
/// The number of tenants that a plan names.
const TENANTS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shows_the_first_few_and_counts_the_rest() {
        let mut plan = Plan::new("forget", "record", "records");
        assert_eq!(plan.lines(), ["nothing to forget: no records"]);
        let mut refused = Plan::new("resolve", "doubt", "doubts");
        refused.refuse();
        let told = "nothing to resolve: no doubts but those that stay as they are";
        assert_eq!(refused.lines(), [told]);
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
    fn a_plan_names_the_tenants_it_covers_also_those_of_the_things_it_does_not_show() {
        let scope = |tenant: &str| Scope::new(tenant, "pay").expect("a scope");
        let mut plan = Plan::new("drop", "dead letter", "dead letters");
        plan.add_of(&scope(""), "pay  x");
        assert_eq!(plan.lines(), ["plan: drop 1 dead letter", "  pay  x"]);
        for tenant in ["acme"; 7].into_iter().chain(["a b"]) {
            plan.add_of(&scope(tenant), "pay  y");
        }
        let last = |plan: &Plan| plan.lines().pop().expect("a line");
        assert_eq!(last(&plan), "  tenants: '' (1), 'a b' (1), acme (7)");
        for number in 0..30 {
            plan.add_of(&scope(&format!("t-{number:02}")), "pay  z");
        }
        plan.add_of(&scope("acme"), "pay  z");
        let told = last(&plan);
        assert!(told.contains(" acme (8), t-00 (1)"), "{told}");
        assert!(told.ends_with("t-16 (1), … and 13 of others"), "{told}");
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
            assert_eq!(with_yes(typed.iter(), None, None), pasted);
        }
    }

    #[test]
    fn the_command_to_confirm_names_the_tenant_that_the_plan_found() {
        for (tenant, pasted) in [
            ("acme", "semel keys forget --tenant acme --yes -- -k"),
            ("a b", "semel keys forget --tenant 'a b' --yes -- -k"),
            ("", "semel keys forget --tenant '' --yes -- -k"),
        ] {
            let typed = ["semel", "keys", "forget", "--", "-k"];
            assert_eq!(with_yes(typed.iter(), Some(tenant), None), pasted);
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
            with_yes(typed.iter(), None, None),
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
            with_yes(typed.iter(), None, None),
            "semel --store 'postgres://me:***@db:5432/x?password=***&***' --yes"
        );
    }
}
