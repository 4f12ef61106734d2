//! Every case that is written is listed, and every law has a case.

use std::collections::BTreeSet;

use semel_core::LawId;

/// The catalogue and the files of the cases, by topic.
const CATALOGUE: [&str; 4] = [
    include_str!("../catalogue.rs"),
    include_str!("ports.rs"),
    include_str!("../sink.rs"),
    include_str!("../source.rs"),
];
const TOPICS: [(&str, &str); 31] = [
    ("admission", include_str!("../laws/admission.rs")),
    ("attempts", include_str!("../laws/attempts.rs")),
    ("audit", include_str!("../laws/audit.rs")),
    ("batch", include_str!("../laws/batch.rs")),
    ("checkpoint", include_str!("../laws/checkpoint.rs")),
    ("claim", include_str!("../laws/claim.rs")),
    ("doubt", include_str!("../laws/doubt.rs")),
    ("durable", include_str!("../laws/durable.rs")),
    ("export", include_str!("../laws/export.rs")),
    ("fencing", include_str!("../laws/fencing.rs")),
    ("fingerprint", include_str!("../laws/fingerprint.rs")),
    ("identity", include_str!("../laws/identity.rs")),
    ("import", include_str!("../laws/import.rs")),
    ("lease", include_str!("../laws/lease.rs")),
    ("list", include_str!("../laws/list.rs")),
    ("members", include_str!("../laws/members.rs")),
    ("operate", include_str!("../laws/operate.rs")),
    ("outcome", include_str!("../laws/outcome.rs")),
    ("parked", include_str!("../laws/parked.rs")),
    ("past", include_str!("../laws/past.rs")),
    ("release", include_str!("../laws/release.rs")),
    ("rollback", include_str!("../laws/rollback.rs")),
    ("selection", include_str!("../laws/selection.rs")),
    ("sink", include_str!("../sink.rs")),
    ("source", include_str!("../source/laws.rs")),
    ("statements", include_str!("../laws/statements.rs")),
    ("survival", include_str!("../laws/survival.rs")),
    ("transactional", include_str!("../laws/transactional.rs")),
    ("transfer", include_str!("../laws/transfer.rs")),
    ("version", include_str!("../laws/version.rs")),
    ("window", include_str!("../laws/window.rs")),
];

#[test]
fn every_case_is_in_the_catalogue_once() {
    let listed: Vec<&str> = lines().map(|(_, case)| case).collect();
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), unique.len(), "a case is listed twice");
    let cases = TOPICS.iter().flat_map(|(topic, text)| {
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "));
        names
            .filter_map(|name| name.split(['<', '(']).next())
            .map(move |name| (*topic, name))
    });
    let cases: Vec<_> = cases.collect();
    for (topic, case) in &cases {
        assert!(
            unique.contains(case),
            "{topic}::{case} is not in the catalogue"
        );
    }
    assert_eq!(cases.len(), listed.len());
}

#[test]
fn every_law_has_a_case() {
    let proved: BTreeSet<&str> = lines().map(|(law, _)| law).collect();
    for law in LawId::ALL {
        let name = format!("{law:?}");
        assert!(proved.contains(&*name), "{law} ({name}) has no case");
    }
}

#[test]
fn every_topic_is_read_by_these_tests() {
    let modules = include_str!("../laws.rs")
        .lines()
        .filter(|line| line.starts_with("pub mod "));
    // Those of brokers are beside their subjects.
    assert_eq!(modules.count() + 2, TOPICS.len());
}

/// The law and the name of every case in the catalogue.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = CATALOGUE.iter().flat_map(|text| text.lines());
    lines.filter_map(|line| {
        line.trim()
            .strip_prefix("LawId::")?
            .strip_suffix(';')?
            .split_once(" => ")
    })
}
