//! A source file is named for a noun that a person who knows the field would search for: not for a verb, a participle
//! or a question word, and not for a picture that only this project has.

use std::collections::BTreeMap;

use crate::tree::Tree;

use super::Finding;
use super::exceptions::List;

const EXCEPTIONS: &str = "xtask/src/tidy/exceptions/file_names.txt";

/// Words that name neither an action nor its object.
const REFUSED: &str = "admit again ahead apart ask asked asking asks aside awaited awaits away began begun \
    carried carry classify consume counted done dropping ended everywhere failing find found \
    given given_up gone happen happened heard held holding how kept killed lend lent look \
    looked looking looks lost made make met moving refused said say says seen send sent \
    suggest survive taken tell tells together told took tortured transact unawaited \
    unfinished unsettled unwritten waiting waived was watching went what when where whether \
    which who whose why written";

/// Words of this project that a newcomer cannot search for, and what to say instead.
const RENAMED: &[(&str, &str)] = &[
    ("ahead", "readahead"),
    ("again", "rescan"),
    ("apart", "compaction"),
    ("asking", "store_calls or retry"),
    ("away", "outage"),
    ("begun", "in_flight"),
    ("carry", "compaction"),
    ("demand", "durability_rules"),
    ("desk", "store_calls, in_hand or outcomes"),
    ("fates", "outcomes"),
    ("flight", "running"),
    ("found", "diagnostics"),
    ("gated", "versioned"),
    ("hindrance", "transaction_overlap"),
    ("hub", "shared"),
    ("intake", "reader"),
    ("letters", "dead_letters"),
    ("look", "inspection"),
    ("narrator", "event_log"),
    ("pack", "arena"),
    ("place", "address, cursor or store_watch"),
    ("reach", "horizon"),
    ("shelf", "parked_log"),
    ("story", "explanation"),
    ("streak", "new_key_run"),
    ("tally", "compaction"),
    ("told", "disposition"),
    ("trail", "audit_index"),
    ("trouble", "connection_error"),
    ("unawaited", "background_drop"),
    ("waived", "accepted"),
    ("wish", "proposal"),
];

/// Compares the names of all sources with the list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let found: BTreeMap<&str, Finding> = tree
        .rust()
        .filter_map(|(path, _)| Some((path, Finding::error(path, 0, refusal(path)?))))
        .collect();
    List::read(tree, EXCEPTIONS).of_names(found)
}

/// The reason why a file may not have its name.
fn refusal(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.trim_end_matches(".rs");
    if let Some((_, instead)) = RENAMED.iter().find(|(now, _)| *now == name) {
        return Some(format!(
            "nobody would search for `{name}`: perhaps {instead}"
        ));
    }
    let message = format!("`{name}` is no noun that somebody would search for");
    let is_refused = REFUSED.split(' ').any(|word| word == name);
    is_refused.then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &str, path: &str) -> Vec<String> {
        let tree = Tree::of(&[(EXCEPTIONS, list), (path, "")]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_is_named_for_a_noun() {
        let path = "crates/a/src/when.rs";
        let error = format!("error: {path}: `when` is no noun that somebody would search for");
        assert_eq!(found("", path), [error]);
        let path = "crates/a/tests/b/desk.rs";
        let error = format!(
            "error: {path}: nobody would search for `desk`: perhaps store_calls, in_hand or outcomes"
        );
        assert_eq!(found("", path), [error]);
        for path in [
            "a/src/retry.rs",
            "a/src/desk/retry.rs",
            "a/src/lookup.rs",
            "a/src/parked.rs",
        ] {
            assert_eq!(found("", path), [""; 0], "{path}");
        }
    }

    #[test]
    fn an_exception_is_one_as_long_as_it_is_there() {
        assert_eq!(found("a/src/when.rs\n", "a/src/when.rs"), [""; 0]);
        assert_eq!(found("a/src/when.rs\n", "a/src/time.rs").len(), 1);
    }
}
