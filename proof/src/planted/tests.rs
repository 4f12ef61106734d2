//! Compares the table with the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Each bug that a source plants, and the package of that source.
fn planted_in_sources() -> BTreeSet<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for folder in ["crates", "torture", "proof/src/model"] {
        look(&root.join(folder), "proof", &mut found);
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
            let bugs = text.split("planted(\"").skip(1);
            let names = bugs.filter_map(|rest| rest.split('"').next());
            found.extend(names.map(|name| (name.to_owned(), package.to_owned())));
        }
    }
}

#[test]
fn every_bug_that_is_planted_is_in_the_table_and_the_other_way_round() {
    let places = |bug: &'static Bug| {
        let packages = bug.within.iter();
        packages.map(|package| (bug.name.to_owned(), (*package).to_owned()))
    };
    let listed: BTreeSet<_> = bugs().flat_map(places).collect();
    assert_eq!(listed, planted_in_sources());
    let names: BTreeSet<_> = bugs().map(|bug| bug.name).collect();
    assert_eq!(names.len(), bugs().count(), "each once");
}

#[test]
fn a_merge_plants_twelve_bugs_and_a_campaign_all() {
    let order: Vec<&str> = in_order().map(|(bug, _)| bug.name).collect();
    let each: BTreeSet<&str> = order.iter().copied().collect();
    assert_eq!(each.len(), bugs().count());
    let first: BTreeSet<&str> = order.iter().take(FAST.len()).copied().collect();
    assert_eq!(first, BTreeSet::from(FAST));
}

/// The list that the project began with: each mutant is planted, or its fate is noted.
#[test]
fn each_of_the_38_is_accounted_for() {
    for number in 1..=38 {
        let name = format!("M{number:02}");
        let is_planted = bugs().any(|bug| bug.name == name);
        let is_elsewhere = ELSEWHERE.iter().any(|(mutant, _)| *mutant == name);
        assert_ne!(is_planted, is_elsewhere, "{name}");
    }
    for (_, elsewhere) in ELSEWHERE {
        let names = elsewhere.split(", ").filter(|it| it.len() == 3);
        let is_known = |name: &str| bugs().any(|bug| bug.name == name);
        assert!(names.clone().all(is_known), "{elsewhere}");
    }
}

#[test]
fn bugs_are_chosen_by_name() {
    assert!(named("M07,K01").eq(["M07", "K01"]));
    assert!(are_known("M07,K01"));
    assert!(!are_known("M07,M99"));
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

/// Only a campaign would notice that a test is gone.
#[test]
fn the_tests_that_must_see_a_bug_are_there() {
    for bug in bugs() {
        let mut sources = String::new();
        if let Some(package) = bug.suite.package() {
            gather(&folder_of(package), &mut sources);
            // The laws, whose tests a macro makes for each store.
            gather(&folder_of("semel-conformance"), &mut sources);
        }
        for word in bug.seen_by.iter().flat_map(|name| name.split("::")) {
            let is_there = word.is_empty()
                || [
                    format!("mod {word};"),
                    format!("mod {word} {{"),
                    format!("fn {word}("),
                    format!("fn {word}<"),
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
    if let Some(broker) = name.strip_prefix("broker-") {
        crates.join("brokers").join(broker)
    } else if let Some(store) = name.strip_prefix("store-") {
        crates.join("stores").join(store)
    } else {
        crates.join(name)
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
