use super::*;

/// The imports of a crate, each as `from>to`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let imports = Imports::read(files.iter().copied());
    imports
        .edges()
        .map(|(from, to, _)| format!("{from}>{to}"))
        .collect()
}

/// The files that `a.rs` imports, of `b.rs`, `b/c.rs` and `d.rs` in the same crate.
fn of_a(code: &str) -> Vec<String> {
    found(&[
        ("lib.rs", "mod a; mod b; mod d; pub struct Root;"),
        ("a.rs", code),
        ("b.rs", "mod c; pub struct B; pub use self::c::C;"),
        ("b/c.rs", "pub struct C; fn outside() {}"),
        ("d.rs", "fn d() {}"),
    ])
    .into_iter()
    .filter_map(|edge| Some(edge.strip_prefix("a.rs>")?.to_owned()))
    .collect()
}

#[test]
fn uses_are_imports_however_they_are_written() {
    assert_eq!(of_a("use crate::b::B;"), ["b.rs"]);
    assert_eq!(of_a("pub(crate) use super::b::B as Other;"), ["b.rs"]);
    assert_eq!(of_a("use crate::b;"), ["b.rs"]);
    assert_eq!(of_a("use crate::b::*;"), ["b.rs"]);
    assert_eq!(
        of_a("use crate::{b::{self, c::{C as _}}, d};"),
        ["b.rs", "b/c.rs", "d.rs"]
    );
    assert_eq!(
        of_a("use crate::{\n    b::c::C,\n    Root,\n};"),
        ["b/c.rs", "lib.rs"]
    );
    assert_eq!(of_a("fn f() { use crate::d::d; d() }"), ["d.rs"]);
}

#[test]
fn paths_in_code_are_imports() {
    assert_eq!(of_a("fn f() { crate::d::d() }"), ["d.rs"]);
    assert_eq!(
        of_a("fn f(it: super::b::B) -> Option<crate::b::c::C> {}"),
        ["b.rs", "b/c.rs"]
    );
    assert_eq!(
        of_a("use crate::b;\nfn f() { b::c::outside() }"),
        ["b.rs", "b/c.rs"]
    );
    assert_eq!(
        of_a("macro_rules! m { () => { $crate::d::d() } }"),
        ["d.rs"]
    );
}

#[test]
fn an_import_is_of_the_file_that_defines_the_item() {
    assert_eq!(of_a("use crate::b::C;"), ["b/c.rs"]);
    assert_eq!(of_a("use crate::Root;"), ["lib.rs"]);
    let through = [
        (
            "lib.rs",
            "mod a; mod b; mod c; pub use b::*; use c::Hidden; pub use std::fmt;",
        ),
        (
            "a.rs",
            "use crate::{Globbed, Hidden, fmt::Debug, exported};",
        ),
        (
            "b.rs",
            "pub struct Globbed;\n#[macro_export]\nmacro_rules! exported { () => {} }",
        ),
        ("c.rs", "pub struct Hidden;"),
    ];
    let found = found(&through);
    assert_eq!(
        found,
        [
            "a.rs>b.rs",
            "a.rs>c.rs",
            "a.rs>lib.rs",
            "lib.rs>b.rs",
            "lib.rs>c.rs"
        ]
    );
}

#[test]
fn re_exports_in_a_ring_end() {
    let ring = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::X;"),
        ("b.rs", "pub use crate::a::X;"),
    ];
    assert_eq!(found(&ring).len(), 2);
}

#[test]
fn other_crates_and_visibilities_are_no_imports() {
    for code in [
        "use b::B;",
        "use ::b::B;",
        "use std::{d, b::B};",
        "pub(in crate::b) fn f() {}",
        "pub(super) fn f(d: u8) { d.b::<u8>() }",
        "fn f<'d>() -> impl Iterator<Item = u8> + use<'d> {}",
        "fn f() { x::d::d(); <X as Y>::b::c }",
        "mod d;",
    ] {
        assert_eq!(of_a(code), [""; 0], "{code}");
    }
}

