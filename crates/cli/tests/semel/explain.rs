//! `semel explain`: the meaning of a code, however it was copied.

use crate::operator::{items, object};
use crate::site::Site;

#[test]
fn a_code_has_its_page_and_its_parts() {
    let site = Site::new();
    let page = site.semel(&["explain", "store-in-use"]).done();
    assert!(
        page.stdout
            .starts_with("store-in-use\n\nWHAT HAPPENED\n\nAnother process has "),
        "{page:?}"
    );
    assert_eq!(page.stderr, "");
    let json = ["explain", "store-in-use", "--output", "json"];
    let parts = object(&site.semel(&json).done());
    assert_eq!(parts["code"], "store-in-use");
    for part in ["what_happened", "was_it_applied", "what_to_do"] {
        let text = parts[part].as_str().expect("a text");
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    }
    for copied in ["[store-in-use]", "STORE_IN_USE", "store_in_use:"] {
        assert_eq!(site.semel(&["explain", copied]).done().stdout, page.stdout);
    }
}

#[test]
fn what_a_check_finds_is_explained_as_well() {
    let site = Site::new();
    let finding = site.semel(&["explain", "age-gate-off"]).done().stdout;
    assert!(
        finding.contains("`semel check` found (warn): without `birth`"),
        "{finding}"
    );
    // Some codes occur with either severity.
    let table = include_str!("../../../../docs/book/src/reference/check.md");
    let (_, table) = table.split_once("## Findings").expect("the table");
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `"));
    let codes: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert!(codes.contains(&"store-durability"), "{codes:?}");
    for code in codes {
        let explained = site.semel(&["explain", code]).done().stdout;
        assert!(explained.contains(code), "{code}: {explained}");
    }
}

#[test]
fn a_code_that_is_not_known_is_told_with_its_neighbour_or_where_all_are() {
    let site = Site::new();
    site.semel(&["explain", "store-inuse"])
        .code(1)
        .says("did you mean `store-in-use`?");
    site.semel(&["explain", "no-such-code-at-all"])
        .code(1)
        .says("`semel explain` lists all");
}

#[test]
fn without_a_code_all_are_listed_and_each_can_be_explained() {
    let site = Site::new();
    let table = site.semel(&["explain"]).done().stdout;
    assert!(table.starts_with("CODE "), "{table}");
    let all = items(&site.semel(&["explain", "--output", "json"]).done());
    assert!(all.len() > 40 && all.len() + 1 == table.lines().count());
    for entry in &all {
        let means = entry["means"].as_str().expect("a text");
        assert!(!means.is_empty() && !means.ends_with('.'), "{entry}");
    }
    for line in table.lines() {
        assert!(line.chars().count() <= 125, "{line}");
        for mark in ["](", "`", "\\n"] {
            assert!(!line.contains(mark), "{line}");
        }
    }
    for entry in &all {
        let code = entry["code"].as_str().expect("a code");
        let page = site.semel(&["explain", code]).done().stdout;
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            for mark in ["](", "**", "# ", "```"] {
                assert!(!line.contains(mark), "{line}");
            }
        }
    }
}
