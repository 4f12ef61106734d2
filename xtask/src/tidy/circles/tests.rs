use super::super::sources;
use super::*;

/// Checks a crate `c` whose files import each other as given: `a.rs>b`.
fn found(list: &str, files: &[&str]) -> Vec<String> {
    let texts: Vec<(String, String)> = files
        .iter()
        .enumerate()
        .map(|(number, file)| {
            let (path, imports) = file.split_once('>').unwrap_or((file, ""));
            let uses = imports.split_whitespace();
            let uses = uses.map(|module| format!("use crate::{module}::Of{number};"));
            let lines: Vec<String> = std::iter::once("//! A.".to_owned()).chain(uses).collect();
            (format!("c/src/{path}"), lines.join("\n"))
        })
        .collect();
    let mut all = vec![
        (EXCEPTIONS, list),
        ("c/Cargo.toml", ""),
        ("c/src/lib.rs", ""),
    ];
    all.extend(
        texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
    );
    let tree = Tree::of(&all);
    let findings = check(&tree, &sources(&tree));
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_circle_is_refused_with_the_imports_that_close_it() {
    assert_eq!(found("", &["a.rs>b", "b.rs>d", "d.rs"]), [""; 0]);
    let error = "error: c/src/a.rs:3: this import closes a circle: \
                 a.rs:3 imports b.rs:2 imports d.rs:2 imports a.rs";
    assert_eq!(
        found("", &["a.rs>e b", "b.rs>d", "d.rs>a", "e.rs"]),
        [error]
    );
    // One error for each circle, by the shortest way around.
    assert_eq!(
        found("", &["a.rs>b", "b.rs>a d", "d.rs>a", "e.rs>f", "f.rs>e"]).len(),
        2
    );
}

#[test]
fn an_old_circle_may_not_grow() {
    let list = "c\n  a.rs\n  b.rs\n";
    assert_eq!(found(list, &["a.rs>b", "b.rs>a"]), [""; 0]);
    let error = "error: c/src/d.rs:2: this import closes a circle: \
                 d.rs:2 imports a.rs:3 imports d.rs";
    assert_eq!(found(list, &["a.rs>b d", "b.rs>a", "d.rs>a"]), [error]);
    // Nor may two become one.
    let two = "c\n  a.rs\n  b.rs\nc\n  d.rs\n  e.rs\n";
    let files = ["a.rs>b", "b.rs>a", "d.rs>e", "e.rs>d"];
    assert_eq!(found(two, &files), [""; 0]);
    let joined = ["a.rs>b d", "b.rs>a", "d.rs>e", "e.rs>d a"];
    let error = "error: c/src/a.rs:3: this import closes a circle: \
                 a.rs:3 imports d.rs:2 imports e.rs:3 imports a.rs";
    assert_eq!(found(two, &joined), [error]);
}

#[test]
fn an_old_circle_that_shrank_is_shrunk_in_the_list() {
    let list = "c\n  a.rs\n  b.rs\n  d.rs\n";
    let error = "error: xtask/src/tidy/exceptions/circles.txt:1: `c` has";
    let gone = found(list, &["a.rs>b", "b.rs>d", "d.rs"]);
    assert!(
        gone[0].starts_with(&format!("{error} no circle of a.rs")),
        "{gone:?}"
    );
    let smaller = found(list, &["a.rs>b", "b.rs>a d", "d.rs"]);
    assert!(
        smaller[0].starts_with(&format!("{error} a smaller circle of a.rs")),
        "{smaller:?}"
    );
    assert_eq!(found("d\n  a.rs\n  b.rs\n", &[]).len(), 1);
}

#[test]
fn a_circle_in_two_is_written_as_two() {
    let tree = Tree::of(&[(
        EXCEPTIONS,
        "# Why.\nc\n  a.rs\n  b.rs\n  d.rs\n  e.rs\n  f.rs\nd\n",
    )]);
    let list = List::read(&tree, EXCEPTIONS);
    let circles = [
        BTreeSet::from(["a.rs", "b.rs"]),
        BTreeSet::from(["d.rs", "e.rs"]),
    ];
    let entry = list.entries().next().expect("there are two");
    let finding = shrink(&list, entry, &circles).expect("they are smaller");
    let text = tree.text(EXCEPTIONS).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    finding.repair.expect("it has one").make(&mut lines);
    assert_eq!(
        lines,
        [
            "# Why.", "c", "  a.rs", "  b.rs", "c", "  d.rs", "  e.rs", "d"
        ]
    );
}

#[test]
fn parent_and_child_may_know_each_other() {
    assert_eq!(found("", &["a.rs>a::b", "a/b.rs>a"]), [""; 0]);
    assert_eq!(
        found("", &["a.rs>a::b a::d", "a/b.rs>a a::d", "a/d.rs>a"]),
        [""; 0]
    );
    assert_eq!(
        found("", &["a.rs>a::b", "a/b.rs>a::b::d", "a/b/d.rs>a"]),
        [""; 0]
    );
}

#[test]
fn a_family_is_a_circle_once_it_reaches_beyond_or_has_one_below() {
    let beyond = found("", &["a.rs>a::b", "a/b.rs>a e", "e.rs>a"]);
    let error = "error: c/src/a/b.rs:3: this import closes a circle: \
                 a/b.rs:3 imports e.rs:2 imports a.rs:2 imports a/b.rs";
    assert_eq!(beyond, [error]);
    let below = found("", &["a.rs>a::b", "a/b.rs>a a::d", "a/d.rs>a::b"]);
    let error = "error: c/src/a/b.rs:3: this import closes a circle: \
                 a/b.rs:3 imports a/d.rs:2 imports a/b.rs";
    assert_eq!(below, [error]);
}

#[test]
fn a_child_that_knows_its_parent_alone_is_part_of_it() {
    let list = "c\n  a.rs\n  e.rs\n";
    assert_eq!(found(list, &["a.rs>e", "e.rs>a"]), [""; 0]);
    assert_eq!(found(list, &["a.rs>e a::b", "e.rs>a", "a/b.rs>a"]), [""; 0]);
    // Also where it is what the other imports, and where there are several.
    assert_eq!(found(list, &["a.rs>e", "e.rs>a::b", "a/b.rs>a"]), [""; 0]);
    let deep = ["a.rs>e", "e.rs>a::b", "a/b.rs>a::d a", "a/d.rs>a"];
    assert_eq!(found(list, &deep), [""; 0]);
    let error = "error: c/src/a/b.rs:3: this import closes a circle: \
                 a/b.rs:3 imports e.rs:2 imports a.rs:3 imports a/b.rs";
    assert_eq!(
        found(list, &["a.rs>e a::b", "e.rs>a", "a/b.rs>a e"]),
        [error]
    );
}

#[test]
fn the_root_is_part_of_no_circle() {
    let files = |list| {
        let tree = Tree::of(&[
            (EXCEPTIONS, list),
            ("c/Cargo.toml", ""),
            ("c/src/lib.rs", "use a::A; use b::B; pub struct Root;"),
            ("c/src/a.rs", "use crate::{Root, b::B}; pub struct A;"),
            ("c/src/b.rs", "use crate::Root; pub struct B;"),
        ]);
        check(&tree, &sources(&tree)).len()
    };
    assert_eq!(files(""), 0);
    assert_eq!(files("c\n  a.rs\n  lib.rs\n"), 1);
}
