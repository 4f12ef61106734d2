//! Inspection of a file that is or may become a store.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rusqlite::Connection;
use semel_core::Code;
use semel_core::port::transactional::Statements;
use semel_store_sqlite::{Options, inspect, inspect_opened};

use crate::lab::{Lab, open};

fn names(lab: &Lab) -> Vec<String> {
    let entries = fs::read_dir(lab.folder.path()).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}

#[test]
fn looking_leaves_no_trace_whatever_the_name() {
    for name in ["semel.db", "a?b#c%41.db", "file:x.db", "été 1.db"] {
        let lab = Lab::new();
        let path = lab.folder.path().join(name);
        assert!(inspect(&path, &[]).expect("nothing there").is_none());
        assert_eq!(names(&lab), [""; 0]);
        let store = open(&path, &lab.clock, Options::default()).expect("a store");
        let beside = inspect(&path, &[]).expect("a store in use");
        assert!(beside.expect("a file").is_store, "{name}");
        drop(store);
        let before = (names(&lab), fs::read(&path).expect("a file"));
        let inspection = inspect(&path, &[]).expect("a store").expect("a file");
        assert!(inspection.is_store && inspection.refused.is_empty());
        assert_eq!((names(&lab), fs::read(&path).expect("a file")), before);
    }
}

/// The number of locks that this process has on a file.
fn locks(lab: &Lab) -> usize {
    let inode = fs::metadata(lab.path()).expect("a file").ino();
    let (process, place) = (format!(" {} ", std::process::id()), format!(":{inode} "));
    let locks = fs::read_to_string("/proc/locks").expect("the locks of the system");
    let is_ours = |line: &&str| line.contains(&process) && line.contains(&place);
    locks.lines().filter(is_ours).count()
}

#[test]
fn a_look_at_a_file_that_this_process_has_open_takes_no_lock_away() {
    let lab = Lab::new();
    drop(open(&lab.path(), &lab.clock, Options::default()).expect("a store"));
    let database = Connection::open(lab.path()).expect("a database");
    // Where there can be no write-ahead log, nothing beside the file says that somebody uses it.
    database
        .execute_batch("pragma journal_mode = delete; begin immediate")
        .expect("a lock");
    let before = locks(&lab);
    assert!(before > 0, "a transaction holds locks");
    let looked = inspect_opened(&lab.path(), &[]).expect("a store");
    assert!(looked.is_store);
    assert_eq!(locks(&lab), before);
    // The look of another process: here it has taken them away.
    inspect(&lab.path(), &[]).expect("a store");
    assert_eq!(locks(&lab), before);
}

#[test]
fn statements_are_tried_on_a_database_that_is_no_store_yet() {
    let lab = Lab::new();
    let database = Connection::open(lab.path()).expect("a database");
    database
        .execute_batch("create table t (a)")
        .expect("a table");
    drop(database);
    let statements = |sql: &str| Statements {
        sql: [sql.into()].into(),
        params: ["a".into()].into(),
    };
    let asked = [
        statements("insert into t values (:a)"),
        statements("insert into u values (:a)"),
    ];
    let inspection = inspect(&lab.path(), &asked).expect("a database");
    let inspection = inspection.expect("a file");
    assert!(!inspection.is_store);
    let [None, Some(refused)] = &inspection.refused[..] else {
        panic!("{inspection:?}")
    };
    assert!(refused.to_string().contains("no such table"), "{refused}");
}

#[test]
fn what_is_no_database_is_told() {
    let lab = Lab::new();
    fs::write(lab.path(), "no database, and longer than the header of one").expect("a file");
    let error = inspect(&lab.path(), &[]).expect_err("no database");
    assert_eq!(error.code(), Code::StoreForeign);
}
