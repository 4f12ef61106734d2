//! Reading the output of the programs that see bugs.

use std::os::unix::process::ExitStatusExt;

use super::*;

#[test]
fn the_verdict_is_what_the_tests_said() {
    let said = |result: &str, status: i32| {
        let text = format!("\nrunning 12 tests\ntest a ... ok\n{result}");
        tests(&text, ExitStatus::from_raw(status)).map(|it| (it.tried, it.red))
    };
    let ok = "\ntest result: ok. 12 passed; 0 failed; 0 ignored\n";
    let failed = "\ntest result: FAILED. 9 passed; 3 failed; 0 ignored\n";
    assert_eq!(said(ok, 0), Ok((12, 0)));
    assert_eq!(said(failed, 101 << 8), Ok((12, 3)));
    // A stack overflow, or an abort.
    assert_eq!(said("", 6), Ok((12, 1)));
    assert!(said(ok, 101 << 8).is_err());
    assert!(said("", 0).is_err());
    assert!(tests("", ExitStatus::from_raw(1 << 8)).is_err());
}

#[test]
fn a_tier_sees_a_bug_in_what_it_finds_and_not_in_what_it_misses() {
    let with = |duplicates, status: i32| {
        let mut row = crate::report::Row::new("park", "seeds");
        (row.tried, row.duplicates) = (500, duplicates);
        row.seen.insert("takeover".to_owned(), 0);
        let rows = vec![row];
        let report = Report {
            rows,
            ..Report::default()
        };
        tier(&report, ExitStatus::from_raw(status)).map(|it| (it.tried, it.red))
    };
    assert_eq!(with(0, 0), Ok((500, 0)));
    assert_eq!(with(7, 1 << 8), Ok((500, 7)));
    assert!(with(0, 1 << 8).is_err());
    assert!(with(7, 0).is_err());
    assert!(with(7, 6).is_err());
}

#[test]
fn the_binary_is_read_off_the_messages_of_cargo() {
    let line = |test: bool| {
        let message = serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": "/w/crates/core/Cargo.toml",
            "profile": { "test": test }, "executable": "/t/debug/deps/semel_core-1f",
        });
        program(&message.to_string())
    };
    let expected = (
        "/t/debug/deps/semel_core-1f".into(),
        "/w/crates/core".into(),
    );
    assert_eq!(line(true), Some(expected));
    assert_eq!(line(false), None);
    assert_eq!(program("{}"), None);
}
