//! The table is held against the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Each bug that a source plants, and the package of that source.
fn planted_in_sources() -> BTreeSet<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for folder in ["crates", "torture"] {
        look(&root.join(folder), "", &mut found);
    }
    found
}

fn look(folder: &Path, package: &str, found: &mut BTreeSet<(String, String)>) {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let name = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = "));
    let package = name.map_or(package, |name| name.trim_matches('"'));
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            look(&path, package, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let bugs = text.split("semel_planted = \"").skip(1);
            let names = bugs.filter_map(|rest| rest.split('"').next());
            found.extend(names.map(|name| (name.to_owned(), package.to_owned())));
        }
    }
}

#[test]
fn every_bug_that_is_planted_is_in_the_table_and_the_other_way_round() {
    let listed = bugs().map(|bug| (bug.name.to_owned(), bug.within.to_owned()));
    let listed: BTreeSet<_> = listed.collect();
    assert_eq!(listed, planted_in_sources());
    assert_eq!(listed.len(), bugs().count(), "each once");
}

#[test]
fn a_merge_plants_twelve_bugs_and_a_campaign_all() {
    let order: Vec<&str> = in_order().map(|(bug, _)| bug.name).collect();
    let each: BTreeSet<&str> = order.iter().copied().collect();
    assert_eq!(each.len(), bugs().count());
    let first: BTreeSet<&str> = order.iter().take(FAST.len()).copied().collect();
    assert_eq!(first, BTreeSet::from(FAST));
}

#[test]
fn each_bug_has_tests_that_must_see_it() {
    for bug in bugs() {
        let is_tier = matches!(bug.suite, Suite::Tier(_));
        assert_eq!(bug.seen_by.is_empty(), is_tier, "{}", bug.name);
        let is_known = |id: &&str| crate::TIERS.iter().any(|tier| tier.id == *id);
        assert!(bug.tiers.iter().all(is_known), "{}", bug.name);
    }
}

/// A test that is gone would be noticed by a campaign alone.
#[test]
fn the_tests_that_must_see_a_bug_are_there() {
    for bug in bugs() {
        let mut sources = String::new();
        gather(&folder_of(bug.within), &mut sources);
        for word in bug.seen_by.iter().flat_map(|name| name.split("::")) {
            let is_there = word.is_empty()
                || [
                    format!("mod {word};"),
                    format!("mod {word} {{"),
                    format!("fn {word}("),
                ]
                .iter()
                .any(|it| sources.contains(it));
            assert!(is_there, "{}: nothing is called `{word}`", bug.name);
        }
    }
}

fn folder_of(package: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let name = package.trim_start_matches("semel-");
    let broker = name.trim_start_matches("broker-");
    if name == broker {
        crates.join(name)
    } else {
        crates.join("brokers").join(broker)
    }
}

fn gather(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder of a package") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}
