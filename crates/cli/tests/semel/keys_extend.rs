//! `semel keys extend`: longer windows, for some keys or for all of a pipeline.

use crate::operator::{STORES, items, member, worked};
use crate::site::Site;

/// The days between the end of an operation and the time when its record may be forgotten.
fn remembered(site: &Site, key: &str) -> u64 {
    let listed = site.semel(&["keys", "list", "--prefix", key, "--output", "json"]);
    let listed = items(&listed.done());
    let day = |name: &str| {
        let text = listed[0][name].as_str().expect("a time");
        semel_core::birth::millis_of_text(text).expect("a time") / 86_400_000
    };
    day("remembered_until") - day("since")
}

#[test]
fn a_key_is_remembered_longer_and_never_shorter() {
    for store in STORES {
        let site = worked(store);
        assert_eq!(remembered(&site, "done-1"), 7);
        let extend = ["keys", "extend", "done-1", "dead-1", "--window"];
        site.semel(&[&extend[..], &["30d"]].concat())
            .code(1)
            .says("plan: extend 2 keys");
        assert_eq!(remembered(&site, "done-1"), 7);
        let done = [
            &extend[..],
            &["30d", "--yes", "--by", "ada", "--output", "json"],
        ]
        .concat();
        let done = items(&site.semel(&done).done());
        assert_eq!(member(&done, "action"), ["extend", "extend"]);
        for key in ["done-1", "dead-1"] {
            assert_eq!(remembered(&site, key), 30, "{store}: {key}");
        }
        assert_eq!(site.trail().len(), 2);
        site.semel(&[&extend[..], &["1d", "--yes"]].concat())
            .done()
            .says("done-1: it is remembered as long already; left as it is")
            .says("nothing to extend: no keys");
        assert_eq!(remembered(&site, "done-1"), 30);
    }
}

#[test]
fn all_finished_keys_of_a_pipeline_are_extended_and_the_others_left() {
    for store in STORES {
        let site = worked(store);
        let all = ["keys", "extend", "--all", "--window", "30d"];
        site.semel(&all).code(1).says("plan: extend 3 keys");
        let done = [&all[..], &["--yes", "--output", "json"]].concat();
        let done = items(&site.semel(&done).done());
        let mut keys = member(&done, "key");
        keys.sort();
        assert_eq!(keys, ["dead-1", "done-1", "json:7"], "{store}");
        for key in ["done-1", "dead-1", "json:7"] {
            assert_eq!(remembered(&site, key), 30, "{store}: {key}");
        }
        assert_eq!(site.state("doubt-1").as_deref(), Some("in_doubt"));
        // The second time, there is nothing to do.
        let again = [&all[..], &["--yes", "--output", "json"]].concat();
        assert!(items(&site.semel(&again).done()).is_empty());
    }
}

#[test]
fn what_has_not_finished_or_is_not_named_is_refused() {
    let site = worked("sqlite:s.db");
    site.semel(&["keys", "extend", "doubt-1", "--window", "30d"])
        .code(1)
        .says("it is kept until somebody resolves it");
    for arguments in [
        &["keys", "extend", "--window", "30d"][..],
        &["keys", "extend", "done-1"],
        &["keys", "extend", "done-1", "--window", "soon"],
        &["keys", "extend", "done-1", "--all", "--window", "30d"],
    ] {
        assert_eq!(site.semel(arguments).code(2).stdout, "", "{arguments:?}");
    }
}