#[test]
fn a_child_is_imported_by_its_name_and_not_by_its_declaration() {
    let with = |code| found(&[("lib.rs", ""), ("a.rs", code), ("a/b.rs", "pub fn f() {}")]);
    assert_eq!(with("mod b;"), [""; 0]);
    assert_eq!(with("mod b; use b::f;"), ["a.rs>a/b.rs"]);
    assert_eq!(with("mod b; use self::b::f;"), ["a.rs>a/b.rs"]);
    assert_eq!(with("mod b; fn g() { b::f() }"), ["a.rs>a/b.rs"]);
}

#[test]
fn modules_within_a_file_are_that_file() {
    assert_eq!(
        of_a("struct S; mod inner { use super::S; use self::x::Y; }"),
        [""; 0]
    );
    assert_eq!(of_a("mod inner { use super::super::d::d; }"), ["d.rs"]);
    assert_eq!(
        of_a("mod inner { mod more { use super::super::S; } use crate::b::B; }"),
        ["b.rs"]
    );
    assert_eq!(of_a("mod inner { fn f() {} }\nuse super::d::d;"), ["d.rs"]);
}

#[test]
fn tests_are_left_out() {
    for code in [
        "#[cfg(test)]\nmod tests { use crate::b::B; fn f() { [0; 3]; } }",
        "#[cfg(test)]\nuse crate::{b::B, d};",
        "#[cfg(all(test, unix))]\n#[expect(x)]\nfn f(a: [u8; 3]) { crate::b::c::outside() }",
        "struct S { #[cfg(test)]\n b: crate::b::B }",
    ] {
        assert_eq!(of_a(code), [""; 0], "{code}");
        assert_eq!(
            of_a(&format!("{code}\nuse crate::d::d;")),
            ["d.rs"],
            "{code}"
        );
    }
    assert_eq!(of_a("#[cfg(not(test))]\nuse crate::b::B;"), ["b.rs"]);
    assert_eq!(of_a("#[cfg(testing)]\nuse crate::b::B;"), ["b.rs"]);
    let files = [
        ("lib.rs", "mod a; #[cfg(test)]\nmod bed;\nstruct Root;"),
        ("bed.rs", "use crate::Root;"),
        ("bed/rig.rs", "use crate::Root;"),
        ("bedding.rs", "use crate::Root;"),
        ("a/tests.rs", "use crate::Root;"),
        ("a/tests/b.rs", "use crate::Root;"),
    ];
    assert_eq!(found(&files), ["bedding.rs>lib.rs"]);
}

#[test]
fn what_is_no_rust_is_read_to_its_end() {
    for code in [
        "use",
        "use {",
        "use a::{b",
        "use $a::{b, $c};",
        "mod",
        "fn é::ü",
        "macro_rules",
        "use a::b as",
        "}}",
        "#[cfg(test)]",
    ] {
        assert_eq!(of_a(code), [""; 0], "{code}");
    }
}

#[test]
fn an_import_has_its_first_place() {
    let files = [
        ("lib.rs", "mod a;\nuse a::{b,\n c};"),
        ("a.rs", "fn b() {} fn c() {}"),
    ];
    let imports = Imports::read(files);
    let edges: Vec<_> = imports.edges().collect();
    assert_eq!(
        edges,
        [("lib.rs", "a.rs", files[0].1.find("b,").unwrap_or_default())]
    );
}

#[test]
fn a_module_is_within_those_above_it() {
    assert!(is_within("a/b.rs", "a.rs") && is_within("a/b/c.rs", "a.rs"));
    assert!(is_within("a.rs", "lib.rs") && is_within("a.rs", "main.rs"));
    assert!(
        !is_within("a.rs", "a/b.rs") && !is_within("ab.rs", "a.rs") && !is_within("a.rs", "a.rs")
    );
}
